"""Bad input ends in a Python exception, never in a trap: run.sh hostile.

A trap would end the sandbox, and this script with it before its last line.
"""

import io
import os
import sys
import tempfile
import threading
import warnings
import zipfile

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")
FOLDER = tempfile.mkdtemp()
ATTACKS = []


def attack(*kinds):
    """Registers a function that must raise one of `kinds`, or nothing at all if there are none."""

    def register(function):
        ATTACKS.append((function, kinds))
        return function

    return register


def path(name):
    return os.path.join(FOLDER, name)


# Memory.


@attack(MemoryError)
def array_beyond_memory():
    np.zeros((60000, 60000))


@attack(MemoryError)
def array_of_all_addresses():
    np.empty(2**32 - 64, np.uint8)


@attack(ValueError, MemoryError)
def shape_beyond_words():
    np.zeros((2**31, 2**31, 2**31))


@attack(ValueError, MemoryError)
def shape_product_wraps_around():
    np.zeros((2**16, 2**16, 8))


@attack(ValueError, MemoryError)
def negative_shape():
    np.zeros(-1)


@attack(MemoryError)
def range_beyond_memory():
    np.arange(10**10)


@attack(MemoryError, ValueError)
def repeat_beyond_memory():
    np.repeat(np.arange(1000), 10**8)


@attack(MemoryError, ValueError)
def tile_beyond_memory():
    np.tile(np.ones(10**6), 10**5)


@attack(MemoryError, ValueError)
def outer_beyond_memory():
    np.outer(np.ones(10**5), np.ones(10**5))


@attack(MemoryError, ValueError)
def kron_beyond_memory():
    np.kron(np.ones((400, 400)), np.ones((400, 400)))


@attack(MemoryError, ValueError)
def random_beyond_memory():
    np.random.default_rng().random(2**31)


@attack(MemoryError, ValueError)
def choice_without_memory():
    np.random.default_rng().permutation(2**30)


@attack(MemoryError, ValueError)
def fft_beyond_memory():
    np.fft.fft(np.ones(4), 2**28)


@attack(MemoryError, ValueError)
def fft_of_a_large_prime():
    np.fft.fft(np.ones(4), 2**26 + 15)


@attack(MemoryError, ValueError)
def unique_beyond_memory():
    np.unique(np.arange(3 * 10**8))


@attack(MemoryError, ValueError)
def frame_beyond_memory():
    pd.DataFrame(np.zeros((2**16, 2**16)))


@attack(MemoryError, ValueError)
def merge_beyond_memory():
    left = pd.DataFrame({"k": np.zeros(50000, int)})
    left.merge(left, on="k")


@attack(MemoryError, ValueError)
def get_dummies_beyond_memory():
    pd.get_dummies(pd.Series(range(60000)))


@attack(MemoryError, ValueError)
def date_range_beyond_memory():
    pd.date_range("1700", "2200", freq="ns")


@attack(MemoryError, ValueError, OverflowError)
def rolling_beyond_memory():
    pd.Series(range(10)).rolling(2**62).sum().sum()
    np.pad(np.ones(10), 2**30)


@attack()
def unique_when_memory_is_short():
    hog = []
    try:
        while True:
            hog.append(np.ones(4 * 1024 * 1024))
    except MemoryError:
        pass
    numbers = hog.pop()[: 2 * 1024 * 1024].view(np.int64)
    numbers[:] = np.arange(len(numbers))
    # Not pandas: without memory for a hash table it ends (docs/limitations/data-image.md).
    for attempt in (
        lambda: np.unique(numbers), lambda: np.fft.fft(numbers), lambda: np.sort(numbers[::-1]), lambda: numbers @ numbers,
        lambda: np.argsort(-numbers), lambda: numbers.astype("U"), lambda: np.linalg.svd(numbers[:10**6].reshape(1000, 1000).astype(float)),
    ):  # fmt: skip
        try:
            attempt()
        except MemoryError:
            pass


