"""Figures as what a cell shows: those that it has shown with pyplot, or left open there."""

from belljar_guest import __builtins__

import functools
import io
import warnings

from belljar_guest import display
from matplotlib import pyplot
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure
from PIL import Image

# No more than these are drawn for one cell: a loop that opens figures is to come to an end. From as
# many on, pyplot itself warns.
MAX_FIGURES = 20
# An SVG of that many shapes is larger than the PNG, and of use to nobody.
MAX_SVG_CHARS = 1024 * 1024
# Several figures are one picture of at most so many pixels, 32 MB; with more it gets smaller.
MAX_PIXELS = 8 * 1024 * 1024
GAP_PIXELS = 10


class Shown:
    """What the cell that runs has shown so far. One of the driver's `display.extras`."""

    def __init__(self):
        self.figures, self.pictures, self.texts, self.svg, self.left_out = [], [], [], None, 0

    def show(self, value):
        """Called when the cell has come to its end: a text and forms, or None."""
        is_figure = issubclass(type(value), Figure)
        if not (Gcf.figs or self.pictures or is_figure):
            return None
        try:
            self.draw_open_figures()
            if is_figure and not any(value is figure for figure in self.figures):
                self.draw(value)
            return self.result()
        except Exception as error:
            # No line of the cell is in its traceback.
            error.add_note("The figures that the cell has left open were being drawn.")
            raise
        finally:
            self.discard()

    def discard(self):
        """The next cell begins with nothing."""
        Gcf.figs.clear()
        self.__init__()

    def draw_open_figures(self):
        """What pyplot has open is drawn as it is now. Then pyplot has nothing open, as in notebooks."""
        try:
            for figure in [Gcf.figs[number].canvas.figure for number in sorted(Gcf.figs)]:
                self.draw(figure)
        finally:
            pyplot.close("all")

    def draw(self, figure):
        # With nothing but its own background it is empty: plt.clf() after plt.show() leaves such a one.
        if len(figure.get_children()) == 1:
            return
        if len(self.pictures) == MAX_FIGURES:
            self.left_out += 1
            return
        png = io.BytesIO()
        _print(figure, png, format="png")
        if not self.pictures:
            self.svg = _as_svg(figure)
        # It keeps its pixels for the next drawing; those of twenty figures would be all the memory there is.
        figure.canvas.renderer = figure.canvas._lastKey = None
        self.pictures.append(png.getvalue())
        self.texts.append(repr(figure))
        self.figures.append(figure)

    def result(self):
        if not self.pictures:
            return None
        if self.left_out:
            self.texts.append(f"<{self.left_out} more, not drawn>")
        alone = len(self.pictures) == 1
        picture = self.pictures[0] if alone else _below_each_other(self.pictures)
        if len(picture) * 4 / 3 > display.MAX_RICH_CHARS:
            warnings.warn(f"a picture of {len(picture)} bytes is too large to be shown; savefig() keeps it", stacklevel=1)
        forms = {"image/png": picture}
        if alone and self.svg is not None:
            forms["image/svg+xml"] = self.svg
        return "\n".join(self.texts), forms


def _print(figure, file, **how):
    colors = {"facecolor": figure.get_facecolor(), "edgecolor": figure.get_edgecolor()}
    figure.canvas.print_figure(file, dpi=figure.dpi, bbox_inches="tight", **colors, **how)


def _as_svg(figure):
    """None if it gets too long, or if there is no memory for it: the picture alone is enough."""
    file = _ShortText()
    try:
        # Without a date, the same figure is the same text.
        _print(figure, file, format="svg", metadata={"Date": None})
    except (_TooLong, MemoryError):
        return None
    return file.getvalue()


class _TooLong(Exception):
    pass


class _ShortText(io.StringIO):
    """Breaks off who writes too much."""

    length = 0

    def write(self, text):
        self.length += len(text)
        if self.length > MAX_SVG_CHARS:
            raise _TooLong
        return super().write(text)


def _below_each_other(pictures):
    """One PNG of several."""
    sizes = [Image.open(io.BytesIO(picture)).size for picture in pictures]
    width, height = max(w for w, _ in sizes), sum(h + GAP_PIXELS for _, h in sizes) - GAP_PIXELS
    scale = min(1, (MAX_PIXELS / (width * height)) ** 0.5)

    def scaled(*lengths):
        return tuple(max(1, int(length * scale)) for length in lengths)

    sheet, top = Image.new("RGBA", scaled(width, height), "white"), 0
    for picture, size in zip(pictures, sizes):
        image = Image.open(io.BytesIO(picture))
        sheet.paste(image if scale == 1 else image.resize(scaled(*size)), (0, int(top * scale)))
        top += size[1] + GAP_PIXELS
    file = io.BytesIO()
    sheet.save(file, "png")
    return file.getvalue()


shown = Shown()
display.extras.append(shown)


@functools.wraps(pyplot.show)
def _show(*args, **kwargs):
    shown.draw_open_figures()


@functools.wraps(Figure.show)
def _show_figure(self, warn=True):
    try:
        shown.draw(self)
    finally:
        Gcf.destroy_fig(self)


# Without a display the originals only warn.
pyplot.show, Figure.show = _show, _show_figure
