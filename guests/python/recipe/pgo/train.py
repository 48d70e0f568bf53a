"""The workload whose profile shapes the optimised guest.

It stands for what people run in a sandbox: a bit of everything, no part for long. It must
not contain the kernels of bench.py, or the benchmark would measure the training.
"""

import abc
import argparse
import array
import ast
import base64
import bisect
import collections
import configparser
import contextlib
import copy
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fractions
import functools
import hashlib
import heapq
import html
import html.parser
import inspect
import io
import itertools
import json
import logging
import math
import operator
import pathlib
import pickle
import pprint
import random
import re
import shlex
import sqlite3
import statistics
import string
import struct
import sys
import textwrap
import time
import tokenize
import traceback
import types
import typing
import unicodedata
import urllib.parse
import uuid
import xml.etree.ElementTree as ElementTree
import zlib
import zoneinfo

PROSE = """It was the custom of the house that letters were read aloud at breakfast, and that
nobody should answer them before noon. On the third of March, however, a telegram came. "Arrive
Thursday 4:15 -- bring 2 lamps, 17 yards of rope & the grey cat," it said; it was not signed.
Mrs. Ambrose (who had, in 1887, crossed the Pamirs with less) put down her spoon. Zoë laughed.
"""


def repeat(times):
    def decorate(function):
        WORK.append((function, times))
        return function

    return decorate


WORK = []


# ---- numbers ----


@repeat(30)
def collatz():
    longest = 0
    for start in range(1, 900):
        n, steps = start, 0
        while n != 1:
            n = n // 2 if n & 1 == 0 else 3 * n + 1
            steps += 1
        longest = max(longest, steps)
    return longest


@repeat(6)
def number_theory():
    found = []
    for n in range(2, 1500):
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            found.append(n)
    seed, out = 12345, []
    for _ in range(6000):
        seed = (1103515245 * seed + 12345) & 0x7FFFFFFF
        out.append(seed >> 16)
    digits = sum(int(c) for c in str(2**2000))
    gcds = sum(math.gcd(a, b) for a in range(1, 120) for b in range(a, 120, 7))
    return len(found), out[-1], digits, gcds, pow(7, 2**64, 10**18 + 9)


@repeat(4)
def big_integers():
    a, b = 0, 1
    for _ in range(1500):
        a, b = b, a + b
    factorial = functools.reduce(operator.mul, range(1, 300))
    return a * b % (10**50), factorial // (3**200), divmod(factorial, a + 1)[1].bit_length(), str(factorial)[:20]


@repeat(6)
def mandelbrot():
    rows = []
    for y in range(-12, 13):
        row = []
        for x in range(-30, 12):
            c, z = complex(x / 18, y / 10), 0j
            for i in range(25):
                z = z * z + c
                if abs(z) > 2:
                    break
            row.append(" .:-=+*#%@"[i % 10])
        rows.append("".join(row))
    return rows


@repeat(5)
def float_work():
    matrix = [[math.sin(i * 7 + j) for j in range(24)] for i in range(24)]
    product = [[sum(a * b for a, b in zip(row, column)) for column in zip(*matrix)] for row in matrix]
    guess, history = 10.0, []
    for _ in range(600):
        guess = 0.5 * (guess + 2.0 / guess) + 1e-9
        history.append(guess)
    inside = 0
    generator = random.Random(3)
    for _ in range(6000):
        px, py = generator.random(), generator.uniform(-1, 1)
        if px * px + py * py < 1.0:
            inside += 1
    values = [round(v, 3) for row in product for v in row]
    return statistics.fmean(values), statistics.stdev(values), math.fsum(history), inside, min(values), max(values)


@repeat(4)
def exact_numbers():
    total = decimal.Decimal(0)
    for i in range(1, 400):
        total += (decimal.Decimal(i) / 7).quantize(decimal.Decimal("0.01"))
    harmonic = sum(fractions.Fraction(1, i) for i in range(1, 60))
    return total, harmonic.limit_denominator(1000), decimal.Decimal(2).sqrt()


# ---- objects and calls ----


