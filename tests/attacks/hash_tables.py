"""Whatever pandas keeps in hash tables, with less and less memory left: each attempt is right or says that there was none."""

import io

import numpy as np
import pandas as pd

MANY = 100_000
STEP = 2**17
numbers = np.arange(MANY)[::-1].copy()
words = numbers.astype(str).astype(object)
lines = "a\n" + "".join(f"{n}\n" for n in numbers)

# Each counts to MANY.
ATTEMPTS = {
    "unique": lambda: len(pd.unique(numbers)),
    "unique floats": lambda: len(pd.unique(numbers.astype(float))),
    "unique complex": lambda: len(pd.unique(numbers.astype(complex))),
    "unique words": lambda: len(pd.unique(words)),
    "nunique": lambda: pd.Series(words, dtype="str").nunique(),
    "counts": lambda: len(pd.Series(numbers).value_counts(sort=False)),
    "counts of words": lambda: len(pd.Series(words, dtype=object).value_counts(sort=False)),
    "duplicated": lambda: int((~pd.Series(numbers).duplicated()).sum()),
    "duplicated words": lambda: int((~pd.Series(words, dtype=object).duplicated(keep=False)).sum()),
    "isin": lambda: int(pd.Series(numbers).isin(numbers).sum()),
    "factorize": lambda: len(pd.factorize(numbers)[1]),
    "factorize words": lambda: len(pd.factorize(words)[1]),
    "index": lambda: pd.Index(numbers).get_loc(0) + 1,
    "index of words": lambda: pd.Index(words, dtype=object).get_loc("0") + 1,
    "index with repeats": lambda: len(pd.Index(np.r_[numbers, numbers]).get_indexer_non_unique(numbers)[0]) // 2,
    "merge": lambda: len(pd.DataFrame({"k": numbers}).merge(pd.DataFrame({"k": numbers}))),
    "groupby": lambda: len(pd.DataFrame({"k": numbers, "v": 1}).groupby("k").v.sum()),
    "read words": lambda: pd.read_csv(io.StringIO(lines), dtype=str).a.nunique(),
    "read categories": lambda: pd.read_csv(io.StringIO(lines), dtype="category").a.nunique(),
}


def all_but(left):
    """Takes all memory but about so many bytes."""
    held, spared = [], [bytearray(STEP) for _ in range(left // STEP)]
    for size in (2**18, 2**14, 2**10):
        try:
            while True:
                held.append(bytearray(size))
        except MemoryError:
            pass
    return held


def outcomes(attempt):
    seen = set()
    for steps in range(1, 41, 3):
        held = all_but(steps * STEP)
        try:
            seen.add(attempt())
        # The reader's own way to say it.
        except (MemoryError, pd.errors.ParserError) as error:
            text = str(error)
            seen.add("none" if isinstance(error, MemoryError) or "out of memory" in text else text)
        del held
    return seen


odd = {name: seen for name, attempt in ATTEMPTS.items() if not (seen := outcomes(attempt)) <= {MANY, "none"} or "none" not in seen}