# Objects that lie.


class Lies:
    def __init__(self, **answers):
        self.answers = answers

    def __array__(self, *args, **kwargs):
        return self.answers.get("array", self)

    def __len__(self):
        return self.answers.get("length", 3)

    def __getitem__(self, index):
        if "item" in self.answers:
            return self.answers["item"]
        raise IndexError(index)

    def __eq__(self, other):
        raise self.answers.get("error", ZeroDivisionError)

    def __lt__(self, other):
        raise self.answers.get("error", ZeroDivisionError)

    def __add__(self, other):
        raise ZeroDivisionError

    def __hash__(self):
        return self.answers.get("hash", 1)

    def __float__(self):
        raise ZeroDivisionError

    def __repr__(self):
        raise ZeroDivisionError


@attack(ValueError, TypeError)
def array_method_returns_itself():
    np.asarray(Lies())


@attack()
def array_interface_of_nonsense():
    for interface in [
        {"shape": (2**31 - 1,), "typestr": "<f8", "data": (0, False), "version": 3},
        {"shape": (4,), "typestr": "<f8", "data": (2**32 - 8, False), "version": 3},
        {"shape": (-1,), "typestr": "<f8", "data": b"1234", "version": 3},
        {"shape": (1000,), "typestr": "<f8", "data": b"1234", "version": 3},
        {"shape": "x", "typestr": 5, "version": 3},
        {"shape": (2,), "typestr": "|O", "data": b"12345678", "version": 3},
    ]:
        thing = type("Thing", (), {"__array_interface__": interface})()
        try:
            np.asarray(thing).shape
        except (ValueError, TypeError, MemoryError, OverflowError):
            pass


@attack()
def objects_that_raise():
    things = np.empty(300, object)
    for place in range(300):
        things[place] = Lies(item=1) if place % 2 else object()
    for attempt in (
        lambda: things == things, lambda: np.sort(things), lambda: things.sum(), lambda: repr(things), lambda: np.unique(things), lambda: things.argsort(),
        lambda: things.astype(float), lambda: things.max(), lambda: things.argmax(), lambda: np.searchsorted(things, Lies()), lambda: things.astype("U"), lambda: things.astype("S"),
        lambda: pd.Series(things).unique(), lambda: pd.Series(things).value_counts(), lambda: repr(pd.Series(things)), lambda: pd.Series(things).sort_values(),
        lambda: pd.DataFrame({"a": things}).groupby("a").sum(), lambda: pd.to_datetime(things), lambda: pd.to_numeric(things), lambda: pd.Series(things).astype("category"),
        lambda: pd.DataFrame({"a": things}).to_csv(), lambda: pd.DataFrame({"a": things}).to_json(), lambda: np.array(things.tolist()), lambda: np.vectorize(float)(things),
    ):  # fmt: skip
        try:
            attempt()
        except (ZeroDivisionError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, MemoryError):
            pass


@attack()
def sequences_that_change():
    class Grows(list):
        def __len__(self):
            self.append(1)
            return list.__len__(self)

    class Shrinks(list):
        def __getitem__(self, index):
            self.clear()
            return 1

    for thing in (Grows([1, 2]), Shrinks([1, 2, 3]), [Shrinks([1, 2]), Shrinks([3, 4])]):
        try:
            np.array(thing)
        except (ValueError, TypeError, RuntimeError):
            pass


@attack()
def comparing_that_empties():
    class Empties:
        def __lt__(self, other):
            things.resize(0, refcheck=False)
            return True

        __gt__ = __le__ = __ge__ = __lt__

    things = np.array([Empties() for _ in range(64)], object)
    try:
        things.copy().sort()
        things.sort()
    except (ValueError, TypeError):
        pass


# Recursion.


