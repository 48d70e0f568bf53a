"""The sources of cells, for tracebacks and inspect.getsource."""

from . import __builtins__

import __main__
import linecache

# Cells of a long session whose sources are kept, and how much text they may be together.
MAX_CELLS = 200
MAX_CHARS = 8 * 1024 * 1024

# File name -> entry of linecache, oldest first.
_entries = {}


def _cache():
    if type(linecache.cache) is not dict:
        linecache.cache = {}
    return linecache.cache


def remember(source, filename):
    __main__.__file__ = filename
    _entries.pop(filename, None)
    _entries[filename] = _cache()[filename] = (len(source), None, source.splitlines(True), filename)
    if len(_entries) > MAX_CELLS or len(source) > MAX_CHARS // MAX_CELLS:
        _forget_oldest(filename)


def _forget_oldest(newest):
    chars = sum(entry[0] for entry in _entries.values())
    for filename in list(_entries):
        if filename == newest or (len(_entries) <= MAX_CELLS and chars <= MAX_CHARS):
            return
        chars -= _entries.pop(filename)[0]
        _cache().pop(filename, None)


def lend(source, filename):
    """For the error of a source that is not run."""
    _cache().setdefault(filename, (len(source), None, source.splitlines(True), filename))


def refresh():
    """Puts back what user code may have cleared."""
    _cache().update(_entries)


def clear():
    _entries.clear()
    linecache.clearcache()
