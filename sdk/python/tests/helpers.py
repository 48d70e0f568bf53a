"""What several tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

#: The fixture `make`: a sandbox with these options, which ends with the test. What is wrong with
#: the types is what some tests are about.
Make = Callable[..., Any]

REPOSITORY = Path(__file__).resolve().parents[3]
