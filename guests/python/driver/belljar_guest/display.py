"""The forms in which a cell shows its value: text, JSON, and what notebooks know as rich output."""

from base64 import b64encode
from json import dumps

MAX_TEXT_CHARS = 256 * 1024
MAX_JSON_BYTES = 1024 * 1024
MAX_RICH_CHARS = 8 * 1024 * 1024

_PLAIN = (bool, int, float, str, list, tuple, dict)

# Method of the object -> MIME type, as IPython defines them.
_RICH_METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}


def describe(value):
    """None for None, as in a notebook; else the value's forms."""
    if value is None:
        return None
    text = repr(value)
    if len(text) > MAX_TEXT_CHARS:
        text = text[:MAX_TEXT_CHARS] + "... (value truncated)"
    if type(value) in _PLAIN:
        return {"text": text, "json": _as_json(value), "mime": {}}
    return {"text": text, "json": None, "mime": _rich_forms(value)}


def _as_json(value):
    """The value if JSON can carry it, unchanged and not too large."""
    try:
        if len(dumps(value, allow_nan=False, ensure_ascii=False).encode()) <= MAX_JSON_BYTES:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return None


def _rich_forms(value):
    forms = {}
    # A class describes its instances, not itself.
    if isinstance(value, type):
        return forms
    bundle = getattr(value, "_repr_mimebundle_", None)
    if callable(bundle):
        forms.update(_checked(bundle()))
    for method, mime in _RICH_METHODS.items():
        render = getattr(value, method, None)
        if mime not in forms and callable(render):
            forms.update(_checked({mime: render()}))
    return forms


def _checked(forms):
    if isinstance(forms, tuple):
        forms = forms[0]
    return {mime: text for mime, text in ((m, _as_text(f)) for m, f in dict(forms).items()) if text is not None}


def _as_text(form):
    if isinstance(form, tuple):
        form = form[0]
    if form is None:
        return None
    if isinstance(form, bytes):
        form = b64encode(form).decode("ascii")
    elif not isinstance(form, str):
        form = dumps(form)
    return form if len(form) <= MAX_RICH_CHARS else None
