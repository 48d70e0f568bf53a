"""A broad look at the guest's standard library; exits with 1 if anything is not as it should be.

Needs an empty writable folder at /tmp.
"""

import importlib
import sys
import warnings

warnings.simplefilter("ignore")

# Importable, and (below) working.
MODULES = """
abc argparse array ast asyncio atexit base64 bdb binascii bisect bz2 calendar cmath cmd code codecs
codeop collections.abc colorsys compileall concurrent.futures configparser contextlib contextvars copy copyreg
cProfile csv dataclasses datetime dbm.dumb dbm.sqlite3 decimal difflib dis doctest email.mime.multipart
encodings.cp1252 encodings.idna enum errno faulthandler filecmp fileinput fnmatch fractions ftplib functools gc
getopt getpass gettext glob graphlib gzip hashlib heapq hmac html.parser http.client http.cookies http.server
imaplib importlib.metadata importlib.resources inspect io ipaddress itertools json keyword linecache locale
logging.config logging.handlers lzma mailbox marshal math mimetypes modulefinder multiprocessing netrc
numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil platform plistlib poplib posixpath
pprint profile pstats py_compile pyclbr pydoc pydoc_data.topics queue quopri random re reprlib rlcompleter runpy
sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 stat
statistics string stringprep struct subprocess symtable sys sysconfig tabnanny tarfile tempfile textwrap
this threading time timeit token tokenize tomllib trace traceback tracemalloc types typing tzdata unicodedata
unittest.mock urllib.request uuid warnings wave weakref webbrowser wsgiref.simple_server xml.dom.minidom
xml.etree.ElementTree xml.sax xmlrpc.client zipapp zipfile zipimport zlib zoneinfo _belljar_kdf
""".split()
# Known to be missing: each needs something that WASI has not, and says so with ImportError.
MISSING = "ssl _ctypes ctypes mmap fcntl resource pwd grp termios readline curses syslog pty".split()

FAILURES = []


def check(name):
    def run(function):
        try:
            function()
        except BaseException as error:
            FAILURES.append(name)
            print(f"FAIL {name}: {type(error).__name__}: {error}")
        return function

    return run


def same(got, expected):
    if got != expected:
        raise AssertionError(f"{got!r} instead of {expected!r}")


