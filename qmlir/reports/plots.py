"""The plots of a report, made with bokeh: distributions with thresholds, errors, times and cycles along the network.

Each function returns bokeh's plain data of a figure, which the page's scripts hand to bokeh's own script. Figures of
distributions are made once, empty; the scripts fill them in for the layer that a reader selects. Colours of axes and
grids are set by the scripts too, as they depend on whether the page is light or dark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d, TapTool
from bokeh.plotting import figure
from bokeh.resources import Resources
from bokeh.transform import dodge

from qmlir.analysis.facts import Facts, NetworkFacts
from qmlir.analysis.memory_map import MemoryMap
from qmlir.analysis.roofline import Roofline

COLOURS = ("#8a8f98", "#0072b2", "#d55e00")
"""The colours of the float network and of the two quantized networks: three that all readers can tell apart."""

MARK = "#cc3311"
"""The colour of thresholds and bounds."""

NAMED = 12
"""The most layers whose names stand under a plot; more are numbered."""

LONGEST = 22
"""The most characters of such a name."""

STEPS = 800
"""The most steps of a line of memory in use."""

Row = Sequence[int | None]
"""For each network, the index of the layer that a row of the page is about; None if the network has no such layer."""


def script() -> str:
    """Returns bokeh's script, as its wheel carries it."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], log_level="warn").js_raw)


def colours(networks: Sequence[NetworkFacts]) -> list[str]:
    """Returns a colour for each network."""
    quantized = iter(COLOURS[1:])
    return [next(quantized) if network.quantized else COLOURS[0] for network in networks]


def _figure(name: str, height: int, **options: Any) -> Any:
    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border=4,
        **options,
    )
    for axis in (plot.xaxis[0], plot.yaxis[0]):
        axis.update(axis_line_alpha=0.4, minor_tick_line_color=None, major_tick_line_alpha=0.4)
        axis.update(axis_label_text_font_style="normal", axis_label_text_font_size="12px")
        axis.update(major_label_text_font_size="11px")
    plot.xgrid.grid_line_color = None
    plot.ygrid.grid_line_alpha = 0.6
    return plot


def _plain(plot: Any) -> dict[str, Any]:
    found: Any = json_item(plot)
    return found


def histogram(kind: str, colour: str) -> dict[str, Any]:
    """Returns an empty distribution: bars from a source `bars`, thresholds from a source `thresholds`.

    Args:
        kind: What the values are, for the axis.
        colour: The colour of the bars.
    """
    plot = _figure(
        "histogram",
        170,
        x_range=Range1d(start=0, end=1),
        y_range=Range1d(start=0.5, end=1),
        y_axis_type="log",
        tools="xpan,xwheel_zoom,reset",
        x_axis_label=kind,
        y_axis_label="count",
    )
    bars = ColumnDataSource({"left": [], "right": [], "top": [], "width": []}, name="bars")
    drawn = plot.quad("left", "right", "top", 0.5, source=bars, fill_color=colour, fill_alpha=0.75, line_color=None)
    ends = ColumnDataSource({"x": []}, name="thresholds")
    plot.vspan(x="x", source=ends, line_color=MARK, line_width=2, line_dash="dashed")
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=[("from", "@left"), ("to", "@right"), ("count", "@top{0,0}")]))
    return _plain(plot)


def errors(facts: Facts, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any] | None:
    """Returns own and whole SQNR of each layer along the network; None if none was computed."""
    if not facts.compared:
        return None
    plot = _along("errors", "SQNR, dB", names)
    hovered: list[Any] = []
    for slot, (network, colour) in enumerate(zip(facts.networks, colours(facts.networks), strict=True)):
        if not network.quantized:
            continue
        found = [None if row[slot] is None else network.layers[row[slot] or 0].errors for row in rows]
        for what, dash, mark in (("own", "solid", "circle"), ("whole", "dashed", "diamond")):
            values = [None if each is None else getattr(each, what) for each in found]
            kept = [(n, v) for n, v in enumerate(values) if v is not None and abs(v) != float("inf")]
            source = ColumnDataSource(
                {
                    "row": [n for n, _ in kept],
                    "x": [n + 1 for n, _ in kept],
                    "y": [v for _, v in kept],
                    "layer": [names[n] for n, _ in kept],
                    "what": [f"{network.name}, {WHAT[what]}"] * len(kept),
                }
            )
            label = f"{network.name}, {WHAT[what]}"
            plot.line("x", "y", source=source, color=colour, line_dash=dash, alpha=0.7, legend_label=label)
            hovered.append(plot.scatter("x", "y", source=source, color=colour, marker=mark, size=7, legend_label=label))
    tips = [("layer", "@layer"), ("@what", "@y{0.0} dB")]
    plot.add_tools(HoverTool(renderers=hovered, tooltips=tips), TapTool(renderers=hovered))
    return _finished(plot)


