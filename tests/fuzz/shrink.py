"""A smaller case with the same finding: plainer options, fewer outputs and nodes, smaller inputs; and a file of it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.fuzz.checks import Case, Finding, check
from tests.fuzz.graphs import Array, Graph, Node
from tests.fuzz.options import Options
from tests.fuzz.oracle import Oracle

Key = tuple[str, str]

BY_OPERATORS = {"collapse"}
"""Checks whose kinds name the network's operators: a smaller network has fewer, and the same finding."""


def shrunk(case: Any, key: Key, seconds: float) -> tuple[Any, Finding] | None:
    """The smallest case found within some seconds that has a finding of a kind; None if the case has none itself.

    The finding is that of the smallest case: its kind names the operators that are left, where kinds name operators.
    """
    until = time.monotonic() + seconds
    if (finding := _found(case, key)) is None:
        return None
    again = True
    while again and time.monotonic() < until:
        again = False
        for candidate in smaller(case):
            if time.monotonic() > until:
                break
            if (found := _found(candidate, key)) is not None:
                case, finding, again = candidate, found, True
                break
    return case, finding


def _found(case: Any, key: Key) -> Finding | None:
    named, _ = key
    return next((f for f in check(case).findings if f.key == key or f.check == named in BY_OPERATORS), None)


@singledispatch
def smaller(case: Any) -> Iterator[Any]:
    """Smaller cases, those first that take away most."""
    raise NotImplementedError


@smaller.register
def _(case: Case) -> Iterator[Case]:
    for graph in _smaller(case.graph):
        if _runs(graph):
            yield replace(case, graph=graph)
    for options in case.options.simpler():
        yield replace(case, options=options)


def _runs(graph: Graph) -> bool:
    try:
        Oracle(graph)
    except Exception:  # what onnxruntime raises has no type of its own
        return False
    return bool(graph.nodes)


def _smaller(graph: Graph) -> Iterator[Graph]:
    values = [Oracle(graph).run(feed) for feed in graph.feeds()]
    for name in graph.outputs if len(graph.outputs) > 1 else ():
        yield replace(graph, outputs=(name,)).without_unused()
    made = [n for node in graph.nodes for n in node.outputs if n and n not in graph.outputs]
    for name in reversed(made):
        yield _cut(graph, name, tuple(v[name] for v in values))
    for name in reversed(made):
        yield replace(graph, outputs=(name,)).without_unused()
    for node in graph.nodes:
        for source in node.inputs[:1]:
            if source in values[0] and len(node.outputs) == 1 and _alike(values[0], source, node.outputs[0]):
                yield _bypassed(graph, node, source)
    if min((len(a) for a in graph.samples.values()), default=1) > 1:
        yield replace(graph, samples={n: a[:1] for n, a in graph.samples.items()})
    yield from _narrower(graph)


def _alike(values: dict[str, Array], a: str, b: str) -> bool:
    return (values[a].shape, values[a].dtype) == (values[b].shape, values[b].dtype)


def _cut(graph: Graph, name: str, arrays: tuple[Array, ...]) -> Graph:
    """The network in which a tensor is an input and not computed."""
    nodes = tuple(n for n in graph.nodes if name not in n.outputs)
    lost = {o for n in graph.nodes if name in n.outputs for o in n.outputs} - {name}
    if lost & {i for n in nodes for i in n.reads} or lost & set(graph.outputs):
        return replace(graph, nodes=())
    return replace(graph, nodes=nodes, samples={**graph.samples, name: arrays}).without_unused()


def _bypassed(graph: Graph, node: Node, source: str) -> Graph:
    """The network whose other nodes read a node's first operand where they read its result."""
    (result,) = node.outputs
    if result in graph.outputs:
        return replace(graph, nodes=())
    nodes = [
        replace(n, inputs=tuple(source if i == result else i for i in n.inputs)) for n in graph.nodes if n is not node
    ]
    return replace(graph, nodes=tuple(nodes)).without_unused()