def raises(kind, text, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except kind as error:
        same(str(error), text)
    else:
        raise AssertionError(f"no {kind.__name__}")


@check("imports")
def _():
    import contextlib
    import io

    for name in MODULES:
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                importlib.import_module(name)
            except Exception as error:
                FAILURES.append(name)
                print(f"FAIL import {name}: {error!r}", file=sys.stderr)


@check("absent modules say so")
def _():
    present = []
    for name in MISSING:
        try:
            importlib.import_module(name)
            present.append(name)
        except ImportError:
            pass
    same(present, [])


@check("numbers")
def _():
    import cmath
    import decimal
    import fractions
    import math

    same(0.1 + 0.2, 0.30000000000000004)
    same(2**200 % 1000007, pow(2, 200, 1000007))
    same(str(math.factorial(30)), "265252859812191058636308480000000")
    same((round(2.5), round(-2.675, 2), -7 // 2, -7 % 3), (2, -2.67, -4, 2))
    same(repr(float("1e308") * 10), "inf")
    same(float.hex(math.pi), "0x1.921fb54442d18p+1")
    same(cmath.sqrt(-1), 1j)
    same(str(decimal.Decimal(1) / 3), "0.3333333333333333333333333333")
    same(decimal.__name__ and importlib.import_module("_decimal").__libmpdec_version__, "2.5.1")
    same(fractions.Fraction(3, 7) + 1, fractions.Fraction(10, 7))
    same(math.isclose(math.gamma(5.5), 52.34277778455352), True)
    same(sum([0.1] * 10), 1.0)
    same(sys.maxsize, 2**31 - 1)
    same(int("9" * 4000) % 7, (10**4000 - 1) % 7)


@check("text")
def _():
    import re
    import textwrap
    import unicodedata

    same(unicodedata.normalize("NFC", "e\u0301"), "é")
    same("straße".upper().casefold(), "strasse")
    same(re.findall(r"(?P<a>\d+)-(?=x)", "12-x 3-y 45-x"), ["12", "45"])
    same(re.sub(r"\b(\w)(\w*)", lambda m: m[1].upper() + m[2], "ab cd"), "Ab Cd")
    same(f"{3.14159:>10.2f}|{1234567:,}|{'x':^5}|{255:#x}", "      3.14|1,234,567|  x  |0xff")
    same("ünï".encode("utf-16-le").decode("utf-16-le"), "ünï")
    same("日本".encode("shift_jis"), b"\x93\xfa\x96{")
    same(textwrap.shorten("one two three four", 12), "one [...]")


def nested():
    value = []
    for _ in range(100000):
        value = [value]
    return value


@check("recursion ends in RecursionError")
def _():
    import json
    import re

    def down():
        return down() + 1

    for attempt in (down, lambda: eval("(" * 5000 + ")" * 5000), lambda: repr(nested()), lambda: json.dumps(nested())):
        try:
            attempt()
        except (RecursionError, MemoryError, SyntaxError):
            pass
        else:
            raise AssertionError("no error")
    same(re.match("(?:a|b)*c", "ab" * 5000 + "c").end(), 10001)


@check("compression")
def _():
    import bz2
    import gzip
    import lzma
    import zlib

    data = bytes(range(256)) * 300 + b"tail"
    for module in (bz2, gzip, lzma, zlib):
        same(module.decompress(module.compress(data)), data)
    for preset in (0, 6):
        for kind in (lzma.FORMAT_XZ, lzma.FORMAT_ALONE):
            same(lzma.decompress(lzma.compress(data, format=kind, preset=preset)), data)
    same(zlib.crc32(b"hello"), 0x3610A686)
    same(zlib.ZLIB_RUNTIME_VERSION, zlib.ZLIB_VERSION)


@check("hashes")
def _():
    import hashlib
    import hmac

    same(hashlib.md5(b"").hexdigest(), "d41d8cd98f00b204e9800998ecf8427e")
    same(hashlib.sha1(b"abc").hexdigest(), "a9993e364706816aba3e25717850c26c9cd0d89d")
    same(hashlib.sha3_256(b"").hexdigest(), "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a")
    same(hashlib.blake2s(b"").hexdigest(), "69217a3079908094e11121d042354a7c1f55b6482ca1a51e1b250dfd1ed0eef9")
    same(
        hmac.new(b"key", b"The quick brown fox jumps over the lazy dog", "sha256").hexdigest(),
        "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
    )
    same(len(hashlib.algorithms_available), 14)


@check("pbkdf2_hmac against hmac")
def _():
    import hashlib
    import hmac

    def slow(name, password, salt, iterations, size):
        out, number = b"", 1
        while len(out) < size:
            block = hmac.digest(password, salt + number.to_bytes(4, "big"), name)
            total = int.from_bytes(block, "big")
            for _ in range(iterations - 1):
                block = hmac.digest(password, block, name)
                total ^= int.from_bytes(block, "big")
            out += total.to_bytes(len(block), "big")
            number += 1
        return out[:size]

    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
        for salt_size in (0, 1, 46, 47, 48, 51, 52, 55, 60, 64, 107, 108, 111, 112, 123, 124, 128, 300):
            for password in (b"", b"p", b"k" * 64, b"k" * 65, b"k" * 128, b"k" * 200):
                arguments = (password, bytes(range(salt_size % 256)) + b"s" * (salt_size // 256), 3)
                same(hashlib.pbkdf2_hmac(name, *arguments, 150), slow(name, *arguments, 150))
    same(
        hashlib.pbkdf2_hmac("sha1", b"passwordPASSWORDpassword", b"saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, 25).hex(),
        "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038",
    )
    same(hashlib.pbkdf2_hmac("SHA-256", bytearray(b"a"), salt=memoryview(b"b"), iterations=1), hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1))


@check("pbkdf2_hmac errors are OpenSSL's")
def _():
    from hashlib import pbkdf2_hmac

    raises(ValueError, "unsupported hash type x", pbkdf2_hmac, "x", b"", b"", 1)
    raises(TypeError, "a bytes-like object is required, not 'str'", pbkdf2_hmac, "sha1", "a", b"", 1)
    raises(TypeError, "pbkdf2_hmac() argument 'hash_name' must be str, not bytes", pbkdf2_hmac, b"sha1", b"", b"", 1)
    raises(ValueError, "embedded null character", pbkdf2_hmac, "sha1\0", b"", b"", 1)
    raises(ValueError, "iteration value must be greater than 0.", pbkdf2_hmac, "sha1", b"", b"", 0)
    raises(OverflowError, "iteration value is too great.", pbkdf2_hmac, "sha1", b"", b"", 2**31)
    raises(OverflowError, "Python int too large to convert to C long", pbkdf2_hmac, "sha1", b"", b"", 2**63)
    raises(ValueError, "key length must be greater than 0.", pbkdf2_hmac, "sha1", b"", b"", 1, 0)
    raises(OverflowError, "key length is too great.", pbkdf2_hmac, "sha1", b"", b"", 1, 2**31)
    raises(OverflowError, "Python int too large to convert to C long", pbkdf2_hmac, "sha1", b"", b"", 1, dklen=2**63)
    raises(TypeError, "'str' object cannot be interpreted as an integer", pbkdf2_hmac, "sha1", b"", b"", 1, "a")
    raises(TypeError, "'float' object cannot be interpreted as an integer", pbkdf2_hmac, "sha1", b"", b"", 1.5)
    raises(TypeError, "pbkdf2_hmac() missing required argument 'salt' (pos 3)", pbkdf2_hmac, "sha1", b"")


@check("scrypt")
def _():
    from hashlib import scrypt

    same(scrypt(b"", salt=b"", n=16, r=1, p=1).hex()[:32], "77d6576238657b203b19ca42c18a0497")
    same(scrypt(b"password", salt=b"NaCl", n=1024, r=8, p=16).hex()[-32:], "c727afb94a83ee6d8360cbdfa2cc0640")
    same(
        scrypt(b"pleaseletmein", salt=b"SodiumChloride", n=16384, r=8, p=1, maxmem=2**26, dklen=70).hex()[:128],
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887",
    )
    limit = "[digital envelope routines] memory limit exceeded"
    combination = "Invalid parameter combination for n, r, p, maxmem."
    for text, changed in {
        combination: [{"r": 0}, {"p": 0}],
        limit: [{"n": 2**20}, {"n": 2**17, "r": 1}, {"n": 2**16, "r": 1, "maxmem": 2**30}, {"r": 2**20, "p": 2**20}, {"r": 2**40}, {"p": 2**60}],
        "n must be a power of 2.": [{"n": 3}, {"n": 1}],
        "maxmem must be positive and smaller than 2147483647": [{"maxmem": -1}, {"maxmem": 2**31}],
        "dklen must be greater than 0 and smaller than 2147483647": [{"dklen": 0}, {"dklen": 2**31}],
    }.items():
        for change in changed:
            raises(ValueError, text, scrypt, b"a", **{"salt": b"b", "n": 2, "r": 8, "p": 1, **change})
    raises(TypeError, "n is required and must be an unsigned int", scrypt, b"a", salt=b"", n=-1, r=8, p=1)
    raises(TypeError, "p is required and must be an unsigned int", scrypt, b"a", salt=b"", n=2, r=8)
    raises(TypeError, "scrypt() argument 'r' must be int, not None", scrypt, b"a", salt=b"", n=2, r=None, p=1)
    raises(TypeError, "salt is required", scrypt, b"a", n=2, r=8, p=1)
    raises(TypeError, "scrypt() missing required argument 'password' (pos 1)", scrypt)
    raises(TypeError, "scrypt() takes exactly 1 positional argument (2 given)", scrypt, b"a", b"b")


@check("a signal interrupts key derivation")
def _():
    import hashlib
    import signal

    def handler(*_):
        raise KeyboardInterrupt("asked to stop")

    previous = signal.signal(signal.SIGINT, handler)
    try:
        # On WASI raise_signal runs the handler at the next check, which is inside the call.
        import _thread

        _thread.interrupt_main()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, previous)


@check("time zones")
def _():
    import datetime
    import zoneinfo

    paris = zoneinfo.ZoneInfo("Europe/Paris")
    same(datetime.datetime(2024, 7, 1, 12, tzinfo=paris).isoformat(), "2024-07-01T12:00:00+02:00")
    same(datetime.datetime(2024, 1, 1, 12, tzinfo=zoneinfo.ZoneInfo("Asia/Kathmandu")).utcoffset(), datetime.timedelta(hours=5, minutes=45))
    same("America/Argentina/Ushuaia" in zoneinfo.available_timezones(), True)
    same(datetime.datetime.strptime("29 Feb 2024", "%d %b %Y").weekday(), 3)


@check("files")
def _():
    import os
    import pathlib
    import shelve
    import shutil
    import tarfile
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = pathlib.Path(folder)
        (root / "a.txt").write_text("héllo\n")
        (root / "sub").mkdir()
        shutil.copy(root / "a.txt", root / "sub" / "b.txt")
        os.rename(root / "sub" / "b.txt", root / "sub" / "c.txt")
        same(sorted(p.name for p in root.rglob("*.txt")), ["a.txt", "c.txt"])
        same((root / "sub" / "c.txt").stat().st_size, 7)
        with zipfile.ZipFile(root / "z.zip", "w", zipfile.ZIP_DEFLATED) as z:
            z.write(root / "a.txt", "a.txt")
        same(zipfile.ZipFile(root / "z.zip").read("a.txt").decode(), "héllo\n")
        with tarfile.open(root / "t.tar.xz", "w:xz") as t:
            t.add(root / "a.txt", "a.txt")
        same(tarfile.open(root / "t.tar.xz").getnames(), ["a.txt"])
        with shelve.open(str(root / "shelf")) as shelf:
            shelf["k"] = [1, 2]
            same(shelf["k"], [1, 2])
        with open(root / "a.txt", "r+b") as file:
            file.seek(0, 2)
            file.write(b"more")
            file.truncate(8)
            same(file.tell(), 11)
        same(os.path.getsize(root / "a.txt"), 8)


@check("sqlite")
def _():
    import sqlite3

    db = sqlite3.connect("/tmp/check.db")
    db.execute("create table t (a integer primary key, b text, c json)")
    db.executemany("insert into t (b, c) values (?, ?)", [("x", '{"n": 1}'), ("y", '{"n": 2}')])
    db.commit()
    db.close()
    db = sqlite3.connect("/tmp/check.db")
    same(db.execute("select b, c ->> 'n' from t order by a desc").fetchall(), [("y", 2), ("x", 1)])
    db.execute("create virtual table f using fts5(body)")
    db.execute("insert into f values ('the quick brown fox')")
    same(db.execute("select count(*) from f where f match 'quick'").fetchone(), (1,))
    db.create_function("twice", 1, lambda v: v * 2)
    same(db.execute("select twice(21), sqrt(16), group_concat(b) from t").fetchone(), (42, 4.0, "x,y"))
    same(db.execute("with recursive n(i) as (select 1 union all select i + 1 from n where i < 10) select sum(i) from n").fetchone(), (55,))
    db.close()


@check("two connections to one database")
def _():
    import os
    import sqlite3

    writer = sqlite3.connect("/tmp/two.db", timeout=0)
    writer.execute("create table t (a)")
    writer.execute("insert into t values (1)")
    reader = sqlite3.connect("/tmp/two.db", timeout=0)
    same(reader.execute("select count(*) from t").fetchone(), (0,))
    raises(sqlite3.OperationalError, "database is locked", reader.execute, "insert into t values (2)")
    writer.commit()
    same(reader.execute("select a from t").fetchall(), [(1,)])
    # A session may end without closing anything; nothing may be left that locks the next one out.
    same([name for name in os.listdir("/tmp") if name.startswith("two.db")], ["two.db"])


@check("formats")
def _():
    import csv
    import email.message
    import io
    import json
    import pickle
    import plistlib
    import tomllib
    import xml.etree.ElementTree as ElementTree

    value = {"a": [1, 2.5, None, True, "ü\n\u2028"], "b": {"c": -1e-7}}
    same(json.loads(json.dumps(value)), value)
    same(pickle.loads(pickle.dumps(value, 5)), value)
    same(tomllib.loads("a = [1, 2]\n[b]\nd = 1979-05-27")["b"]["d"].year, 1979)
    same(plistlib.loads(plistlib.dumps({"k": [1, b"x"]})), {"k": [1, b"x"]})
    same(list(csv.reader(io.StringIO('a,"b ""q"", c"\n'))), [["a", 'b "q", c']])
    same(ElementTree.fromstring("<a b='1'><c>&lt;</c></a>").find("c").text, "<")
    message = email.message.EmailMessage()
    message["Subject"] = "héllo"
    message.set_content("body")
    same(email.message_from_bytes(bytes(message))["Subject"], "=?utf-8?q?h=C3=A9llo?=")


@check("introspection")
def _():
    import importlib.metadata
    import inspect
    import platform
    import pydoc
    import sysconfig
    import traceback

    same(sys.platform, "wasi")
    same(platform.machine(), "wasm32")
    same(sysconfig.get_platform(), "wasi-0.0.0-wasm32")
    same(sysconfig.get_config_var("prefix") is not None, True)
    same(str(inspect.signature(sorted)), "(iterable, /, *, key=None, reverse=False)")
    same("len(obj, /)" in pydoc.plain(pydoc.render_doc(len)), True)
    same("with" in __import__("pydoc_data.topics").topics.topics, True)
    same(importlib.metadata.version("tzdata") != "", True)
    try:
        {}["x"]
    except KeyError as error:
        same("KeyError: 'x'" in "".join(traceback.format_exception(error)), True)
    same(importlib.import_module("json").dumps.__code__.co_filename, "/lib/python3.13/json/__init__.py")


@check("concurrency without threads")
def _():
    import asyncio
    import queue
    import threading

    lock = threading.Lock()
    with lock:
        same(lock.locked(), True)
    same(threading.current_thread().name, "MainThread")
    q = queue.Queue()
    q.put(1)
    same(q.get(), 1)
    same(hasattr(asyncio, "run"), True)


@check("no host path in the library")
def _():
    import sysconfig

    for name, value in sysconfig.get_config_vars().items():
        if isinstance(value, str) and ("guests" in value or value.startswith("/work") or "/home" in value):
            raise AssertionError(f"{name} = {value}")


print("FAILED: " + ", ".join(FAILURES) if FAILURES else "all checks passed")
sys.exit(1 if FAILURES else 0)
