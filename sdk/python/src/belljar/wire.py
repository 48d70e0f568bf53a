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

#: Bytes of a file or a snapshot in one message.
CHUNK_BYTES = 4 * 1024 * 1024

#: The code of an error of ours.
_FAILED = -32000


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
        too_deep = _is_deeper(value, MAX_NESTING)
    except RecursionError:
        too_deep = True
    if too_deep:
        raise InvalidRequestError(f"{what} nests deeper than {MAX_NESTING} lists and objects")


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in value)


def _line(message: dict[str, Any]) -> bytes:
    try:
        # Characters as they are: an escaped half of a pair would be refused at the other end,
        # where nobody could say whose message it was.
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"JSON cannot carry it: {error}") from error
    if len(line) >= MAX_MESSAGE_BYTES:
        raise InvalidRequestError(
            f"it takes {len(line)} bytes as JSON, and a message has at most {MAX_MESSAGE_BYTES}",
            hint="put large data into a file in the workspace and read it there",
        )
    return line + b"\n"
