"""Axes as shapes: room for titles, ticks and labels first, then what the data is."""

import math

from . import colors, font
from .axes import _DASHES, _LARGE, _NORMAL, _SMALL, text_width

_TICK = 4
_GAP = 5


def draw(axes, scene, box):
    """Paints axes into a box `(left, top, right, bottom)`."""
    if not axes._frame:
        _without_frame(axes, scene, box)
        return
    left, top, right, bottom = box
    upper = top + (_LARGE * 1.25 * (axes._title.count("\n") + 1) + _GAP * 1.5 if axes._title else 6)
    y_marks = axes.y.marks(max(3, (bottom - upper) / 46))
    labels = max((text_width(text, _SMALL) for _, text in y_marks), default=0)
    inner_left = left + labels + _TICK + _GAP + (_NORMAL + _GAP * 1.6 if axes._ylabel else 2)
    inner_right = right - 6
    x_marks = _x_marks(axes, inner_right - inner_left)
    slanted = _turned(axes, x_marks, inner_right - inner_left)
    below = max((text_width(text, _SMALL) for _, text in x_marks), default=0) + 2 if slanted else _SMALL
    inner_bottom = bottom - below - _TICK - _GAP - (_NORMAL + _GAP * 1.6 if axes._xlabel else 2)
    if inner_right - inner_left < 10 or inner_bottom - upper < 10:
        return
    area = (inner_left, upper, inner_right, inner_bottom)
    place = _placer(axes, area)
    _grid(axes, scene, area, place, x_marks, y_marks)
    for series in axes._series:
        _SERIES[series["kind"]](scene, series, place, area)
    _frame(scene, area)
    _ticks(axes, scene, area, place, x_marks, y_marks, slanted)
    _words(axes, scene, box, area)
    for x, y, text, size, color, anchor in axes._texts:
        px, py = place(x, y)
        if math.isfinite(px) and math.isfinite(py):
            scene.text(px, py, text, size, color, anchor)
    if axes._legend is not None:
        _legend(axes, scene, area, place)


def _x_marks(axes, width):
    """As many as there is room for: labels must not touch."""
    room = max(2, width / 70)
    marks = axes.x.marks(room)
    for _ in range(4):
        widest = max((text_width(text, _SMALL) for _, text in marks), default=0)
        if axes.x.categories or axes.x.ticks is not None or widest * len(marks) * 1.25 <= width:
            break
        room *= 0.7
        marks = axes.x.marks(max(2, room))
    if axes.x.categories and axes.x.ticks is None:
        marks = axes.x.marks(max(2, width / (_SMALL * 1.5)))
    return marks


def _turned(axes, marks, width):
    if axes._turn:
        return float(axes._turn) % 180 > 20
    widest = max((text_width(text, _SMALL) for _, text in marks), default=0)
    return len(marks) > 1 and (widest + 6) * len(marks) > width


def _placer(axes, area):
    left, top, right, bottom = area
    across, along = axes.x.placer(), axes.y.placer()
    far = 1e5

    def bounded(value):
        return min(max(value, -far), far) if value == value else math.nan

    def place(x, y):
        return (
            bounded(left + across(x) * (right - left)) if x == x else math.nan,
            bounded(bottom - along(y) * (bottom - top)) if y == y else math.nan,
        )

    return place


def _grid(axes, scene, area, place, x_marks, y_marks):
    if not axes._grid:
        return
    left, top, right, bottom = area
    low, _ = axes.y.range()
    if axes._grid in ("both", "x"):
        for tick, _ in x_marks:
            x, _ = place(tick, low)
            scene.line([(x, top), (x, bottom)], colors.GRID, 0.8)
    low, _ = axes.x.range()
    if axes._grid in ("both", "y"):
        for tick, _ in y_marks:
            _, y = place(low, tick)
            scene.line([(left, y), (right, y)], colors.GRID, 0.8)


