"""The complete state of a session as a value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union


@dataclass(frozen=True)
class Snapshot:
    """A session as it was, to be restored any number of times.

    It holds everything the session knew, secrets included, and is for the exact build of the
    interpreter that made it.
    """

    data: bytes = field(repr=False)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes it to a file that only its owner can read."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(self.data)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Snapshot:
        """Reads one from a file. Whether it is one shows when it is restored."""
        return cls(Path(path).read_bytes())
