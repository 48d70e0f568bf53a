"""What a frozen interpreter cannot know: where and when it woke up, for whom, and with which tools."""

from . import __builtins__

import logging
import os
import sys
import tempfile
from time import time_ns

from . import tools

_environ = os.environ
# The environment variables that the host gave.
_given = {}
# Called when a sandbox begins or goes on elsewhere, for what must not be the same in two of them.
renewals = []


def settle_in(surroundings):
    for renew in renewals:
        renew()
    if surroundings.get("renewed"):
        _move(surroundings)
        return
    env = surroundings["env"]
    if env:
        _environ.update(env)
        _given.update(env)
    workspace = surroundings["workspace"]
    tempfile.tempdir = workspace
    if workspace != "/app":
        os.chdir(workspace)
    sys.path += surroundings["path"]
    sys.argv[:] = surroundings["argv"]
    logging._startTime = time_ns()
    names = surroundings.get("tools")
    if names:
        tools.offer(names, surroundings.get("tool_docs"))


def _move(surroundings):
    """The sandbox ran elsewhere before: what user code has set is its own, what the host gave is replaced."""
    for name, value in _given.items():
        if _environ.get(name) == value:
            del _environ[name]
    _given.clear()
    for name, value in surroundings["env"].items():
        if name not in _environ:
            _environ[name] = _given[name] = value
    # It would go on with the same names as every other copy.
    tempfile._name_sequence = None
    # Calls that wait go on waiting: the host has them too, and answers each of them somehow.
    tools.offer(surroundings.get("tools") or (), surroundings.get("tool_docs"))