def _frame(scene, area):
    left, top, right, bottom = area
    for line in ([(left, top), (left, bottom)], [(left, bottom), (right, bottom)]):
        scene.line(line, colors.FRAME, 1)
    for line in ([(right, top), (right, bottom)], [(left, top), (right, top)]):
        scene.line(line, (200, 200, 200), 1)


def _ticks(axes, scene, area, place, x_marks, y_marks, slanted):
    left, _, right, bottom = area
    low, _ = axes.y.range()
    for tick, text in x_marks:
        x, _ = place(tick, low)
        scene.line([(x, bottom), (x, bottom + _TICK)], colors.FRAME, 1)
        if slanted:
            scene.text(x + _SMALL * 0.35, bottom + _TICK + 3, text, _SMALL, anchor="end", turned=True)
        else:
            scene.text(x, bottom + _TICK + _SMALL + 1, text, _SMALL)
    low, _ = axes.x.range()
    for tick, text in y_marks:
        _, y = place(low, tick)
        scene.line([(left - _TICK, y), (left, y)], colors.FRAME, 1)
        scene.text(left - _TICK - 3, y + _SMALL * 0.35, text, _SMALL, anchor="end")


def _words(axes, scene, box, area):
    left, top, right, bottom = area
    middle = (left + right) / 2
    if axes._title:
        scene.text(middle, box[1] + _LARGE, axes._title, _LARGE, bold=True)
    if axes._xlabel:
        scene.text(middle, box[3] - 3, axes._xlabel, _NORMAL)
    if axes._ylabel:
        scene.text(box[0] + _NORMAL, (top + bottom) / 2, axes._ylabel, _NORMAL, turned=True)


def _line(scene, series, place, area):
    look = series["look"]
    color, alpha = look["color"][:3], look["alpha"] * look["color"][3]
    points = [place(x, y) for x, y in zip(series["xs"], series["ys"])]
    if look["dash"] in _DASHES and len(points) > 1:
        scene.line(points, color, look["width"], _DASHES[look["dash"]], alpha, area)
    if look["marker"]:
        scene.marks(points, look["marker"], look["radius"], color, alpha, area)


def _points(scene, series, place, area):
    look, radii, shades = series["look"], series["radii"], series["shades"]
    places = [place(x, y) for x, y in zip(series["xs"], series["ys"])]
    groups = {}
    for index, spot in enumerate(places):
        radius = radii[index] if len(radii) > 1 else radii[0]
        shade = shades[index] if shades else look["color"]
        groups.setdefault((round(radius * 4) / 4, shade), []).append(spot)
    # Points at the rim are drawn whole.
    left, top, right, bottom = area
    room = (left - 6, top - 6, right + 6, bottom + 6)
    for (radius, shade), spots in groups.items():
        inside = [s for s in spots if left - 1 <= s[0] <= right + 1 and top - 1 <= s[1] <= bottom + 1]
        scene.marks(inside, look["marker"] or "o", max(radius, 0.5), shade[:3], look["alpha"] * shade[3], room)


def _bars(scene, series, place, area):
    look, level = series["look"], series["level"]
    for index, (a, b, start, end) in enumerate(series["boxes"]):
        shade = series["shades"][index] if series["shades"] else look["color"]
        corners = [(start, a), (end, b)] if level else [(a, start), (b, end)]
        (x0, y0), (x1, y1) = (place(*_positive(corner)) for corner in corners)
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            # On a logarithmic scale a bar has no foot.
            y0 = area[3] if not math.isfinite(y0) else y0
            x0 = area[0] if not math.isfinite(x0) else x0
        gap = look.get("gap", 0.0)
        if gap and x1 - x0 > 4 * gap:
            x0, x1 = x0 + gap, x1 - gap
        scene.area([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], shade[:3], look["alpha"] * shade[3], area)
    for at, low, high in series["spans"] or ():
        ends = [(low, at), (high, at)] if level else [(at, low), (at, high)]
        (x0, y0), (x1, y1) = (place(*end) for end in ends)
        scene.line([(x0, y0), (x1, y1)], colors.TEXT, 1.1, clip=area)
        for x, y in ((x0, y0), (x1, y1)):
            cap = [(x, y - 3), (x, y + 3)] if level else [(x - 3, y), (x + 3, y)]
            scene.line(cap, colors.TEXT, 1.1, clip=area)


