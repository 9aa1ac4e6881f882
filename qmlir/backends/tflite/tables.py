"""Lookup tables for functions of quantized bytes that have no integer kernel in LiteRT."""

import numpy as np
from xdsl.ir import Operation

from qmlir.backends.tflite.graph import INDEX, Tensor
from qmlir.backends.tflite.values import INT8, MOVED, UINT8, Values, declared
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.ir.interfaces import Array
from qmlir.ir.marks import ON_FLOATS
from qmlir.numerics import tables
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtime_kernels import lacking

BYTES = (INT8, UINT8)


def tabled(op: Operation, values: Values) -> bool:
    """Writes an operation as GATHER from a table of its 256 rounded results; returns False if a table does not fit.

    A table fits a function from quantized bytes to quantized bytes for which LiteRT has no integer kernel. If LiteRT
    has a kernel, its results may differ from the table's exact results. If the source model computes the function on
    floats (ON_FLOATS), the table does not fit either.
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
    """Returns the stored result for each byte in ascending order, [256]."""
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
    """Returns the table index of each stored byte."""
    graph, places = values.graph, values.graph.converted(x, INDEX)
    least = int(np.iinfo(x.dtype).min)
    return graph.pointwise("ADD", places, graph.number(-least, places)) if least else places
