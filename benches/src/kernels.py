"""Small programs that keep an interpreter busy in different ways; prints seconds per kernel as JSON."""

import json
import math
import re
import time


def recursion():
    def ways(n):
        return 1 if n < 2 else ways(n - 1) + ways(n - 2)

    return ways(22)


def integers():
    total = 0
    for i in range(400_000):
        total = (total * 31 + i) % 1_000_003
    return total


def sieve():
    limit = 300_000
    flags = bytearray([1]) * (limit + 1)
    for i in range(2, int(limit**0.5) + 1):
        if flags[i]:
            flags[i * i :: i] = bytes(len(range(i * i, limit + 1, i)))
    return sum(flags)


def strings():
    words = {}
    for i in range(60_000):
        word = f"w{i % 997}"
        words[word] = words.get(word, "")[-3:] + word.upper()
    return len(",".join(words.values()))


def floats():
    x, y, vx, vy = 1.0, 0.0, 0.0, 1.0
    for _ in range(120_000):
        r = math.sqrt(x * x + y * y)
        ax, ay = -x / r**3, -y / r**3
        vx, vy = vx + ax * 0.001, vy + ay * 0.001
        x, y = x + vx * 0.001, y + vy * 0.001
    return x


def documents():
    rows = [{"id": i, "name": f"n{i}", "tags": ["a", None, i * 0.5]} for i in range(4_000)]
    text = json.dumps(rows)
    return len(json.loads(text)) + len(re.findall(r'"name": "n\d+"', text))


class Account:
    def __init__(self, owner, balance):
        self.owner, self.balance = owner, balance

    def move(self, other, amount):
        self.balance -= amount
        other.balance += amount


def objects():
    accounts = [Account(str(i), 100) for i in range(100)]
    for i in range(80_000):
        accounts[i % 100].move(accounts[(i * 7) % 100], 1)
    return sum(account.balance for account in accounts)


def sorting():
    values = [(i * 7919) % 100_003 for i in range(60_000)]
    return sorted(values, key=lambda value: (value % 10, value))[0]


def best_of(kernel, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        kernel()
        times.append(time.perf_counter() - start)
    return min(times)


kernels = (recursion, integers, sieve, strings, floats, documents, objects, sorting)
print(json.dumps({kernel.__name__: best_of(kernel, 5) for kernel in kernels}))
