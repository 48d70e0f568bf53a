"""What the data image does once at boot, and whenever a sandbox begins."""

import io
import os

import _belljar_figures
import matplotlib
import numpy
import pandas
from belljar_guest import surroundings
from matplotlib import pyplot

_urandom, _number = os.urandom, int.from_bytes
# The generator behind numpy.random.rand and its like. It was seeded before the image was made.
_reseed = numpy.random.mtrand._rand.seed
# As much as numpy takes as one number. More would cost every sandbox fifty microseconds.
_SEED_BYTES = 4


def _renew():
    _reseed(_number(_urandom(_SEED_BYTES), "little"))


def _warm_up():
    """Does once what programs do most: what the libraries import and prepare only then is in the image."""
    frame = pandas.DataFrame({"key": ["a", "b", "a"], "n": numpy.arange(3), "x": [0.5, numpy.nan, 1.5]})
    frame.groupby("key").agg({"n": "sum", "x": "mean"}).reset_index().merge(frame, on="key").sort_values("n_x")
    frame["when"] = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    frame.set_index("when").n.resample("2D").sum().rolling(2).mean()
    pandas.read_csv(io.StringIO(frame.to_csv(index=False)), parse_dates=["when"])
    pandas.read_json(io.StringIO(frame.to_json(date_format="iso")))
    for text in (repr(frame), frame._repr_html_(), frame.describe().to_string()):
        assert text
    numpy.linalg.solve(numpy.eye(2), numpy.ones(2))
    settings = matplotlib.rcParams.copy()
    _draw(frame)
    assert matplotlib.rcParams == settings and not pyplot.get_fignums()


def _draw(frame):
    figure, axes = pyplot.subplots(2, 2, layout="tight")
    axes[0, 0].plot(frame.when, frame.n, "o--", label=r"$\frac{x^2}{\sigma_0}$")
    axes[0, 0].set(title="title", xlabel="x", ylabel="y")
    axes[0, 0].legend()
    axes[0, 1].scatter(frame.n, frame.n, c=frame.n)
    figure.colorbar(axes[1, 0].imshow(numpy.eye(3)))
    axes[1, 1].bar(frame.key, frame.n)
    pyplot.figure(layout="constrained")
    pyplot.hist(frame.n)
    pyplot.show()
    frame.plot(x="when", y="n")
    # Several are put into one picture; one alone is an SVG as well, which the first was here.
    shown = _belljar_figures.shown.show(None)
    assert "image/png" in shown[1], shown


# There is no display: without this, pyplot would look for one.
matplotlib.rcParams["backend"] = "agg"
# A path is drawn as a whole unless it is longer than that; a line through 100 000 points of noise would
# take more memory than most sandboxes have.
for _settings in (matplotlib.rcParams, matplotlib.rcParamsDefault, matplotlib.rcParamsOrig):
    _settings["agg.path.chunksize"] = 10_000
surroundings.renewals.append(_renew)
_warm_up()
