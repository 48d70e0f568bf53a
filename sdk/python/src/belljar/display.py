"""Results as notebooks show them.

What a guest gives is not trusted: its HTML and SVG may hold scripts, which would run with the
rights of whoever looks at the notebook. So text is escaped, pictures are pictures, and HTML is put
into a frame that may do nothing.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import SandboxResult

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def text(result: SandboxResult) -> str:
    """Output, the last value and what went wrong, as plain text."""
    parts = [result.stdout, result.stderr]
    if result.result is not None:
        parts.append(result.result.text)
    if result.error is None and not result.success:
        parts.append(f"({result.status.value})")
    return "\n".join(part.rstrip("\n") for part in parts if part) or "(no output)"


def bundle(result: SandboxResult) -> dict[str, str]:
    """The forms a notebook chooses from."""
    return {"text/plain": text(result), "text/html": html(result)}


def html(result: SandboxResult) -> str:
    """Everything there is to see, as HTML in which nothing of the guest's can act."""
    parts: list[str] = []
    if result.stdout:
        parts.append(_block(result.stdout))
    if result.stderr:
        parts.append(_block(result.stderr, "color:#b00020"))
    if result.result is not None:
        parts.append(_value(result.result.text, result.result.mime))
    changed = [
        *(f"+ {path}" for path in result.files_created),
        *(f"~ {path}" for path in result.files_modified),
        *(f"- {path}" for path in result.files_deleted),
    ]
    if changed:
        parts.append(_block("\n".join(changed), "color:#555"))
    fuel = "" if result.fuel_consumed is None else f", {result.fuel_consumed:,} fuel"
    ended = f"{result.status.value}, {result.duration_ms:.1f} ms{fuel}"
    parts.append(f'<small style="color:#777">{escape(ended)}</small>')
    return "\n".join(parts)


def _value(text: str, mime: dict[str, str]) -> str:
    for kind in _PICTURES:
        if kind in mime:
            return f'<img alt="{escape(text)}" src="data:{kind};base64,{escape(mime[kind])}">'
    if "image/svg+xml" in mime:
        from urllib.parse import quote

        # As a picture it cannot run scripts.
        source = quote(mime["image/svg+xml"])
        return f'<img alt="{escape(text)}" src="data:image/svg+xml,{source}">'
    if "text/html" in mime:
        page = escape(mime["text/html"])
        return (
            f'<iframe sandbox="" srcdoc="{page}" style="width:100%;height:20em;border:0"></iframe>'
        )
    return _block(text)


def _block(text: str, style: str = "") -> str:
    return f'<pre style="margin:0;white-space:pre-wrap;{style}">{escape(text)}</pre>'