class Shape(abc.ABC):
    registry: typing.ClassVar[dict] = {}

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        Shape.registry[cls.__name__] = cls

    def __init__(self, name, *, scale=1.0):
        self.name = name
        self.scale = scale

    @abc.abstractmethod
    def area(self): ...

    @property
    def label(self):
        return f"{self.name}:{self.area():.2f}"

    def __lt__(self, other):
        return self.area() < other.area()


class Circle(Shape):
    def __init__(self, radius, **keywords):
        super().__init__("circle", **keywords)
        self.radius = radius

    def area(self):
        return math.pi * self.radius**2 * self.scale


class Box(Shape):
    def __init__(self, width, height, **keywords):
        super().__init__("box", **keywords)
        self.width, self.height = width, height

    def area(self):
        return self.width * self.height * self.scale


class Vector:
    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k, self.z * k)

    def __eq__(self, other):
        return (self.x, self.y, self.z) == (other.x, other.y, other.z)

    def __hash__(self):
        return hash((self.x, self.y, self.z))

    def __repr__(self):
        return f"Vector({self.x!r}, {self.y!r}, {self.z!r})"


@dataclasses.dataclass(order=True)
class Account:
    owner: str
    balance: int = 0
    history: list = dataclasses.field(default_factory=list, compare=False)

    def move(self, amount):
        if self.balance + amount < 0:
            raise ValueError(f"{self.owner} cannot pay {-amount}")
        self.balance += amount
        self.history.append(amount)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Node:
    __slots__ = ("key", "left", "right")

    def __init__(self, key):
        self.key, self.left, self.right = key, None, None

    def insert(self, key):
        node = self
        while True:
            side = "left" if key < node.key else "right"
            child = getattr(node, side)
            if child is None:
                setattr(node, side, Node(key))
                return
            node = child

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.key
        if self.right:
            yield from self.right


@repeat(8)
def shapes():
    items = [Circle(i % 9 + 0.5) if i % 3 else Box(i % 5, i % 7, scale=1.5) for i in range(700)]
    items.sort()
    labels = [item.label for item in items if isinstance(item, Circle)]
    v = Vector(0, 0, 0)
    for i in range(1500):
        v = v + Vector(i, 1, 2) * 3
    return labels[-1], v, len({Vector(i % 10, 0, 0) for i in range(500)})


@repeat(8)
def bank():
    accounts = [Account(f"owner{i}", 100) for i in range(30)]
    generator = random.Random(11)
    failures = 0
    for _ in range(2500):
        payer, payee = generator.sample(accounts, 2)
        amount = generator.randrange(1, 60)
        try:
            payer.move(-amount)
            payee.move(amount)
        except ValueError as error:
            failures += len(error.args)
    return failures, max(accounts).owner, dataclasses.asdict(accounts[0])["balance"], [c.name for c in Colour if c is not Colour.RED]


@repeat(6)
def trees():
    generator = random.Random(5)
    keys = [generator.randrange(100000) for _ in range(900)]
    root = Node(keys[0])
    for key in keys[1:]:
        root.insert(key)

    def depth(node):
        return 0 if node is None else 1 + max(depth(node.left), depth(node.right))

    def hanoi(n, a, b, c):
        if n == 0:
            return 0
        return hanoi(n - 1, a, c, b) + 1 + hanoi(n - 1, c, b, a)

    @functools.lru_cache(None)
    def paths(x, y):
        return 1 if x == 0 or y == 0 else paths(x - 1, y) + paths(x, y - 1)

    return list(root)[:3], depth(root), hanoi(11, "a", "b", "c"), paths(25, 25)


@repeat(10)
def calls():
    def outer(start, *rest, key=None, **options):
        count = start

        def step(by=1):
            nonlocal count
            count += by
            return count

        return step

    step = outer(5, 1, 2, key="k", colour="red")
    for i in range(2500):
        step(by=i & 3)
        step()
    double = functools.partial(operator.mul, 2)
    composed = [functools.reduce(lambda f, g: lambda x: g(f(x)), [double, str, len])(i) for i in range(400)]
    totals = list(map(lambda a, b: a + b, range(1000), range(1000, 2000)))
    filtered = list(filter(None, (i % 3 for i in range(1500))))
    return step(), sum(composed), sum(totals), len(filtered), sorted(range(300), key=lambda i: (i * 7919) % 301)[:3]