WHAT = {"own": "own SQNR", "whole": "whole SQNR"}
"""The two figures of a layer's error in words."""


def times(facts: Facts, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any] | None:
    """Returns the time of each layer on this processor; None if no time was measured."""
    timed = {slot: n for slot, n in enumerate(facts.networks) if n.timing is not None}
    spent = {slot: [_seconds(network, row[slot]) for row in rows] for slot, network in timed.items()}
    if not spent:
        return None
    values = {slot: [None if s is None else 1e6 * s for s in each] for slot, each in spent.items()}
    bars = {timed[slot].name: (colours(facts.networks)[slot], each) for slot, each in values.items()}
    return _bars("times", "µs a call", bars, names, "@top{0.00} µs")


def _seconds(network: NetworkFacts, layer: int | None) -> float | None:
    return None if layer is None else network.layers[layer].seconds


def cycles(facts: Facts, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any] | None:
    """Returns the cycles of each layer on the device beside their bound; None without a device."""
    bars: dict[str, tuple[str, list[float | None]]] = {}
    bounds: dict[str, list[float | None]] = {}
    for slot, network in enumerate(facts.networks):
        if network.run is not None:
            costs = [None if row[slot] is None else network.layers[row[slot] or 0].device for row in rows]
            bars[network.name] = (colours(facts.networks)[slot], [c and float(c.cycles) for c in costs])
            bounds[network.name] = [c and float(c.bound) for c in costs]
    return _bars("cycles", "cycles", bars, names, "@top{0,0} cycles", bounds) if bars else None


