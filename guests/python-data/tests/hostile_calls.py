"""Arrays and frames too large, objects that lie, recursion: part of hostile.py."""

import io

import numpy as np
import pandas as pd
from hostile_registry import attack

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
def work_when_memory_is_short():
    hog = []
    try:
        while True:
            hog.append(np.ones(4 * 1024 * 1024))
    except MemoryError:
        pass
    numbers = hog.pop()[: 2 * 1024 * 1024].view(np.int64)
    numbers[:] = np.arange(len(numbers))
    for attempt in (
        lambda: np.unique(numbers), lambda: np.fft.fft(numbers), lambda: np.sort(numbers[::-1]), lambda: numbers @ numbers,
        lambda: np.argsort(-numbers), lambda: numbers.astype("U"), lambda: np.linalg.svd(numbers[:10**6].reshape(1000, 1000).astype(float)),
        lambda: pd.unique(numbers), lambda: pd.Series(numbers).value_counts(), lambda: pd.Series(numbers).duplicated(), lambda: pd.Series(numbers).isin(numbers),
        lambda: pd.factorize(numbers), lambda: pd.Index(numbers[::-1]).get_loc(5), lambda: pd.DataFrame({"k": numbers}).merge(pd.DataFrame({"k": numbers})),
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
