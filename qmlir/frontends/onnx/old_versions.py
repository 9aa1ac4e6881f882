"""Converts models of operator sets before 7 to operator set 7, by ONNX's own converter and a correction.

Before operator set 7, broadcasting was an attribute, operators named the inputs that they overwrite, BatchNormalization
had another form, and the slopes of PRelu belonged to channels; in operator set 7 they broadcast from the last axis.
ONNX's converter ignores the axis from which an operand broadcasts; this module adds the missing dimensions.
"""

import onnx
from onnx import shape_inference, version_converter

from qmlir.errors import FileError

OLDEST_OPSET = 7
"""The oldest operator set that the converters in this package support."""


def converted(model: onnx.ModelProto, version: int, file: str) -> onnx.ModelProto:
    """Returns an old model converted to operator set 7; the given model is left as it is.

    Raises:
        FileError: ONNX cannot convert the model.
    """
    try:
        inferred = shape_inference.infer_shapes(model)
        _shape_operands(inferred.graph)
        return version_converter.convert_version(inferred, OLDEST_OPSET)
    except Exception as error:  # the converter is C++, and its exceptions have no common type
        raise FileError(
            file,
            f"must use operator set {OLDEST_OPSET} or newer, or be one that ONNX can convert to it",
            got=f"operator set {version}, and {' '.join(str(error).split())}",
            remedy="export the model again",
        ) from None


def _shape_operands(graph: onnx.GraphProto) -> None:
    """Appends dimensions of size 1 to operands that broadcast from an axis, as numpy's broadcasting requires.

    Such operands are the second operand of an operator with `broadcast` and `axis`, and the slopes of PRelu (axis 1).

    Raises:
        ValueError: The rank of such an operand, or of the operand that it broadcasts against, is unknown.
    """
    infos = (*graph.input, *graph.value_info, *graph.output)
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in infos if i.type.tensor_type.HasField("shape")}
    ranks |= {t.name: len(t.dims) for t in graph.initializer}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        axis = _axis(node)
        if axis is not None:
            rank, own = (ranks.get(name) for name in node.input)
            if rank is None or own is None:
                name = node.name or node.output[0]
                raise ValueError(f"{node.op_type} {name!r} broadcasts from an axis of tensors of unknown rank")
            axes = list(range(own, rank - axis % max(rank, 1)))
            if axes:
                shaped = f"{node.output[0]}.shaped"
                graph.node.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [shaped], axes=axes))
                node.input[1] = shaped
        graph.node.append(node)


def _axis(node: onnx.NodeProto) -> int | None:
    """Returns the axis from which the second operand broadcasts, and removes its attribute; None for the last axis."""
    if len(node.input) != 2:
        return None
    if node.op_type == "PRelu":
        return 1
    axis = next((a for a in node.attribute if a.name == "axis"), None)
    if axis is None or not any(a.name == "broadcast" and a.i for a in node.attribute):
        return None
    node.attribute.remove(axis)
    return axis.i
