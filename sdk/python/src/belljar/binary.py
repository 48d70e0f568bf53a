"""Where the `belljar` program is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Optional

from .errors import BinaryNotFoundError

#: The variable that names another program than the one that came with this package.
VARIABLE = "BELLJAR_BIN"

_NAME = "belljar.exe" if os.name == "nt" else "belljar"


def find_binary() -> Path:
    """The program that `BELLJAR_BIN` names, else the package's own, else the first in the PATH.

    Raises `BinaryNotFoundError` when there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return _checked(Path(named))
    bundled = next((path for path in _bundled() if _is_program(path)), None)
    if bundled is not None:
        return bundled
    found = shutil.which(_NAME)
    if found is None:
        raise BinaryNotFoundError(
            "the belljar program is neither in this package nor in the PATH; nothing was run",
            hint=f"install the package from a wheel, or set {VARIABLE} to the program",
        )
    return Path(found)


def _checked(path: Path) -> Path:
    found: Optional[str] = shutil.which(path)
    if found is None:
        raise BinaryNotFoundError(
            f"{VARIABLE} names {path}, which is no program; nothing was run",
            hint=f"set {VARIABLE} to the belljar program, or remove it to use the package's own",
        )
    return Path(found)


def _bundled() -> Iterator[Path]:
    """Where pip may have put it: what it has noted, then where programs usually are."""
    try:
        files = metadata.files("belljar") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and file.suffix != ".py":
            yield Path(str(file.locate()))
    yield Path(sysconfig.get_path("scripts")) / _NAME


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
