"""How If, Loop and Scan are drawn: subgraphs of any operators, which read tensors from outside.

qmlir takes them where what runs is known at import, so conditions and counts are constants or computed of constants
and shapes; a few are not, and have to be refused.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.graphs import Array, Node
from tests.fuzz.operators import TABLE, draws
from tests.fuzz.spelled import LACKING, ON_INTEGERS

DEEPEST = 2
"""Subgraphs within subgraphs."""


def _nodes(d: Drawing) -> None:
    """Draws one to three nodes, of operators that onnxruntime runs as they are and whose results are no ties."""
    wanted = len(d.nodes) + d.integer(1, 3)
    names = [name for name in TABLE if name not in LACKING and name not in ON_INTEGERS]
    for _ in range(12):
        if len(d.nodes) >= wanted:
            return
        try:
            TABLE[d.choice(names)](d)
        except Refused:
            continue


def _enter(d: Drawing) -> None:
    if d.depth == DEEPEST:
        raise Refused("deep enough")


def _result(d: Drawing, nodes: Sequence[Node]) -> str:
    """A tensor of floats that a subgraph can return: one that it computes."""
    made = [o for n in nodes for o in n.outputs if o and d.value(o).dtype == d.float]
    return d.choice(made[-3:]) if made and d.chance(0.9) else d.add("Identity", d.pick())[0]


def _body(d: Drawing, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
    """A subgraph; some of the constants that it reads are its own, as initializers or as nodes."""
    mine = [n for n in dict.fromkeys(name for node in nodes for name in node.inputs) if n in d.constants]
    mine = [n for n in mine if d.chance(0.5)]
    tensors = {n: numpy_helper.from_array(d.constants[n], n) for n in mine}
    written = [n for n in mine if d.chance(0.3)]
    return helper.make_graph(
        [*(Node("Constant", (), (n,), {"value": tensors[n]}).proto() for n in written), *(n.proto() for n in nodes)],
        d.name(),
        [_typed(d, name) for name in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [tensors[n] for n in mine if n not in written],
    )


def _typed(d: Drawing, name: str) -> onnx.ValueInfoProto:
    value = d.value(name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _returned(d: Drawing, names: Sequence[str], nodes: Sequence[Node]) -> list[str]:
    """Tensors as outputs of a subgraph, which has to compute them itself, each under a name of its own."""
    found = list[str]()
    for name in names:
        own = name not in found and any(name in n.outputs for n in nodes)
        found.append(name if own else d.add("Identity", name)[0])
    return found


@draws("If")
def _if(d: Drawing, operator: str) -> None:
    _enter(d)
    count = d.choice([1, 1, 2])
    branches = dict[str, onnx.GraphProto]()
    for branch in ("then_branch", "else_branch"):
        with d.subgraph() as nodes:
            if d.chance(0.8):
                _nodes(d)
            results = _returned(d, [_result(d, nodes) for _ in range(count)], nodes)
            branches[branch] = _body(d, nodes, (), results)
    d.add(operator, _condition(d), outputs=count, **branches)


def _condition(d: Drawing) -> str:
    """A truth value that is known: a constant, or computed of constants or of a shape; now and then of data."""
    kind = d.integer(0, 9)
    if kind < 6:
        return d.constant(np.full(d.choice([(), (1,)]), d.chance(0.5)))
    if kind < 8:
        return d.add("Less", d.constant(d.floats(())), d.constant(d.floats(())))[0]
    if kind < 9:
        return d.add("Greater", d.add("Size", d.pick())[0], d.constant(np.array(20, np.int64)))[0]
    return d.add("Less", d.add("ReduceMax", d.pick(), keepdims=0)[0], d.constant(d.floats(())))[0]


def _state(d: Drawing) -> str:
    """A tensor that runs hand on: a computed one or a constant."""
    return d.pick() if d.chance(0.7) else d.constant(d.floats(d.shape(0, 3)))


def _next(d: Drawing, state: str) -> str:
    """What a run makes of a state: a tensor of the same shape, computed of it and of what the subgraph has drawn."""
    shape = d.shape_of(state)
    floats = [n for n in d.computed if d.value(n).dtype == d.float]
    fitting = [n for n in floats if d.shape_of(n) == shape]
    other = d.choice(fitting[-2:]) if fitting else d.pick(fits=all)  # the mean of no element is undefined
    if d.shape_of(other) != shape:
        other = d.add("ReduceMean", other, keepdims=0)[0]
    if other != state and d.shape_of(other) == shape and d.chance(0.3):
        return other
    way = d.integer(0, 3)
    if way == 0:
        return d.add("Tanh", d.add("Add", state, other)[0])[0]
    return d.add(("Add", "Sub", "Max")[way - 1], state, other)[0]


def _same(d: Drawing, name: str) -> list[Array]:
    return [values[name] for values in d.values]


@draws("Loop")
def _loop(d: Drawing, operator: str) -> None:
    _enter(d)
    states = [_state(d) for _ in range(d.choice([0, 1, 1, 2]))]
    collects = d.integer(0 if states else 1, 2)
    count, condition, runs = _count(d)
    with d.subgraph() as nodes:
        run = d.formal([np.array(0, np.int64)] * len(d.values))
        going = d.formal([np.array(True)] * len(d.values))
        inner = [d.formal(_same(d, s)) for s in states]
        if d.chance(0.3):
            d.add("Cast", run, to=helper.np_dtype_to_tensor_dtype(d.float))
        _nodes(d)
        found = [_next(d, s) for s in inner]
        found += [_result(d, nodes) for _ in range(collects)]
        again = going if runs is None else d.add("Less", run, d.constant(np.array(runs - 1, np.int64)))[0]
        inputs = (run, going, *inner)
        outputs = _returned(d, [again, *found], nodes)
        body = _body(d, nodes, inputs, outputs)
    d.add(operator, count, condition, *states, outputs=len(found), body=body)


def _count(d: Drawing) -> tuple[str, str, int | None]:
    """How often a loop runs: its count and its condition before it runs, and the run whose condition ends it."""
    runs = d.choice([1, 2, 2, 3, 4, 0])
    kind = d.integer(0, 9)
    condition = d.constant(np.array(True)) if d.chance(0.5) else ""
    if kind < 4:
        return d.constant(np.array(runs, np.int64)), condition, None
    if kind < 6:
        return d.constant(np.array(runs, np.int64)), d.constant(np.array(d.chance(0.8))), d.integer(1, 4)
    if kind < 8:
        return "", d.constant(np.array(True)), max(runs, 1)
    if kind < 9:
        x = d.pick(1, fits=lambda s: s[0] <= 6)
        return d.add("Gather", d.add("Shape", x)[0], d.constant(np.array(0, np.int64)))[0], condition, None
    x = d.add("Cast", d.add("ReduceMax", d.pick(), keepdims=0)[0], to=7)[0]
    return d.add("Min", d.add("Abs", x)[0], d.constant(np.array(2, np.int64)))[0], condition, None


@draws("Scan")
def _scan(d: Drawing, operator: str) -> None:
    _enter(d)
    if d.chance(0.15):
        d.before(9, 8)
        return _scan_of_batches(d)
    first = d.pick(1, fits=lambda s: any(0 < n <= 6 for n in s))
    length = d.choice([n for n in d.shape_of(first) if 0 < n <= 6])
    scanned = [first]
    if d.chance(0.3):
        scanned.append(d.constant(d.floats((length, *d.shape(0, 2)))))
    axes = [d.choice([i for i, n in enumerate(d.shape_of(x)) if n == length]) for x in scanned]
    states = [_state(d) for _ in range(d.choice([0, 1, 1, 2]))]
    slices = [[np.take(v, 0, axis) for v in _same(d, x)] for x, axis in zip(scanned, axes, strict=True)]
    body, collected = _scanned_body(d, states, [_same(d, s) for s in states], slices)
    d.add(
        operator, *states, *scanned, outputs=len(states) + len(collected), body=body, num_scan_inputs=len(scanned),
        scan_input_axes=_signed(d, axes, [len(d.shape_of(x)) for x in scanned]),
        scan_input_directions=_directions(d, len(scanned)),
        scan_output_axes=[d.integer(0, rank) for rank in collected] if d.chance(0.4) and collected else None,
        scan_output_directions=_directions(d, len(collected)),
    )  # fmt: skip


def _scan_of_batches(d: Drawing) -> None:
    """Version 8 of Scan has a batch as the first axis of everything, and a length for each of its elements."""
    x = d.pick(2, fits=lambda s: 0 < s[0] <= 3 and 0 < s[1] <= 5)
    states = [d.constant(d.floats((d.shape_of(x)[0], *d.shape(0, 2))))] if d.chance(0.7) else []
    body, collected = _scanned_body(
        d, states, [[v[0] for v in _same(d, s)] for s in states], [[v[0, 0] for v in _same(d, x)]]
    )
    count = len(states) + len(collected)
    d.add("Scan", "", *states, x, outputs=count, body=body, num_scan_inputs=1, directions=_directions(d, 1))


def _scanned_body(
    d: Drawing, states: Sequence[str], starts: Sequence[Sequence[Array]], slices: Sequence[Sequence[Array]]
) -> tuple[onnx.GraphProto, list[int]]:
    """The body of a Scan, and the ranks of what it collects.

    Args:
        d: The network.
        states: What runs hand on.
        starts: The value of each state for one element of a batch, on each sample.
        slices: The first slice of each scanned tensor, on each sample.
    """
    with d.subgraph() as nodes:
        inner = [d.formal(value) for value in starts]
        parts = [d.formal(value) for value in slices]
        _nodes(d)
        found = [_next(d, s) for s in inner]
        found += [_result(d, nodes) for _ in range(d.integer(0 if states else 1, 2))]
        outputs = _returned(d, found, nodes)
        ranks = [len(d.shape_of(n)) for n in found[len(inner) :]]
        return _body(d, nodes, (*inner, *parts), outputs), ranks


def _directions(d: Drawing, count: int) -> Any:
    return [d.integer(0, 1) for _ in range(count)] if count and d.chance(0.4) else None


def _signed(d: Drawing, axes: Sequence[int], ranks: Sequence[int]) -> Any:
    """Axes, some of them counted from the end; None if they are the default."""
    if not any(axes) and d.chance(0.5):
        return None
    return [a - rank if d.chance(0.3) else a for a, rank in zip(axes, ranks, strict=True)]


@draws("Constant")
def _constant(d: Drawing, operator: str) -> None:
    """A constant in a node, in each way that ONNX has of writing one, added to a tensor."""
    x = d.pick()
    value: dict[str, Any] = d.choice(
        [
            {"value": numpy_helper.from_array(d.floats(d.shape_of(x)[-1:]))},
            {"value_float": 0.75},
            {"value_floats": [0.5, -1.25]},
            {"value_int": 3},
            {"value_ints": [2, -3]},
        ]
    )
    y = d.add(operator, **value)[0]
    if d.value(y).dtype != d.float:
        y = d.add("CastLike" if d.opset >= 15 else "Cast", y, *([x] if d.opset >= 15 else []),
                  to=None if d.opset >= 15 else helper.np_dtype_to_tensor_dtype(d.float))[0]  # fmt: skip
    d.add("Add", x, y)