@attack()
def array_in_itself():
    thing = np.empty(1, object)
    thing[0] = thing
    for attempt in (lambda: repr(thing), lambda: str(thing), lambda: thing.tolist(), lambda: thing == thing, lambda: thing + 1, lambda: np.array(thing.tolist()), lambda: hash(thing), lambda: thing.sum(), lambda: pd.Series(thing).to_json()):
        try:
            attempt()
        except (RecursionError, TypeError, ValueError, OverflowError, MemoryError):
            pass
    thing[0] = None


@attack()
def lists_nested_deeply():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for attempt in (lambda: np.array(deep), lambda: np.array(deep, object), lambda: pd.Series(deep), lambda: pd.DataFrame(deep)):
        try:
            attempt()
        except (RecursionError, ValueError, TypeError, MemoryError):
            pass
    while deep:
        deep = deep.pop()


@attack()
def arrays_nested_deeply():
    deep = np.array([None], object)
    for _ in range(20_000):
        outer = np.empty(1, object)
        outer[0] = deep
        deep = outer
    for attempt in (lambda: repr(deep), lambda: deep + 1, lambda: deep.tolist(), lambda: deep == deep, lambda: -deep, lambda: np.exp(deep)):
        try:
            attempt()
        except (RecursionError, TypeError, ValueError, MemoryError):
            pass


@attack()
def types_nested_deeply():
    kind = np.dtype("i4")
    try:
        for _ in range(5000):
            kind = np.dtype([("x", kind)])
        repr(kind)
        kind == kind
        np.zeros(1, kind)
        str(np.zeros(1, kind))
    except (RecursionError, ValueError, TypeError, MemoryError):
        pass


@attack()
def recursion_through_numpy():
    def down(x):
        return np.apply_along_axis(down, 0, x)

    def ufunc(x):
        return np.frompyfunc(ufunc, 1, 1)(np.array([x], object))[0]

    class Calls:
        def __array_ufunc__(self, f, method, *args, **kwargs):
            return f(*args)

        def __array_function__(self, f, types, args, kwargs):
            return f(*args)

        def __add__(self, other):
            return np.add(self, other)

    for attempt in (lambda: down(np.ones(3)), lambda: ufunc(1), lambda: np.add(Calls(), 1), lambda: np.sum(Calls()), lambda: Calls() + 1):
        try:
            attempt()
        except (RecursionError, MemoryError):
            pass


@attack()
def recursion_through_pandas():
    frame = pd.DataFrame({"a": [1, 2]})

    def down(x):
        return frame.groupby("a").apply(down)

    def pipe(x):
        return x.pipe(pipe)

    def mapped(x):
        return pd.Series([x]).map(mapped)

    for attempt in (lambda: down(1), lambda: pipe(frame), lambda: mapped(1), lambda: frame.apply(lambda c: mapped(1))):
        try:
            attempt()
        except (RecursionError, MemoryError, ValueError, AttributeError):
            pass


@attack()
def json_nested_deeply():
    for attempt in (lambda: pd.read_json(io.StringIO("[" * 200_000)), lambda: pd.read_json(io.StringIO('{"a":' * 5000 + "1" + "}" * 5000)), lambda: pd.json_normalize(nested(3000)), lambda: pd.Series([nested(3000)]).to_json(), lambda: pd.Series([nested(900)]).to_json()):
        try:
            attempt()
        except (RecursionError, ValueError, OverflowError, AttributeError, MemoryError):
            pass


def nested(depth):
    thing = {}
    for _ in range(depth):
        thing = {"a": thing}
    return thing


# Files.


@attack(ValueError)
def pickle_in_npy():
    np.save(path("a.npy"), np.array([Lies], object), allow_pickle=True)
    np.load(path("a.npy"))


@attack(ValueError)
def pickle_in_npz():
    np.savez(path("a.npz"), x=np.array([Lies], object), allow_pickle=True)
    np.load(path("a.npz"))["x"]


