"""Makes the batch dimension of a finished model symbolic, if the model treats the samples of a batch separately.

A module has static shapes; a first dimension that was symbolic in the source model is 1. So the exported nodes are
right for one sample. They are right for N samples if each node keeps samples apart. This file follows the batch
dimension from the inputs to the outputs: for each node, a rule by the node's operator says along which axis of the
result the samples lie. Constants that hold the batch's size (the shape of a Reshape, the ends of a Slice) are replaced.
A node without a rule, or one that mixes samples, leaves the model as it is, and the reason is returned.

There are rules for ONNX's operators on floats and on integers, and for those that onnxruntime has on integers. ONNX
does not infer shapes of the latter; an operator of ONNX stands for each of them while shapes are inferred.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx

from qmlir.backends.onnx.graph import MICROSOFT
from qmlir.formats.onnx import ARGUMENTS, CUMULATIVE, ON_INTEGERS, REDUCTIONS, WRITTEN
from qmlir.ir.interfaces import Array, Shape
from qmlir.ir.samples import MixesSamples, moved_axis

SMALL = 1024
"""The most elements of a constant whose values shape inference may need: shapes, axes, amounts of padding."""


class Mixes(Exception):
    """Raised for a node that mixes samples, or for which there is no rule; the text says why."""


def make_symbolic(model: onnx.ModelProto, symbols: Mapping[str, str]) -> str:
    """Makes the first dimension of some inputs and of all outputs symbolic.

    Args:
        model: The model, which is changed in place, or stays as it is if a reason is returned.
        symbols: The symbol of the first dimension of inputs, by the inputs' names.

    Returns:
        Why the dimension has to stay 1; empty if it became symbolic.
    """
    if len(set(symbols.values())) != 1:
        return f"the inputs have several symbols: {', '.join(dict.fromkeys(symbols.values()))}"
    (symbol,) = set(symbols.values())
    try:
        changes = _Batch(model, symbols).changes()
    except Mixes as reason:
        return str(reason)
    for node, index, array in changes:
        name = f"{node.output[0]}/{node.input[index]}"
        node.input[index] = name
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    read = {name for node in model.graph.node for name in node.input}
    for tensor in [t for t in model.graph.initializer if t.name not in read]:  # onnxruntime would warn of them
        model.graph.initializer.remove(tensor)
    for info in (*model.graph.input, *model.graph.output):
        if info.name in symbols or info in model.graph.output:
            info.type.tensor_type.shape.dim[0].dim_param = symbol
    return ""


Change = tuple[onnx.NodeProto, int, Array]
"""A node, the index of one of its inputs, and the constant that this input is to have."""


class _Batch:
    """The walk over the nodes of a model.

    axes       tensor name → the axis along which its samples lie; tensors that are the same for all samples lack. The
               size of that axis for one sample, in `shapes`, is 1, or that of a dimension that a Reshape has merged
    outer      tensor name → how often the samples follow one another along that axis (ir/samples.py)
    shapes     tensor name → its shape for one sample
    constants  small constants by name
    """

    def __init__(self, model: onnx.ModelProto, symbols: Mapping[str, str]):
        self.graph = model.graph
        self.constants = {
            t.name: onnx.numpy_helper.to_array(t)
            for t in model.graph.initializer
            if t.data_location != onnx.TensorProto.EXTERNAL and _size(t.dims) <= SMALL
        }
        self.shapes = _shapes(model, self.constants)
        self.axes = {name: 0 for name in symbols}
        self.outer = {name: 1 for name in symbols}
        self.found: list[Change] = []

    def changes(self) -> list[Change]:
        """Returns the constants to replace.

        Raises:
            Mixes: A node mixes samples, or an output does not have samples along its first axis.
        """
        for node in self.graph.node:
            if not any(name in self.axes for name in node.input):
                continue
            rule = RULES.get(node.op_type)
            try:
                if rule is None:
                    raise Mixes("qmlir knows no rule for it")
                outer = {self.outer[name] for name in node.input if name in self.axes}
                if len(outer) != 1:
                    raise Mixes("its operands have samples that follow one another in different ways")
                self.axes[node.output[0]] = rule(self, node)
                self.outer.setdefault(node.output[0], outer.pop())
            except Mixes as reason:
                raise Mixes(f'{node.op_type} "{node.name}": {reason}') from None
            if len(node.output) > 1:
                raise Mixes(f'{node.op_type} "{node.name}": it has several results')
        for info in self.graph.output:
            if self.axes.get(info.name) != 0 or self.shape(info.name)[0] != 1 or self.outer[info.name] != 1:
                raise Mixes(f'output "{info.name}" has no samples along its first axis')
        return self.found

    def shape(self, name: str) -> Shape:
        """Returns the shape of a tensor for one sample."""
        if name not in self.shapes:
            raise Mixes(f'the shape of "{name}" is not known')
        return self.shapes[name]

    def constant(self, name: str) -> Array:
        """Returns the value of a small constant."""
        if name not in self.constants:
            raise Mixes(f'"{name}" is computed')
        return self.constants[name]

    def only_first(self, node: onnx.NodeProto) -> int:
        """Returns the axis of the first input's samples; all other inputs must be the same for all samples."""
        if any(name in self.axes for name in node.input[1:]):
            raise Mixes("an operand other than the first depends on the sample")
        return self.axes[node.input[0]]

    def axis(self, node: onnx.NodeProto, default: int) -> int:
        """Returns the node's axis, counted from the start."""
        axis = _attributes(node).get("axis", default)
        return axis + len(self.shape(node.input[0])) if axis < 0 else axis

    def change(self, node: onnx.NodeProto, index: int, array: Array) -> None:
        """Notes a constant that has to be replaced."""
        self.found.append((node, index, array))


