"""What pandas wants drawn: the other side of its `plotting.backend`."""

from .axes import Axes
from .figure import Figure
from .scales import values

_KINDS = ("line", "bar", "barh", "hist", "box", "scatter", "area", "pie")


def plot(data, kind, x=None, y=None, ax=None, subplots=False, figsize=None, title=None, legend=True,
         grid=None, xlabel=None, ylabel=None, logx=False, logy=False, loglog=False, xlim=None, ylim=None,
         rot=None, stacked=None, bins=10, color=None, alpha=None, style=None, label=None, s=None, c=None,
         use_index=True, xticks=None, yticks=None, width=None, density=False, **look):  # fmt: skip
    """Draws a Series or DataFrame; gives the axes."""
    if kind not in _KINDS:
        raise ValueError(f"belljar_plot cannot draw {kind!r}; it can draw {', '.join(_KINDS)}")
    look = {name: value for name, value in look.items() if value is not None and name not in _IGNORED}
    if alpha is not None:
        look["alpha"] = alpha
    if kind == "scatter":
        axes = ax or Figure(figsize).add_subplot()
        shade = data[c] if isinstance(c, str) and c in data.columns else c
        axes.scatter(data[x], data[y], s=s, c=shade, color=color, label=label, **look)
        _say(axes, title, xlabel or x, ylabel or y, grid)
        return axes
    across, columns = _split(data, x, y, use_index, label)
    if not columns:
        raise TypeError("no numeric data to plot")
    if subplots:
        sheet = Figure(figsize or (6.4, max(2.4 * len(columns), 3)))
        places = sheet.subplots(len(columns), 1, squeeze=False)
        spots = [row[0] for row in places]
    else:
        spots = [ax or Figure(figsize).add_subplot()] * len(columns)
    axes = spots[0]
    if kind in ("bar", "barh") and not subplots:
        _bars(axes, kind, across, columns, stacked, color, width, look)
    elif kind == "box" and not subplots:
        axes.boxplot([_numbers(column) for _, column in columns], labels=[name for name, _ in columns], color=_one(color, 0), **look)
    elif kind == "area" and not subplots and stacked is not False:
        axes.stackplot(across, *[column for _, column in columns], labels=[n for n, _ in columns], colors=_many(color), **look)
    elif kind == "pie":
        for spot, (name, column) in zip(spots, columns):
            spot.pie(column, labels=across, colors=_many(color), **look)
            spot.set_title(name if subplots else title or "")
        return _result(spots, subplots)
    else:
        for index, (spot, (name, column)) in enumerate(zip(spots, columns)):
            shade = _one(color, index)
            if kind == "hist":
                over = {"alpha": 0.6, **look} if len(columns) > 1 and not subplots else look
                spot.hist(column, bins=bins, color=shade, label=name, density=density, **over)
                ylabel = ylabel or ("Density" if density else "Frequency")
            elif kind == "box":
                spot.boxplot([_numbers(column)], labels=[name], color=shade, **look)
            elif kind in ("bar", "barh"):
                _bars(spot, kind, across, [(name, column)], False, shade, width, look)
            elif kind == "area":
                spot.fill_between(across, column, label=name, color=shade, **look)
            else:
                mark = [style[index] if isinstance(style, (list, tuple)) else style] if style else []
                spot.plot(across, column, *mark, label=name, color=shade, **look)
    for index, spot in enumerate(dict.fromkeys(spots)):
        _say(spot, title if index == 0 else None, xlabel if xlabel is not None else _index_name(data, x, use_index, kind), ylabel, grid)
        if logx or loglog:
            spot.set_xscale("log")
        if logy or loglog:
            spot.set_yscale("log")
        for limits, limit in ((xlim, spot.set_xlim), (ylim, spot.set_ylim)):
            if limits is not None:
                limit(*limits)
        if xticks is not None:
            spot.set_xticks(xticks)
        if yticks is not None:
            spot.set_yticks(yticks)
        if rot is not None:
            spot.tick_params("x", rotation=rot)
        named = len(columns) > 1 or hasattr(data, "columns")
        if legend and kind != "box" and named:
            spot.legend()
    return _result(spots, subplots)


_IGNORED = ("backend", "sort_columns", "fontsize", "colormap", "table", "sharex", "sharey", "layout", "ind", "position",
            "include_bool", "mark_right", "secondary_y", "by", "column", "edgecolor", "ec", "cmap", "return_type")  # fmt: skip


