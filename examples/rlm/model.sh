#!/bin/sh
# Stands in for a language model: prompt on standard input, answer on standard output. It knows one
# trick, which is enough to show the loop. A real one is used by setting BELLJAR_LLM_COMMAND.
set -eu
prompt=$(cat)
case "$prompt" in
# It is working on a task and has seen what its code printed.
*"### assistant"*) echo "FINAL_VAR: answer" ;;
# It is given a task: it looks at the context before it says anything.
*"### user"*)
    cat <<'REPLY'
The text is long, so I count instead of reading.
```python
words = [word.strip(".,;!?'\"").lower() for word in context.split()]
long_words = [word for word in words if len(word) > 4]
answer = max(sorted(set(long_words)), key=long_words.count)
print(answer, long_words.count(answer))
```
REPLY
    ;;
# It is asked about something that fits into a prompt.
*) printf '%s has %s characters\n' "$prompt" "$(printf %s "$prompt" | wc -m | tr -d ' ')" ;;
esac
