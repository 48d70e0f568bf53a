"""The sources of cells, for tracebacks and inspect.getsource."""

from . import __builtins__

import __main__
import linecache

# Cells of a long session whose sources are kept, and how much text they may be together.
MAX_CELLS = 200
MAX_CHARS = 8 * 1024 * 1024

# File name -> entry of linecache, oldest first.
_entries = {}
_chars = 0


def _cache():
    if type(linecache.cache) is not dict:
        linecache.cache = {}
    return linecache.cache


def remember(source, filename):
    global _chars
    __main__.__file__ = filename
    _forget(filename)
    _entries[filename] = _cache()[filename] = (len(source), None, source.splitlines(True), filename)
    _chars += len(source)
    # The newest stays, however long it is.
    while len(_entries) > MAX_CELLS or _chars > MAX_CHARS and len(_entries) > 1:
        _forget(next(iter(_entries)))


def _forget(filename):
    global _chars
    entry = _entries.pop(filename, None)
    if entry is not None:
        _chars -= entry[0]
        _cache().pop(filename, None)


def lend(source, filename):
    """For the error of a source that is not run."""
    _cache().setdefault(filename, (len(source), None, source.splitlines(True), filename))


def refresh():
    """Puts back what user code may have cleared."""
    _cache().update(_entries)


def clear():
    global _chars
    _entries.clear()
    _chars = 0
    linecache.clearcache()