def hist_frame(data, column=None, bins=10, figsize=None, **look):
    """A histogram for each column with numbers."""
    look = {name: value for name, value in look.items() if name in ("color", "alpha", "density")}
    _, columns = _split(data[[column] if isinstance(column, str) else column] if column is not None else data, None, None, True, None)
    if not columns:
        raise ValueError("hist method requires numerical or datetime columns, nothing to plot.")
    across = max(1, round(len(columns) ** 0.5 + 0.49))
    rows = -(-len(columns) // across)
    sheet = Figure(figsize or (3.2 * across, 2.6 * rows) if len(columns) > 1 else None)
    made = []
    for index, (name, values_) in enumerate(columns):
        axes = sheet.add_subplot(rows, across, index + 1)
        axes.hist(values_, bins=bins, **look)
        axes.set_title(name)
        made.append(axes)
    return made


def boxplot_frame(data, column=None, by=None, ax=None, figsize=None, grid=True, **_):
    """Boxes for columns, or for the groups of one."""
    axes = ax or Figure(figsize).add_subplot()
    if by is not None:
        name = column if isinstance(column, str) else (column or [c for c in data.columns if c != by])[0]
        groups = [(str(key), group[name]) for key, group in data.groupby(by)]
        _say(axes, str(name), str(by), None, grid)
    else:
        chosen = data[[column] if isinstance(column, str) else column] if column is not None else data
        _, groups = _split(chosen, None, None, True, None)
        _say(axes, None, None, None, grid)
    axes.boxplot([_numbers(group) for _, group in groups], labels=[name for name, _ in groups])
    return axes


def _result(spots, subplots):
    return spots if subplots else spots[0]


def _split(data, x, y, use_index, label):
    """What goes from left to right, and the columns with numbers."""
    if not hasattr(data, "columns"):
        name = label if label is not None else getattr(data, "name", None)
        index = data.index if use_index else range(len(data))
        return _index(index), [("None" if name is None else str(name), data)]
    across = data[x] if x is not None else data.index if use_index else range(len(data))
    chosen = [y] if y is not None and not isinstance(y, (list, tuple)) else y
    if chosen is None:
        chosen = [name for name in data.columns if name != x]
        chosen = [name for name in chosen if getattr(data[name].dtype, "kind", "O") in "iufcb" or _is_number(data[name])]
    names = [label] if isinstance(label, str) else label or [str(name) for name in chosen]
    return _index(across), list(zip(names, (data[name] for name in chosen)))


def _is_number(column):
    # Nullable columns have kinds of their own.
    return bool(getattr(column.dtype, "_is_numeric", False))


def _index(index):
    if getattr(index, "nlevels", 1) > 1:
        return [", ".join(map(str, key)) for key in index]
    return index


def _numbers(column):
    return [value for value in values(column) if value == value and value is not None]


def _bars(axes, kind, across, columns, stacked, color, width, look):
    # As with pandas, bars stand at 0, 1, 2, …, whatever the index holds.
    labels = [_short(value) for value in values(across)]
    draw = axes.bar if kind == "bar" else axes.barh
    start = "bottom" if kind == "bar" else "left"
    whole = float(width or (0.6 if len(columns) == 1 or stacked else 0.8))
    base = [0.0] * len(labels)
    for index, (name, column) in enumerate(columns):
        lengths = [float(value) if value == value and value is not None else 0.0 for value in values(column)]
        shade = _one(color, index)
        if stacked:
            draw(range(len(labels)), lengths, whole, label=name, color=shade, **{start: base}, **look)
            base = [a + b for a, b in zip(base, lengths)]
        else:
            part = whole / len(columns)
            shift = (index - (len(columns) - 1) / 2) * part
            draw([n + shift for n in range(len(labels))], lengths, part, label=name, color=shade, **look)
    (axes.set_xticks if kind == "bar" else axes.set_yticks)(range(len(labels)), labels)


def _short(value):
    text = str(value)
    return text.removesuffix(" 00:00:00")


def _index_name(data, x, use_index, kind):
    if kind in ("hist", "box", "barh"):
        return None
    if x is not None:
        return x
    name = getattr(data.index, "name", None) if use_index else None
    return None if name is None else str(name)


def _say(axes, title, xlabel, ylabel, grid):
    if title is not None:
        axes.set_title(title if isinstance(title, str) else title[0])
    if xlabel is not None:
        axes.set_xlabel(xlabel)
    if ylabel is not None:
        axes.set_ylabel(ylabel)
    if grid is not None:
        axes.grid(grid)


def _one(color, index):
    if isinstance(color, dict):
        return list(color.values())[index % len(color)]
    if isinstance(color, (list, tuple)) and color and not isinstance(color[0], (int, float)):
        return color[index % len(color)]
    return color


def _many(color):
    if color is None:
        return None
    return list(color) if isinstance(color, (list, tuple)) else [color]
