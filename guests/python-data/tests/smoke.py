"""What people do with numpy and pandas, once each, with exact expectations: run.sh smoke.

Natively the same: python3 smoke.py (numpy, pandas, openpyxl, PyYAML, tabulate installed).
"""

import io
import os
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd

FOLDER = tempfile.mkdtemp()


def path(name):
    return os.path.join(FOLDER, name)


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}:\n  got    {got!r}\n  wanted {wanted!r}")


def integers_have_64_bits():
    check("arange", str(np.arange(3).dtype), "int64")
    check("array", str(np.array([1]).dtype), "int64")
    check("int", str(np.dtype(int)), "int64")
    check("sum of int8", int(np.full(10, 100, np.int8).sum()), 1000)
    check("sum", int(np.arange(10**6).sum()), 499999500000)
    check("indexing", np.arange(5)[np.array([4, 0])].tolist(), [4, 0])
    check("series", str(pd.Series([1, 2]).dtype), "int64")


def masks_are_heeded():
    mask = np.array([False, True] * 3)
    for kind in (float, np.float32, complex, int):
        x = np.arange(1, 7, dtype=kind)
        check(f"negative {kind}", np.negative(x, out=x.copy(), where=mask).real.tolist(), [1, -2, 3, -4, 5, -6])
        check(f"add {kind}", np.add(x, x, out=x.copy(), where=mask).real.tolist(), [1, 4, 3, 8, 5, 12])
        check(f"sum {kind}", x.sum(where=mask), 12)
    check("long", np.sqrt(np.full(5000, 4.0), out=np.zeros(5000), where=np.arange(5000) % 3 == 0).sum(), 2.0 * 1667)


def comparisons_agree_with_python():
    import operator

    values = [0, 1, 2, 255, -1, -128, 127] * 5
    for kind in "bBhHiIqQfd":
        x = np.array([value % 256 if kind.isupper() else value for value in values[:33]], np.int64).astype(kind)
        y = x[::-1].copy()
        if kind in "fd":
            x[3] = y[30] = np.nan
        for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            one, two, other = compare(x, y), compare(x, x[1]), compare(x[1], y)
            check(f"{compare.__name__} {kind}", one.tolist(), [compare(a, b) for a, b in zip(x.tolist(), y.tolist())])
            check(f"{compare.__name__} {kind}, one number", two.tolist(), [compare(a, x[1].item()) for a in x.tolist()])
            check(f"{compare.__name__} {kind}, with one", other.tolist(), [compare(x[1].item(), b) for b in y.tolist()])