def _narrower(graph: Graph) -> Iterator[Graph]:
    for name, arrays in graph.samples.items():
        for axis, size in enumerate(arrays[0].shape):
            for less in {n for n in (1, size // 2) if 0 < n < size}:
                part = tuple(np.take(a, range(less), axis) for a in arrays)
                yield replace(graph, samples={**graph.samples, name: part})


# -- files ---------------------------------------------------------------------------------------------------------


def write(folder: Path, case: Any, finding: Finding, origin: str) -> Path:
    """Writes a test that shows a finding; returns its path.

    Args:
        folder: Where; it is made if it is not there.
        case: The case.
        finding: What it shows.
        origin: What the file says of where it is from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = "_".join([finding.check, finding.kind]).lower()
    stem = "test_" + "".join(c if c.isalnum() else "_" for c in words)[:70].strip("_")
    path, n = folder / f"{stem}.py", 1
    while path.exists():
        path, n = folder / f"{stem}_{n}.py", n + 1
    path.write_text(_text(case, finding, origin), encoding="utf-8")
    return path


def _text(case: Any, finding: Finding, origin: str) -> str:
    detail = finding.detail.replace("\\", "\\\\").replace('"""', "'''")
    return f'''"""{finding.check}: {finding.kind}

{detail}

{origin}
"""

{source(case)}

def test_it() -> None:
    assert check(CASE).findings == []


if __name__ == "__main__":
    print(*check(CASE).findings, sep="\\n")
'''


@singledispatch
def source(case: Any) -> str:
    """Python text that makes a case and calls it `CASE`."""
    raise NotImplementedError


@source.register
def _(case: Case) -> str:
    graph = case.graph
    opsets = [(set.domain, set.version) for set in graph.model().opset_import]
    nodes = "".join(f"    {_node(node)},\n" for node in graph.nodes)
    constants = "".join(f"    {name!r}: {array_text(a)},\n" for name, a in graph.constants.items())
    samples = "".join(
        f"    {name!r}: ({', '.join(array_text(a) for a in arrays)},),\n" for name, arrays in graph.samples.items()
    )
    return f"""import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.checks import Case, check
from tests.fuzz.graphs import Graph
from tests.fuzz.options import Options

NODES = [
{nodes}]
CONSTANTS = {{
{constants}}}
SAMPLES = {{
{samples}}}
OUTPUTS = {list(graph.outputs)!r}


def model() -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), arrays[0].shape)
        for name, arrays in SAMPLES.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in OUTPUTS]
    constants = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()]
    graph = helper.make_graph(NODES, "found", inputs, outputs, constants)
    opsets = [helper.make_opsetid(*set) for set in {opsets}]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


OPTIONS = {options_text(case.options)}
CASE = Case(Graph.of(model(), SAMPLES), OPTIONS)
"""


def options_text(options: Options) -> str:
    """Options as Python text."""
    plain = Options()
    changed = {k: v for k, v in vars(options).items() if v != getattr(plain, k)}
    return f"Options({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


def _node(node: Node) -> str:
    inner = [repr(node.operator), repr(list(node.inputs)), repr(list(node.outputs))]
    if node.domain:
        inner.append(f"domain={node.domain!r}")
    inner += [f"{key}={_attribute(value)}" for key, value in node.attributes.items()]
    return f"helper.make_node({', '.join(inner)})"


def _attribute(value: Any) -> str:
    if isinstance(value, onnx.TensorProto):
        return f"TensorProto.FromString({value.SerializeToString()!r})"
    if isinstance(value, onnx.GraphProto):
        return f"onnx.GraphProto.FromString({value.SerializeToString()!r})"
    return repr(value)


def array_text(array: Array) -> str:
    """An array as Python text."""
    numbers = np.asarray(array).ravel().tolist()
    text = repr(numbers).replace("inf", "np.inf").replace("nan", "np.nan")
    return f"np.array({text}, np.{np.asarray(array).dtype.name}).reshape({np.asarray(array).shape})"
