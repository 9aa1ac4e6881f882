"""The table of operations that have an operator on integers: class → what makes a node of one.

    @computes(nn.AddOp)
    def add(op: nn.AddOp, values: StoredValues) -> None: ...

A form sees stored integers, and either makes its node or raises `NoOperator` before it has made anything.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms
from qmlir.backends.onnx_qdq.exporters import EXPORTS
from qmlir.backends.onnx_qdq.graph import Tensor
from qmlir.backends.onnx_qdq.values import StoredValues, Values
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.qmlir import ON_FLOATS
from qmlir.dialects.quant.types import UniformType
from qmlir.quantized_values import data_values, is_weight, uniform

computes: Forms[StoredValues] = Forms()
"""Enters a function into the table."""


class NoOperator(Exception):
    """An operation for whose types or attributes there is no operator on integers; it stays one on floats."""


def on_integers() -> Forms[Values]:
    """The table of the forms on real values, each after the one on integers where there is one."""
    table: Forms[Values] = Forms()
    table.entries.update(EXPORTS)
    table.entries.update({op: _attempted(form, EXPORTS[op]) for op, form in computes.entries.items()})
    return table


def _attempted(
    form: Callable[[Any, StoredValues], None], otherwise: Callable[[Any, Values], None]
) -> Callable[[Operation, Values], None]:
    def write(op: Operation, values: Values) -> None:
        try:
            _require_bytes(op)
            form(op, StoredValues(values))
        except NoOperator:
            otherwise(op, values)

    return write


def _require_bytes(op: Operation) -> None:
    """Raises NoOperator unless the data are bytes that stand for f32, all signed or all not; weights may be others."""
    if ON_FLOATS in op.attributes:
        raise NoOperator
    values = data_values(op)
    signs = {_signed_byte(v) for v in values if not is_weight(v, op)}
    if len(signs) != 1 or None in signs or any(_signed_byte(v) is None for v in values):
        raise NoOperator
    if any(uniform(v).is_per_axis and not is_weight(v, op) for v in values):
        raise NoOperator


def _signed_byte(value: SSAValue) -> bool | None:
    """Whether the bytes of a value are signed; None of a value that is none of bytes."""
    element = element_of(value)
    if not isinstance(element, UniformType) or element.storage_width > 8 or element.expressed != f32:
        return None
    low, high = (-128, 127) if element.is_signed else (0, 255)
    return element.is_signed if all(low <= z <= high for z in element.zero_points) else None


def scale_and_point(value: SSAValue, values: StoredValues) -> Sequence[Tensor]:
    """The scale of a value's integers and their zero point; lists along an axis."""
    element = uniform(value)
    return values.parameters(element, element.numpy_dtype)