def rooflines(facts: Facts, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a roofline for each memory of the device that has a bandwidth."""
    runs = [(n, c) for n, c in zip(facts.networks, colours(facts.networks), strict=True) if n.run is not None]
    count = max((len(n.run.rooflines) for n, _ in runs if n.run), default=0)
    return [_roofline([(n.name, c, n.run.rooflines[i]) for n, c in runs if n.run], names) for i in range(count)]


def _roofline(drawn: Sequence[tuple[str, str, Roofline]], names: Sequence[str]) -> dict[str, Any]:
    """The roof of one memory, and under it the layers of each network."""
    roof = drawn[0][2]
    placed = [(n, c, [p for p in r.points if p.intensity and p.attained]) for n, c, r in drawn]
    found = [p.intensity or 1.0 for _, _, points in placed for p in points] + [roof.ridge]
    low, high = min(found) / 3, max(found) * 3
    plot = _figure(
        "roofline", 300, tools="pan,wheel_zoom,reset", x_axis_type="log", y_axis_type="log",
        x_axis_label=f"MACs for each byte of {roof.memory}", y_axis_label=f"MACs in a {roof.unit.removesuffix('s')}",
    )  # fmt: skip
    edge = [low, roof.ridge, high]
    plot.line(edge, [roof.roof(i) for i in edge], color=MARK, line_width=2, legend_label="roof")
    for ceiling in roof.ceilings:
        plot.line([low, high], [ceiling.peak] * 2, color=MARK, line_dash="dotted", legend_label=ceiling.name)
    hovered: list[Any] = []
    for name, colour, points in placed:
        data: dict[str, Any] = {
            "x": [p.intensity for p in points],
            "y": [p.attained for p in points],
            "attainable": [p.attainable for p in points],
            "layer": [p.name for p in points],
            "row": [names.index(p.name) if p.name in names else -1 for p in points],
        }
        mark = plot.scatter("x", "y", source=ColumnDataSource(data), color=colour, size=9, alpha=0.8, legend_label=name)
        hovered.append(mark)
    tips = [
        ("layer", "@layer"),
        ("MACs a byte", "@x{0.0}"),
        ("attained", "@y{0.0}"),
        ("attainable", "@attainable{0.0}"),
    ]
    plot.add_tools(HoverTool(renderers=hovered, tooltips=tips), TapTool(renderers=hovered))
    return _finished(plot)


KINDS = {"tensor": "#0072b2", "tile": "#56b4e9", "constant": "#e69f00", "scratch": "#8a8f98"}
"""The colours of the buffers in a memory, by their kind."""


def memory(of: MemoryMap, rows: Mapping[str, int]) -> dict[str, Any]:
    """Returns the picture of a memory over time: each buffer is a rectangle, and a line says how much is in use.

    Args:
        of: The memory.
        rows: The row of the page for the name of a tensor or of a layer.
    """
    plot = _figure("memory", 260, tools="xpan,xwheel_zoom,reset", x_axis_label=TIMES[of.unit], y_axis_label="address")
    hovered: list[Any] = []
    for kind, colour in KINDS.items():
        extents = [extent for extent in of.extents if extent.kind == kind]
        if not extents:
            continue
        data: dict[str, Any] = {
            "left": [e.begin for e in extents],
            "right": [e.end for e in extents],
            "bottom": [e.offset for e in extents],
            "top": [e.offset + e.size for e in extents],
            "size": [e.size for e in extents],
            "name": [e.name for e in extents],
            "row": [rows.get(e.name, -1) for e in extents],
        }
        look = {"fill_color": colour, "fill_alpha": 0.55, "line_color": colour, "line_alpha": 0.9, "legend_label": kind}
        hovered.append(plot.quad("left", "right", "top", "bottom", source=ColumnDataSource(data), **look))
    used = _thinned(of.usage, of.end)
    x, y = [time for time, _ in used] + [of.end], [size for _, size in used] + [used[-1][1] if used else 0]
    plot.step(x, y, mode="after", color=MARK, line_width=1.5, legend_label="in use")
    tips = [("", "@name"), ("bytes", "@size{0,0} at @bottom{0,0}"), (TIMES[of.unit], "@left{0,0} to @right{0,0}")]
    plot.add_tools(HoverTool(renderers=hovered, tooltips=tips), TapTool(renderers=hovered))
    plot.yaxis[0].update(formatter=NumeralTickFormatter(format="0,0"))
    plot.xaxis[0].update(formatter=NumeralTickFormatter(format="0,0"))
    return _finished(plot)


TIMES = {"cycles": "cycle", "calls": "call of a kernel"}
"""The units of time of a memory's picture, in words for an axis."""


def _thinned(usage: Sequence[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """The most bytes in use within each of at most `STEPS` stretches of time; a screen shows no more."""
    if len(usage) <= STEPS:
        return list(usage)
    most: dict[int, tuple[int, int]] = {}
    for time, used in usage:
        slot = time * STEPS // max(end, 1)
        known = most.setdefault(slot, (time, used))
        most[slot] = (known[0], max(known[1], used))
    return list(most.values())


def _bars(
    name: str,
    unit: str,
    bars: Mapping[str, tuple[str, list[float | None]]],
    names: Sequence[str],
    shown: str,
    bounds: Mapping[str, list[float | None]] | None = None,
) -> dict[str, Any]:
    """Bars of each layer side by side, one for each network; a dash marks the bound of a bar."""
    plot = _along(name, unit, names)
    width, hovered, marks = 0.8 / len(bars), list[Any](), list[tuple[Any, Any]]()
    for number, (network, (colour, values)) in enumerate(bars.items()):
        kept = [(n, v) for n, v in enumerate(values) if v is not None]
        data: dict[str, Any] = {
            "row": [n for n, _ in kept],
            "x": [n + 1 for n, _ in kept],
            "top": [v for _, v in kept],
            "layer": [names[n] for n, _ in kept],
            "network": [network] * len(kept),
        }
        tips = [("layer", "@layer"), (unit, shown), ("", "@network")]
        if bounds is not None:
            data["bound"] = [bounds[network][n] for n, _ in kept]
            tips.append(("bound", "@bound{0,0}"))
        source = ColumnDataSource(data)
        place = dodge("x", (number + 0.5) * width - 0.4)
        drawn = plot.vbar(place, width * 0.9, "top", source=source, color=colour, alpha=0.8, legend_label=network)
        hovered.append(drawn)
        plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        if bounds is not None:
            marks.append((place, source))
    for place, source in marks:
        plot.scatter(
            place, "bound", source=source, marker="dash", size=14, line_width=3, color=MARK, legend_label="bound"
        )
    plot.y_range.update(start=0)
    plot.add_tools(TapTool(renderers=hovered))
    return _finished(plot)


def _along(name: str, unit: str, names: Sequence[str]) -> Any:
    """An empty figure whose horizontal axis is the network: its layers by name if they are few, else by number."""
    extent = Range1d(start=0.4, end=len(names) + 0.6)
    plot = _figure(name, 280, tools="xpan,xwheel_zoom,reset", x_range=extent, x_axis_label="layer", y_axis_label=unit)
    if len(names) <= NAMED:
        axis = plot.xaxis[0]
        axis.update(ticker=FixedTicker(ticks=[n + 1 for n in range(len(names))]), axis_label=None)
        axis.update(major_label_overrides={n + 1: shortened(each) for n, each in enumerate(names)})
        axis.update(major_label_orientation=0.45)
        plot.update(height=320)
    else:
        plot.xaxis[0].ticker.update(min_interval=1)
    return plot


def shortened(name: str) -> str:
    """Returns a name of at most `LONGEST` characters; a longer name loses its middle."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[1 - half :]}"


def _finished(plot: Any) -> dict[str, Any]:
    """Puts the legend above the plot, where it covers nothing."""
    plot.add_layout(plot.legend[0], "above")
    plot.legend.update(orientation="horizontal", background_fill_alpha=0, border_line_color=None, padding=0)
    plot.legend.update(label_text_font_size="12px", click_policy="hide")
    return _plain(plot)