@repeat(10)
def generators():
    def numbers(limit):
        for i in range(limit):
            received = yield i
            if received:
                return received

    def pairs():
        yield from zip(numbers(600), itertools.cycle("abc"))

    def walk(tree):
        if isinstance(tree, list):
            for branch in tree:
                yield from walk(branch)
        else:
            yield tree

    tree = [[i, [i + 1, [i + 2, [i + 3]]]] for i in range(150)]
    grouped = {k: sum(1 for _ in g) for k, g in itertools.groupby(sorted(c for c in PROSE * 2))}
    chained = sum(itertools.islice(itertools.chain.from_iterable(itertools.repeat(range(20), 60)), 1000))
    windows = [a + b for a, b in itertools.pairwise(range(800))]
    return sum(1 for _ in pairs()), sum(walk(tree)), grouped.get("e"), chained, windows[-1], len(list(itertools.combinations(range(12), 3)))


@repeat(6)
def exceptions():
    caught = collections.Counter()

    def fail(kind):
        try:
            if kind == 0:
                return [][1]
            if kind == 1:
                return {}["missing"]
            if kind == 2:
                return int("not a number")
            if kind == 3:
                return None.attribute
            return 1 / 0
        finally:
            caught["finally"] += 1

    @contextlib.contextmanager
    def guarded(name):
        try:
            yield name
        except LookupError as error:
            caught[type(error).__name__] += 1

    for i in range(1200):
        try:
            with guarded(f"try {i}"):
                fail(i % 5)
        except (ValueError, AttributeError) as error:
            caught[str(error)[:10]] += 1
        except ArithmeticError:
            if i % 100 == 4:
                caught["trace"] += len(traceback.format_exc())
    with contextlib.suppress(KeyError):
        raise KeyError("x")
    return caught


async def trampoline(depth):
    if depth:
        await trampoline(depth - 1)
    await pause()
    return depth


@types.coroutine
def pause():
    yield


@repeat(8)
def coroutines():
    done, queue = 0, collections.deque(trampoline(i % 6) for i in range(250))
    while queue:
        task = queue.popleft()
        try:
            task.send(None)
        except StopIteration:
            done += 1
        else:
            queue.append(task)
    return done


def match_command(command):
    match command:
        case {"op": "add", "args": [a, b]}:
            return a + b
        case {"op": "neg", "args": [a]}:
            return -a
        case ["list", *items] if items:
            return len(items)
        case str() as text:
            return len(text)
        case int() | float():
            return command
        case _:
            return None


@repeat(8)
def matching():
    commands = [{"op": "add", "args": [1, 2]}, {"op": "neg", "args": [5]}, ["list", 1, 2], "word", 2.5, None]
    return sum(filter(None, (match_command(commands[i % 6]) for i in range(1500))))


# ---- containers ----


@repeat(6)
def containers():
    words = re.findall(r"\w+", PROSE.lower()) * 12
    index = collections.defaultdict(list)
    for position, word in enumerate(words):
        index[word].append(position)
    common = collections.Counter(words).most_common(5)
    by_length = {}
    for word in words:
        by_length.setdefault(len(word), set()).add(word)
    graph = {i: [(i * 3 + 1) % 300, (i * 7 + 2) % 300, (i + 1) % 300] for i in range(300)}
    distance, queue = {0: 0}, collections.deque([0])
    while queue:
        here = queue.popleft()
        for there in graph[here]:
            if there not in distance:
                distance[there] = distance[here] + 1
                queue.append(there)
    heap = []
    for i in range(700):
        heapq.heappush(heap, ((i * 7919) % 1009, i))
    smallest = [heapq.heappop(heap) for _ in range(300)]
    ordered = []
    for i in range(600):
        bisect.insort(ordered, (i * 31) % 997)
    merged = {**graph, **{k: v for k, v in distance.items() if v > 2}}
    a, b = set(range(0, 900, 3)), set(range(0, 900, 5))
    return common, len(merged), smallest[-1], ordered[5], len(a & b | a - b ^ b), list(reversed(ordered))[:2]


