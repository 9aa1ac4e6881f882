"""Brings the nodes of a graph into an order in which each reads only what the nodes before it define.

ONNX requires that order, but onnxruntime runs models in any order, and its own converter to float16 appends the casts
that it makes to the end of the graph.
"""

import heapq
from collections.abc import Iterator, Sequence

import onnx


def ordered(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose nodes are in order: the given model if they are already, else a changed copy.

    Nodes that need not move keep their order. Graphs with a cycle, or with tensors that are defined twice, stay as they
    are; the import refuses them.
    """
    if all(_order(graph.node) is None for graph in graphs(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in graphs(copy.graph):
        if (order := _order(graph.node)) is not None:
            nodes = list(graph.node)
            del graph.node[:]
            graph.node.extend([nodes[index] for index in order])
    return copy


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names of the tensors that a node and its subgraphs read."""
    yield from node.input
    for graph in _subgraphs(node):
        yield from (o.name for o in graph.output)
        for inner in graph.node:
            yield from reads(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from (attribute.g, *attribute.graphs)


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields a graph and the graphs inside it, the inner ones first."""
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from graphs(inner)
    yield graph


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int] | None:
    """Returns the indices of nodes in order; None if they are in order, or have none."""
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if makers.setdefault(name, index) != index:
                return None
    sources = [{makers[name] for name in reads(node) if name in makers} for node in nodes]
    if all(max(before, default=-1) < index for index, before in enumerate(sources)):
        return None
    readers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(sources):
        for source in before:
            readers[source].append(index)
    waiting = list(map(len, sources))
    ready = [index for index, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(index := heapq.heappop(ready))
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else None