@attack()
def damaged_npy():
    out = io.BytesIO()
    np.save(out, np.arange(100))
    good = bytearray(out.getvalue())
    random = np.random.default_rng(0)
    for _ in range(500):
        bad = bytearray(good[: random.integers(0, len(good))] if random.random() < 0.3 else good)
        for _ in range(random.integers(1, 6)):
            if bad:
                bad[random.integers(0, min(len(bad), 128))] = random.integers(0, 256)
        try:
            np.load(io.BytesIO(bytes(bad)))
        except Exception as error:
            assert isinstance(error, (ValueError, EOFError, OSError, SyntaxError, MemoryError, TypeError, OverflowError, KeyError, UnicodeError)) or type(error).__module__ == "tokenize", error


@attack(ValueError, EOFError, MemoryError)
def npy_that_promises_more():
    head = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    np.load(io.BytesIO(head))


@attack(ValueError, EOFError, MemoryError, SyntaxError)
def npy_with_a_huge_header():
    np.load(io.BytesIO(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b"(" * 100_000))


@attack(Exception)
def npz_that_is_no_zip():
    np.load(io.BytesIO(b"PK\x03\x04" + b"\0" * 1000))["x"]


@attack()
def csv_of_rubbish():
    random = np.random.default_rng(1)
    alphabet = np.frombuffer(b'a1,;"\n\r\t \\\x00.-e+\'\xff\xc3', np.uint8)
    for round in range(400):
        text = random.choice(alphabet, random.integers(0, 300)).tobytes()
        for engine in ("c", "python"):
            try:
                pd.read_csv(io.BytesIO(text), engine=engine, encoding_errors=random.choice(["strict", "replace"]), sep=str(random.choice([",", ";", "\t"])))
            except Exception as error:
                assert isinstance(error, (ValueError, UnicodeError, pd.errors.ParserError, pd.errors.EmptyDataError, OverflowError)) or type(error).__module__ == "_csv", error


@attack()
def csv_without_end():
    for text in ('"' + "a" * 3_000_000, "," * 300_000, "a\n" * 300_000 + '"', "1" * 3_000_000, "a,b\n" + "1," * 100_000):
        try:
            pd.read_csv(io.StringIO(text))
        except (ValueError, pd.errors.ParserError, MemoryError):
            pass
    for arguments in ({"nrows": 2**40}, {"skiprows": 2**40}, {"chunksize": 2**40}, {"usecols": [2**40]}, {"names": ["a", "a"]}, {"header": 10**9}, {"dtype": {"a": "nonsense"}}, {"float_precision": "x"}):
        try:
            pd.read_csv(io.StringIO("a,b\n1,2\n"), **arguments)
        except (ValueError, TypeError, OverflowError, MemoryError, StopIteration, pd.errors.ParserError):
            pass


@attack()
def json_of_rubbish():
    random = np.random.default_rng(2)
    alphabet = np.frombuffer(b'{}[]",:123.eE+-truefalsn \\u\xff', np.uint8)
    for _ in range(500):
        text = random.choice(alphabet, random.integers(0, 60)).tobytes()
        try:
            pd.read_json(io.BytesIO(text))
        except Exception as error:
            assert isinstance(error, (ValueError, TypeError, OverflowError, AttributeError, KeyError)), error
    for text in ("1e999999", "-" * 1000, '"\\ud800"', "[1" * 1000, '{"a":[1,2],"b":[1]}', "1" * 5000):
        try:
            pd.read_json(io.StringIO(text))
        except (ValueError, AttributeError, OverflowError):
            pass


@attack()
def excel_of_rubbish():
    out = io.BytesIO()
    pd.DataFrame({"a": range(50)}).to_excel(out)
    good = out.getvalue()
    random = np.random.default_rng(3)
    for _ in range(25):
        bad = bytearray(good)
        for _ in range(20):
            bad[random.integers(0, len(bad))] = random.integers(0, 256)
        try:
            pd.read_excel(io.BytesIO(bytes(bad)))
        except Exception:
            pass
    for data in (b"", b"PK", good[:100], good[:-30], b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600):
        try:
            pd.read_excel(io.BytesIO(data))
            raise AssertionError(data[:8])
        except Exception as error:
            assert not isinstance(error, AssertionError), error


