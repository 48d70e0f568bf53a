"""The model of the examples: a script, unless a real one is configured.

Set `OPENAI_BASE_URL`, `OPENAI_MODEL` and `OPENAI_API_KEY` for an endpoint that speaks OpenAI's chat
completions, or `BELLJAR_LLM_COMMAND` for a command that reads a prompt and writes an answer.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterable

Message = dict[str, str]


class Model:
    """Answers conversations."""

    def __init__(self, script: Iterable[str]) -> None:
        self._script = iter(script)

    def reply(self, messages: list[Message]) -> str:
        """What the model says next."""
        if os.environ.get("OPENAI_BASE_URL"):
            return _from_endpoint(messages)
        if os.environ.get("BELLJAR_LLM_COMMAND"):
            return _from_command(os.environ["BELLJAR_LLM_COMMAND"], messages)
        return next(self._script)


def code_of(reply: str) -> str | None:
    """The first block of code in a reply."""
    found = re.search(r"```(?:python)?\n(.*?)```", reply, re.DOTALL)
    return found.group(1) if found else None


def _from_endpoint(messages: list[Message]) -> str:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
        },
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
    return str(said)


def _from_command(command: str, messages: list[Message]) -> str:
    prompt = "\n\n".join(f"### {each['role']}\n{each['content']}" for each in messages)
    said = subprocess.run(
        command, shell=True, input=prompt, capture_output=True, text=True, check=True
    )
    return said.stdout