def _size(dims: Iterable[int]) -> int:
    return int(np.prod(list(dims), dtype=np.int64))


def _shapes(model: onnx.ModelProto, constants: Mapping[str, Array]) -> dict[str, Shape]:
    """Returns the shapes of all tensors that ONNX can infer; large constants take part without their values."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.name = model.graph.name
    light.graph.node.extend(_inferable(node) for node in model.graph.node)
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    for tensor in model.graph.initializer:
        if tensor.name in constants:
            light.graph.initializer.append(tensor)
        else:
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    graph = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    shapes = {name: array.shape for name, array in constants.items()}
    for info in (*graph.input, *graph.value_info, *graph.output):
        held = info.type.tensor_type
        if held.HasField("shape") and all(d.HasField("dim_value") for d in held.shape.dim):
            shapes[info.name] = tuple(d.dim_value for d in held.shape.dim)
    return shapes


ON_BYTES = {f"QLinear{WRITTEN[op].kind}": WRITTEN[op] for op in ON_INTEGERS}
"""onnxruntime's elementwise operators on integers → the operators on floats."""

OPERANDS: Mapping[str, Sequence[int]] = {
    **{kind: range(0, 3 * len(operator.inputs), 3) for kind, operator in ON_BYTES.items()},
    **{"QGemm": (0, 3), "QLinearMatMul": (0, 3), "MatMulInteger": (0, 1), "MatMul": (0, 1)},
    **dict.fromkeys(("QLinearSoftmax", "QLinearAveragePool", "QLinearGlobalAveragePool"), (0,)),
}
"""Operator → which of its inputs are operands; the others are scales, zero points and biases."""

STAND_INS: Mapping[str, tuple[str, Sequence[str]]] = {
    **{kind: (operator.kind, ()) for kind, operator in ON_BYTES.items()},
    "QLinearSoftmax": ("Identity", ()),
    "QLinearAveragePool": ("MaxPool", ("ceil_mode", "kernel_shape", "pads", "strides")),
    "QLinearGlobalAveragePool": ("GlobalMaxPool", ()),
    "QGemm": ("Gemm", ("transB",)),
}
"""onnxruntime's operator → ONNX's operator whose result has the same shape, and the attributes that decide on it."""


def _inferable(node: onnx.NodeProto) -> onnx.NodeProto:
    """Returns a node whose shapes ONNX infers: the stand-in of an operator of onnxruntime, or the node itself."""
    if node.domain != MICROSOFT or node.op_type not in STAND_INS:
        return node
    kind, kept = STAND_INS[node.op_type]
    made = onnx.helper.make_node(kind, _operands(node), list(node.output))
    made.attribute.extend(a for a in node.attribute if a.name in kept)
    return made


