"""What the documentation and the examples show works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import REPOSITORY

PAGES = ("docs/python.md", "sdk/python/README.md", "README.md")

#: The last line that each example prints.
EXAMPLES = {
    "agent_frameworks": "6",
    "agent_loop": "FINAL: 1999",
    "best_of_n": "belljar-a-sandbox",
    "data_analysis": "Rome,17.0",
    "data_image": "True",
    "many_at_once": "3",
    "quick_start": "[1, 4, 9]",
    "recursive_model": "the lamp was out 20 times",
    "sessions_and_forks": "['ant', 'bee', 'cat']",
    "tools": "4",
}


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = (REPOSITORY / page).read_text()
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            found.append((f"{page}:{line}", block.group(1)))
    return found


def test_every_page_shows_something() -> None:
    shown = {place.rpartition(":")[0] for place, _ in blocks()}
    assert shown == set(PAGES)


@pytest.mark.parametrize(("place", "code"), blocks(), ids=[place for place, _ in blocks()])
def test_code_in_documentation_runs(
    place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": place})


def test_every_example_is_known() -> None:
    found = {path.stem for path in (REPOSITORY / "examples/python").glob("[!_]*.py")}
    assert found == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_run(name: str) -> None:
    path = REPOSITORY / "examples/python" / f"{name}.py"
    ran = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() and ran.stdout.rstrip().splitlines()[-1].strip() == EXAMPLES[name]
    assert ran.stderr == ""
