"""One plot: what is drawn in it, and how it is laid out."""

import math

from . import colors, font
from .scales import Scale, plain, values
from .scene import MARKERS

_DASHES = {"-": None, "solid": None, "--": (5, 4), "dashed": (5, 4), ":": (1, 3), "dotted": (1, 3)}
_DASHES.update({"-.": (6, 3, 1, 3), "dashdot": (6, 3, 1, 3)})
_SMALL, _NORMAL, _LARGE = 10.5, 11.5, 13.5


class Axes:
    """A pair of axes and what is drawn between them."""

    def __init__(self, figure, position):
        self.figure = figure
        #: Row, column, rows, columns of the grid it stands in.
        self.position = position
        self.x, self.y = Scale(), Scale()
        self._title, self._xlabel, self._ylabel = "", "", ""
        self._grid = False
        self._legend = None
        self._frame = True
        self._turn = 0
        self._series = []
        self._texts = []
        self._used = 0

    # What can be drawn.

    def plot(self, *args, color=None, label=None, linewidth=None, lw=None, linestyle=None, ls=None,
             marker=None, markersize=None, ms=None, alpha=1.0, c=None, drawstyle=None, **unknown):  # fmt: skip
        """Lines: `plot(y)`, `plot(x, y)`, with a format such as `"r--o"`, several in a row."""
        _refuse("plot", unknown)
        drawn = []
        for x, y, style in _groups(args):
            form = _format(style)
            width = _first(linewidth, lw, 1.8)
            dash = _first(linestyle, ls, form.get("dash"), "-" if not form.get("marker") else "none")
            look = {
                "color": self._color(_first(color, c, form.get("color"))),
                "width": float(width),
                "dash": dash,
                "marker": _marker(_first(marker, form.get("marker"))),
                "radius": float(_first(markersize, ms, 5.5)) / 2,
                "alpha": float(alpha),
            }
            if dash not in ("none", "", " ", "None") and dash not in _DASHES:
                raise ValueError(f"there is no line style {dash!r}; there are {', '.join(map(repr, _DASHES))}")
            columns = _columns(y)
            names = _names(label, columns)
            for (own, column), name in zip(columns, names):
                ys = self.y.take(column)
                xs = self.x.take(range(len(ys)) if x is None else x)
                if len(xs) != len(ys):
                    raise ValueError(f"x has {len(xs)} values and y has {len(ys)}")
                if drawstyle and drawstyle.startswith("steps"):
                    xs, ys = _steps(xs, ys)
                drawn.append(self._add("line", name if name is not None else own, look, xs=xs, ys=ys))
                look = {**look, "color": look["color"] if _first(color, c, form.get("color")) else self._color(None)}
            if columns and not _first(color, c, form.get("color")):
                self._used -= 1
        return drawn

    def step(self, x, y, *args, where="pre", **look):
        """A line in steps."""
        return self.plot(x, y, *args, drawstyle=f"steps-{where}", **look)

    def scatter(self, x, y, s=None, c=None, marker="o", alpha=1.0, label=None, color=None, **unknown):
        """Points. `s` is their area; `c` a colour, or a number for each point."""
        _refuse("scatter", unknown, "edgecolors", "edgecolor", "linewidths", "cmap", "zorder")
        xs, ys = self.x.take(x), self.y.take(y)
        if len(xs) != len(ys):
            raise ValueError(f"x has {len(xs)} values and y has {len(ys)}")
        shades = _shades(c, len(xs)) if color is None else None
        single = None if shades else self._color(_first(color, c))
        sizes = [float(plain(size)) for size in values(s)] if s is not None else [28.0]
        radii = [math.sqrt(max(size, 0.0) / math.pi) * 1.1 for size in sizes]
        if len(radii) not in (1, len(xs)):
            raise ValueError(f"there are {len(xs)} points and {len(radii)} sizes")
        look = {"color": single or shades[0], "marker": _marker(marker), "alpha": float(alpha)}
        return self._add("points", label, look, xs=xs, ys=ys, radii=radii, shades=shades)

    def bar(self, x, height, width=0.8, bottom=0, color=None, label=None, alpha=1.0, yerr=None,
            align="center", edgecolor=None, **unknown):  # fmt: skip
        """Upright bars."""
        _refuse("bar", unknown, "linewidth", "zorder", "capsize")
        return self._bars(False, x, height, width, bottom, color, label, alpha, yerr, align)

    def barh(self, y, width, height=0.8, left=0, color=None, label=None, alpha=1.0, xerr=None,
             align="center", edgecolor=None, **unknown):  # fmt: skip
        """Level bars."""
        _refuse("barh", unknown, "linewidth", "zorder", "capsize")
        return self._bars(True, y, width, height, left, color, label, alpha, xerr, align)

    def _bars(self, level, places, lengths, thickness, base, color, label, alpha, errors, align):
        along, across = (self.x, self.y) if level else (self.y, self.x)
        at = across.take(places)
        sizes = [float(plain(value)) for value in values(lengths)]
        if len(sizes) == 1:
            sizes *= len(at)
        if len(at) != len(sizes):
            raise ValueError(f"there are {len(at)} bars and {len(sizes)} lengths")
        bases = [float(plain(value)) for value in values(base)]
        bases = bases * len(at) if len(bases) == 1 else bases
        if across.dates and thickness == 0.8 and len(at) > 1:
            thickness = min(abs(b - a) for a, b in zip(at, at[1:])) * 0.8
        widths = [float(plain(value)) for value in values(thickness)]
        widths = widths * len(at) if len(widths) == 1 else widths
        shift = 0.0 if align == "center" else 0.5
        boxes = []
        for place, size, start, width in zip(at, sizes, bases, widths):
            first = place + (shift - 0.5) * width
            boxes.append((first, first + width, start, start + size))
            across.cover([first, first + width])
            along.cover([start, start + size])
            along.sticky.add(start)
        many = not isinstance(color, str) and color is not None and len(values(color)) == len(at) and len(at) > 0
        shades = [colors.color(one) for one in values(color)] if many and _is_many(color) else None
        look = {"color": shades[0] if shades else self._color(color), "alpha": float(alpha)}
        spans = None
        if errors is not None:
            sides = [abs(float(plain(value))) for value in values(errors)]
            sides = sides * len(at) if len(sides) == 1 else sides
            spans = [(p, s + z - e, s + z + e) for p, z, s, e in zip(at, sizes, bases, sides)]
            along.cover([value for _, a, b in spans for value in (a, b)])
        return self._add("bars", label, look, boxes=boxes, level=level, shades=shades, spans=spans)

    def hist(self, x, bins=10, range=None, density=False, color=None, label=None, alpha=1.0,
             histtype="bar", weights=None, **unknown):  # fmt: skip
        """How often values occur. Gives counts, edges and what was drawn."""
        _refuse("hist", unknown, "edgecolor", "linewidth", "rwidth", "ec")
        groups = [values(part) for part in x] if _is_nested(x) else [values(x)]
        groups = [[n for n in map(plain, group) if not isinstance(n, str) and math.isfinite(n)] for group in groups]
        everything = [n for group in groups for n in group]
        edges = _edges(everything, bins, range)
        names = label if isinstance(label, (list, tuple)) else [label] * len(groups)
        results = []
        for group, name in zip(groups, names):
            counts = _count(group, edges)
            if density and group:
                counts = [n / len(group) / (b - a) for n, a, b in zip(counts, edges, edges[1:])]
            boxes = [(a, b, 0.0, float(n)) for a, b, n in zip(edges, edges[1:], counts)]
            self.x.cover(edges)
            self.y.cover([0.0, *counts])
            self.y.sticky.add(0.0)
            look = {"color": self._color(color), "alpha": float(alpha), "gap": 0.6}
            drawn = self._add("bars", name, look, boxes=boxes, level=False, shades=None, spans=None)
            results.append((counts, drawn))
        counts = results[0][0] if len(groups) == 1 else [result[0] for result in results]
        return counts, edges, [drawn for _, drawn in results]

    def boxplot(self, x, labels=None, tick_labels=None, vert=True, positions=None, widths=0.5, color=None,
                showfliers=True, **unknown):  # fmt: skip
        """Boxes from the lower to the upper quartile, the median in them, whiskers of 1.5 boxes."""
        _refuse("boxplot", unknown, "patch_artist", "notch", "whis", "showmeans", "sym")
        groups = [values(part) for part in x] if _is_nested(x) else [values(x)]
        across, along = (self.x, self.y) if vert else (self.y, self.x)
        at = [float(p) for p in positions] if positions is not None else [float(n + 1) for n in range(len(groups))]
        names = _first(tick_labels, labels)
        boxes = []
        for place, group in zip(at, groups):
            numbers = sorted(n for n in map(plain, group) if not isinstance(n, str) and math.isfinite(n))
            across.cover([place - 0.5, place + 0.5])
            if numbers:
                boxes.append((place, *_quartiles(numbers)))
                along.cover(numbers if showfliers else [boxes[-1][1], boxes[-1][5]])
        across.ticks = at
        across.labels = [str(n) for n in values(names)] if names is not None else [f"{p:g}" for p in at]
        look = {"color": self._color(color), "alpha": 1.0}
        return self._add("boxes", None, look, boxes=boxes, upright=vert, width=float(widths), outliers=showfliers)

    def fill_between(self, x, y1, y2=0, color=None, alpha=0.35, label=None, **unknown):
        """What lies between two lines."""
        _refuse("fill_between", unknown, "linewidth", "step", "zorder")
        xs, upper = self.x.take(x), self.y.take(y1)
        lower = self.y.take(y2)
        lower = lower * len(xs) if len(lower) == 1 else lower
        if not len(xs) == len(upper) == len(lower):
            raise ValueError(f"x has {len(xs)} values, and the lines have {len(upper)} and {len(lower)}")
        look = {"color": self._color(color), "alpha": float(alpha)}
        return self._add("between", label, look, xs=xs, upper=upper, lower=lower)

    def stackplot(self, x, *ys, labels=(), colors=None, alpha=0.8, **unknown):
        """Areas on top of each other."""
        _refuse("stackplot", unknown)
        rows = [values(row) for row in (ys[0] if len(ys) == 1 and _is_nested(ys[0]) else ys)]
        base = [0.0] * len(rows[0]) if rows else []
        drawn = []
        for index, row in enumerate(rows):
            top = [a + float(plain(b)) for a, b in zip(base, row)]
            name = labels[index] if index < len(labels) else None
            shade = colors[index % len(colors)] if colors else None
            drawn.append(self.fill_between(x, top, base, color=shade, alpha=alpha, label=name))
            base = top
        self.y.sticky.add(0.0)
        return drawn

    def errorbar(self, x, y, yerr=None, fmt="", capsize=3, color=None, label=None, **look):
        """A line with how sure each of its points is."""
        (line,) = self.plot(x, y, *([fmt] if fmt else []), color=color, label=label, **look)
        if yerr is not None:
            sides = [abs(float(plain(value))) for value in values(yerr)]
            sides = sides * len(line["ys"]) if len(sides) == 1 else sides
            spans = [(p, v - e, v + e) for p, v, e in zip(line["xs"], line["ys"], sides)]
            self.y.cover([value for _, a, b in spans for value in (a, b)])
            style = {"color": line["look"]["color"], "alpha": 1.0}
            self._add("bars", None, style, boxes=[], level=False, shades=None, spans=spans)
        return line

    def pie(self, x, labels=None, colors=None, autopct=None, startangle=90, **unknown):
        """Shares of a whole."""
        _refuse("pie", unknown, "explode", "shadow", "counterclock", "textprops", "wedgeprops")
        sizes = [float(plain(value)) for value in values(x)]
        if any(size < 0 or not math.isfinite(size) for size in sizes) or not sum(sizes) > 0:
            raise ValueError("shares are numbers from 0 on, and not all 0")
        names = [str(name) for name in values(labels)] if labels is not None else [None] * len(sizes)
        shades = [self._color(colors[i % len(colors)] if colors else None) for i in range(len(sizes))]
        self._frame = False
        look = {"color": shades[0], "alpha": 1.0}
        return self._add("shares", None, look, sizes=sizes, names=names, shades=shades, form=autopct,
                         start=float(startangle))  # fmt: skip

    def axhline(self, y=0, color="0.4", linestyle="--", linewidth=1.2, label=None, **look):
        """A level line from side to side."""
        return self._ruler("y", y, color, _first(look.pop("ls", None), linestyle), _first(look.pop("lw", None), linewidth), label, look)

    def axvline(self, x=0, color="0.4", linestyle="--", linewidth=1.2, label=None, **look):
        """An upright line from top to bottom."""
        return self._ruler("x", x, color, _first(look.pop("ls", None), linestyle), _first(look.pop("lw", None), linewidth), label, look)

    def _ruler(self, way, value, color, dash, width, label, look):
        alpha = look.pop("alpha", 1.0)
        _refuse(f"ax{'h' if way == 'y' else 'v'}line", look, "zorder")
        (number,) = (self.x if way == "x" else self.y).take([value])
        style = {"color": colors.color(color), "dash": dash, "width": float(width), "alpha": float(alpha)}
        return self._add("ruler", label, style, way=way, value=number)

    def text(self, x, y, text, color=None, fontsize=_SMALL, ha="left", **unknown):
        """A text at a place of the plot."""
        _refuse("text", unknown, "va", "horizontalalignment", "verticalalignment", "bbox", "transform", "rotation", "weight")
        anchor = {"left": "start", "center": "middle", "right": "end"}.get(ha, "start")
        (px,), (py,) = self.x.take([x]), self.y.take([y])
        self._texts.append((px, py, str(text), float(fontsize), colors.color(color, colors.TEXT)[:3], anchor))

    def annotate(self, text, xy, xytext=None, **look):
        """A text at a place, moved aside if that is wanted; arrows are not drawn."""
        look.pop("arrowprops", None)
        x, y = xytext if xytext is not None and look.pop("textcoords", None) is None else xy
        self.text(x, y, text, **look)

    # What is said around it.

    def set_title(self, title, **_):
        self._title = str(title)

    def set_xlabel(self, label, **_):
        self._xlabel = str(label)

    def set_ylabel(self, label, **_):
        self._ylabel = str(label)

    def set_xlim(self, left=None, right=None):
        self._limit(self.x, left, right)

    def set_ylim(self, bottom=None, top=None):
        self._limit(self.y, bottom, top)

    def _limit(self, scale, first, last):
        if isinstance(first, (tuple, list)):
            first, last = first
        limits = [None if v is None else scale._number(plain(v)) for v in (first, last)]
        if None not in limits and limits[0] > limits[1]:
            limits, scale.inverted = limits[::-1], True
        scale.limits = tuple(new if new is not None else old for new, old in zip(limits, scale.limits))

    def get_xlim(self):
        return self.x.range()

    def get_ylim(self):
        return self.y.range()

    def set_xscale(self, kind, **_):
        self._scale(self.x, kind)

    def set_yscale(self, kind, **_):
        self._scale(self.y, kind)

    def _scale(self, scale, kind):
        if kind not in ("linear", "log"):
            raise ValueError(f"there is no scale {kind!r}; there are 'linear' and 'log'")
        scale.kind = kind
        if kind == "log" and scale.low <= 0:
            drawn = [n for one in self._series for n in one.get("ys" if scale is self.y else "xs", ())]
            drawn += [n for one in self._series for box in one.get("boxes", ()) for n in box[2:]]
            positive = [n for n in drawn if n > 0]
            scale.low = min(positive) if positive else 1.0
        scale.sticky.discard(0.0)

    def set_xticks(self, ticks, labels=None, rotation=None, **_):
        self._set_ticks(self.x, ticks, labels)
        self._turn = rotation or self._turn

    def set_yticks(self, ticks, labels=None, **_):
        self._set_ticks(self.y, ticks, labels)

    def _set_ticks(self, scale, ticks, labels):
        scale.ticks = [scale._number(plain(value)) for value in values(ticks)]
        scale.labels = [str(label) for label in values(labels)] if labels is not None else None
        if scale.labels is not None and len(scale.labels) != len(scale.ticks):
            raise ValueError(f"there are {len(scale.ticks)} ticks and {len(scale.labels)} labels")

    def set_xticklabels(self, labels, rotation=None, **_):
        self._set_labels(self.x, labels)
        self._turn = rotation or self._turn

    def set_yticklabels(self, labels, **_):
        self._set_labels(self.y, labels)

    def _set_labels(self, scale, labels):
        ticks = scale.ticks if scale.ticks is not None else [float(n) for n in range(len(values(labels)))]
        self._set_ticks(scale, ticks, labels)

    def tick_params(self, axis="both", rotation=None, labelrotation=None, **_):
        if axis in ("x", "both"):
            self._turn = _first(rotation, labelrotation, self._turn)

    def grid(self, visible=True, axis="both", **_):
        self._grid = axis if visible else False

    def legend(self, labels=None, loc="best", title=None, **_):
        """Names of what is drawn. Without a place it goes where it hides least."""
        if labels is not None:
            for series, label in zip((s for s in self._series if s["kind"] != "ruler"), labels):
                series["label"] = str(label)
        self._legend = (loc, title)

    def invert_xaxis(self):
        self.x.inverted = not self.x.inverted

    def invert_yaxis(self):
        self.y.inverted = not self.y.inverted

    def set_axis_off(self):
        self._frame = False

    def axis(self, which=None):
        if which in ("off", False):
            self._frame = False

    def set(self, **settings):
        """Several of these at once: `set(title="…", xlabel="…")`."""
        for name, value in settings.items():
            setter = getattr(self, f"set_{name}", None)
            if setter is None:
                raise AttributeError(f"there is nothing to set called {name!r}")
            setter(*value) if name in ("xlim", "ylim") else setter(value)

    def get_figure(self):
        return self.figure

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.figure._repr_mimebundle_()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        known = ", ".join(n for n in dir(type(self)) if not n.startswith("_"))
        raise AttributeError(f"belljar_plot's axes have no {name!r}; they have {known}")

    # How it is drawn.

    def _add(self, kind, label, look, **what):
        series = {"kind": kind, "label": None if label is None else str(label), "look": look, **what}
        self._series.append(series)
        return series

    def _color(self, wanted):
        if wanted is not None:
            return colors.color(wanted)
        self._used += 1
        return (*colors.CYCLE[(self._used - 1) % len(colors.CYCLE)], 1.0)

    def draw(self, scene, box):
        """Paints it into a box of the scene."""
        from . import drawing

        drawing.draw(self, scene, box)


