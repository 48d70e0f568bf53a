"""Twenty things people do with arrays and frames; prints seconds of each as JSON."""

import io
import json
import time

import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
a, b = rng.random(1_000_000), rng.random(1_000_000)
whole = rng.integers(0, 1000, 1_000_000)
square, other = rng.random((300, 300)), rng.random((300, 300))
symmetric = square + square.T
right = rng.random(300)
frame = pd.DataFrame({"key": whole[:200_000] % 97, "n": whole[:200_000], "x": a[:200_000]})
small = frame.iloc[:50_000]
names = pd.Series([f"name {n % 1000}" for n in range(50_000)])
days = pd.Series(a[:100_000], index=pd.date_range("2020-01-01", periods=100_000, freq="min"))
text = small.to_csv(index=False)
lookup = pd.DataFrame({"key": np.arange(97), "label": [f"k{n}" for n in range(97)]})

OPERATIONS = {
    "add": lambda: a + b,
    "multiply and sum": lambda: (a * b).sum(),
    "exp": lambda: np.exp(a),
    "sine": lambda: np.sin(a),
    "sum": lambda: a.sum(),
    "maximum": lambda: a.max(),
    "comparison": lambda: (a > b).sum(),
    "sort": lambda: np.sort(a),
    "unique": lambda: np.unique(whole),
    "matrix product": lambda: square @ other,
    "solve": lambda: np.linalg.solve(square, right),
    "eigenvalues": lambda: np.linalg.eigvalsh(symmetric),
    "Fourier transform": lambda: np.fft.fft(a[:262_144]),
    "random numbers": lambda: rng.standard_normal(500_000),
    "read_csv": lambda: pd.read_csv(io.StringIO(text)),
    "to_csv": lambda: small.to_csv(index=False),
    "groupby": lambda: frame.groupby("key").agg({"n": "sum", "x": "mean"}),
    "merge": lambda: frame.merge(lookup, on="key"),
    "rolling mean": lambda: days.rolling(60).mean(),
    "strings": lambda: names.str.upper().str.replace("NAME", "N").value_counts(),
}

ROUNDS = 5


def best(work):
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


print(json.dumps({name: best(work) for name, work in OPERATIONS.items()}))
