"""Prepares Pyodide's interpreter for the driver, once, before a snapshot is taken of it."""

import sys


def boot(all_common):
    """With `all_common` everything is imported that programs use most, which is only worth it for a snapshot."""
    import asyncio.events
    import time

    from . import pyodide_host

    # 3.14 has given it a private name on its way out.
    if not hasattr(asyncio.events, "BaseDefaultEventLoopPolicy"):
        asyncio.events.BaseDefaultEventLoopPolicy = asyncio.events._BaseDefaultEventLoopPolicy
    # Pyodide's own loop is always "running"; with it no other could.
    asyncio.events._set_running_loop(None)
    time.sleep = pyodide_host.sleep
    sys.modules["_belljar_host"] = pyodide_host

    from .boot import COMMON, _add_interactive_builtins

    if all_common:
        _import_all(COMMON)
    _install_driver(_add_interactive_builtins)


def _import_all(names):
    for name in names:
        try:
            __import__(name)
        except ImportError:
            pass  # some of the library are packages of their own in Pyodide


def _install_driver(add_interactive_builtins):
    import warnings

    from . import api, hygiene, interrupts, loop, questions, serve

    for name in ("stdin", "stdout", "stderr"):
        stream = hygiene.open_stream(name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    add_interactive_builtins()
    questions.install()
    api.install()
    with warnings.catch_warnings():
        # Policies of event loops are going away; until then they are how asyncio.run finds ours.
        warnings.simplefilter("ignore", DeprecationWarning)
        loop.install()
    interrupts.install()
    hygiene.remember_builtins()


def wake_up():
    """In every process: what a snapshot must not share, and what Pyodide sets up anew at each start."""
    import __main__
    import asyncio.events
    import os
    import random
    import tempfile

    # Left there by Pyodide's own start.
    __main__.__dict__.pop("_pyodide_core", None)
    asyncio.events._set_running_loop(None)
    random.seed()
    tempfile._name_sequence = None
    # Only what the host gives.
    os.environ.clear()
    # Files of the workspace are found by the paths the host gives, and do not shadow the library.
    sys.path[:] = [path for path in sys.path if path]
