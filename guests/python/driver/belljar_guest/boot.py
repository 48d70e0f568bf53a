"""Prepares the interpreter once, before it is frozen into the image every sandbox starts from."""

import sys

# What model-written programs import most: already there when a sandbox starts. The
# rest of the standard library is imported from memory on demand.
COMMON = """
    __future__ abc argparse array ast asyncio base64 bisect bz2 calendar cmath codecs collections
    collections.abc colorsys concurrent.futures configparser contextlib contextvars copy csv dataclasses
    datetime decimal difflib dis encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1
    encodings.utf_16 encodings.utf_8_sig enum errno fnmatch fractions functools gc getpass gettext glob
    graphlib gzip hashlib heapq hmac html html.entities html.parser importlib.metadata importlib.resources
    importlib.util inspect io ipaddress itertools json json.decoder json.encoder keyword linecache locale
    logging lzma math mimetypes numbers opcode operator os os.path pathlib pickle pkgutil platform pprint
    queue quopri random re reprlib sched secrets shlex shutil signal sqlite3 stat statistics string stringprep
    struct subprocess sys sysconfig tempfile textwrap threading time timeit token tokenize tomllib traceback
    types typing unicodedata urllib urllib.parse uuid warnings weakref xml.etree.ElementTree zipfile zlib
    zoneinfo _strptime
""".split()


def boot():
    """Returns the driver's request handler."""
    from . import importer, unsupported

    with open("/boot/stdlib.zip", "rb") as archive:
        importer.load_archive(archive.read())
    # Before the path finder: nothing a program writes to disk can shadow the library.
    path_finder = next(i for i, finder in enumerate(sys.meta_path) if finder.__name__ == "PathFinder")
    sys.meta_path[path_finder:path_finder] = [unsupported.AbsentModules, importer.LibraryImporter]
    unsupported.install()

    for name in COMMON:
        __import__(name)
    _open_standard_streams()
    _add_interactive_builtins()
    _prepare_signals()

    from . import driver, loop

    loop.install()
    driver.warm_up()
    _forget_boot(importer)
    return driver.handle


def _open_standard_streams():
    """Line-buffered, so that what was printed is out when a limit stops the program."""
    import io

    def stream(fd, mode, errors):
        return io.TextIOWrapper(open(fd, mode, closefd=False), encoding="utf-8", errors=errors, line_buffering=True)

    sys.stdin = sys.__stdin__ = stream(0, "rb", "surrogateescape")
    sys.stdout = sys.__stdout__ = stream(1, "wb", "surrogateescape")
    sys.stderr = sys.__stderr__ = stream(2, "wb", "backslashreplace")


def _add_interactive_builtins():
    import _sitebuiltins
    import builtins

    builtins.help = _sitebuiltins._Helper()
    builtins.exit = _sitebuiltins.Quitter("exit", "the end of the program")
    builtins.quit = _sitebuiltins.Quitter("quit", "the end of the program")


def _prepare_signals():
    """The host interrupts by marking SIGINT as arrived."""
    import signal

    signal.signal(signal.SIGINT, signal.default_int_handler)


def _forget_boot(importer):
    import gc
    import os

    import _belljar_host

    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) and module.__file__.startswith("/boot/"):
            importer.adopt(module)
    sys.path[:] = [importer.LIBRARY]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    os.environ.clear()
    os.chdir("/app")
    gc.collect()
    _belljar_host.make_immortal(gc.get_objects())
    gc.freeze()