@repeat(6)
def lists_and_slices():
    data = [(i * 7919) % 1000 for i in range(1500)]
    data[10:20] = data[30:50]
    del data[::7]
    data.extend(range(50))
    data.insert(5, -1)
    table = [[row * column for column in range(20)] for row in range(20)]
    flipped = [list(row) for row in zip(*table)]
    first, *middle, last = data
    bubbles = data[:70]
    for i in range(len(bubbles)):
        for j in range(len(bubbles) - 1 - i):
            if bubbles[j] > bubbles[j + 1]:
                bubbles[j], bubbles[j + 1] = bubbles[j + 1], bubbles[j]

    def quicksort(items):
        if len(items) < 2:
            return items
        pivot = items[len(items) // 2]
        return (
            quicksort([i for i in items if i < pivot])
            + [i for i in items if i == pivot]
            + quicksort([i for i in items if i > pivot])
        )

    grid = [[0] * 22 for _ in range(22)]
    grid[10][10] = grid[10][11] = grid[10][12] = grid[9][12] = grid[8][11] = 1
    for _ in range(4):
        grid = [
            [
                1 if (n := sum(grid[(y + dy) % 22][(x + dx) % 22] for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx)) == 3 or (n == 2 and grid[y][x]) else 0
                for x in range(22)
            ]
            for y in range(22)
        ]
    return first, last, len(middle), bubbles[:3], quicksort(data)[-1], flipped[3][4], sum(map(sum, grid)), data.index(-1), data.count(7)


@repeat(4)
def dynamic_programming():
    left, right = PROSE[:110], PROSE[60:170]
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (a != b)))
        previous = current
    best = [0] * 400
    for weight, value in ((7, 42), (12, 60), (31, 170), (5, 21), (19, 99)):
        for room in range(399, weight - 1, -1):
            if best[room - weight] + value > best[room]:
                best[room] = best[room - weight] + value

    def queens(n, row=0, columns=0, left=0, right=0):
        if row == n:
            return 1
        count, free = 0, ((1 << n) - 1) & ~(columns | left | right)
        while free:
            bit = free & -free
            free ^= bit
            count += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
        return count

    return previous[-1], best[-1], queens(6)


# ---- text and bytes ----


@repeat(6)
def strings():
    lines = []
    for number, line in enumerate(PROSE.splitlines() * 12):
        words = line.strip().split()
        lines.append(" ".join(w.capitalize() if len(w) > 3 else w.upper() for w in words))
        lines.append("{:>4}|{:<10}|{:^8}|{:,}".format(number, words[0], words[-1][:6], number * 1234567))
        lines.append("%05d %-8s %.3f %x" % (number, words[1], number / 7, number))
        lines.append(f"{number:08b} {words[0]!r:>12} {number / 3:+.2e} {number:#06x}")
    text = "\n".join(lines)
    shifted = "".join(chr((ord(c) - 97 + 13) % 26 + 97) if "a" <= c <= "z" else c for c in text[:2500])
    palindromes = [w for w in set(text.lower().split()) if w == w[::-1]]
    table = str.maketrans("aeiou", "AEIOU", ".,;")
    parts = text.translate(table).replace("cat", "dog").partition("ROPE")
    counted = sum(text.count(c) for c in string.ascii_lowercase)
    checks = (text.isascii(), text.find("Zoë"), text.startswith("It"), text.rsplit(None, 2)[-1], "x".join("abc"), text.casefold()[:3])
    normal = unicodedata.normalize("NFD", "Zoë Ångström façade " * 20).encode("ascii", "ignore").decode()
    return len(shifted), palindromes[:1], len(parts[0]), counted, checks, normal[:4], text.encode().decode("utf-8")[:3]


