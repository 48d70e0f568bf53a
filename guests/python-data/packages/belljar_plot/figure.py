"""A sheet with one plot or several, and the forms it can be had in."""

import os

from . import colors
from .axes import _LARGE, Axes
from .scene import Scene

#: Pixels to the inch of a picture, where nobody says how many.
DPI = 120

_MARGIN = 10
_MAX_INCHES = 100


class Figure:
    """A sheet. Shown as a picture where it is the value of a cell."""

    def __init__(self, figsize=None, dpi=None, facecolor=None):
        width, height = figsize if figsize is not None else (6.4, 4.8)
        if not (0 < width <= _MAX_INCHES and 0 < height <= _MAX_INCHES):
            raise ValueError(f"a figure of {width} x {height} inches cannot be drawn")
        self.width, self.height, self.dpi = float(width), float(height), float(dpi or DPI)
        self.color = colors.color(facecolor, colors.PAPER)[:3]
        self.axes = []
        self._title = ""

    def add_subplot(self, rows=1, columns=1, index=1, **_):
        """Axes at a place of a grid, counted from 1: `add_subplot(2, 2, 1)` or `add_subplot(221)`."""
        if rows >= 100 and columns == 1 and index == 1:
            rows, columns, index = rows // 100, rows // 10 % 10, rows % 10
        if not 1 <= index <= rows * columns:
            raise ValueError(f"there is no place {index} in a grid of {rows} x {columns}")
        axes = Axes(self, ((index - 1) // columns, (index - 1) % columns, rows, columns))
        self.axes.append(axes)
        return axes

    def subplots(self, nrows=1, ncols=1, sharex=False, sharey=False, squeeze=True, **_):
        """A grid of axes: one, a list, or a list of lists."""
        grid = [[self.add_subplot(nrows, ncols, r * ncols + c + 1) for c in range(ncols)] for r in range(nrows)]
        for row in grid:
            for axes in row:
                axes.x = grid[0][0].x if sharex else axes.x
                axes.y = grid[0][0].y if sharey else axes.y
        if squeeze and nrows == ncols == 1:
            return grid[0][0]
        if squeeze and 1 in (nrows, ncols):
            return _array([axes for row in grid for axes in row])
        return _array(grid)

    def suptitle(self, title, **_):
        """A title over all plots."""
        self._title = str(title)

    def tight_layout(self, **_):
        """It always is."""

    subplots_adjust = autofmt_xdate = tight_layout

    def set_size_inches(self, width, height=None):
        self.width, self.height = (width, height) if height is not None else width

    def scene(self):
        """All of it as shapes."""
        scene = Scene(self.width * 100, self.height * 100, self.color)
        top = _MARGIN
        if self._title:
            scene.text(scene.width / 2, top + _LARGE + 2, self._title, _LARGE + 2, bold=True)
            top += _LARGE * 1.9
        for axes in self.axes:
            row, column, rows, columns = axes.position
            width, height = (scene.width - 2 * _MARGIN) / columns, (scene.height - top - _MARGIN) / rows
            left, upper = _MARGIN + column * width, top + row * height
            gap = 8 if rows * columns > 1 else 0
            axes.draw(scene, (left + gap, upper + gap / 2, left + width - gap, upper + height - gap / 2))
        return scene

    def to_png(self, dpi=None):
        """The picture as a PNG file's bytes."""
        return self.scene().png(float(dpi or self.dpi))

    def to_svg(self):
        """The picture as an SVG document."""
        return self.scene().svg()

    def savefig(self, file, format=None, dpi=None, **_):
        """Writes a PNG or SVG file; the name's ending, or `format`, says which."""
        if format is None:
            name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else "figure.png"
            format = os.path.splitext(name)[1].lstrip(".").lower() or "png"
            if isinstance(file, (str, os.PathLike)) and not os.path.splitext(name)[1]:
                file = f"{name}.png"
        if format not in ("png", "svg"):
            raise ValueError(f"a figure can be saved as png or svg, not as {format!r}")
        content = self.to_png(dpi) if format == "png" else self.to_svg().encode()
        if hasattr(file, "write"):
            file.write(content)
            return
        with open(file, "wb") as out:
            out.write(content)

    def show(self):
        """The figure itself: as the last expression of a cell it is shown."""
        return self

    def gca(self):
        return self.axes[-1] if self.axes else self.add_subplot()

    def _repr_mimebundle_(self, include=None, exclude=None):
        scene = self.scene()
        return {"image/png": scene.png(self.dpi), "image/svg+xml": scene.svg()}

    def _repr_png_(self):
        return self.to_png()

    def _repr_svg_(self):
        return self.to_svg()

    def __repr__(self):
        return f"<Figure {self.width:g} x {self.height:g} in, {len(self.axes)} axes>"


def _array(grid):
    """As people index it: `axes[0, 1]` needs numpy's arrays; without numpy there are lists."""
    try:
        import numpy
    except ImportError:
        return grid
    made = numpy.empty((len(grid), len(grid[0])) if isinstance(grid[0], list) else len(grid), dtype=object)
    made[...] = grid
    return made
