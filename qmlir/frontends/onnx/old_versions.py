"""Models of operator sets before 7, as models of operator set 7: what ONNX's own converter does, and what it forgets.

Before 7 broadcasting was an attribute, operators named the inputs that they overwrite, BatchNormalization had another
form, and the slopes of PRelu belonged to channels, which 7 has broadcast from the last axis. ONNX's converter overlooks
from which axis an operand broadcasts.
"""

import onnx
from onnx import shape_inference, version_converter

from qmlir.errors import FileError

OLDEST_OPSET = 7
"""The oldest operator set that converters may know."""


def converted(model: onnx.ModelProto, version: int, file: str) -> onnx.ModelProto:
    """An old model in operator set 7; the given one stays as it is.

    Raises:
        FileError: ONNX cannot convert it.
    """
    try:
        inferred = shape_inference.infer_shapes(model)
        _shape_operands(inferred.graph)
        return version_converter.convert_version(inferred, OLDEST_OPSET)
    except Exception as error:  # C++: its exceptions have no common type
        raise FileError(
            file,
            f"must use operator set {OLDEST_OPSET} or newer, or be one that ONNX can convert to it",
            got=f"operator set {version}, and {' '.join(str(error).split())}",
            remedy="export the model again",
        ) from None


def _shape_operands(graph: onnx.GraphProto) -> None:
    """Gives the operands that broadcast from an axis the dimensions of one that numpy's rule wants behind them.

    These are the second operand of an operator with `broadcast` and `axis`, and the slopes of PRelu from axis 1.
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
    """From which axis the second operand broadcasts, and forgets it; None if from the last, as ever since."""
    if len(node.input) != 2:
        return None
    if node.op_type == "PRelu":
        return 1
    axis = next((a for a in node.attribute if a.name == "axis"), None)
    if axis is None or not any(a.name == "broadcast" and a.i for a in node.attribute):
        return None
    node.attribute.remove(axis)
    return axis.i
