#!/bin/sh
# A human approval that arrives after the process has ended. Every command below is a process of its
# own; between them nothing runs, and the machine could be switched off.
set -eu
cd "$(dirname "$0")"
belljar=${BELLJAR:-belljar}
session=${SESSION:-payout-example}

"$belljar" session rm "$session" >/dev/null 2>&1 || true

# The code asks, and is suspended: exit code 123.
code=0
"$belljar" run --session "$session" --defer approve payout.py || code=$?
[ "$code" -eq 123 ]

# Somebody looks at what is wanted.
"$belljar" session show "$session"

# One decision comes. The code still waits for the other.
code=0
"$belljar" session resume "$session" --answer '1={"ok": true}' || code=$?
[ "$code" -eq 123 ]

# The other comes, and the code runs to its end.
"$belljar" session resume "$session" --answer '2={"ok": false, "why": "far too much"}'

# What it found out is still there.
"$belljar" run --session "$session" -c "f'{paid} in all'"
"$belljar" session rm "$session"
