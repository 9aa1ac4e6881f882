"""Model files that are wrong in one or several ways, each made of a good one by a number.

A mutation takes the bytes of a file or the decoded model. What is wrong is what transport, editors, exporters and
attackers make: flipped bits, lost ends, wrong ranks, cycles, missing initializers, absurd shapes, data of other files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.conformance.cases import cases
from tests.conftest import ROOT

Random = np.random.Generator
Structural = Callable[[onnx.ModelProto, Random], object]

ABSURD = (0, -1, -2, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 40, 1 << 62, -(1 << 63), (1 << 63) - 1)
LARGEST_CONSTANT = 1 << 20
"""The most elements of a constant that a mutation makes."""

OPERATORS = """Add Conv MatMul Reshape Gather Concat Transpose Pad Slice Resize Expand Tile Range ConstantOfShape Where
    TopK Loop If Scan Einsum OneHot Flatten Gemm MaxPool ConvTranspose QLinearConv Softmax BatchNormalization Split
    ReduceSum LSTM Unsqueeze DequantizeLinear Attention Cast Clip Unheard""".split()


@dataclass(frozen=True)
class Mutant:
    """A file that is probably no good model, and how it was made."""

    data: bytes
    how: str


def mutant(number: int, bases: Sequence[bytes]) -> Mutant:
    """The mutant of a number."""
    random = np.random.default_rng(number)
    data = _pick(random, bases)
    if random.random() < 0.35:
        change = _pick(random, BYTES)
        return Mutant(change(data, random, bases), change.__name__)
    model = onnx.ModelProto.FromString(data)
    chosen = [_pick(random, STRUCTURE) for _ in range(1 + int(random.random() < 0.3))]
    for change in chosen:
        change(model, random)
    return Mutant(model.SerializeToString(), ", ".join(c.__name__ for c in chosen))


def base_models() -> list[bytes]:
    """Small good models: of single operators, of networks, with functions, subgraphs and external data."""
    found = [c.model.SerializeToString() for c in cases("node") if c.model.ByteSize() < 20_000][::7]
    digits = (ROOT / "examples" / "digits" / "digits.onnx").read_bytes()
    return found + [digits] * 40 + [_with_external_data()] * 20 + [_with_function()] * 10


def _with_external_data() -> bytes:
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])])
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights"), ("offset", "0"), ("length", "12")):
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString()


def _with_function() -> bytes:
    model = _model([helper.make_node("Twice", ["x"], ["y"], domain="mine")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    body = [helper.make_node("Add", ["a", "a"], ["c"]), helper.make_node("Relu", ["c"], ["b"])]
    model.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], body, opsets))
    model.opset_import.append(opsets[1])
    return model.SerializeToString()


def _model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy")
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 21)])


def write(folder: Path, mutant: Mutant) -> Path:
    """Writes a mutant where a good model's side file is, and one outside the model's folder."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "secret").write_bytes(b"secret" * 100)
    (folder / "model" / "weights").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    path = folder / "model" / "net.onnx"
    path.write_bytes(mutant.data)
    return path


# ---------------------------------------------------------------------------------------------------------------
# Bytes