def _refuse(where, unknown, *ignored):
    wrong = [name for name in unknown if name not in ignored]
    if wrong:
        raise TypeError(f"{where}() does not know {', '.join(map(repr, wrong))}")


def _first(*options):
    return next((option for option in options if option is not None), None)


def _groups(args):
    """`x, y, format` by turns, where x and the format may be missing."""
    rest = list(args)
    while rest:
        first = rest.pop(0)
        second = rest.pop(0) if rest and not isinstance(rest[0], str) else None
        style = rest.pop(0) if rest and isinstance(rest[0], str) else ""
        if second is None:
            index = getattr(first, "index", None)
            yield (index if hasattr(first, "iloc") else None), first, style
        else:
            yield first, second, style


def _columns(y):
    """What is drawn as lines of their own, with the names they bring along."""
    if hasattr(y, "columns") and hasattr(y, "iloc"):
        return [(str(name), y.iloc[:, place]) for place, name in enumerate(y.columns)]
    if getattr(y, "ndim", 1) == 2:
        return [(None, y[:, place]) for place in range(y.shape[1])]
    return [(None, y)]


def _names(label, columns):
    if isinstance(label, (list, tuple)) and len(label) == len(columns):
        return label
    return [label] * len(columns)


def _format(style):
    found, rest = {}, style
    for dash in ("--", "-.", "-", ":"):
        if dash in rest:
            found["dash"], rest = dash, rest.replace(dash, "", 1)
            break
    if len(rest) > 1 and rest[0] == "C" and rest[1].isdigit():
        found["color"], rest = rest[:2], rest[2:]
    for character in rest:
        if character in "rgbcmykw" and "color" not in found:
            found["color"] = character
        elif character in MARKERS and "marker" not in found:
            found["marker"] = character
        else:
            raise ValueError(f"{style!r} is not a format; write a colour, a marker and a line style, as in 'ro--'")
    return found


