"""Plots without anything else: a small part of what pyplot can do, under a name of its own.

    import belljar_plot as plt

    plt.plot([1, 4, 9], label="squares")
    plt.legend()
    plt.show()  # as the last line of a cell: the figure comes back as PNG and SVG

Lines, points, bars, histograms, boxes, areas and shares; titles, labels, legends, grids, ticks, log
scales, dates, categories and several plots on a sheet; `savefig` writes PNG and SVG. pandas draws with
it: `frame.plot(kind="bar")`. What it does not have, it says.
"""

from . import frames
from .axes import Axes
from .colors import CYCLE
from .figure import DPI, Figure

__all__ = ["Axes", "CYCLE", "DPI", "Figure"]

_current = None


def figure(num=None, figsize=None, dpi=None, facecolor=None, **_):
    """Begins a new figure."""
    global _current
    _current = Figure(figsize, dpi, facecolor)
    return _current


def gcf():
    """The figure that is drawn on now."""
    return _current if _current is not None else figure()


def gca():
    """The axes that are drawn on now."""
    return gcf().gca()


def sca(axes):
    """Goes on with these axes."""
    global _current
    _current = axes.figure
    _current.axes.remove(axes)
    _current.axes.append(axes)


def subplots(nrows=1, ncols=1, figsize=None, dpi=None, **options):
    """A new figure with a grid of axes."""
    sheet = figure(figsize=figsize, dpi=dpi)
    return sheet, sheet.subplots(nrows, ncols, **options)


def subplot(*place, **_):
    """Axes at a place of the figure: `subplot(2, 1, 1)` or `subplot(211)`."""
    sheet = gcf()
    rows, columns, index = place if len(place) == 3 else (place[0] // 100, place[0] // 10 % 10, place[0] % 10)
    position = ((index - 1) // columns, (index - 1) % columns, rows, columns)
    for axes in sheet.axes:
        if axes.position == position:
            sca(axes)
            return axes
    return sheet.add_subplot(rows, columns, index)


def plot(*args, kind=None, **look):
    """Draws lines; or, with `kind`, what pandas wants drawn of a Series or DataFrame."""
    if kind is not None:
        axes = frames.plot(args[0], kind, **look)
        _take(axes)
        return axes
    return gca().plot(*args, **look)


def _take(axes):
    global _current
    first = axes
    while not isinstance(first, Axes):
        first = first[0]
    _current = first.figure


def hist_series(data, **options):
    """What pandas calls for `Series.hist`."""
    return plot(data, kind="hist", **_known(options))


def hist_frame(data, **options):
    """What pandas calls for `DataFrame.hist`: a histogram for each column."""
    axes = frames.hist_frame(data, **_known(options))
    _take(axes)
    return axes


def boxplot_frame(data, column=None, by=None, **options):
    """What pandas calls for `DataFrame.boxplot`."""
    axes = frames.boxplot_frame(data, column, by, **_known(options))
    _take(axes)
    return axes


def _known(options):
    kept = ("bins", "figsize", "ax", "grid", "column", "title", "color", "alpha", "legend", "label", "density")
    return {name: value for name, value in options.items() if name in kept and value is not None}


def savefig(file, **options):
    """Writes the figure to a file."""
    gcf().savefig(file, **options)


def show(*_, **__):
    """The figure, which is shown if this is the last line of a cell. What is drawn next begins anew."""
    global _current
    shown, _current = gcf(), None
    return shown


def close(*_):
    """Ends the figure that is drawn on."""
    global _current
    _current = None


def clf():
    """Takes everything off the figure."""
    gcf().axes.clear()


def suptitle(title, **options):
    """A title over all plots."""
    gcf().suptitle(title, **options)


def tight_layout(**_):
    """It always is."""


def xlim(*limits, **named):
    """Sets, or tells, what is shown from left to right."""
    return gca().set_xlim(*limits, **named) if limits or named else gca().get_xlim()


def ylim(*limits, **named):
    """Sets, or tells, what is shown from bottom to top."""
    return gca().set_ylim(*limits, **named) if limits or named else gca().get_ylim()


def xticks(ticks=None, labels=None, rotation=None, **_):
    """Where ticks are, and what they are called."""
    axes = gca()
    if ticks is not None:
        axes.set_xticks(ticks, labels, rotation)
    elif rotation is not None:
        axes.tick_params("x", rotation=rotation)


def yticks(ticks=None, labels=None, **_):
    """Where ticks are, and what they are called."""
    if ticks is not None:
        gca().set_yticks(ticks, labels)


def _through(name, method):
    def drawn(*args, **options):
        return getattr(gca(), method)(*args, **options)

    drawn.__name__ = drawn.__qualname__ = name
    drawn.__doc__ = getattr(Axes, method).__doc__
    return drawn


for _name in (
    "scatter step bar barh hist boxplot fill_between stackplot errorbar pie axhline axvline text annotate "
    "legend grid axis tick_params"
).split():
    globals()[_name] = _through(_name, _name)
for _name in ("title", "xlabel", "ylabel", "xscale", "yscale"):
    globals()[_name] = _through(_name, f"set_{_name}")
del _name


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    known = ", ".join(sorted(n for n, v in globals().items() if callable(v) and not n.startswith("_")))
    raise AttributeError(f"belljar_plot has no {name!r}; it has {known}")