def _operands(node: onnx.NodeProto) -> list[str]:
    """Returns the names of the tensors that a node of a kind in `OPERANDS` computes with."""
    return [node.input[i] for i in OPERANDS[node.op_type]]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


# ---------------------------------------------------------------------------------------------------------------
# The rules: operator → function that returns the axis of the result's samples, or raises `Mixes`.


Rule = Callable[[_Batch, onnx.NodeProto], int]

RULES: dict[str, Rule] = {}

R = TypeVar("R", bound=Rule)


def _rule(*kinds: str) -> Callable[[R], R]:
    def enter(function: R) -> R:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def _aligned(batch: _Batch, names: Sequence[str], rank: int) -> int:
    """Returns the axis of the samples in the result of operands that broadcast to a rank."""
    places = {batch.axes[name] - len(batch.shape(name)) for name in names if name in batch.axes}
    if len(places) != 1:
        raise Mixes("its operands have their samples along different axes")
    (place,) = places
    if len({batch.shape(name)[place] for name in names if name in batch.axes}) != 1:
        raise Mixes("its operands have other numbers of elements for each sample")
    for name in names:
        shape = batch.shape(name) if name and name not in batch.axes else ()
        if len(shape) >= -place and shape[place] != 1:
            raise Mixes(f'"{name}" has elements along the axis of the samples')
    return rank + place


