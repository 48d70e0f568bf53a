"""What arrays and frames cost: the same operations in any interpreter that has numpy and pandas.

    python3 speed.py

Prints one line of JSON: by name the median of the seconds that an operation takes. Compare with
the native wheels on one thread (OPENBLAS_NUM_THREADS=1).
"""

import io
import json
import time

import numpy as np
import pandas as pd

# An operation is measured until it has taken this long, at least and at most so many times.
SECONDS, LEAST, MOST = 0.12, 3, 40


def operations():
    """Name and function of each. Data are made once, from a fixed seed."""
    random = np.random.default_rng(7)
    n = 1_000_000
    x, y = random.random(n), random.random(n) + 0.5
    whole = random.integers(0, 1_000_000_000, n)
    few = random.integers(0, 1000, 200_000)
    a, b = random.random((300, 300)), random.random((300, 300))
    right = random.random(300)
    yield "add 1e6", lambda: x + y
    yield "multiply and add 1e6", lambda: x * 2.0 + y
    yield "divide 1e6", lambda: x / y
    yield "sqrt 1e6", lambda: np.sqrt(x)
    yield "exp 1e6", lambda: np.exp(x)
    yield "log 1e6", lambda: np.log(y)
    yield "sin 1e6", lambda: np.sin(x)
    yield "sum 1e6", lambda: x.sum()
    yield "mean of columns 1000x1000", lambda: x.reshape(1000, 1000).mean(axis=0)
    yield "std 1e6", lambda: x.std()
    yield "max 1e6", lambda: x.max()
    yield "argmax 1e6", lambda: x.argmax()
    yield "cumsum 1e6", lambda: x.cumsum()
    yield "compare and select 1e6", lambda: x[x > 0.5]
    yield "where 1e6", lambda: np.where(x > 0.5, x, y)
    yield "sort 1e6 float64", lambda: np.sort(x)
    yield "sort 1e6 int64", lambda: np.sort(whole)
    yield "argsort 1e6", lambda: np.argsort(x)
    yield "unique 2e5", lambda: np.unique(few)
    yield "histogram 1e6", lambda: np.histogram(x, bins=50)
    yield "matmul 300x300", lambda: a @ b
    yield "solve 300x300", lambda: np.linalg.solve(a, right)
    yield "svd 100x100", lambda: np.linalg.svd(a[:100, :100])
    yield "fft 2**17", lambda: np.fft.fft(x[: 2**17])
    yield "random normal 1e6", lambda: random.standard_normal(n)

    rows = 100_000
    frame = pd.DataFrame(
        {
            "key": random.integers(0, 500, rows),
            "name": random.choice(["Oslo", "Rome", "Lima", "Cairo", "Quito"], rows),
            "n": random.integers(0, 1000, rows),
            "x": random.random(rows),
        }
    )
    other = pd.DataFrame({"key": np.arange(500), "weight": random.random(500)})
    text = frame.iloc[:20_000].to_csv(index=False)
    some, dated = frame.iloc[:20_000], frame.set_index(pd.date_range("2024-01-01", periods=rows, freq="min"))
    yield "groupby sum 1e5", lambda: frame.groupby("key")["x"].sum()
    yield "groupby text mean 1e5", lambda: frame.groupby("name")[["n", "x"]].mean()
    yield "merge 1e5", lambda: frame.merge(other, on="key")
    yield "sort_values 1e5", lambda: frame.sort_values("x")
    yield "filter rows 1e5", lambda: frame[(frame.n > 500) & (frame.x < 0.5)]
    yield "value_counts 1e5", lambda: frame["name"].value_counts()
    yield "rolling mean 1e5", lambda: frame["x"].rolling(50).mean()
    yield "resample hours 1e5", lambda: dated["x"].resample("h").mean()
    yield "pivot_table 1e5", lambda: frame.pivot_table(index="key", columns="name", values="x", aggfunc="mean")
    yield "text upper 2e4", lambda: some["name"].str.upper()
    yield "text contains 2e4", lambda: some["name"].str.contains("o")
    yield "apply 2e4", lambda: some["x"].apply(lambda value: value * 2 + 1)
    yield "read_csv 20k rows", lambda: pd.read_csv(io.StringIO(text))
    yield "to_csv 20k rows", lambda: some.to_csv(index=False)
    yield "to_json 20k rows", lambda: some.to_json(orient="records")
    yield "describe 1e5", lambda: frame.describe()


def seconds_of(operation):
    clock = time.perf_counter
    operation()
    times = []
    while len(times) < LEAST or (len(times) < MOST and sum(times) < SECONDS):
        begin = clock()
        operation()
        times.append(clock() - begin)
    return sorted(times)[len(times) // 2]


print(json.dumps({name: seconds_of(operation) for name, operation in operations()}))
