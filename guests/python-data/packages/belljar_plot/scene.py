"""What a figure consists of when it is laid out: shapes and texts at places, to be written in two forms."""

import math
from html import escape

from . import font, raster

#: More points than this to a pixel of a line cannot be seen.
_POINTS_A_PIXEL = 4

_SHAPES = {
    "o": lambda r: [raster.circle(0, 0, r)],
    ".": lambda r: [raster.circle(0, 0, r / 2)],
    ",": lambda r: [raster.circle(0, 0, 0.5)],
    "s": lambda r: [[(-r, -r), (r, -r), (r, r), (-r, r)]],
    "D": lambda r: [[(0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)]],
    "d": lambda r: [[(0, -1.3 * r), (0.8 * r, 0), (0, 1.3 * r), (-0.8 * r, 0)]],
    "^": lambda r: [[(0, -1.2 * r), (1.1 * r, 0.9 * r), (-1.1 * r, 0.9 * r)]],
    "v": lambda r: [[(0, 1.2 * r), (1.1 * r, -0.9 * r), (-1.1 * r, -0.9 * r)]],
    "<": lambda r: [[(-1.2 * r, 0), (0.9 * r, 1.1 * r), (0.9 * r, -1.1 * r)]],
    ">": lambda r: [[(1.2 * r, 0), (-0.9 * r, 1.1 * r), (-0.9 * r, -1.1 * r)]],
    "x": lambda r: raster.outline([(-r, -r), (r, r)], r / 4) + raster.outline([(-r, r), (r, -r)], r / 4),
    "+": lambda r: raster.outline([(-1.2 * r, 0), (1.2 * r, 0)], r / 4)
    + raster.outline([(0, -1.2 * r), (0, 1.2 * r)], r / 4),
    "*": lambda r: [
        [
            (
                (1.4 if index % 2 == 0 else 0.6) * r * math.sin(index * math.pi / 5),
                -(1.4 if index % 2 == 0 else 0.6) * r * math.cos(index * math.pi / 5),
            )
            for index in range(10)
        ]
    ],
}

MARKERS = tuple(_SHAPES)


class Scene:
    """Shapes in the order in which they are painted. Lengths are points of which 100 make an inch."""

    def __init__(self, width, height, color):
        self.width, self.height, self.color = width, height, color
        self.items = []

    def line(self, points, color, width=1.5, dash=None, alpha=1.0, clip=None):
        for piece in _unbroken(points):
            self.items.append(("line", _thinned(piece), color, width, dash, alpha, clip))

    def area(self, points, color, alpha=1.0, clip=None):
        if len(points) > 2 and all(math.isfinite(x) and math.isfinite(y) for x, y in points):
            self.items.append(("area", points, color, alpha, clip))

    def marks(self, places, marker, radius, color, alpha=1.0, clip=None):
        places = [(x, y) for x, y in places if math.isfinite(x) and math.isfinite(y)]
        if places:
            self.items.append(("marks", places, marker, radius, color, alpha, clip))

    def text(self, x, y, text, size=11, color=(38, 38, 38), anchor="middle", turned=False, bold=False):
        for number, line in enumerate(str(text).split("\n")):
            dx, dy = (number * size * 1.25, 0) if turned else (0, number * size * 1.25)
            self.items.append(("text", x + dx, y + dy, line, size, color, anchor, turned, bold))

    def png(self, dpi):
        """The scene as a PNG file."""
        scale = dpi / 100
        canvas = raster.Canvas(round(self.width * scale), round(self.height * scale), self.color)
        for kind, *rest in self.items:
            _PAINT[kind](canvas, scale, *rest)
        return canvas.png(dpi)

    def svg(self):
        """The scene as an SVG document."""
        width, height = _number(self.width), _number(self.height)
        clips, body = {}, []
        for kind, *rest in self.items:
            body.append(_WRITE[kind](clips, *rest))
        boxes = "".join(
            f'<clipPath id="{name}"><rect x="{_number(x0)}" y="{_number(y0)}" width="{_number(x1 - x0)}" '
            f'height="{_number(y1 - y0)}"/></clipPath>'
            for (x0, y0, x1, y1), name in clips.items()
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}"><defs>{boxes}</defs>'
            f'<rect width="{width}" height="{height}" fill="{_hex(self.color)}"/>' + "".join(body) + "</svg>"
        )


def _unbroken(points):
    """A line without its gaps."""
    piece, pieces = [], []
    for point in points:
        if math.isfinite(point[0]) and math.isfinite(point[1]):
            piece.append(point)
        elif piece:
            pieces.append(piece)
            piece = []
    if piece:
        pieces.append(piece)
    return pieces


def _thinned(points):
    """A line with no more points than can be seen: of each column the first, last, highest and lowest."""
    spread = max(x for x, _ in points) - min(x for x, _ in points)
    if len(points) <= 2000 or len(points) <= _POINTS_A_PIXEL * 4 * spread:
        return points
    kept, column, group = [], None, []

    def settle():
        if group:
            lowest = min(group, key=lambda item: item[1][1])
            highest = max(group, key=lambda item: item[1][1])
            chosen = sorted({group[0][0]: group[0], lowest[0]: lowest, highest[0]: highest, group[-1][0]: group[-1]}.values())
            kept.extend(point for _, point in chosen)

    for index, point in enumerate(points):
        place = math.floor(point[0] * 2)
        if place != column:
            settle()
            column, group = place, []
        group.append((index, point))
    settle()
    return kept


