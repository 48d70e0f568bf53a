//! What works, from memory, without a file system of its own.

use support::{Expect, Jar};

/// `name: code => what it prints;`
macro_rules! works {
    ($($name:ident: $code:expr => $printed:expr;)*) => {
        $(
            #[test]
            fn $name() {
                Jar::new().run($code).printed($printed);
            }
        )*
    };
}

works! {
    json: "import json
print(json.dumps({'b': [1, 2.5, None, True, 'é']}, ensure_ascii=False), json.loads('{\"a\": 1e3}'))"
        => "{\"b\": [1, 2.5, null, true, \"é\"]} {'a': 1000.0}\n";
    re: "import re
print(re.sub(r'(?P<y>\\d{4})-(\\d\\d)', r'\\2/\\g<y>', '2024-05'), re.findall(r'\\w+', 'héllo wörld'))"
        => "05/2024 ['héllo', 'wörld']\n";
    datetime: "from datetime import *
print(datetime(2024, 2, 28, tzinfo=timezone.utc) + timedelta(days=2))
print(datetime.strptime('03/04/2021', '%d/%m/%Y').date(), date.fromisocalendar(2024, 1, 1))"
        => "2024-03-01 00:00:00+00:00\n2021-04-03 2024-01-01\n";
    zoneinfo: "from zoneinfo import *; from datetime import datetime
print(datetime(2024, 7, 1, 12, tzinfo=ZoneInfo('Europe/Berlin')).isoformat())
print(datetime(2024, 1, 1, tzinfo=ZoneInfo('America/New_York')).utcoffset())
print(len(available_timezones()) > 400)"
        => "2024-07-01T12:00:00+02:00\n-1 day, 19:00:00\nTrue\n";
    decimal: "from decimal import *
getcontext().prec = 30
print(Decimal(2).sqrt(), Decimal('0.1') + Decimal('0.2'))"
        => "1.41421356237309504880168872421 0.3\n";
    fractions: "from fractions import Fraction; print(Fraction(1, 3) + Fraction(1, 6))" => "1/2\n";
    statistics: "import statistics as s
print(s.mean([1, 2, 3, 4]), s.median([3, 1, 2]), round(s.stdev([1, 2, 3, 4]), 6))
print(s.quantiles(range(1, 100), n=4), s.linear_regression([1, 2, 3], [2, 4, 6]).slope)"
        => "2.5 2 1.290994\n[25.0, 50.0, 75.0] 2.0\n";
    random_with_a_seed: "import random; random.seed(42); print(random.random(), random.randint(1, 100))"
        => "0.6394267984578837 4\n";
    sqlite3_in_memory: "import sqlite3
c = sqlite3.connect(':memory:')
c.create_function('twice', 1, lambda x: 2 * x)
print(c.execute('select twice(21), json_extract(\\'{\"a\": 5}\\', \\'$.a\\'), sqlite_version() > \\'3.40\\'').fetchone())
c.execute('create virtual table t using fts5(x)')
c.execute('insert into t values (\\'hello world\\')')
print(c.execute('select * from t where t match \\'world\\'').fetchall())"
        => "(42, 5, 1)\n[('hello world',)]\n";
    zlib_bz2_gzip: "import zlib, bz2, gzip
d = b'hello ' * 1000
print([m.decompress(m.compress(d)) == d for m in (zlib, bz2, gzip)], zlib.crc32(b'hello'))"
        => "[True, True, True] 907060870\n";
    lzma: "import lzma
d = b'hello ' * 1000
print(lzma.decompress(lzma.compress(d, preset=1)) == d)"
        => "True\n";
    hashlib: "import hashlib
print(hashlib.md5(b'abc').hexdigest(), hashlib.sha1(b'abc').hexdigest())
print(hashlib.sha256(b'abc').hexdigest())
print(hashlib.sha3_256(b'abc').hexdigest())
print(hashlib.blake2s(b'abc').hexdigest())
print(hashlib.shake_128(b'abc').hexdigest(8), sorted(hashlib.algorithms_guaranteed - hashlib.algorithms_available))"
        => "900150983cd24fb0d6963f7d28e17f72 a9993e364706816aba3e25717850c26c9cd0d89d
ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532
508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982
5881092dd818bf5c []\n";
    // RFC 6070, test 3; RFC 7914, section 11.
    pbkdf2_hmac: "import hashlib
print(hashlib.pbkdf2_hmac('sha1', b'password', b'salt', 4096).hex())
print(hashlib.pbkdf2_hmac('sha256', b'passwd', b'salt', 1, 64).hex())"
        => "4b007901b765489abead49d926f721d065a429c1
55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783\n";
    // RFC 7914, section 12.
    scrypt: "import hashlib
print(hashlib.scrypt(b'', salt=b'', n=16, r=1, p=1, dklen=64).hex())
print(hashlib.scrypt(b'password', salt=b'NaCl', n=1024, r=8, p=16, dklen=64, maxmem=2**26).hex())"
        => "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906
fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640\n";
    // RFC 4231, test 2.
    hmac: "import hmac
print(hmac.new(b'Jefe', b'what do ya want for nothing?', 'sha256').hexdigest())
print(hmac.compare_digest('a', 'a'))"
        => "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\nTrue\n";
    secrets: "import secrets
print(len(secrets.token_hex(16)), secrets.randbelow(10) < 10, len(secrets.token_urlsafe(16)))"
        => "32 True 22\n";
    uuid: "import uuid
print(uuid.uuid4().version, uuid.uuid1().version, uuid.uuid5(uuid.NAMESPACE_DNS, 'python.org'))"
        => "4 1 886313e1-3b8a-5372-9b90-0c9aee199e5d\n";
    csv: "import csv, io
print(list(csv.DictReader(io.StringIO('a,b\\n1,\"x,y\"\\n'))))
out = io.StringIO(); csv.writer(out).writerow([1, 'a\"b']); print(repr(out.getvalue()))"
        => "[{'a': '1', 'b': 'x,y'}]\n'1,\"a\"\"b\"\\r\\n'\n";
    xml: "import xml.etree.ElementTree as E, xml.dom.minidom as m, xml.sax
r = E.fromstring('<a x=\"1\"><b>t</b></a>')
print(r.find('b').text, E.tostring(r), m.parseString('<a/>').documentElement.tagName)"
        => "t b'<a x=\"1\"><b>t</b></a>' a\n";
    html: "import html, html.parser
class P(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs): print(tag, attrs)
P().feed('<a href=\"x\">y</a>')
print(html.escape('<&>'), html.unescape('&eacute;'))"
        => "a [('href', 'x')]\n&lt;&amp;&gt; é\n";
    email: "import email, email.policy
from email.message import EmailMessage
m = EmailMessage(); m['Subject'] = 'héé'; m['To'] = 'a@b.c'; m.set_content('body')
m.add_attachment(b'x', maintype='application', subtype='pdf', filename='f.pdf')
read = email.message_from_bytes(bytes(m), policy=email.policy.default)
print(read['Subject'], [part.get_content_type() for part in read.walk()])"
        => "héé ['multipart/mixed', 'text/plain', 'application/pdf']\n";
    urllib_parse: "from urllib.parse import *
print(urlsplit('http://u@h:80/p?q=1#f').port, quote('a b/é'), parse_qs('a=1&a=2'), urljoin('http://a/b/c', '../d'))"
        => "80 a%20b/%C3%A9 {'a': ['1', '2']} http://a/d\n";
    dataclasses: "from dataclasses import *
@dataclass(order=True, slots=True)
class P:
    x: int
    y: list = field(default_factory=list)
print(P(1), asdict(P(2, [3])), P(1) < P(2), replace(P(1), x=5))"
        => "P(x=1, y=[]) {'x': 2, 'y': [3]} True P(x=5, y=[])\n";
    typing: "from typing import *
class T(TypedDict): a: int
class N(NamedTuple): a: int = 1
type X = list[int]
print(get_type_hints(T), N(), get_origin(X.__value__))"
        => "{'a': <class 'int'>} N(a=1) <class 'list'>\n";
    inspect_source_of_functions_and_classes: "import inspect
def f(a, b=1):
    # comment
    return a + b
class K:
    def m(self): pass
print(inspect.getsource(f), inspect.signature(f))
print(inspect.getsource(K))
print(inspect.getsource(K.m))"
        => "def f(a, b=1):\n    # comment\n    return a + b\n (a, b=1)\n\
            class K:\n    def m(self): pass\n\n    def m(self): pass\n\n";
    traceback_with_the_users_lines: "import traceback
def f():
    return 1 / 0
try:
    f()
except ZeroDivisionError:
    print(traceback.format_exc())"
        => "Traceback (most recent call last):\n  File \"<sandbox>\", line 5, in <module>\n    f()\n    \
            ~^^\n  File \"<sandbox>\", line 3, in f\n    return 1 / 0\n           ~~^~~\n\
            ZeroDivisionError: division by zero\n\n";
    pydoc_and_help: "import pydoc
def f(x):
    'What f does.'
help(f)
print(pydoc.plain(pydoc.render_doc(len)).splitlines()[0])"
        => "Help on function f in module __main__:\n\nf(x)\n    What f does.\n\n\
            Python Library Documentation: built-in function len in module builtins\n";
    pickle: "import pickle, copy
class A:
    def __init__(self): self.x = [1]
print(pickle.loads(pickle.dumps(A())).x, pickle.loads(pickle.dumps({1: [2]}, 5)), copy.deepcopy(A()).x)"
        => "[1] {1: [2]} [1]\n";
    zipfile_and_tarfile: "import zipfile, tarfile, io
b = io.BytesIO()
with zipfile.ZipFile(b, 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a.txt', 'hi')
print(zipfile.ZipFile(b).read('a.txt'))
b = io.BytesIO()
with tarfile.open(fileobj=b, mode='w:gz') as t:
    info = tarfile.TarInfo('q'); info.size = 2; t.addfile(info, io.BytesIO(b'xy'))
b.seek(0); print(tarfile.open(fileobj=b).extractfile('q').read())"
        => "b'hi'\nb'xy'\n";
    tempfile: "import tempfile, os
with tempfile.NamedTemporaryFile('w+') as f:
    f.write('x'); f.seek(0); print(f.read(), os.path.dirname(f.name))
with tempfile.TemporaryDirectory() as d: print(os.path.isdir(d))
print(tempfile.gettempdir(), os.listdir('.'))"
        => "x /app\nTrue\n/app []\n";
    pathlib: "from pathlib import Path
p = Path('a/b'); p.mkdir(parents=True); (p / 'c.txt').write_text('x')
print(list(Path('.').rglob('*.txt')), Path.cwd(), (p / 'c.txt').resolve(), (p / 'c.txt').stat().st_size)"
        => "[PosixPath('a/b/c.txt')] /app /app/a/b/c.txt 1\n";
    shutil: "import shutil, os
os.makedirs('a/b'); open('a/b/f', 'w').close()
shutil.copytree('a', 'c'); shutil.move('c', 'd'); shutil.make_archive('z', 'zip', 'a')
print(sorted(os.listdir('.')), os.path.exists('d/b/f'))"
        => "['a', 'd', 'z.zip'] True\n";
    logging: "import logging, logging.handlers, logging.config, sys
logging.basicConfig(level=logging.INFO, format='%(levelname)s:%(name)s:%(message)s', stream=sys.stdout)
logging.getLogger('x').info('hello')"
        => "INFO:x:hello\n";
    importlib_resources_and_metadata: "import importlib.resources as r, importlib.metadata, pathlib
pathlib.Path('pkg').mkdir(); pathlib.Path('pkg/__init__.py').touch(); pathlib.Path('pkg/d.txt').write_text('data')
print(r.files('pkg').joinpath('d.txt').read_text())
print(r.files('json').joinpath('nothing').is_file(), any(f.name.startswith('decoder') for f in r.files('json').iterdir()))
try: importlib.metadata.version('nothing')
except importlib.metadata.PackageNotFoundError as e: print(type(e).__name__)"
        => "data\nFalse True\nPackageNotFoundError\n";
    modules_of_the_workspace: "open('helper.py', 'w').write('X = 5')
import helper, os
print(helper.X, helper.__file__, os.listdir('.'))"
        => "5 /app/helper.py ['helper.py']\n";
    the_library_cannot_be_shadowed: "open('json.py', 'w').write('evil = 1')
import json; print(json.__file__, hasattr(json, 'evil'))"
        => "/lib/python3.13/json/__init__.py False\n";
    asyncio: "import asyncio
async def f(n):
    await asyncio.sleep(0.01 * n); return n
async def main():
    print([await t for t in asyncio.as_completed([f(2), f(1)])])
asyncio.run(main())"
        => "[1, 2]\n";
    time: "import time
print(time.time() > 1.7e9, time.strftime('%Y', time.gmtime(0)), time.tzname)
a = time.monotonic(); time.sleep(0.01); print(time.monotonic() - a >= 0.01, time.process_time() >= 0)"
        => "True 1970 ('UTC', 'UTC')\nTrue True\n";
    mock_and_doctest: "import doctest
from unittest.mock import patch
with patch('os.getcwd', return_value='x'):
    import os; print(os.getcwd())
def f():
    '''
    >>> 1 + 1
    2
    '''
print(doctest.testmod())"
        => "x\nTestResults(failed=0, attempted=1)\n";
    shelve_and_dbm: "import shelve
with shelve.open('s') as s: s['a'] = [1]
with shelve.open('s') as s: print(s['a'])"
        => "[1]\n";
    locale_and_unicode: "import locale, unicodedata
print(locale.getpreferredencoding(), unicodedata.name('é'), 'ß'.casefold(), 'é'.encode('utf-16-le'))"
        => "utf-8 LATIN SMALL LETTER E WITH ACUTE ss b'\\xe9\\x00'\n";
    everything_else_can_be_imported: "import contextvars, weakref, functools, itertools, collections, heapq
import bisect, operator, array, struct, enum, graphlib, textwrap, difflib, string, calendar, pprint, types
import abc, copyreg, configparser, tomllib, plistlib, netrc, mailbox, mimetypes, binascii, codecs, optparse
import getopt, cmd, shlex, code, codeop, timeit, cProfile, profile, pstats, trace, tracemalloc, faulthandler
import pdb, bdb, dis, ast, symtable, tokenize, keyword, pyclbr, py_compile, compileall, zipimport, zipapp
import runpy, modulefinder, pkgutil, site, sysconfig, wave, colorsys, gettext, sched, selectors, select
import signal, socketserver, http.cookies, http.cookiejar, xmlrpc.client, urllib.robotparser, ipaddress
import imaplib, poplib, ftplib, rlcompleter, queue, concurrent.futures, cmath, numbers, argparse, platform
print('all')"
        => "all\n";
}

#[test]
fn sqlite3_in_a_file() {
    let jar = Jar::new();
    let code = "import sqlite3
c = sqlite3.connect('db.sqlite')
c.execute('create table t(a, b)')
c.executemany('insert into t values (?, ?)', [(1, 'x'), (2, 'y')])
c.commit(); c.close()";
    jar.run(code).printed("").changed(&["db.sqlite"], &[], &[]);
    let code = "import sqlite3
with sqlite3.connect('db.sqlite') as c:
    c.execute('insert into t values (3, \\'z\\')')
    print(c.execute('select sum(a), group_concat(b) from t').fetchall())";
    jar.run(code).printed("[(6, 'x,y,z')]\n").changed(&[], &["db.sqlite"], &[]);
}

#[test]
fn lzma_with_its_default_preset() {
    // The preset alone takes 94 MiB, on any machine.
    let jar = Jar::new().with(|layer| layer.memory_bytes(256_000_000));
    let code = "import lzma\nd = b'hello ' * 1000\nprint(lzma.decompress(lzma.compress(d)) == d)";
    jar.run(code).printed("True\n");
}

#[test]
fn unittest() {
    let code = "import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
    def test_b(self): self.assertEqual(1, 2)
unittest.main()";
    let result = Jar::new().run(code);
    result.ended(belljar::Status::Error, 1);
    assert!(result.stderr.starts_with(".F\n"), "{}", result.stderr);
    assert!(result.stderr.contains("AssertionError: 1 != 2"), "{}", result.stderr);
    assert!(result.stderr.ends_with("FAILED (failures=1)\n"), "{}", result.stderr);
}

#[test]
fn deterministic_mode_fixes_clock_and_randomness() {
    let jar = Jar::new().with(|layer| layer.deterministic(true));
    let code = "import random, uuid, secrets, time, os, tempfile
print(random.random(), uuid.uuid4(), secrets.token_hex(), time.time(), os.urandom(4), tempfile.mktemp())
a = time.monotonic(); time.sleep(3600); print(time.monotonic() - a >= 3600)";
    let (one, two) = (jar.run(code), jar.run(code));
    one.ended(belljar::Status::Ok, 0);
    assert_eq!(one.stdout, two.stdout);
    assert!(one.stdout.ends_with("True\n"), "{}", one.stdout);
    assert_eq!(one.fuel_consumed, two.fuel_consumed);
}

#[test]
fn folders_are_listed_in_order_whatever_their_file_system() {
    let jar = Jar::new();
    let names = ["b", "a", "e", "!", "é", "d", "c", "Z", "10", "9"];
    names.iter().for_each(|name| jar.write(name, ""));
    jar.run("import os\nprint(*os.listdir('.'), *(e.name for e in os.scandir('.')))")
        .printed("! 10 9 Z a b c d e é ! 10 9 Z a b c d e é\n");
}
