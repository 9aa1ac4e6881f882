"""The drawing of graphs in layers: readers below what they read, no overlaps, straight chains."""

from itertools import pairwise

import numpy as np
import pytest

from qmlir.reports.layout import draw

Edges = list[tuple[int, int]]

CHAIN: Edges = [(n, n + 1) for n in range(9)]
RESIDUAL: Edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (3, 5)]
RNG = np.random.default_rng(3)


def random_edges(count: int) -> Edges:
    """Each node reads one to three of the 6 nodes before it."""
    reads = [(int(s), n) for n in range(1, count) for s in {*RNG.integers(max(0, n - 6), n, RNG.integers(1, 4))}]
    return sorted(reads)


@pytest.mark.parametrize(("count", "edges"), [(10, CHAIN), (6, RESIDUAL), (60, random_edges(60))])
def test_edges_go_down_and_boxes_do_not_overlap(count: int, edges: Edges) -> None:
    drawing = draw(count, edges, 100, 30, 60)
    assert len(drawing.nodes) == count
    for (source, end), line in zip(edges, drawing.edges, strict=True):
        assert drawing.nodes[source][1] < drawing.nodes[end][1]
        assert line[0] == (drawing.nodes[source][0], drawing.nodes[source][1] + 15)
        assert line[-1] == (drawing.nodes[end][0], drawing.nodes[end][1] - 15)
        assert all(upper <= lower for (_, upper), (_, lower) in pairwise(line))
    for n, (x, y) in enumerate(drawing.nodes):
        assert 50 <= x <= drawing.width - 50
        assert 15 <= y <= drawing.height - 15
        assert not any(abs(x - u) < 100 and abs(y - v) < 30 for u, v in drawing.nodes[:n])


def test_a_chain_is_straight() -> None:
    assert len({round(x, 6) for x, _ in draw(10, CHAIN, 100, 30, 60).nodes}) == 1


def test_a_shortcut_bends_around_the_layers_that_it_passes() -> None:
    drawing = draw(6, RESIDUAL, 100, 30, 60)
    assert max(x for x, _ in drawing.nodes) - min(x for x, _ in drawing.nodes) < 20
    passing = [x for x, y in drawing.edges[3] if drawing.nodes[1][1] - 15 <= y <= drawing.nodes[2][1] + 15]
    assert passing
    assert all(abs(x - drawing.nodes[1][0]) > 50 for x in passing)


def test_an_order_without_crossings_is_found() -> None:
    crossed = draw(6, [(0, 3), (1, 2), (2, 4), (3, 5)], 100, 30, 60)
    assert (crossed.nodes[0][0] < crossed.nodes[1][0]) == (crossed.nodes[3][0] < crossed.nodes[2][0])


def test_nothing_is_drawn_of_no_nodes() -> None:
    assert draw(0, [], 100, 30, 60).nodes == []
