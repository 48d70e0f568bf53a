"""What the data image does once at boot, and whenever a sandbox begins."""

import importlib.util
import io
import os

import numpy
import pandas
from belljar_guest import surroundings

_urandom, _number = os.urandom, int.from_bytes
# The generator behind numpy.random.rand and its like. It was seeded before the image was made.
_reseed = numpy.random.mtrand._rand.seed
# As much as numpy takes as one number. More would cost every sandbox fifty microseconds.
_SEED_BYTES = 4


def _renew():
    _reseed(_number(_urandom(_SEED_BYTES), "little"))


def _warm_up():
    """Does once what programs do most: what pandas imports and prepares only then is in the image."""
    frame = pandas.DataFrame({"key": ["a", "b", "a"], "n": numpy.arange(3), "x": [0.5, numpy.nan, 1.5]})
    frame.groupby("key").agg({"n": "sum", "x": "mean"}).reset_index().merge(frame, on="key").sort_values("n_x")
    frame["when"] = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    frame.set_index("when").n.resample("2D").sum().rolling(2).mean()
    pandas.read_csv(io.StringIO(frame.to_csv(index=False)), parse_dates=["when"])
    pandas.read_json(io.StringIO(frame.to_json(date_format="iso")))
    for text in (repr(frame), frame._repr_html_(), frame.describe().to_string()):
        assert text
    numpy.linalg.solve(numpy.eye(2), numpy.ones(2))


surroundings.renewals.append(_renew)
_warm_up()

if importlib.util.find_spec("belljar_plot") is not None:
    pandas.set_option("plotting.backend", "belljar_plot")