@repeat(4)
def regexes():
    log = "\n".join(
        f"2024-0{i % 9 + 1}-1{i % 9} {i % 24:02}:0{i % 6}:00 [{('INFO', 'WARN', 'ERROR')[i % 3]}] user{i}@mail{i % 4}.example: took {i * 3.7:.1f}ms" for i in range(160)
    )
    pattern = re.compile(r"^(?P<date>\d{4}-\d\d-\d\d) (?P<time>[\d:]+) \[(?P<level>\w+)\] (?P<mail>[\w.]+@[\w.]+): took (?P<ms>\d+\.\d)ms$", re.M)
    slow = [m.groupdict() for m in pattern.finditer(log) if float(m["ms"]) > 100]
    masked = re.sub(r"(\w)\w*@", lambda m: m.group(1) + "***@", log)
    tokens = [m.lastgroup for m in re.finditer(r"(?P<num>\d+(?:\.\d*)?)|(?P<name>[A-Za-z_]\w*)|(?P<op>[-+*/=()])|(?P<skip>\s+)", "x1 = (alpha + 3.5) * beta / 42 - y " * 40)]
    return len(slow), len(masked), collections.Counter(tokens), re.split(r"[,;:\s]+", PROSE)[:3], bool(re.fullmatch(r"(a|b)*c", "abab" * 20 + "c"))


@repeat(4)
def bytes_work():
    data = bytes(range(256)) * 20
    packed = b"".join(struct.pack("<IHd", i, i & 0xFFFF, i / 3) for i in range(400))
    total = sum(a for a, _, _ in struct.iter_unpack("<IHd", packed))
    buffer = bytearray(data)
    for i in range(0, len(buffer), 3):
        buffer[i] ^= 0x5A
    view = memoryview(buffer)[100:900:2]
    numbers = array.array("d", (i * 0.5 for i in range(800)))
    squeezed = zlib.compress(data, 6)
    digest = hashlib.sha256(data).hexdigest() + hashlib.md5(packed).hexdigest() + hashlib.blake2b(data).hexdigest()[:8]
    crc = 0
    for byte in data[:1500]:
        crc = (crc >> 1 ^ 0xEDB88320 if crc & 1 else crc >> 1) ^ byte
    return total, bytes(view[:4]), sum(numbers), len(squeezed), zlib.decompress(squeezed) == data, digest[:6], base64.b64encode(data)[:8], crc, data.hex()[:6]


# ---- formats ----

CONFIG = {
    "service": {"name": "orders", "port": 8080, "tags": ["a", "b", "ünï"], "ratio": 0.25, "on": True, "none": None},
    "routes": [{"path": f"/v{i}/items", "methods": ["GET", "POST"], "limits": {"rps": i * 10, "burst": i / 4}} for i in range(25)],
    "escape": 'quote " backslash \\ newline \n tab \t',
}


@repeat(5)
def documents():
    text = json.dumps(CONFIG, indent=2, sort_keys=True, ensure_ascii=False)
    again = json.loads(text, parse_float=float)
    compact = json.dumps(again, separators=(",", ":"), default=str)
    pickled = pickle.loads(pickle.dumps([again, Colour.RED, datetime.date(2024, 2, 29), {1, 2}]))
    deep = copy.deepcopy(CONFIG)
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "name", "note"])
    writer.writeheader()
    writer.writerows({"id": i, "name": f"n{i}", "note": 'said "hi", left'} for i in range(120))
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    root = ElementTree.Element("catalogue")
    for i in range(40):
        ElementTree.SubElement(root, "book", id=str(i)).text = f"Title & {i}"
    xml = ElementTree.tostring(root, encoding="unicode")
    titles = [book.text for book in ElementTree.fromstring(xml).iter("book")]
    ini = configparser.ConfigParser()
    ini.read_string("[a]\nx = 1\ny = %(x)s0\n[b]\nz: on\n")
    return deep == again, len(compact), len(pickled), len(rows), titles[-1], ini["a"].getint("y"), len(pprint.pformat(CONFIG))


class LinkFinder(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name == "href"]


@repeat(5)
def web():
    page = "".join(f'<p class="c{i}">Item &amp; <a href="/i?q={i}&amp;r=é">n{i}</a><br/></p>' for i in range(50))
    finder = LinkFinder()
    finder.feed(page)
    parsed = [urllib.parse.parse_qs(urllib.parse.urlsplit(urllib.parse.urljoin("https://h/x/", link)).query) for link in finder.links]
    quoted = urllib.parse.urlencode({"a": "ä b", "c": [1, 2]}, doseq=True)
    return len(parsed), quoted, html.escape(page[:200])[:10], html.unescape("&lt;&eacute;&#233;"), str(uuid.uuid5(uuid.NAMESPACE_URL, quoted))


