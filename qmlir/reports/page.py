"""Puts facts, drawings, plots, style and scripts into one page of HTML.

The page holds the facts as JSON, which its scripts show; a name from a model is never part of the markup. Its policy
forbids the browser to load anything: all that the page needs is in the file.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any, cast

from qmlir.analysis.facts import Facts, NetworkFacts
from qmlir.analysis.memory_map import MemoryMap
from qmlir.reports import plots
from qmlir.reports.layout import draw

BOX = (196, 40)
"""The width and the height of a node's box."""

STEP = 64
"""The distance from a node to the next."""

DIGITS = 6
"""Significant digits of the numbers in a page."""

SCRIPTS = ("format.js", "plots.js", "tables.js", "graph.js", "details.js", "page.js")
"""The page's scripts in the order in which they need each other."""


def page_of(facts: Facts, title: str) -> str:
    """Returns the page of some facts.

    Args:
        facts: The facts.
        title: The page's title, such as the name of a model file.
    """
    from importlib.metadata import version

    rows = joined(facts.networks)
    names = [name for name, _ in rows]
    at = [row for _, row in rows]
    drawn = {
        "errors": plots.errors(facts, at, names),
        "times": plots.times(facts, at, names),
        "cycles": plots.cycles(facts, at, names),
    }
    colours = plots.colours(facts.networks)
    data = {
        "title": title,
        "version": version("qmlir"),
        "compared": facts.compared,
        "profiled": facts.profiled,
        "missing": facts.missing,
        "colours": colours,
        "rows": [{"name": name, "at": row} for name, row in rows],
        "networks": [_network(network) for network in facts.networks],
        "box": BOX,
        "plots": {name: plot for name, plot in drawn.items() if plot is not None},
        "rooflines": plots.rooflines(facts, names),
        "maps": [_maps(network, slot, rows) for slot, network in enumerate(facts.networks)],
        "histograms": [
            {"values": plots.histogram("value", colour), "weights": plots.histogram("weight", colour)}
            for colour in colours
        ],
    }
    parts = {
        "TITLE": _escaped(title),
        "STYLE": _asset("page.css"),
        "BOKEH": plots.script(),
        "DATA": _json(data),
        "SCRIPT": "\n".join(_asset(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def joined(networks: Sequence[NetworkFacts]) -> list[tuple[str, list[int | None]]]:
    """Matches the layers of networks by the tensors that they make.

    Returns:
        The name of each layer with its index in each network, None where a network has no such layer; in the order of
        the first quantized network, and layers that it lacks behind those.
    """
    rows: dict[tuple[str, str, int], list[int | None]] = {}
    names: dict[tuple[str, str, int], str] = {}
    order = sorted(range(len(networks)), key=lambda slot: not networks[slot].quantized)
    for slot in order:
        met: dict[tuple[str, str], int] = {}
        for number, layer in enumerate(networks[slot].layers):
            key = (layer.result.name or layer.name, layer.operation)
            met[key] = met.get(key, -1) + 1
            row = rows.setdefault((*key, met[key]), [None] * len(networks))
            row[slot] = number
            names.setdefault((*key, met[key]), layer.name)
    return [(names[key], row) for key, row in rows.items()]


def _maps(
    network: NetworkFacts, slot: int, rows: Sequence[tuple[str, Sequence[int | None]]]
) -> dict[str, list[dict[str, Any]]]:
    """The pictures of a network's memories: of the scratch memory on this processor, and of a device's memories."""
    found: dict[str, int] = {}
    for number, (name, at) in enumerate(rows):
        if (layer := at[slot]) is not None:
            found |= {name: number, network.layers[layer].result.name or name: number}

    def drawn(maps: Sequence[MemoryMap]) -> list[dict[str, Any]]:
        return [
            {"memory": each.memory, "size": each.size, "peak": each.peak, "plot": plots.memory(each, found)}
            for each in maps
            if each.extents
        ]

    return {
        "scratch": drawn([network.timing.map] if network.timing else []),
        "device": drawn(network.run.maps if network.run else []),
    }


def _network(network: NetworkFacts) -> dict[str, Any]:
    """A network's facts and the drawing of its graph, in which inputs and outputs are nodes, too."""
    inputs, layers = len(network.inputs), len(network.layers)
    edges = [
        (inputs + source if source >= 0 else -1 - source, inputs + number)
        for number, layer in enumerate(network.layers)
        for source in layer.inputs
    ]
    ends = [(inputs + source if source >= 0 else -1 - source) for source in network.outputs]
    edges += [(end, inputs + layers + number) for number, end in enumerate(ends)]
    drawing = draw(inputs + layers + len(ends), edges, *BOX, STEP)
    counts = network.counts
    bare = replace(
        network,
        timing=network.timing and replace(network.timing, map=None),
        run=network.run and replace(network.run, rooflines=(), maps=()),
    )
    return {
        **asdict(bare),
        "counts": asdict(counts),
        "layers": [
            {**asdict(layer), "remedy": layer.decision.remedy if layer.decision else ""} for layer in network.layers
        ],
        "drawing": {**_rounded(asdict(drawing)), "links": edges},
    }


def _rounded(value: Any) -> Any:
    """Coordinates with one digit behind the point, which is finer than a screen."""
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in cast(Sequence[Any], value)]
    return value


def _json(data: Any) -> str:
    """JSON that may stand in a script: no tag can end it; infinite numbers are the texts `inf` and `-inf`."""
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        if math.isfinite(value):
            return float(f"{value:.{DIGITS}g}")
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast(Sequence[Any], value)]
    return value


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)


def _asset(name: str) -> str:
    return (files("qmlir.reports") / "assets" / name).read_text(encoding="utf-8")