@_rule(
    *(o.kind for o in WRITTEN.values() if not o.domain and "axis" not in o.attributes),
    *("Clip", "Relu", "Cast", "Identity", "PRelu", "Round", "Reciprocal", "Sqrt", "BitShift", "BitCast", "Gelu"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Binarizer"),
)
def _pointwise(batch: _Batch, node: onnx.NodeProto) -> int:
    return _aligned(batch, [*filter(None, node.input)], max(len(batch.shape(n)) for n in node.input if n))


@_rule(*ON_BYTES)
def _on_bytes(batch: _Batch, node: onnx.NodeProto) -> int:
    operands = _operands(node)
    return _aligned(batch, operands, max(len(batch.shape(name)) for name in operands))


@_rule("QuantizeLinear", "DequantizeLinear")
def _cast(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    if batch.shape(node.input[1]) and batch.axis(node, 1) == axis:
        raise Mixes("it has a scale for each sample")
    return axis


@_rule(
    *("Conv", "ConvTranspose", "QLinearConv", "ConvInteger", "LRN"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "QLinearAveragePool", "QLinearGlobalAveragePool"),
)
def _window(batch: _Batch, node: onnx.NodeProto) -> int:
    if batch.only_first(node) != 0 or batch.shape(node.input[0])[0] != 1:
        raise Mixes("its samples do not lie along the first axis")
    return 0


@_rule("Gemm")
def _gemm(batch: _Batch, node: onnx.NodeProto) -> int:
    if batch.only_first(node) != 0 or _attributes(node).get("transA"):
        raise Mixes("it sums over samples")
    if len(node.input) > 2 and len(shape := batch.shape(node.input[2])) == 2 and shape[0] != 1:
        raise Mixes("its bias has rows")
    return 0


@_rule("QGemm")
def _gemm_of_bytes(batch: _Batch, node: onnx.NodeProto) -> int:
    if batch.only_first(node) != 0:
        raise Mixes("it sums over samples")
    return 0


@_rule("MatMul", "QLinearMatMul", "MatMulInteger")
def _matmul(batch: _Batch, node: onnx.NodeProto) -> int:
    lhs, rhs = _operands(node)
    ranks = {name: len(batch.shape(name)) for name in (lhs, rhs)}
    places = {name: batch.axes[name] - ranks[name] for name in (lhs, rhs) if name in batch.axes}
    if min(ranks.values()) < 2:
        raise Mixes("it multiplies vectors")
    if places == {lhs: -2}:
        return max(ranks.values()) - 2
    if not {-1, -2}.isdisjoint(places.values()):
        raise Mixes("it sums over samples, or multiplies them with each other")
    return _aligned(batch, [lhs, rhs], max(ranks.values()))


@_rule("Transpose")
def _transpose(batch: _Batch, node: onnx.NodeProto) -> int:
    return list(_attributes(node)["perm"]).index(batch.axes[node.input[0]])


@_rule("Reshape")
def _reshape(batch: _Batch, node: onnx.NodeProto) -> int:
    axis, before = batch.only_first(node), batch.shape(node.input[0])
    after = [int(n) for n in batch.constant(node.input[1])]
    outer = batch.outer[node.input[0]]
    ones = next((i for i, n in enumerate(after) if n != 1), len(after))  # the leading dimensions of size 1
    if not after or min(after) < 1:
        raise Mixes("it leaves no axis for the samples")
    if _size(before[:axis]) * outer == 1:  # the samples are the outermost of what it reads
        place, outer = max(min(axis, ones - 1), 0), 1
    else:
        try:
            place, outer = moved_axis(axis, outer, before, tuple(after))
        except MixesSamples as reason:
            raise Mixes(f"it {reason}") from None
    batch.change(node, 1, np.array([*after[:place], -1, *after[place + 1 :]], np.int64))
    batch.outer[node.output[0]] = outer
    return place


@_rule("Expand")
def _expand(batch: _Batch, node: onnx.NodeProto) -> int:
    axis, wanted = batch.only_first(node), batch.constant(node.input[1])
    rank = len(batch.shape(node.input[0]))
    if len(wanted) >= rank - axis and wanted[axis - rank] != 1:
        raise Mixes("it repeats samples")
    return max(rank, len(wanted)) + axis - rank


@_rule("Concat")
def _concat(batch: _Batch, node: onnx.NodeProto) -> int:
    axes = {batch.axes.get(name) for name in node.input}
    axis = axes.pop()
    if axes or axis is None:
        raise Mixes("it joins samples with what is the same for all of them, or with samples along another axis")
    if batch.axis(node, 0) == axis:
        raise Mixes("it joins samples of several tensors")
    return axis


@_rule("Softmax", "LogSoftmax", "QLinearSoftmax", "LpNormalization", *ARGUMENTS.values())
def _along(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    if batch.axis(node, 0 if node.op_type in ARGUMENTS.values() else -1) == axis:
        raise Mixes("it works across samples")
    return axis


@_rule("LayerNormalization", "RMSNormalization")
def _normalization(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    if batch.axis(node, -1) <= axis:
        raise Mixes("it works across samples")
    return axis


@_rule(*(kind for kind, _ in REDUCTIONS.values()))
def _reduction(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    given = batch.constant(node.input[1]).tolist() if len(node.input) > 1 else _attributes(node).get("axes", [])
    if not given or axis in {int(a) % len(batch.shape(node.input[0])) for a in given}:
        raise Mixes("it works across samples")
    return axis


@_rule(*(kind for kind, _ in CUMULATIVE.values()))
def _cumulation(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    if int(batch.constant(node.input[1])) % len(batch.shape(node.input[0])) == axis:
        raise Mixes("it works across samples")
    return axis


@_rule("Slice")
def _slice(batch: _Batch, node: onnx.NodeProto) -> int:
    axis = batch.only_first(node)
    starts, ends, axes, steps = (batch.constant(name).tolist() for name in node.input[1:5])
    place = axes.index(axis)
    if (starts[place], steps[place]) != (0, 1) or ends[place] < batch.shape(node.input[0])[axis]:
        raise Mixes("it selects samples")
    ends[place] = np.iinfo(np.int64).max
    batch.change(node, 2, np.array(ends, np.int64))
    return axis


@_rule("Pad")
def _pad(batch: _Batch, node: onnx.NodeProto) -> int:
    axis, amounts = batch.only_first(node), batch.constant(node.input[1])
    if amounts[axis] or amounts[axis + len(amounts) // 2]:
        raise Mixes("it adds samples")
    return axis


@_rule("Gather")
def _gather(batch: _Batch, node: onnx.NodeProto) -> int:
    data, indices = node.input
    along = batch.axis(node, 0)
    if data not in batch.axes:  # a table, in which each sample selects by indices of its own
        return along + batch.axes[indices]
    axis = batch.only_first(node)
    if axis == along:
        raise Mixes("it selects samples")
    return axis if axis < along else axis + len(batch.shape(node.input[1])) - 1
