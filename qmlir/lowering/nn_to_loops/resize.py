"""Lowering of float interpolation."""

from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.codegen.kernels.resize import lower_resize
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of


def _resize(state: MainLowering, op: ResizeOp) -> None:
    if is_quantized(op.x):  # nn-to-qint defines the exact meaning of a quantized resize
        return
    dtype = dtype_of(element_of(op.x))
    tables = [(axis, taps, weights.astype(dtype)) for axis, taps, weights in op.tables()]
    lower_resize(state, "nn_resize", tables, op.x, op.y)


RULES: Rules = {ResizeOp: _resize}
