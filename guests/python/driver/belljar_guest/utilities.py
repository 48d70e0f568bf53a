"""Helpers for working through a long text: chunk_text and search_context."""

from . import __builtins__

import __main__
import re
from json import dumps

# More than anybody reads; a pattern that matches everywhere must not fill the memory.
MAX_MATCHES = 1000


def chunk_text(text, size, overlap=0):
    """Cuts text into pieces of `size` characters, each beginning `overlap` characters before the end of the last."""
    if not isinstance(text, str):
        raise TypeError(f"chunk_text() takes a str, not {type(text).__name__}")
    for name, number in (("size", size), ("overlap", overlap)):
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"chunk_text(): {name} must be an int, not {type(number).__name__}")
    if size < 1:
        raise ValueError(f"chunk_text(): size must be at least 1, not {size}")
    if not 0 <= overlap < size:
        raise ValueError(f"chunk_text(): overlap must be at least 0 and less than size ({size}), not {overlap}")
    chunks = []
    for start in range(0, len(text), size - overlap):
        chunks.append(text[start : start + size])
        if start + size >= len(text):
            break
    return chunks


def search_context(pattern, window=200):
    """Finds a regular expression in the variable `context`.

    Gives at most 1000 dicts: `match`, its `start` and `end`, and as `context` the
    match with up to `window` characters on either side. A `context` that is no text
    is searched as its JSON.
    """
    if not isinstance(window, int) or isinstance(window, bool) or window < 0:
        raise ValueError(f"search_context(): window must be an int of at least 0, not {window!r}")
    text = _text_of(__main__.__dict__.get("context"))
    found = []
    for match in re.finditer(pattern, text):
        start, end = match.span()
        around = text[max(0, start - window) : end + window]
        found.append({"match": match.group(), "start": start, "end": end, "context": around})
        if len(found) == MAX_MATCHES:
            break
    return found


def _text_of(context):
    if context is None:
        raise ValueError("search_context(): there is no context; set the variable `context` first")
    if isinstance(context, str):
        return context
    try:
        return dumps(context, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(context)


for _function in (chunk_text, search_context):
    _function.__module__ = "belljar"


def introduce():
    """Makes them known where user code works, unless it uses the names itself."""
    __main__.__dict__.setdefault("chunk_text", chunk_text)
    __main__.__dict__.setdefault("search_context", search_context)
