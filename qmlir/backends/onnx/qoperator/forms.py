"""The table of forms on integers: operation class → the function that writes such an operation as an integer operator.

    @computes(nn.AddOp)
    def add(op: nn.AddOp, values: StoredValues) -> None: ...

A form works on stored integers. It either adds its node, or raises `NoOperator` before it adds anything.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms
from qmlir.backends.onnx.exporters import EXPORTS
from qmlir.backends.onnx.graph import Tensor
from qmlir.backends.onnx.values import StoredValues, Values
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.marks import ON_FLOATS
from qmlir.policies.quantized_values import data_values, is_weight, uniform

computes: Forms[StoredValues] = Forms()
"""The table; used as a decorator, it enters a form."""


class NoOperator(Exception):
    """Raised if no integer operator exists for an operation's types or attributes; it is then written on floats."""


def on_integers() -> Forms[Values]:
    """Returns the table of forms on real values, in which each form on integers is tried first."""
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
    """Raises NoOperator unless data and weights are bytes for f32, and data are per tensor and of one signedness."""
    if ON_FLOATS in op.attributes:
        raise NoOperator
    values = data_values(op)
    signs = {_signed_byte(v) for v in values if not is_weight(v, op)}
    if len(signs) != 1 or None in signs or any(_signed_byte(v) is None for v in values):
        raise NoOperator
    if any(uniform(v).is_per_axis and not is_weight(v, op) for v in values):
        raise NoOperator


def _signed_byte(value: SSAValue) -> bool | None:
    """Returns whether a value's bytes are signed; None unless the value is stored as int8 or uint8 for f32."""
    element = element_of(value)
    if not isinstance(element, UniformType) or element.storage_width > 8 or element.expressed != f32:
        return None
    low, high = (-128, 127) if element.is_signed else (0, 255)
    return element.is_signed if all(low <= z <= high for z in element.zero_points) else None


def scale_and_point(value: SSAValue, values: StoredValues) -> Sequence[Tensor]:
    """Returns the scale and the zero point of a value's integers; lists if the value is quantized per axis."""
    element = uniform(value)
    return values.parameters(element, element.numpy_dtype)
