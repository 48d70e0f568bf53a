"""Messages of the protocol: JSON-RPC 2.0, one a line."""

from __future__ import annotations

import json
from typing import Any, Optional

from .errors import InvalidRequestError

#: Both sides have to speak the same.
PROTOCOL_VERSION = 1

#: What a server takes in one line.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

#: How deep values may nest that are given to a guest.
MAX_NESTING = 64

#: What their structure may take in the server's memory; text takes no more than the line.
MAX_WEIGHT = 192 * 1024 * 1024

#: Bytes of a file or a snapshot in one message.
CHUNK_BYTES = 4 * 1024 * 1024

#: The code of an error of ours.
_FAILED = -32000

# Characters as they are: an escaped half of a pair would be refused at the other end, where nobody
# could say whose message it was.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def request(number: int, method: str, params: Any) -> bytes:
    """A line that wants an answer."""
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def answer(number: Any, result: Any) -> bytes:
    """A line that answers."""
    return _line({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: Any, message: str, name: Optional[str] = None) -> bytes:
    """A line that says why there is no answer. What no UTF-8 can carry is replaced."""
    message = message.encode("utf-8", "replace").decode("utf-8")[: MAX_MESSAGE_BYTES // 256]
    error: dict[str, Any] = {"code": _FAILED, "message": message}
    if name is not None:
        error["data"] = {"name": name}
    return _line({"jsonrpc": "2.0", "id": number, "error": error})


def check_value(value: Any, what: str) -> None:
    """Refuses what would make a whole message unreadable, where nobody could say whose it was."""
    try:
        weight = _weight(value, MAX_NESTING)
    except RecursionError:
        raise InvalidRequestError(
            f"{what} nests deeper than {MAX_NESTING} lists and objects"
        ) from None
    if weight > MAX_WEIGHT:
        raise InvalidRequestError(
            f"{what} would take too much memory at the server",
            hint="put large data into a file in the workspace and read it there",
        )


def _weight(value: Any, levels: int) -> int:
    """About how much memory a value takes beside its text, counted as the server counts it."""
    if isinstance(value, str):
        return 48
    if isinstance(value, dict):
        own, items = 700 + 128 * len(value), iter(value.values())
    elif isinstance(value, (list, tuple)):
        own, items = 160 + 40 * len(value), iter(value)
    else:
        return 0
    if levels == 0:
        raise RecursionError
    return own + sum(_weight(item, levels - 1) for item in items)


def _line(message: dict[str, Any]) -> bytes:
    try:
        line = _encode(message).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"JSON cannot carry it: {error}") from error
    if len(line) >= MAX_MESSAGE_BYTES:
        raise InvalidRequestError(
            f"it takes {len(line)} bytes as JSON, and a message has at most {MAX_MESSAGE_BYTES}",
            hint="put large data into a file in the workspace and read it there",
        )
    return line + b"\n"
