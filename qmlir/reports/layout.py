"""Draws a graph in layers: each node below the nodes that it reads, few crossings, edges as straight as they can be.

This is the method of Sugiyama, Tagawa and Toda (1981) in its usual four steps: ranks by longest path, dummy nodes where
an edge passes a rank, the order within ranks by sweeps of barycenters, and positions. A position is the one nearest to
the mean of its neighbours' that leaves nodes their width and the rank its order, which is a regression with isotonic
constraints, solved exactly by pooling neighbours that violate the order. Well-kept Python libraries with such a drawing
need a program or carry a licence that a dependency must not have; a network's graph is nearly a chain, for which these
two hundred lines are enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP = 24.0
"""The least distance between two boxes of a rank."""

DUMMY = 14.0
"""The width that an edge takes where it passes a rank."""

HEAVY = 64.0
"""How much more a node keeps its place than an edge that passes it."""

SWEEPS = 12
"""How often ranks are put in order, down and up; and how often positions are improved."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """Where the nodes and edges of a graph are drawn; y grows downwards.

    width, height  the size of the drawing
    nodes          the centre of each node
    edges          for each edge, the points from the lower end of its source to the upper end of its destination
    """

    width: float
    height: float
    nodes: list[Point]
    edges: list[list[Point]]


@dataclass
class _Graph:
    """Nodes and dummy nodes: their ranks, widths and neighbours above and below."""

    rank: list[int]
    widths: list[float]
    above: list[list[int]] = field(default_factory=list[list[int]])
    below: list[list[int]] = field(default_factory=list[list[int]])
    ranks: list[list[int]] = field(default_factory=list[list[int]])

    def add(self, rank: int, width: float) -> int:
        """Adds a dummy node."""
        self.rank.append(rank)
        self.widths.append(width)
        return len(self.rank) - 1


def draw(count: int, edges: Sequence[tuple[int, int]], width: float, height: float, step: float) -> Drawing:
    """Places the nodes of a graph without cycles.

    Args:
        count: The number of nodes; node i may read only nodes before it.
        edges: Pairs of source and destination.
        width: The width of a node's box.
        height: Its height.
        step: The distance between two ranks, from centre to centre.
    """
    if not count:
        return Drawing(0.0, 0.0, [], [])
    graph = _Graph(_ranks(count, edges), [width] * count)
    chains = [_chain(graph, source, end) for source, end in edges]
    _connect(graph, chains)
    _order(graph)
    x = _positions(graph)
    left = min(x[node] - graph.widths[node] / 2 for node in range(len(x)))
    x = [each - left + GAP for each in x]
    places = [(x[node], graph.rank[node] * step + height) for node in range(len(x))]
    lines = [_line([places[node] for node in chain], height / 2) for chain in chains]
    right = max(x[node] + graph.widths[node] / 2 for node in range(len(x)))
    return Drawing(right + GAP, (max(graph.rank) + 2) * step, places[:count], lines)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The length of the longest path to each node; nodes that read nothing lie just above their first reader."""
    rank, readers = [0] * count, dict[int, list[int]]()
    has_source = set[int]()
    for source, end in sorted(edges, key=lambda edge: edge[1]):
        rank[end] = max(rank[end], rank[source] + 1)
        readers.setdefault(source, []).append(end)
        has_source.add(end)
    for node, ends in readers.items():
        if node not in has_source:
            rank[node] = max(min(rank[end] for end in ends) - 1, 0)
    return rank


def _chain(graph: _Graph, source: int, end: int) -> list[int]:
    """The nodes that an edge passes, with a dummy node for each rank between its ends."""
    between = [graph.add(rank, DUMMY) for rank in range(graph.rank[source] + 1, graph.rank[end])]
    return [source, *between, end]


def _connect(graph: _Graph, chains: Sequence[Sequence[int]]) -> None:
    nodes = range(len(graph.rank))
    graph.above, graph.below = [[] for _ in nodes], [[] for _ in nodes]
    for chain in chains:
        for upper, lower in pairwise(chain):
            graph.below[upper].append(lower)
            graph.above[lower].append(upper)
    graph.ranks = [[] for _ in range(max(graph.rank) + 1)]
    for node in nodes:
        graph.ranks[graph.rank[node]].append(node)


# ---------------------------------------------------------------------------------------------------------------
# The order within ranks


def _order(graph: _Graph) -> None:
    """Puts each rank in the order of its neighbours' means, down and up; keeps the order with the fewest crossings."""
    best, fewest = [list(rank) for rank in graph.ranks], _crossings(graph)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        ranks = graph.ranks if down else graph.ranks[::-1]
        for fixed, rank in pairwise(ranks):
            place = {node: float(index) for index, node in enumerate(fixed)}
            own = {node: float(index) for index, node in enumerate(rank)}
            rank.sort(key=lambda node: _mean([place[n] for n in neighbours[node]], own[node]))
        if (crossings := _crossings(graph)) < fewest:
            best, fewest = [list(rank) for rank in graph.ranks], crossings
    graph.ranks = best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(graph: _Graph) -> int:
    """How many pairs of edges between neighbouring ranks cross."""
    count = 0
    for upper, lower in pairwise(graph.ranks):
        place = {node: index for index, node in enumerate(lower)}
        ends = [place[end] for node in upper for end in sorted(graph.below[node], key=lambda end: place[end])]
        count += sum(a > b for index, a in enumerate(ends) for b in ends[index + 1 :])
    return count


# ---------------------------------------------------------------------------------------------------------------
# Positions


def _positions(graph: _Graph) -> list[float]:
    """The horizontal centre of each node."""
    x = [0.0] * len(graph.rank)
    for rank in graph.ranks:
        edge = 0.0
        for node in rank:
            x[node] = edge + graph.widths[node] / 2
            edge += graph.widths[node] + GAP
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        for rank in graph.ranks if down else graph.ranks[::-1]:
            wanted = [_pulled(graph, neighbours[node], x, x[node]) for node in rank]
            for node, place in zip(rank, _apart(rank, wanted, graph.widths), strict=True):
                x[node] = place
    return x


def _pulled(graph: _Graph, neighbours: Sequence[int], x: Sequence[float], otherwise: float) -> float:
    """The mean position of a node's neighbours, in which an edge that passes counts little."""
    weights = [_weight(graph.widths[n]) for n in neighbours]
    total = sum(weights)
    return sum(x[n] * weight for n, weight in zip(neighbours, weights, strict=True)) / total if total else otherwise


def _weight(width: float) -> float:
    return 1.0 if width == DUMMY else HEAVY


def _apart(rank: Sequence[int], wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones, in least squares, at which nodes keep their order and distance.

    A node counts more than an edge that passes: edges bend around nodes.
    """
    offsets = [0.0]
    for left, right in pairwise(rank):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # mean, weight and size of runs of nodes that touch
    for node, place, offset in zip(rank, wanted, offsets, strict=True):
        mean, weight, size = place - offset, _weight(widths[node]), 1
        while pools and pools[-1][0] > mean:
            before, other, count = pools.pop()
            mean = (before * other + mean * weight) / (other + weight)
            weight, size = other + weight, count + size
        pools.append((mean, weight, size))
    means = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _line(places: Sequence[Point], half: float) -> list[Point]:
    """The points of an edge: from the lower end of the first box to the upper end of the last."""
    (x0, y0), *between, (x1, y1) = places
    middle = [point for x, y in between for point in ((x, y - half), (x, y + half))]
    return [(x0, y0 + half), *middle, (x1, y1 - half)]
