"""Output while code runs."""

from __future__ import annotations

from typing import NamedTuple


class OutputLine(NamedTuple):
    """A line with its end, or the rest at the end of the output."""

    stream: str
    """`stdout` or `stderr`."""
    text: str