def _positive(corner):
    return corner


def _boxes(scene, series, place, area):
    look, upright, half = series["look"], series["upright"], series["width"] / 2
    color = look["color"][:3]

    def at(across, along):
        return place(across, along) if upright else place(along, across)

    for middle, low, lower, median, upper, high, outside in series["boxes"]:
        a, b = middle - half, middle + half
        corners = [at(a, lower), at(b, lower), at(b, upper), at(a, upper)]
        scene.area(corners, color, 0.25, area)
        scene.line([*corners, corners[0]], color, 1.4, clip=area)
        scene.line([at(a, median), at(b, median)], color, 2.4, clip=area)
        for end, start in ((low, lower), (high, upper)):
            scene.line([at(middle, start), at(middle, end)], color, 1.2, clip=area)
            scene.line([at(middle - half / 2, end), at(middle + half / 2, end)], color, 1.2, clip=area)
        if series["outliers"]:
            scene.marks([at(middle, value) for value in outside], "o", 2.4, color, 0.7, area)


def _between(scene, series, place, area):
    look = series["look"]
    piece = []

    def settle():
        if len(piece) > 1:
            outline = [place(x, u) for x, u, _ in piece] + [place(x, w) for x, _, w in reversed(piece)]
            scene.area(outline, look["color"][:3], look["alpha"] * look["color"][3], area)
        piece.clear()

    for x, upper, lower in zip(series["xs"], series["upper"], series["lower"]):
        if math.isfinite(upper) and math.isfinite(lower) and math.isfinite(x):
            piece.append((x, upper, lower))
        else:
            settle()
    settle()


def _ruler(scene, series, place, area):
    look, (left, top, right, bottom) = series["look"], area
    if series["way"] == "y":
        _, y = place(math.nan, series["value"])
        points = [(left, y), (right, y)]
    else:
        x, _ = place(series["value"], math.nan)
        points = [(x, top), (x, bottom)]
    scene.line(points, look["color"][:3], look["width"], _DASHES.get(look["dash"]), look["alpha"], area)


def _nothing(*_):
    """Shares have no axes; they are drawn without."""


_SERIES = {
    "line": _line,
    "points": _points,
    "bars": _bars,
    "boxes": _boxes,
    "between": _between,
    "ruler": _ruler,
    "shares": _nothing,
}


def _legend(axes, scene, area, place):
    entries = [s for s in axes._series if s["label"] is not None and not s["label"].startswith("_")]
    if not entries:
        return
    loc, title = axes._legend
    lines = [title] if title else []
    width = max(text_width(text, _SMALL) for text in [s["label"] for s in entries] + lines) + 40
    height = (len(entries) + len(lines)) * _SMALL * 1.55 + 8
    x, y = _corner(axes, area, place, width, height, loc)
    scene.area([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], colors.PAPER, 0.85)
    border = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    for start, end in zip(border, border[1:]):
        scene.line([start, end], (205, 205, 205), 1)
    at = y + 4 + _SMALL * 1.1
    if title:
        scene.text(x + width / 2, at, title, _SMALL, bold=True)
        at += _SMALL * 1.55
    for series in entries:
        _sample(scene, series, x + 8, at - _SMALL * 0.36)
        scene.text(x + 34, at, series["label"], _SMALL, anchor="start")
        at += _SMALL * 1.55


def _sample(scene, series, x, y):
    look = series["look"]
    color, alpha = look["color"][:3], look.get("alpha", 1.0) * look["color"][3]
    if series["kind"] in ("line", "ruler"):
        if look["dash"] in _DASHES:
            scene.line([(x, y), (x + 20, y)], color, look["width"], _DASHES[look["dash"]], alpha)
        if look.get("marker"):
            scene.marks([(x + 10, y)], look["marker"], look["radius"], color, alpha)
    elif series["kind"] == "points":
        scene.marks([(x + 10, y)], look["marker"] or "o", 3, color, alpha)
    else:
        scene.area([(x, y - 4), (x + 20, y - 4), (x + 20, y + 4), (x, y + 4)], color, max(alpha, 0.3))