def columns_are_inserted_anywhere():
    frame = pd.DataFrame({"a": [1, 2]})
    frame.insert(0, "first", frame["a"])
    frame.insert(1, "between", frame["a"] * 2)
    frame.insert(3, "last", ["x", "y"])
    frame.insert(2, "more", 0.5)
    both = pd.concat([frame, frame.assign(later=1)])
    check("concat", [both.shape, int(both["a"].sum()), float(both["later"].sum())], [(4, 6), 6, 2.0])
    check("insert", frame.columns.tolist(), ["first", "between", "more", "a", "last"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check("smallest integer", int(np.array([-(2.0**63)]).astype(np.int64)[0]), -(2**63))


def random_streams_are_the_same_everywhere():
    check("PCG64", np.random.default_rng(42).random(3).tolist(), [0.7739560485559633, 0.4388784397520523, 0.8585979199113825])
    check("integers", np.random.default_rng(42).integers(0, 100, 5).tolist(), [8, 77, 65, 43, 43])
    check("normal", np.random.default_rng(42).standard_normal(3).round(12).tolist(), [0.304717079754, -1.03998410624, 0.750451195806])
    np.random.seed(0)
    check("Mersenne twister", np.random.rand(2).tolist(), [0.5488135039273248, 0.7151893663724195])
    check("randn", np.random.randn(2).round(10).tolist(), [0.9787379841, 2.2408931992])
    check("randint", np.random.RandomState(1).randint(0, 1000, 4).tolist(), [37, 235, 908, 72])
    check("sample", pd.Series(range(100)).sample(4, random_state=3).tolist(), [93, 67, 6, 64])


def floating_point_warns():
    one, zero = np.float64(1.0), np.array([0.0])
    for what, words in [
        (lambda: one / zero, "divide by zero encountered in divide"),
        (lambda: zero / zero, "invalid value encountered in divide"),
        (lambda: np.exp(np.array([1e4])), "overflow encountered in exp"),
        (lambda: np.log(zero), "divide by zero encountered in log"),
        (lambda: np.sqrt(np.array([-1.0])), "invalid value encountered in sqrt"),
        (lambda: np.array([1]) // np.array([0]), "divide by zero encountered in floor_divide"),
    ]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            what()
        check(words, [str(w.message) for w in seen], [words])
    with np.errstate(all="raise"):
        try:
            np.float64(1e308) * np.float64(10)
            check("errstate", "nothing", "raised")
        except FloatingPointError as error:
            check("errstate", str(error), "overflow encountered in scalar multiply")


def arrays_compute():
    x = np.linspace(0, 1, 1001)
    check("exp", bool(np.allclose(np.log(np.exp(x)), x, atol=1e-15)), True)
    check("max", (float(x.max()), int(x.argmax())), (1.0, 1000))
    check("nan", bool(np.isnan(np.append(x, np.nan).max())), True)
    a = np.random.default_rng(0).random((60, 60))
    check("solve", bool(np.allclose(a @ np.linalg.solve(a, np.ones(60)), 1)), True)
    check("inv", bool(np.allclose(np.linalg.inv(a) @ a, np.eye(60))), True)
    check("det", bool(np.isclose(np.linalg.det(np.diag([2.0, 3.0])), 6)), True)
    u, s, v = np.linalg.svd(a)
    check("svd", bool(np.allclose(u * s @ v, a)), True)
    w, vectors = np.linalg.eigh(a + a.T)
    check("eigh", bool(np.allclose((vectors * w) @ vectors.T, a + a.T)), True)
    check("fft", bool(np.allclose(np.fft.ifft(np.fft.fft(x)), x)), True)
    check("unique", np.unique([3, 1, 3, 2]).tolist(), [1, 2, 3])
    check("sort", np.sort(a.ravel()).tolist(), sorted(a.ravel().tolist()))
    check("print", str(np.array([[1.5, 2], [3, 4]])), "[[1.5 2. ]\n [3.  4. ]]")


def arrays_are_kept_in_files():
    np.save(path("a.npy"), np.arange(6).reshape(2, 3))
    check("load", np.load(path("a.npy")).tolist(), [[0, 1, 2], [3, 4, 5]])
    np.savez_compressed(path("b.npz"), x=np.ones(2), y=np.array(["t"]))
    with np.load(path("b.npz")) as archive:
        check("npz", (archive["x"].tolist(), archive["y"].tolist()), ([1.0, 1.0], ["t"]))
    np.savetxt(path("c.txt"), [[1, 2.5]])
    check("loadtxt", np.loadtxt(path("c.txt")).tolist(), [1.0, 2.5])
    np.arange(4, dtype=np.int16).tofile(path("d"))
    check("fromfile", np.fromfile(path("d"), np.int16).tolist(), [0, 1, 2, 3])
    np.save(path("e.npy"), np.array([{}], object), allow_pickle=True)
    refused("a pickle", lambda: np.load(path("e.npy")), ValueError, "Object arrays cannot be loaded when allow_pickle=False")


def frames_compute():
    frame = pd.DataFrame({"key": list("abca"), "n": range(4), "x": [0.5, np.nan, 1.5, 2.5]})
    check("groupby", frame.groupby("key")["x"].sum().to_dict(), {"a": 3.0, "b": 0.0, "c": 1.5})
    other = pd.DataFrame({"key": ["a", "c"], "w": [10, 20]})
    check("merge", frame.merge(other, on="key", how="left")["w"].fillna(0).tolist(), [10.0, 0.0, 20.0, 10.0])
    check("pivot", frame.pivot_table(index="key", values="n", aggfunc="sum")["n"].to_dict(), {"a": 3, "b": 1, "c": 2})
    check("sort_values", frame.sort_values("x", ascending=False)["n"].tolist(), [3, 2, 0, 1])
    check("rolling", frame["n"].rolling(2).sum().tolist()[1:], [1.0, 3.0, 5.0])
    check("str", frame["key"].str.upper().tolist(), ["A", "B", "C", "A"])
    check("value_counts", frame["key"].value_counts().to_dict(), {"a": 2, "b": 1, "c": 1})
    check("describe", frame["n"].describe().round(3).tolist(), [4.0, 1.5, 1.291, 0.0, 0.75, 1.5, 2.25, 3.0])
    check("query", frame.query("n > 1 and x < 2")["key"].tolist(), ["c"])
    check("eval", frame.eval("n * 2 + 1").tolist(), [1, 3, 5, 7])
    check("html", frame.head(1)._repr_html_().count("<td>"), 3)
    check("repr", repr(frame.head(2)), "  key  n    x\n0   a  0  0.5\n1   b  1  NaN")


def time_has_zones():
    moments = pd.date_range("2024-03-31", periods=3, freq="h", tz="Europe/Berlin")
    check("across the change", [str(m) for m in moments][2], "2024-03-31 03:00:00+02:00")
    check("convert", str(pd.Timestamp("2024-01-01", tz="UTC").tz_convert("America/New_York")), "2023-12-31 19:00:00-05:00")
    check("resample", pd.Series(range(4), index=pd.date_range("2024", periods=4, freq="12h")).resample("D").sum().tolist(), [1, 5])
    check("parse", str(pd.to_datetime("3 May 2024 10:00")), "2024-05-03 10:00:00")
    import pytz
    from dateutil import tz

    check("pytz", str(pytz.timezone("Asia/Tokyo")), "Asia/Tokyo")
    check("dateutil", tz.gettz("Europe/Rome") is not None, True)


def frames_are_kept_in_files():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y, z"], "c": pd.to_datetime(["2024-01-01", "2024-06-01"])})
    frame.to_csv(path("f.csv"), index=False)
    check("csv", pd.read_csv(path("f.csv"), parse_dates=["c"]).equals(frame), True)
    check("python engine", pd.read_csv(path("f.csv"), engine="python")["a"].tolist(), [1, 2])
    check("json", frame.to_json(orient="records", date_format="iso"), '[{"a":1,"b":"x","c":"2024-01-01T00:00:00.000"},{"a":2,"b":"y, z","c":"2024-06-01T00:00:00.000"}]')
    check("read_json", pd.read_json(io.StringIO(frame.to_json()))["a"].tolist(), [1, 2])
    frame.to_excel(path("f.xlsx"), index=False)
    check("excel", pd.read_excel(path("f.xlsx")).equals(frame), True)
    frame.to_pickle(path("f.pkl"))
    check("pickle", pd.read_pickle(path("f.pkl")).equals(frame), True)
    import sqlite3

    with sqlite3.connect(":memory:") as base:
        frame[["a", "b"]].to_sql("t", base, index=False)
        check("sql", pd.read_sql("select b from t where a = 2", base)["b"].tolist(), ["y, z"])
    check("markdown", frame[["a"]].to_markdown(index=False), "|   a |\n|----:|\n|   1 |\n|   2 |")
    import yaml

    check("yaml", yaml.safe_load("a: [1, {b: 2.5}]"), {"a": [1, {"b": 2.5}]})
    check("yaml out", yaml.safe_dump({"a": [1, 2]}), "a:\n- 1\n- 2\n")


def refused(what, attempt, kind, words):
    try:
        attempt()
    except kind as error:
        if words not in str(error):
            check(what, str(error), words)
    else:
        check(what, "nothing", kind.__name__)


CHECKS = [
    integers_have_64_bits, masks_are_heeded, comparisons_agree_with_python, random_streams_are_the_same_everywhere, floating_point_warns,
    arrays_compute, arrays_are_kept_in_files, frames_compute, columns_are_inserted_anywhere, time_has_zones, frames_are_kept_in_files,
]  # fmt: skip
for one in CHECKS:
    one()
    print(one.__name__)
