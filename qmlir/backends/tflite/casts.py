"""Forms of casts: between element types, and between real values and stored integers."""

from typing import Any

from qmlir.backends.forms import Forms, require_uniform
from qmlir.backends.tflite.graph import Tensor
from qmlir.backends.tflite.kernels import KERNELS
from qmlir.backends.tflite.values import UINT8, Values, declared
from qmlir.dialects import nn
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.errors import UnsupportedError
from qmlir.ir.types import is_numpys_own

exports: Forms[Values] = Forms()


@exports(nn.CastOp)
def cast(op: nn.CastOp, values: Values) -> None:
    """Writes CAST; its result is undefined for a float beyond the range of an integer type."""
    x, form = values.stored(op.x), values.form(op.y)
    for role, dtype in (("data", x.dtype), ("a result", form.dtype)):
        if not is_numpys_own(dtype) or dtype.name not in KERNELS["CAST"].plain.split():
            raise UnsupportedError(f"needs {role} of a type that TFLite's CAST has", dtype.name,
                         "let the network have another type there, such as int64")  # fmt: skip
    values.hold(op.y, values.graph.converted(x, form.dtype))


@exports(nn.BitcastOp)
def bitcast(op: nn.BitcastOp, values: Values) -> None:
    """Writes BITCAST."""
    values.hold(op.y, values.graph.operator("BITCAST", [values.stored(op.x)], values.form(op.y)))


@exports(QuantizeCastOp)
def quantize_cast(op: QuantizeCastOp, values: Values) -> None:
    """Writes QUANTIZE, and MAXIMUM and MINIMUM if the storage range is narrower than its type."""
    require_uniform(op)
    values.define(op.result, values.real(op.input))


@exports(DequantizeCastOp)
def dequantize_cast(op: DequantizeCastOp, values: Values) -> None:
    """Writes the value's DEQUANTIZE, which all float readers of the value share."""
    require_uniform(op)
    values.hold(op.result, values.real(op.input))


@exports(StorageCastOp)
def storage_cast(op: StorageCastOp, values: Values) -> None:
    """Writes the same bits under another type, by RESHAPE or BITCAST; two casts in a row are written as one."""
    require_uniform(op)
    source = op.input.owner.input if isinstance(op.input.owner, StorageCastOp) else op.input
    x, form = values.stored(source), values.form(op.result)
    if values.is_moved(declared(source)) != values.is_moved(declared(op.result)):
        raise UnsupportedError("needs bytes of one sign in the network", str(source.type)[:160],
                     "requantize to signed storage")  # fmt: skip
    values.hold(op.result, _same_bits(values, x, op.result))
    assert form.shape == x.shape


def _same_bits(values: Values, x: Tensor, result: Any) -> Tensor:
    form = values.form(result)
    if x.form == form:
        return x
    if x.dtype == form.dtype:
        return values.graph.seen_as(x, form)
    if x.form.parameters is None or x.dtype == UINT8:
        return values.graph.operator("BITCAST", [values.graph.seen_as(x, form.typed(x.dtype))], form)
    raise UnsupportedError("must keep the sign of its storage", str(result.type)[:160], "requantize to it")
