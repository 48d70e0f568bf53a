"""Files of rubbish, what a sandbox does not have, and strange arguments: part of hostile.py."""

import io
import os
import sys
import tempfile
import threading
import zipfile

import numpy as np
import pandas as pd
from hostile_registry import attack

FOLDER = tempfile.mkdtemp()
VERBOSE = "-v" in sys.argv


def path(name):
    return os.path.join(FOLDER, name)


# Files.


@attack(ValueError)
def pickle_in_npy():
    np.save(path("a.npy"), np.array([object], object), allow_pickle=True)
    np.load(path("a.npy"))


@attack(ValueError)
def pickle_in_npz():
    np.savez(path("a.npz"), x=np.array([object], object), allow_pickle=True)
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
        lambda: pd._libs.algos.take_1d_int64_int64 if False else pd._libs.lib.infer_dtype(5), lambda: pd._libs.hashtable.Int64HashTable(2**31), lambda: pd._libs.join.inner_join(np.array([5, -7]), np.array([5]), 2), lambda: pd._libs.tslibs.tzconversion.tz_convert_from_utc(5, None), lambda: pd.api.extensions.take(np.arange(3), np.array([9])), lambda: pd.Series(range(3)).take([9]), lambda: pd.Series([1]).map(dict.fromkeys(range(10**5))), lambda: pd.factorize(np.array([[1]])), lambda: pd.util.hash_array(np.array([object()], object)),
    )  # fmt: skip
    for number, attempt in enumerate(attempts):
        if VERBOSE:
            print(number, end=" ", flush=True)
        try:
            attempt()
        except Exception as error:
            assert not isinstance(error, SystemError), (number, error)