@attack(Exception)
def zip_bomb_as_excel():
    with zipfile.ZipFile(path("bomb.xlsx"), "w", zipfile.ZIP_DEFLATED) as bomb:
        with bomb.open("xl/workbook.xml", "w") as part:
            for _ in range(64):
                part.write(b"<" * 2**20)
    pd.read_excel(path("bomb.xlsx"))


@attack()
def xml_bomb_as_excel():
    out = io.BytesIO()
    pd.DataFrame({"a": [1]}).to_excel(out)
    bomb = io.BytesIO()
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    with zipfile.ZipFile(out) as good, zipfile.ZipFile(bomb, "w") as bad:
        for name in good.namelist():
            text = good.read(name)
            if name == "xl/sharedStrings.xml":
                text = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "lol">{levels}]><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>&e11;</t></si></sst>'.encode()
            bad.writestr(name, text)
    bomb.seek(0)
    try:
        assert len(str(pd.read_excel(bomb))) < 10_000
    except (ValueError, MemoryError, SyntaxError):
        pass


@attack()
def yaml_of_rubbish():
    import yaml

    for text in ("[" * 3000, "{" * 3000, "a: &a [*a]", "&a [&b [*a, *b]]", "!!python/object/apply:os.system ['ls']", "\x00", "- " * 5000, "? " * 3000):
        try:
            yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError):
            pass


# What a sandbox does not have.


@attack(ImportError, OSError, AttributeError, ModuleNotFoundError)
def foreign_functions():
    np.ctypeslib.load_library("libc.so.6", ".")


@attack(ImportError, OSError, ModuleNotFoundError, AttributeError)
def addresses():
    np.ones(3).ctypes.data_as(None)
    raise AttributeError


@attack(ImportError, OSError, ValueError, ModuleNotFoundError)
def mapped_file():
    np.memmap(path("m"), np.uint8, "w+", shape=(100,))


@attack(ImportError, OSError, ValueError, ModuleNotFoundError)
def mapped_npy():
    np.save(path("b.npy"), np.arange(3))
    np.load(path("b.npy"), mmap_mode="r")


@attack(RuntimeError)
def thread():
    threading.Thread(target=np.ones, args=(3,)).start()


# Odds and ends that crossed the C code.