@repeat(5)
def dates():
    paris = zoneinfo.ZoneInfo("Europe/Paris")
    moment = datetime.datetime(2024, 1, 31, 12, 30, tzinfo=paris)
    out = []
    for i in range(150):
        moment += datetime.timedelta(hours=31, minutes=i)
        out.append(moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M"))
    parsed = [datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M") for text in out[:60]]
    return out[-1], (parsed[-1] - parsed[0]).days, datetime.date.fromisoformat("2024-02-29").isocalendar().week


@repeat(4)
def database():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table sales (id integer primary key, shop text, amount real, day text)")
    connection.executemany(
        "insert into sales (shop, amount, day) values (?, ?, ?)",
        ((f"shop{i % 7}", i * 1.25, f"2024-{i % 12 + 1:02}-01") for i in range(600)),
    )
    connection.execute("create index by_shop on sales (shop, day)")
    rows = connection.execute(
        "select shop, count(*), sum(amount), max(day) from sales where amount > 10 group by shop having count(*) > 3 order by 3 desc"
    ).fetchall()
    found = [connection.execute("select amount from sales where shop = ? and day = ?", (f"shop{i % 7}", "2024-03-01")).fetchone() for i in range(120)]
    connection.close()
    return rows[0], len(found)


# ---- code about code ----


@repeat(2)
def compilers():
    source = inspect.cleandoc(
        '''
        import sys
        class Thing(object):
            """A thing."""
            limit: int = 10
            def method(self, a, b=2, *args, c, **kw) -> "Thing":
                for i in range(a):
                    if i % 2: continue
                    try: yield i ** b, [x for x in args if x], {k: v for k, v in kw.items()}
                    except (ValueError, TypeError) as e: raise RuntimeError(f"bad {e!r:>10}") from e
                    else: pass
                with open("f") as f, open("g") as g: return lambda q: q and not f or g is not None
        def outer(n: int = 0):
            total = n
            def inner():
                nonlocal total
                while total < 100 and (n := total): total += 1
                return total
            return inner() if n else None
        '''
    )
    size = 0
    for _ in range(6):
        tree = ast.parse(source)
        size += sum(isinstance(node, ast.Name) for node in ast.walk(tree))
        namespace = {}
        exec(compile(tree, "<training>", "exec"), namespace)
        namespace["outer"](5)
        size += len(ast.unparse(tree))
    tokens = sum(1 for _ in tokenize.generate_tokens(io.StringIO(source).readline))
    return size, tokens, [eval(f"{i} * {i} + len('{'x' * i}')") for i in range(60)][-1], str(inspect.signature(match_command))


@repeat(4)
def tools():
    parser = argparse.ArgumentParser(prog="tool")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--level", type=int, choices=range(5), default=1)
    parser.add_argument("-v", "--verbose", action="count", default=0)
    options = parser.parse_args(shlex.split("one 'two three' --level 3 -vv"))
    log = logging.Logger("training")
    log.addHandler(logging.StreamHandler(out := io.StringIO()))
    for i in range(60):
        log.info("%s saw %d of %r", "nobody", i, {"key": i})
    changes = list(difflib.unified_diff(PROSE.splitlines(), PROSE.replace("cat", "dog").splitlines(), lineterm=""))
    close = difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"])
    template = string.Template("$who owes $$${amount}").substitute(who="Zoë", amount=5)
    path = pathlib.PurePosixPath("/a/b/../c.tar.gz")
    return options.level, len(out.getvalue()), len(changes), close, template, path.suffixes, textwrap.fill(PROSE, 40)[:5], textwrap.dedent("  a\n   b")


def main():
    began = time.monotonic()
    for function, times in WORK:
        for _ in range(times):
            result = function()
        print(f"{function.__name__}: {str(result)[:60]}", file=sys.stderr)
    print(f"trained in {time.monotonic() - began:.1f} s")


main()
