"""Functions of one byte that LiteRT has no kernel on integers for: elements of a constant table, one for each byte."""

import numpy as np
from xdsl.ir import Operation

from qmlir.backends.tflite.graph import INDEX, Tensor
from qmlir.backends.tflite.values import INT8, MOVED, UINT8, Values, declared
from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.qmlir import ON_FLOATS
from qmlir.dialects.quant import tables
from qmlir.quantized_values import uniform
from qmlir.runtime_kernels import lacking

BYTES = (INT8, UINT8)


def tabled(op: Operation, values: Values) -> bool:
    """Writes an operation as GATHER from a table of its rounded results; false where it is none of exact bytes.

    Where LiteRT's numerics have a way of their own for a function, an exact table is not what they compute; nor is it
    what the model computes on floats.
    """
    if not isinstance(op, FunctionOp) or ON_FLOATS in op.attributes:
        return False
    forms = values.form(op.x), values.form(op.y)
    if any(form.parameters is None or form.dtype not in BYTES for form in forms):
        return False
    if not lacking(op, "litert-reference", signed=values.moves):
        return False
    results = values.graph.constant(_results(op, values), forms[1].parameters)
    found = values.graph.operator("GATHER", [results, _places(values.stored(op.x), values)], forms[1], {"Axis": 0})
    values.hold(op.y, found)
    return True


def _results(op: FunctionOp, values: Values) -> Array:
    """The stored result for each byte, from the least on; [256]."""
    data, result = uniform(op.x), uniform(op.y)
    limits = np.iinfo(data.numpy_dtype)
    found = tables.lookup_table(
        op.scalar,
        data.scale,
        data.zero_point,
        result.scale,
        result.zero_point,
        in_range=(int(limits.min), int(limits.max)),
        out_range=(result.storage_min, result.storage_max),
        dtype=result.numpy_dtype,
    )
    return (found.astype(np.int16) - MOVED).astype(INT8) if values.is_moved(declared(op.y)) else found


def _places(x: Tensor, values: Values) -> Tensor:
    """Where in a table the result for each byte stands."""
    graph, places = values.graph, values.graph.converted(x, INDEX)
    least = int(np.iinfo(x.dtype).min)
    return graph.pointwise("ADD", places, graph.number(-least, places)) if least else places
