#!/bin/sh
# A recursive language model: the text is the variable `context` of a sandbox, and the model looks at
# it by writing code there.
set -eu
cd "$(dirname "$0")"
belljar=${BELLJAR:-belljar}

"$belljar" repl --context book.txt --llm-command "${BELLJAR_LLM_COMMAND:-sh ./model.sh}" <<'CELLS'
len(context)
llm_query("lighthouse")
rlm_query("Which longer word is used most often?")
pieces = chunk_text(context, 300, 0)
[rlm_query("Which longer word is used most often?", piece) for piece in pieces]
CELLS
