"""Models of operator sets before 7, as models of operator set 7: what ONNX's own converter does, and what it forgets.

Before 7 broadcasting was an attribute, operators named the inputs that they overwrite, BatchNormalization had another
form, and the slopes of PRelu belonged to channels, which 7 has broadcast from the last axis.
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
        _shape_slopes(inferred.graph)
        return version_converter.convert_version(inferred, OLDEST_OPSET)
    except Exception as error:  # C++: its exceptions have no common type
        raise FileError(
            file,
            f"must use operator set {OLDEST_OPSET} or newer, or be one that ONNX can convert to it",
            got=f"operator set {version}, and {' '.join(str(error).split())}",
            remedy="export the model again",
        ) from None


def _shape_slopes(graph: onnx.GraphProto) -> None:
    """Gives the slopes [C] of each PRelu on [N, C, …] the shape [C, 1, …]."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in infos if i.type.tensor_type.HasField("shape")}
    ranks |= {t.name: len(t.dims) for t in graph.initializer}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "PRelu" and len(node.input) == 2 and ranks.get(node.input[1]) == 1:
            axes = list(range(1, ranks.get(node.input[0], 0) - 1))
            if axes:
                shaped = f"{node.output[0]}.slope"
                graph.node.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [shaped], axes=axes))
                node.input[1] = shaped
        graph.node.append(node)