def _marker(marker):
    if marker in (None, "", "none", "None", " "):
        return None
    if marker not in MARKERS:
        raise ValueError(f"there is no marker {marker!r}; there are {' '.join(MARKERS)}")
    return marker


def _steps(xs, ys):
    stepped = [(xs[0], ys[0])] if xs else []
    for (_, y0), (x1, y1) in zip(zip(xs, ys), zip(xs[1:], ys[1:])):
        stepped += [(x1, y0), (x1, y1)]
    return [x for x, _ in stepped], [y for _, y in stepped]


def _is_nested(data):
    if isinstance(data, str) or getattr(data, "ndim", None) == 1:
        return False
    try:
        first = next(iter(data), None)
    except TypeError:
        return False
    return hasattr(first, "__iter__") and not isinstance(first, str)


def _is_many(color):
    return any(isinstance(part, str) or hasattr(part, "__len__") for part in color)


def _shades(numbers, count):
    """Colours for numbers, from dark blue over green to yellow; None where `numbers` are none."""
    if numbers is None or isinstance(numbers, str):
        return None
    found = values(numbers)
    if len(found) != count or count == 0:
        return None
    if all(isinstance(one, (str, tuple, list)) for one in found):
        return [colors.color(one) for one in found]
    levels = [plain(one) for one in found]
    if any(isinstance(level, str) for level in levels):
        kinds = {name: index for index, name in enumerate(dict.fromkeys(map(str, levels)))}
        return [(*colors.CYCLE[kinds[str(level)] % len(colors.CYCLE)], 1.0) for level in levels]
    finite = [level for level in levels if math.isfinite(level)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    ramp = ((49, 46, 129), (37, 99, 160), (22, 140, 130), (120, 180, 70), (245, 205, 50))

    def shade(level):
        place = (level - low) / (high - low) * 4 if high > low and math.isfinite(level) else 0.0
        index = min(int(place), 3)
        part = place - index
        return (*(round(a + (b - a) * part) for a, b in zip(ramp[index], ramp[index + 1])), 1.0)

    return [shade(level) for level in levels]


def _edges(numbers, bins, limits):
    if hasattr(bins, "__iter__") and not isinstance(bins, str):
        edges = sorted(float(edge) for edge in values(bins))
        if len(edges) < 2:
            raise ValueError("bins needs two edges at least")
        return edges
    low, high = limits if limits is not None else (min(numbers, default=0.0), max(numbers, default=1.0))
    if low == high:
        low, high = low - 0.5, high + 0.5
    count = math.ceil(math.log2(max(len(numbers), 1)) + 1) if isinstance(bins, str) else int(bins)
    if not 1 <= count <= 10_000:
        raise ValueError(f"{count} bins cannot be drawn")
    return [low + (high - low) * index / count for index in range(count)] + [high]


def _count(numbers, edges):
    from bisect import bisect_right

    counts = [0] * (len(edges) - 1)
    for number in numbers:
        if edges[0] <= number <= edges[-1]:
            counts[min(bisect_right(edges, number), len(counts)) - 1] += 1
    return counts


def _quartiles(numbers):
    """Whisker, quartile, median, quartile, whisker, and what lies outside."""

    def at(part):
        place = part * (len(numbers) - 1)
        low = math.floor(place)
        high = min(low + 1, len(numbers) - 1)
        return numbers[low] + (numbers[high] - numbers[low]) * (place - low)

    lower, median, upper = at(0.25), at(0.5), at(0.75)
    reach = 1.5 * (upper - lower)
    inside = [n for n in numbers if lower - reach <= n <= upper + reach] or numbers
    outside = [n for n in numbers if n < inside[0] or n > inside[-1]]
    return min(inside[0], lower), lower, median, upper, max(inside[-1], upper), outside


def text_width(text, size):
    return max(font.width(line, size) for line in str(text).split("\n"))
