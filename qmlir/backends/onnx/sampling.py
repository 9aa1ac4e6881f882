"""The form of sampling images at computed places: GridSample."""

import numpy as np

from qmlir.backends.onnx.exporters import exports
from qmlir.backends.onnx.values import Values, channels_first
from qmlir.dialects import nn
from qmlir.ir.interfaces import shape_of


@exports(nn.SampleOp)
def sample(op: nn.SampleOp, values: Values) -> None:
    """Writes GridSample with converted places.

    nn's places count elements. ONNX's places run from −1 to 1 between the centres or the edges of the outer elements.
    """
    graph, (batch, *sizes, channels) = values.graph, shape_of(op.x)
    centres = op.padding.data == "reflect_centres"
    lengths = np.array(sizes[::-1], np.float64)  # the last axis comes first
    scale = 2 / np.maximum(lengths - 1, 1) if centres else 2 / lengths
    offset = np.full(len(sizes), -1.0) if centres else 1 / lengths - 1
    x, places = values.real(op.x, channels_first(len(sizes) + 2)), values.real(op.places)
    listed = list(shape_of(op.places)[1:-1])
    count = int(np.prod(listed, dtype=np.int64))
    flat = [batch, *[1] * (len(sizes) - 1), count]
    grid = graph.node("Reshape", places, graph.indices([*flat, len(sizes)]))
    grid = graph.node("Gather", grid, graph.indices(range(len(sizes) - 1, -1, -1)), axis=len(sizes) + 1)
    scaled = graph.node("Mul", grid, graph.constant(scale.astype(grid.dtype)))
    grid = graph.node("Add", scaled, graph.constant(offset.astype(grid.dtype)))
    found = graph.node(
        "GridSample",
        x,
        grid,
        mode=op.method.data,
        padding_mode=op.padding.data.partition("_")[0].replace("reflect", "reflection"),
        align_corners=int(centres),
    )
    last = graph.node("Transpose", found, perm=[0, *range(2, len(sizes) + 2), 1])
    values.define(op.y, graph.node("Reshape", last, graph.indices([batch, *listed, channels])))