_CORNERS = {"upper right": (1, 0), "upper left": (0, 0), "lower left": (0, 1), "lower right": (1, 1)}
_CORNERS.update({"center right": (1, 0.5), "right": (1, 0.5), "center left": (0, 0.5), "center": (0.5, 0.5)})
_CORNERS.update({"upper center": (0.5, 0), "lower center": (0.5, 1)})


def _corner(axes, area, place, width, height, loc):
    left, top, right, bottom = area

    def at(corner):
        across, along = corner
        return (
            left + 8 + across * max(0, right - left - width - 16),
            top + 8 + along * max(0, bottom - top - height - 16),
        )

    if loc in _CORNERS:
        return at(_CORNERS[loc])
    spots = []
    for series in axes._series:
        if "xs" in series:
            lines = [series[name] for name in ("ys", "upper") if name in series]
            step = max(1, len(series["xs"]) // 500)
            spots += [place(x, y) for ys in lines for x, y in list(zip(series["xs"], ys))[::step]]
        for box in series.get("boxes", ()) if series["kind"] == "bars" else ():
            a, b, start, end = box
            for part in (0.1, 0.4, 0.7, 1.0):
                along = start + (end - start) * part
                spots.append(place(along, (a + b) / 2) if series["level"] else place((a + b) / 2, along))

    def hidden(corner):
        x, y = at(corner)
        return sum(x - 4 <= px <= x + width + 4 and y - 4 <= py <= y + height + 4 for px, py in spots)

    return at(min(list(_CORNERS.values())[:4], key=hidden))


def _without_frame(axes, scene, box):
    left, top, right, bottom = box
    if axes._title:
        scene.text((left + right) / 2, top + _LARGE, axes._title, _LARGE, bold=True)
        top += _LARGE * 1.6
    for series in axes._series:
        if series["kind"] == "shares":
            _shares(scene, series, (left, top, right, bottom))
        else:
            _SERIES[series["kind"]](scene, series, _placer(axes, (left, top, right, bottom)), box)


def _shares(scene, series, box):
    left, top, right, bottom = box
    widest = max((font.width(name, _SMALL) for name in series["names"] if name), default=0)
    radius = max(5, min((right - left) / 2 - widest - 14, (bottom - top) / 2 - 16))
    cx, cy = (left + right) / 2, (top + bottom) / 2
    whole, angle = sum(series["sizes"]), math.radians(series["start"])
    for size, name, shade in zip(series["sizes"], series["names"], series["shades"]):
        turn = -2 * math.pi * size / whole
        count = max(2, int(abs(turn) * radius / 3))
        arc = [
            (cx + radius * math.cos(angle + turn * i / count), cy - radius * math.sin(angle + turn * i / count))
            for i in range(count + 1)
        ]
        scene.area([(cx, cy), *arc], shade[:3], shade[3])
        scene.line([(cx, cy), arc[0]], colors.PAPER, 1.5)
        scene.line([(cx, cy), arc[-1]], colors.PAPER, 1.5)
        middle = angle + turn / 2
        dx, dy = math.cos(middle), -math.sin(middle)
        if name:
            anchor = "start" if dx > 0.1 else "end" if dx < -0.1 else "middle"
            scene.text(cx + dx * (radius + 8), cy + dy * (radius + 10) + 4, name, _SMALL, anchor=anchor)
        if series["form"]:
            share = 100 * size / whole
            text = series["form"](share) if callable(series["form"]) else series["form"] % share
            scene.text(cx + dx * radius * 0.62, cy + dy * radius * 0.62 + 4, text, _SMALL, colors.PAPER)
        angle += turn
