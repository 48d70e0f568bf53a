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

    for name in COMMON + importer.preloaded():
        __import__(name)

    from . import api, driver, hygiene, interrupts, loop, questions, warm_up

    for name in ("stdin", "stdout", "stderr"):
        stream = hygiene.open_stream(name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    _add_interactive_builtins()
    questions.install()
    api.install()
    loop.install()
    # The host interrupts by marking SIGINT as arrived.
    interrupts.install()
    hygiene.remember_builtins()
    warm_up.run()
    _forget_boot(importer)
    return driver.handle


def _add_interactive_builtins():
    import _sitebuiltins
    import builtins

    builtins.help = _sitebuiltins._Helper()
    builtins.exit = _sitebuiltins.Quitter("exit", "the end of the program")
    builtins.quit = _sitebuiltins.Quitter("quit", "the end of the program")


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
