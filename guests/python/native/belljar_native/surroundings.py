"""What the host says when a session begins: where, for whom, and with which tools."""

from belljar_guest import __builtins__

import os
import sys
import time

from belljar_guest import tools
from belljar_guest.wire import encode_own

from .channel import INVALID_PARAMS

_KINDS = {"workspace": str, "env": dict, "path": list, "argv": list, "tools": list, "tool_docs": dict}

# What the last call has put at the head and the end of sys.path.
_head, _tail = [], []


def settle_in(surroundings):
    """May be called again: then everything is replaced, except variables of the environment."""
    for name, kind in _KINDS.items():
        if type(surroundings.get(name, kind())) is not kind:
            return INVALID_PARAMS, f"surroundings: {name!r} must be of type {kind.__name__}"
    workspace = surroundings.get("workspace")
    try:
        os.environ.update(surroundings.get("env", {}))
        time.tzset()
        if workspace:
            os.chdir(workspace)
    except (OSError, TypeError, ValueError) as error:
        return INVALID_PARAMS, f"surroundings: {error}"
    # As if the program were a file there. Everything of the driver is loaded by now.
    _set_path([workspace] if workspace else [], surroundings.get("path", []))
    sys.argv[:] = surroundings.get("argv") or [""]
    tools.offer(surroundings.get("tools", []), surroundings.get("tool_docs"))
    return encode_own({"language_version": sys.version.split()[0]})


def _set_path(head, tail):
    kept = [entry for entry in sys.path if entry not in _head and entry not in _tail]
    _head[:], _tail[:] = head, tail
    sys.path[:] = head + kept + tail