def _scaled(points, scale):
    return [(x * scale, y * scale) for x, y in points]


def _clipped(canvas, clip, scale):
    if clip is None:
        canvas.clip = (0, 0, canvas.width, canvas.height)
    else:
        left, top, right, bottom = (value * scale for value in clip)
        canvas.clip = (
            max(0, math.floor(left)),
            max(0, math.floor(top)),
            min(canvas.width, math.ceil(right)),
            min(canvas.height, math.ceil(bottom)),
        )


def _paint_line(canvas, scale, points, color, width, dash, alpha, clip):
    _clipped(canvas, clip, scale)
    width = max(width * scale, 0.9)
    if len(points) == 2 and dash is None and _is_straight(points):
        points = _snapped(points, scale, width)
    else:
        points = _scaled(points, scale)
    pattern = [part * scale for part in dash] if dash else None
    canvas.stroke([points], color, width, alpha, pattern)


def _is_straight(points):
    (x0, y0), (x1, y1) = points
    return x0 == x1 or y0 == y1


def _snapped(points, scale, width):
    """A level or upright line on whole pixels, where it is crisp."""
    half = (round(width) % 2) / 2
    snap = lambda value: math.floor(value * scale) + half  # noqa: E731
    (x0, y0), (x1, y1) = points
    if x0 == x1:
        return [(snap(x0), y0 * scale), (snap(x0), y1 * scale)]
    return [(x0 * scale, snap(y0)), (x1 * scale, snap(y0))]


def _paint_area(canvas, scale, points, color, alpha, clip):
    _clipped(canvas, clip, scale)
    canvas.fill([_scaled(points, scale)], color, alpha)


def _paint_marks(canvas, scale, places, marker, radius, color, alpha, clip):
    _clipped(canvas, clip, scale)
    shape = _SHAPES[marker](radius * scale)
    if all(len(points) > 2 for points in shape):
        canvas.stamp(_scaled(places, scale), [_turned_alike(points) for points in shape], color, alpha)


def _turned_alike(points):
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, points[1:] + points[:1]))
    return points if area > 0 else points[::-1]


def _paint_text(canvas, scale, x, y, text, size, color, anchor, turned, bold):
    _clipped(canvas, None, scale)
    unit = size * scale / font.EM
    across = font.width(text, size) * scale * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    weight = font.WEIGHT * unit * (1.45 if bold else 1.0)
    radius = max(weight, 1.0) / 2
    shapes, at = [], 0.0
    for advance, strokes in font.glyphs(text):
        for stroke in strokes:
            placed = [((px + at) * unit - across, -py * unit) for px, py in stroke]
            if turned:
                placed = [(dy, -dx) for dx, dy in placed]
            points = [(x * scale + dx, y * scale + dy) for dx, dy in placed]
            shapes += raster.outline(points, radius * 1.35 if len(points) == 1 else radius)
        at += advance
    if shapes:
        canvas.fill(shapes, color)


_PAINT = {"line": _paint_line, "area": _paint_area, "marks": _paint_marks, "text": _paint_text}


def _number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _hex(color):
    return "#%02x%02x%02x" % tuple(color)


def _path(points, closed=False):
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points) + ("Z" if closed else "")


def _inside(clips, clip):
    if clip is None:
        return ""
    return f' clip-path="url(#{clips.setdefault(clip, f"c{len(clips)}")})"'


def _opacity(name, alpha):
    return "" if alpha >= 1 else f' {name}="{_number(alpha)}"'


def _write_line(clips, points, color, width, dash, alpha, clip):
    pattern = f' stroke-dasharray="{" ".join(map(_number, dash))}"' if dash else ""
    return (
        f'<path d="{_path(points)}" fill="none" stroke="{_hex(color)}" stroke-width="{_number(width)}" '
        f'stroke-linejoin="round" stroke-linecap="round"{pattern}{_opacity("stroke-opacity", alpha)}'
        f"{_inside(clips, clip)}/>"
    )


def _write_area(clips, points, color, alpha, clip):
    return (
        f'<path d="{_path(points, closed=True)}" fill="{_hex(color)}"{_opacity("fill-opacity", alpha)}'
        f"{_inside(clips, clip)}/>"
    )


def _write_marks(clips, places, marker, radius, color, alpha, clip):
    look = f'fill="{_hex(color)}"{_opacity("fill-opacity", alpha)}{_inside(clips, clip)}'
    if marker == "o":
        dots = "".join(
            f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"/>' for x, y in places
        )
        return f"<g {look}>{dots}</g>"
    shape = [_turned_alike(points) for points in _SHAPES[marker](radius)]
    paths = "".join(
        _path([(x + dx, y + dy) for dx, dy in points], closed=True) for x, y in places for points in shape
    )
    return f'<path d="{paths}" {look}/>'


def _write_text(_, x, y, text, size, color, anchor, turned, bold):
    turn = f' transform="rotate(-90 {_number(x)} {_number(y)})"' if turned else ""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{_number(size)}" fill="{_hex(color)}" text-anchor="{anchor}"{weight}{turn}>'
        f"{escape(_printable(text))}</text>"
    )


def _printable(text):
    """Without what XML cannot hold."""
    return "".join(c for c in text if c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")


_WRITE = {"line": _write_line, "area": _write_area, "marks": _write_marks, "text": _write_text}
