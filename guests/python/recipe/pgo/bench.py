"""Seven small kernels; prints the best time of each as JSON.

    bench.py [BASELINE.json]    with a baseline, also prints the ratios to it
"""

import json
import math
import re
import sys
import time


def recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(27)


def integer_loop():
    total = 0
    for i in range(5_000_000):
        total += i * i % 7
    return total


def sieve():
    size = 1_000_000
    flags = bytearray([1]) * (size + 1)
    i = 2
    while i * i <= size:
        if flags[i]:
            flags[i * i :: i] = bytes(len(flags[i * i :: i]))
        i += 1
    return sum(flags)


def string_keys():
    counts = {}
    for i in range(300_000):
        key = "k%d" % (i % 5000)
        counts[key] = counts.get(key, 0) + len(key)
    return sum(counts.values())


def bodies():
    x = [0.1 * i for i in range(60)]
    v = [0.0] * 60
    for _ in range(40):
        for i in range(60):
            a = 0.0
            for j in range(60):
                if i != j:
                    dx = x[j] - x[i]
                    a += dx / math.sqrt(dx * dx * dx * dx + 0.01)
            v[i] += a * 0.001
        for i in range(60):
            x[i] += v[i]
    return x[0]


def json_and_regex():
    rows = [{"id": i, "name": "n%d" % i, "v": [i, i * 2.5, None, True]} for i in range(5000)]
    n = 0
    for _ in range(5):
        text = json.dumps(rows)
        n += len(json.loads(text)) + len(re.findall(r'"name": "n(\d+)"', text))
    return n


class Point:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a

    def plus(self, b):
        return self.a + b


def objects():
    total = 0
    for i in range(600_000):
        total += Point(i).plus(1)
    return total


KERNELS = [recursion, integer_loop, sieve, string_keys, bodies, json_and_regex, objects]


def best_time(kernel, tries=5):
    best = math.inf
    for _ in range(tries):
        began = time.perf_counter()
        kernel()
        best = min(best, time.perf_counter() - began)
    return best


def main(baseline=None):
    times = {kernel.__name__: round(best_time(kernel) * 1000, 2) for kernel in KERNELS}
    print(json.dumps({"python": sys.version.split()[0], "milliseconds": times}))
    if baseline is not None:
        with open(baseline) as file:
            base = json.load(file)["milliseconds"]
        ratios = {name: times[name] / base[name] for name in times}
        print(" ".join(f"{name}={ratio:.2f}" for name, ratio in ratios.items()), f"geomean={math.prod(ratios.values()) ** (1 / len(ratios)):.3f}")


main(*sys.argv[1:])
