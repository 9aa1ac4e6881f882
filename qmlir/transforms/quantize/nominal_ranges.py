"""Fills in ranges for a network that was not profiled: enough to see its integer form, not to keep its accuracy."""

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp, f64

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.base import QIntOp
from qmlir.dialects.quant.types import quantized_element

NOMINAL = (-1.0, 1.0)
"""The range that a tensor without an observed range gets."""


def is_float(module: ModuleOp) -> bool:
    """Whether no operation of a module is quantized or computes on integers (qint) yet; constants may be quantized."""
    return not any(
        isinstance(op, QIntOp) or any(quantized_element(v.type) is not None for v in op.results)
        for op in module.walk()
        if not isinstance(op, ConstantOp)
    )


def fill_ranges(module: ModuleOp) -> None:
    """Gives each observer without a range the nominal range."""
    for op in module.walk():
        if isinstance(op, ObserveOp) and op.bounds is None:
            op.range = ArrayAttr([FloatAttr(bound, f64) for bound in NOMINAL])
