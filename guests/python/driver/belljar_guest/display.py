"""The forms in which a cell shows its value: text, JSON, and what notebooks know as rich output."""

from . import __builtins__

from base64 import b64encode

from .interrupts import strike
from .wire import encode, encode_own, quote, type_name

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

# What an image shows besides the value, as notebooks show the figures that a cell leaves open. Each
# has `show(value)`, called when a cell has come to its end, also without a value: it gives a text,
# for a cell without a value, and a dict of forms, or None. And `discard()`, when a cell has failed.
extras = []


# Nothing is half done if an interrupt strikes: pictures and long tables take their time.
@strike
def describe(value):
    """The value's forms, as JSON text; None for None, as in a notebook, if there are no extras."""
    if extras:
        return _describe_with_extras(value)
    if value is None:
        return None
    text = quote(_shorten(repr(value)))
    if type(value) in _PLAIN:
        return f'{{"text":{text},"json":{as_json(value) or "null"},"mime":{{}}}}'
    return f'{{"text":{text},"json":null,"mime":{encode_own(_rich_forms(value))}}}'


def _describe_with_extras(value):
    texts, forms = [], {}
    for extra in extras:
        shown = extra.show(value)
        if shown is not None:
            texts.append(shown[0])
            forms.update(_checked(shown[1]))
    if value is None and not texts:
        return None
    text = quote(_shorten("\n".join(texts) if value is None else repr(value)))
    json = None
    if type(value) in _PLAIN:
        json = as_json(value)
    elif value is not None:
        # What the value itself has to show wins.
        forms |= _rich_forms(value)
    return f'{{"text":{text},"json":{json or "null"},"mime":{encode_own(forms)}}}'


def discard_extras():
    """After a cell that failed: the next one begins without what this one has left."""
    try:
        for extra in extras:
            extra.discard()
    except BaseException:
        pass


def describe_variable(value):
    """Type, text and JSON of a variable, as JSON text. Never fails by the value's own methods."""
    try:
        text = _shorten(repr(value))
    except Exception as error:
        text = f"<{type_name(value)} whose repr() raises {type_name(error)}>"
    json = as_json(value) if value is None or type(value) in _PLAIN else None
    carried = "" if json is None else f',"json":{json}'
    return f'{{"type":{quote(type_name(value))},"text":{quote(text)}{carried}}}'


def as_json(value):
    """The value as JSON text if JSON can carry it and it is not too large."""
    try:
        text = encode(value)
        return text if len(text.encode()) <= MAX_JSON_BYTES else None
    except MemoryError:
        raise
    except Exception:
        return None


def _shorten(text):
    return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + "... (value truncated)"


def _rich_forms(value):
    forms = {}
    # A class describes its instances, not itself.
    if issubclass(type(value), type):
        return forms
    forms.update(_attempt(value, "_repr_mimebundle_", lambda bundle: bundle))
    for method, mime in _RICH_METHODS.items():
        if mime not in forms:
            forms.update(_attempt(value, method, lambda form: {mime: form}))
    return forms


def _attempt(value, method, as_bundle):
    """What one of the object's methods gives. A form that fails is left out: the text is there."""
    try:
        render = getattr(value, method, None)
        return _checked(as_bundle(render())) if callable(render) else {}
    except MemoryError:
        raise
    except Exception:
        return {}


def _checked(forms):
    if type(forms) is tuple:
        forms = forms[0]
    texts = ((_exact(mime), _as_text(form)) for mime, form in dict(forms).items())
    return {mime: text for mime, text in texts if text is not None}


def _as_text(form):
    if type(form) is tuple:
        form = form[0]
    if form is None:
        return None
    if isinstance(form, bytes):
        form = b64encode(form).decode("ascii")
    elif not isinstance(form, str):
        form = encode(form)
    return _exact(form) if len(form) <= MAX_RICH_CHARS else None


def _exact(text):
    """Not a subclass of str, whose methods would run when the answer is written."""
    return "".join((text,))