def flipped_bits(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for at in random.integers(len(data), size=random.integers(1, 17)):
        changed[int(at)] ^= 1 << int(random.integers(8))
    return bytes(changed)


def lost_end(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    return data[: random.integers(len(data))]


def lost_piece(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    at = int(random.integers(len(data)))
    return data[:at] + data[at + int(random.integers(1, 64)) :]


def repeated_piece(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    a, b = sorted(int(i) for i in random.integers(len(data), size=2))
    return data[:b] + data[a:b] + data[b:]


def random_piece(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    at = int(random.integers(len(data)))
    return data[:at] + random.bytes(int(random.integers(1, 40))) + data[at:]


def two_files(data: bytes, random: Random, bases: Sequence[bytes]) -> bytes:
    """Protobuf merges them."""
    return data + _pick(random, bases)


BYTES = (flipped_bits, flipped_bits, lost_end, lost_piece, repeated_piece, random_piece, two_files)

# ---------------------------------------------------------------------------------------------------------------
# Structure


def _pick(random: Random, items: Any) -> Any:
    return items[int(random.integers(len(items)))] if len(items) else None


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of a model, those of subgraphs and functions too."""
    found: list[onnx.NodeProto] = []
    waiting = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [n for a in node.attribute for g in (a.g, *a.graphs) for n in g.node]
    return found


def wrong_rank(model: onnx.ModelProto, random: Random) -> None:
    info = _pick(random, [*model.graph.input, *model.graph.output])
    dims = info.type.tensor_type.shape.dim if info else []
    if random.random() < 0.5 and len(dims):
        del dims[int(random.integers(len(dims)))]
    elif info:
        info.type.tensor_type.shape.dim.add(dim_value=int(random.integers(5)))


def absurd_input(model: onnx.ModelProto, random: Random) -> None:
    info = _pick(random, model.graph.input)
    dim = _pick(random, info.type.tensor_type.shape.dim) if info else None
    if dim is not None:
        dim.dim_value = int(_pick(random, ABSURD))


def absurd_initializer(model: onnx.ModelProto, random: Random) -> None:
    tensor = _pick(random, model.graph.initializer)
    if tensor is None:
        model.graph.initializer.add(name=_any_name(model, random), data_type=1, dims=[int(_pick(random, ABSURD))])
    elif len(tensor.dims):
        tensor.dims[int(random.integers(len(tensor.dims)))] = int(_pick(random, ABSURD))


def absurd_shape_input(model: onnx.ModelProto, random: Random) -> None:
    """An input becomes an initializer of absurd integers: a shape, axes, pads, a count."""
    info = _pick(random, model.graph.input)
    if info is not None:
        values = np.array([_pick(random, ABSURD) for _ in range(int(random.integers(1, 5)))], np.int64)
        model.graph.initializer.append(numpy_helper.from_array(values, info.name))
        model.graph.input.remove(info)


def constant_input(model: onnx.ModelProto, random: Random) -> None:
    """An input becomes an initializer, so that things are folded."""
    info = _pick(random, model.graph.input)
    if info is None or not info.type.HasField("tensor_type"):
        return
    kind = info.type.tensor_type
    sizes = [d.dim_value for d in kind.shape.dim]
    if abs(prod(sizes)) > LARGEST_CONSTANT:  # of absurd shapes
        return
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        array = random.integers(0, 4, sizes).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    except (KeyError, ValueError, TypeError, NotImplementedError):
        return
    model.graph.input.remove(info)


def large_constants(model: onnx.ModelProto, random: Random) -> None:
    """A few bytes that stand for gigabytes."""
    name = _any_name(model, random)
    size = [int(d) for d in random.choice([1, 64, 1024, 1 << 16, 1 << 20], size=int(random.integers(1, 5)))]
    model.graph.initializer.append(numpy_helper.from_array(np.array(size, np.int64), "size"))
    nodes = [helper.make_node("ConstantOfShape", ["size"], [name + "_large"]), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for node in nodes[1:]:
        for i, read in enumerate(node.input):
            if read == name:
                node.input[i] = name + "_large"


def _any_name(model: onnx.ModelProto, random: Random) -> str:
    names = [n for node in model.graph.node for n in (*node.input, *node.output) if n]
    return _pick(random, names) or "none"


def wrong_type(model: onnx.ModelProto, random: Random) -> None:
    info = _pick(random, [*model.graph.input, *model.graph.initializer])
    code = int(random.integers(-1, 30))
    if isinstance(info, onnx.TensorProto):
        info.data_type = code
    elif info is not None:
        info.type.tensor_type.elem_type = code


def cycle(model: onnx.ModelProto, random: Random) -> None:
    node, other = _pick(random, _nodes(model)), _pick(random, _nodes(model))
    if node is not None and len(node.input) and len(other.output):
        node.input[int(random.integers(len(node.input)))] = other.output[0]


def shuffled(model: onnx.ModelProto, random: Random) -> None:
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[i] for i in random.permutation(len(nodes)))


def missing_initializer(model: onnx.ModelProto, random: Random) -> None:
    if len(model.graph.initializer):
        del model.graph.initializer[int(random.integers(len(model.graph.initializer)))]


def missing_input(model: onnx.ModelProto, random: Random) -> None:
    if len(model.graph.input):
        del model.graph.input[int(random.integers(len(model.graph.input)))]


def other_name(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, _nodes(model))
    names = node.input if node is not None and random.random() < 0.6 else node.output if node is not None else []
    if len(names):
        names[int(random.integers(len(names)))] = _pick(random, ["", "x", "none", _any_name(model, random)])


def other_operator(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, _nodes(model))
    if node is not None:
        node.op_type = _pick(random, OPERATORS)


def other_domain(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, _nodes(model))
    if node is not None:
        node.domain = _pick(random, ["", "ai.onnx", "com.microsoft", "mine", "ai.onnx.ml"])


def other_count(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, _nodes(model))
    if node is None:
        return
    names = _pick(random, [node.input, node.output])
    if random.random() < 0.5 and len(names):
        names.pop()
    else:
        names.append(_any_name(model, random) if names is node.input else f"extra{random.integers(1000)}")


def attribute(model: onnx.ModelProto, random: Random) -> None:
    found = [a for n in _nodes(model) for a in n.attribute]
    chosen = _pick(random, found)
    if chosen is None:
        return
    match int(random.integers(5)):
        case 0:
            chosen.type = int(random.integers(0, 15))
        case 1 if len(chosen.ints):
            chosen.ints[int(random.integers(len(chosen.ints)))] = int(_pick(random, ABSURD))
        case 2:
            chosen.ints.append(int(_pick(random, ABSURD)))
        case 3:
            chosen.i, chosen.f = int(_pick(random, ABSURD)), float(_pick(random, [np.nan, np.inf, -1.0, 1e38]))
        case _:
            chosen.name = _pick(random, ["axis", "axes", "pads", "strides", "group", "to", "perm", "none", ""])


def new_attribute(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, _nodes(model))
    if node is not None:
        name = _pick(
            random, ["axis", "axes", "pads", "strides", "dilations", "kernel_shape", "group", "to", "perm", "k"]
        )
        value = _pick(random, [int(_pick(random, ABSURD)), [int(_pick(random, ABSURD))] * 2, [1, 0], 1.5, "SAME_UPPER"])
        node.attribute.append(helper.make_attribute(name, value))


def other_operator_set(model: onnx.ModelProto, random: Random) -> None:
    opset = _pick(random, model.opset_import)
    if opset is not None:
        opset.version = int(_pick(random, [0, 1, 4, 6, 7, 9, 11, 12, 13, 17, 18, 21, 23, 99, -1, 1 << 62]))


def escaping_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = _pick(random, model.graph.initializer)
    if tensor is None:
        tensor = model.graph.initializer.add(name=_any_name(model, random), data_type=1, dims=[3])
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    where = ["../secret", "/etc/hostname", "weights/../../secret", "/dev/zero", "", ".", "..", "weights", "none", "\0"]
    tensor.external_data.add(key="location", value=_pick(random, where))
    tensor.external_data.add(key="offset", value=_pick(random, ["0", "-1", "8", "1e3", "", "9" * 20, "x"]))
    tensor.external_data.add(key="length", value=_pick(random, ["12", "0", "-12", "4611686018427387904", "", "y"]))


def broken_data(model: onnx.ModelProto, random: Random) -> None:
    tensor = _pick(random, model.graph.initializer)
    if tensor is not None:
        tensor.raw_data = tensor.raw_data[: int(random.integers(1 + len(tensor.raw_data)))] + b"?"


def twice(model: onnx.ModelProto, random: Random) -> None:
    node = _pick(random, model.graph.node)
    if node is not None:
        model.graph.node.append(node)


def function_of_itself(model: onnx.ModelProto, random: Random) -> None:
    name = _pick(random, [n.op_type for n in model.graph.node]) or "Twice"
    body = [helper.make_node(name, ["a"], ["b"], domain=_pick(random, ["", "mine"]))]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    model.functions.append(helper.make_function(_pick(random, ["", "mine"]), name, ["a"], ["b"], body, opsets))


def endless_loop(model: onnx.ModelProto, random: Random) -> None:
    """Loops in loops, each with many runs."""
    runs = numpy_helper.from_array(np.array(int(_pick(random, [3, 1000, 1 << 40])), np.int64), "runs")
    on = numpy_helper.from_array(np.array(True), "on")
    body = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["s", "s"], ["t"])]
    for depth in range(int(random.integers(1, 5))):
        infos = [helper.make_tensor_value_info(n, t, None) for n, t in (("i", 7), ("c", 9), ("s", 1))]
        outputs = [helper.make_tensor_value_info(n, t, None) for n, t in (("d", 9), ("t", 1))]
        graph = helper.make_graph(body, f"body{depth}", infos, outputs)
        inner = helper.make_node("Loop", ["runs", "on", "s"], ["t"], body=graph)
        body = [helper.make_node("Identity", ["c"], ["d"]), inner]
    model.graph.initializer.extend([runs, on])
    for info in model.graph.input[:1]:
        inner.input[2] = info.name
        inner.output[0] = model.graph.output[0].name if len(model.graph.output) else "t"
        del model.graph.node[:]
        model.graph.node.append(inner)


STRUCTURE: tuple[Structural, ...] = (
    wrong_rank, wrong_rank, absurd_input, absurd_initializer, absurd_shape_input, constant_input, constant_input,
    large_constants, wrong_type, cycle, shuffled, missing_initializer, missing_input, other_name, other_operator,
    other_domain, other_count, attribute, attribute, new_attribute, other_operator_set, escaping_data, broken_data,
    twice, function_of_itself, endless_loop,
)  # fmt: skip
