def __belljar_figures():
    import base64, io, sys

    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or not plt.get_fignums():
        return None
    import matplotlib.patches as patches

    def plain(value):
        value = value.item() if hasattr(value, "item") else value
        return value if isinstance(value, (int, float, str)) else str(value)

    def bars(axes):
        return [it for it in axes.patches if isinstance(it, patches.Rectangle) and it.get_width()]

    def axis(axes, name):
        one = getattr(axes, name + "axis")
        label = getattr(axes, f"get_{name}label")()
        unit = label[label.rfind("(") + 1 : -1] if label.endswith(")") and "(" in label else None
        return {
            name + "_label": label or None,
            name + "_unit": unit,
            name + "_ticks": [plain(it) for it in one.get_ticklocs()],
            name + "_tick_labels": [it.get_text() for it in one.get_ticklabels()],
            name + "_scale": one.get_scale(),
        }

    def chart(axes):
        title = axes.get_title() or None
        wedges = [it for it in axes.patches if isinstance(it, patches.Wedge)]
        if wedges:
            labels = [it.get_text() for it in axes.texts]
            elements = [
                {"label": it.get_label() or (labels[at] if at < len(labels) else ""),
                 "angle": plain(it.theta2 - it.theta1), "radius": plain(it.r)}
                for at, it in enumerate(wedges)
            ]
            return {"type": "pie", "title": title, "elements": elements}
        both = {**axis(axes, "x"), **axis(axes, "y")}
        if axes.lines:
            elements = [
                {"label": it.get_label(), "points": [[plain(x), plain(y)] for x, y in zip(it.get_xdata(), it.get_ydata())]}
                for it in axes.lines
            ]
            return {"type": "line", "title": title, **both, "elements": elements}
        if axes.collections:
            elements = [
                {"label": it.get_label(), "points": [[plain(x), plain(y)] for x, y in it.get_offsets()]}
                for it in axes.collections
            ]
            return {"type": "scatter", "title": title, **both, "elements": elements}
        if bars(axes):
            names = both["x_tick_labels"]
            legend = axes.get_legend_handles_labels()[1]
            elements = [
                {"label": names[at] if at < len(names) else str(at), "group": legend[0] if legend else "", "value": plain(it.get_height())}
                for at, it in enumerate(bars(axes))
            ]
            keep = ("x_label", "y_label", "x_unit", "y_unit")
            return {"type": "bar", "title": title, **{name: both[name] for name in keep}, "elements": elements}
        return {"type": "unknown", "title": title, "elements": []}

    shown = []
    for number in plt.get_fignums():
        figure = plt.figure(number)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", bbox_inches="tight")
        try:
            charts = [chart(axes) for axes in figure.axes]
        except Exception:
            charts = [{"type": "unknown", "title": None, "elements": []}]
        if len(charts) != 1:
            charts = [{"type": "superchart", "title": None, "elements": charts}]
        shown.append({"text": repr(figure), "png": base64.b64encode(buffer.getvalue()).decode(), "chart": charts[0]})
    plt.close("all")
    return shown


__belljar_shown = __belljar_figures()
del __belljar_figures
globals().pop("__belljar_shown")
