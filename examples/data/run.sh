#!/bin/sh
# A table and a chart from the command line. The code imports pandas, so it gets the image that has
# it; nothing has to be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
belljar=${BELLJAR:-belljar}
workspace=$(mktemp -d)
trap 'rm -rf "$workspace"' EXIT
cp "$here/sales.csv" "$workspace"

# What the code would run in.
"$belljar" run --explain --workspace "$workspace" "$here/report.py" | grep '^image'

# The table is printed; both files are in the workspace.
"$belljar" run --workspace "$workspace" "$here/report.py"
cat "$workspace/revenue.csv"
head -c 4 "$workspace/revenue.png" | tail -c 3
echo

# The same as a session, which has the image from its first cell on.
"$belljar" session rm data-example >/dev/null 2>&1 || true
"$belljar" run --session data-example --image data -c "import pandas as pd; table = pd.Series([1, 2, 3])"
"$belljar" run --session data-example -c "int(table.sum())"
"$belljar" session show data-example | grep '^image'
"$belljar" session rm data-example >/dev/null