@attack()
def strange_arguments():
    attempts = (
        lambda: np.lib.stride_tricks.as_strided(np.ones(3), (10,), (2**40,)), lambda: np.lib.stride_tricks.as_strided(np.ones(3), (2**30, 2**30), (0, 0)), lambda: np.frombuffer(b"123", np.float64), lambda: np.frombuffer(b"", np.uint8),
        lambda: np.ndarray((5,), np.float64, buffer=b"1234"), lambda: np.ndarray((5,), strides=(2**31 - 1,)), lambda: np.ndarray(buffer=b"12345678", shape=(1,), offset=2**31 - 1),
        lambda: np.fromstring("1 2 x", sep=" "), lambda: np.fromfile(path("none")), lambda: np.fromfile(FOLDER), lambda: np.take(np.ones(3), [2**40]), lambda: np.ones(3)[2**62], lambda: np.ones((2,) * 65), lambda: np.ones((1,) * 64).sum(),
        lambda: np.einsum("i" * 70, np.ones(2)), lambda: np.einsum("ij,jk->ik" * 3, np.ones((2, 2))), lambda: np.dtype("i4," * 10_000), lambda: np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [2**31 - 2]}), lambda: np.dtype(("V", 2**31 - 1)),
        lambda: np.zeros(1, ("U", 2**29)), lambda: np.array(["x"]).astype("U536870911"), lambda: np.char.multiply(["abc"], 2**30), lambda: np.strings.ljust(["a"], 2**31 - 1), lambda: np.datetime64(2**63 - 1, "Y") + np.timedelta64(1, "Y"),
        lambda: np.arange(0, 1, 1e-300), lambda: np.linspace(0, 1, 2**62), lambda: np.bincount([2**40]), lambda: np.bincount([-1]), lambda: np.bincount([2**31 - 2]), lambda: np.unravel_index(2**40, (3, 3)), lambda: np.ravel_multi_index((2**40,), (3,)),
        lambda: np.add.at(np.ones(3), [5], 1), lambda: np.add.reduceat(np.ones(3), [7]), lambda: np.lexsort(()), lambda: np.interp([1], [], []), lambda: np.polyfit([1], [1], 5), lambda: np.roots([0] * 1000), lambda: np.roots([np.nan, 1]),
        lambda: np.linalg.inv(np.zeros((3, 3))), lambda: np.linalg.solve(np.full((3, 3), np.nan), np.ones(3)), lambda: np.linalg.svd(np.full((3, 3), np.nan)), lambda: np.linalg.eig(np.full((3, 3), np.inf)), lambda: np.linalg.cholesky(-np.eye(3)), lambda: np.linalg.qr(np.zeros((0, 3))),
        lambda: np.linalg.lstsq(np.full((3, 2), np.nan), np.ones(3)), lambda: np.linalg.matrix_power(np.eye(2), 2**70), lambda: np.random.seed(-1), lambda: np.random.seed(2**70), lambda: np.random.default_rng(-1), lambda: np.random.choice(0), lambda: np.random.binomial(2**62, 0.5), lambda: np.random.poisson(1e30),
        lambda: np.random.default_rng().integers(2**63, 2**64 + 1), lambda: np.random.default_rng().multinomial(2**62, [0.5, 0.5]), lambda: np.random.default_rng().hypergeometric(2**60, 2**60, 5), lambda: np.float64("1" * 100_000), lambda: np.longdouble("1" * 100_000), lambda: np.int64(2**70), lambda: np.array([2**70], np.int64),
        lambda: np.format_float_positional(1e300, precision=10**6), lambda: np.format_float_scientific(1.0, precision=2**31 - 1), lambda: np.array2string(np.ones(3), precision=2**31 - 1), lambda: np.nditer([np.ones(3)] * 70), lambda: np.broadcast(*[np.ones(1)] * 70), lambda: np.broadcast_to(1, (2**31 - 1,) * 3), lambda: np.frompyfunc(len, 70, 1), lambda: np.frompyfunc(len, 0, 0),
        lambda: np.copyto(np.ones(3), np.ones(4)), lambda: np.resize(np.ones(3), 2**40), lambda: np.ones(3).resize(2**40), lambda: np.ones(3).newbyteorder(), lambda: np.loadtxt(io.StringIO("1 2\n3")), lambda: np.loadtxt(io.StringIO("\0")), lambda: np.genfromtxt(io.StringIO('a,"b\n1')), lambda: np.loadtxt(io.StringIO("1"), max_rows=2**62), lambda: np.trapezoid([]), lambda: np.gradient([1]),
        lambda: np.ones(3).__setstate__((1, 2, 3, 4, 5)), lambda: np.dtype("f8").__setstate__((9,) * 9), lambda: np.ndarray.__reduce__(1), lambda: np.random.MT19937().__setstate__({"state": 5}), lambda: np._core._multiarray_umath._reconstruct(np.ndarray, (2**40,), b"b"), lambda: np.from_dlpack(5), lambda: np.ufunc.__call__(5), lambda: np.add(1), lambda: np.add(np.ones(3), np.ones(3), out=5), lambda: np.packbits(np.ones(3)), lambda: np.searchsorted([1, 2], [1], sorter=[5, 9]),
        lambda: pd.Timestamp(10**30), lambda: pd.Timestamp.max + pd.Timedelta("1D"), lambda: pd.to_datetime("9" * 5000), lambda: pd.to_datetime(["2024-13-45"] * 3), lambda: pd.Timedelta("9" * 500 + " days"), lambda: pd.date_range("2024", periods=-5), lambda: pd.date_range("2024", periods=2**62), lambda: pd.period_range("1", periods=2**40), lambda: pd.Timestamp("2024", tz="Nowhere/Land"), lambda: pd.offsets.BDay(2**60) + pd.Timestamp("2024"),
        lambda: pd.interval_range(0, 2**62), lambda: pd.cut([1, 2], 2**31), lambda: pd.cut([1], 0), lambda: pd.qcut([1, 1], 5), lambda: pd.concat([]), lambda: pd.DataFrame({"a": [1], "b": [1, 2]}), lambda: pd.DataFrame([1, 2]).pivot(index=0, columns=0), lambda: pd.Series([1]).rolling(-1), lambda: pd.Series([1, 2]).rolling(2, win_type="x").sum(), lambda: pd.Series([1, 2]).ewm(alpha=5), lambda: pd.eval("1" + "+1" * 20_000), lambda: pd.eval("__import__('os')"), lambda: pd.DataFrame({"a": [1]}).query("@x"),
        lambda: pd.MultiIndex.from_product([range(10**5), range(10**5), range(10**5)]), lambda: pd.MultiIndex(levels=[[1]], codes=[[5]]), lambda: pd.Categorical.from_codes([5], ["a"]), lambda: pd.Series(["a"]).str.repeat(2**31 - 1), lambda: pd.Series(["a"]).str.extract("("), lambda: pd.Series(["a"]).str.pad(2**31 - 1), lambda: pd.read_fwf(io.StringIO("x"), widths=[2**40]), lambda: pd.read_html(io.StringIO("<table>")), lambda: pd.read_xml(io.StringIO("<a>")), lambda: pd.read_parquet(io.BytesIO(b"PAR1")), lambda: pd.read_hdf(path("x")), lambda: pd.read_pickle(io.BytesIO(b"\x80\x05.")), lambda: pd.read_stata(io.BytesIO(b"<stata_dta>")), lambda: pd.read_sas(io.BytesIO(b"\0" * 2000), format="sas7bdat"), lambda: pd.read_spss(path("x")), lambda: pd.read_sql("select 1", None), lambda: pd.read_clipboard(), lambda: pd.read_orc(io.BytesIO(b"")), lambda: pd.read_feather(io.BytesIO(b"")),
        lambda: pd._libs.algos.take_1d_int64_int64 if False else pd._libs.lib.infer_dtype(5), lambda: pd._libs.hashtable.Int64HashTable(2**31), lambda: pd._libs.join.inner_join(np.array([5, -7]), np.array([5]), 2), lambda: pd._libs.tslibs.tzconversion.tz_convert_from_utc(5, None), lambda: pd.api.extensions.take(np.arange(3), np.array([9])), lambda: pd.Series(range(3)).take([9]), lambda: pd.Series([1]).map(dict.fromkeys(range(10**5))), lambda: pd.factorize(np.array([[1]])), lambda: pd.util.hash_array(np.array([Lies()], object)),
    )  # fmt: skip
    for number, attempt in enumerate(attempts):
        if VERBOSE:
            print(number, end=" ", flush=True)
        try:
            attempt()
        except Exception as error:
            assert not isinstance(error, SystemError), (number, error)


VERBOSE = "-v" in sys.argv
failed = 0
for function, kinds in ATTACKS:
    if VERBOSE:
        print(function.__name__, end=" ", flush=True)
    try:
        function()
        outcome = None
    except Exception as error:
        outcome = error
    good = isinstance(outcome, kinds) if kinds else outcome is None
    failed += not good
    if VERBOSE or not good:
        print(f"{'ok' if good else 'WRONG'} {function.__name__}: {type(outcome).__name__}: {str(outcome)[:150]}", flush=True)
print(f"{len(ATTACKS)} attacks, {failed} wrong")
sys.exit(failed > 0)
