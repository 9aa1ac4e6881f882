"""States on operations of floats how the followed runtime rounds them: on casts, and on sums, means and average pools.

An operation of the integer part gets its rounding from a contract (runtime_kernels.py). What the source model computes
on floats rounds in each step, and the order of the steps is the runtime's (runtimes.py). Attributes of the operations
name the ways, so that constants are folded as they would be computed, and every back end computes the same bits.
"""

from math import prod

from xdsl.dialects.builtin import f32

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import UnaryOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.nn.reduction import AccumulationOp, AdditionOp
from qmlir.dialects.quant.ops import REST_BELOW, DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import ADDITION, QUANTIZATION, REST, UNDELEGATED
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.policies.runtimes import RUNTIMES, follows_litert, rounding_of

Cast = QuantizeCastOp | DequantizeCastOp

EXACT = "exact"
"""The way of a cast that rounds once, which needs no statement."""


def state_cast(cast: Cast, runtime: str) -> None:
    """States on a cast how the followed runtime computes its elements, and the last of them, fewer than eight.

    A quantization that the source model's operator has by itself stays where the runtime has none.
    """
    if not isinstance(cast.quantized_type, UniformType):
        return
    main, *rest = cast_rounding(cast, runtime)
    if main != EXACT or isinstance(cast, DequantizeCastOp):
        QUANTIZATION.set(cast, None if main == EXACT else main)
    REST.set(cast, rest[0] if rest else None)


def cast_rounding(cast: Cast, runtime: str) -> list[str]:
    """Returns how a runtime computes a cast's elements, then, if otherwise, the last elements, fewer than eight."""
    undelegated = UNDELEGATED.on(cast)
    main, rest = _cast_rounding(cast.name, cast.quantized, runtime, undelegated=undelegated)
    return [main, rest] if rest is not None and prod(shape_of(cast.result)) % REST_BELOW else [main]


def on_floats_rounding(op: UnaryOp, runtime: str) -> list[tuple[str, str]]:
    """Returns how a runtime computes an operation on floats between two casts, by names of the casts' ways.

    Returns:
        (dequantization, quantization) of the elements, then of the last elements, fewer than eight, if there are any.
    """
    undelegated = UNDELEGATED.on(op)
    data = _cast_rounding(DequantizeCastOp.name, uniform(op.x), runtime, undelegated=undelegated)
    result = _cast_rounding(QuantizeCastOp.name, uniform(op.y), runtime, undelegated=undelegated)
    rests = [main if rest is None else rest for main, rest in (data, result)]
    ways = [(data[0], result[0]), (rests[0], rests[1])]
    return ways if prod(shape_of(op.y)) % REST_BELOW else ways[:1]


def _cast_rounding(cast: str, type: UniformType, runtime: str, *, undelegated: bool = False) -> tuple[str, str | None]:
    """Returns how a runtime computes a cast's elements, and how the last of them; None for the last if as the others.

    LiteRT has one kernel for a scale for each channel, that of its reference. XNNPACK leaves more than 8 bits to the
    optimized kernels.
    """
    if follows_litert(runtime) and type.is_per_axis:
        runtime = "litert-reference"
    elif runtime == "litert-xnnpack" and (undelegated or type.storage_width > 8):
        runtime = "litert-builtin"
    rounding = rounding_of(cast, runtime, EXACT, f"{type.storage_width} bits")
    return rounding.contract, None if rounding.rest is None else rounding.rest.contract


def state_addition(op: AdditionOp, runtime: str) -> None:
    """States on an operation of floats how the followed runtime adds."""
    ADDITION.set(op, _addition(op, runtime))


def _addition(op: AdditionOp, runtime: str) -> str | None:
    """Returns how a runtime adds floats, a name in `additions.ADDITIONS`; None for the operation's own way."""
    if element_of(op.operands[0]) != f32 or 0 in shape_of(op.operands[0]):
        return None
    if runtime == "litert-xnnpack" and (UNDELEGATED.on(op) or _declines(op)):
        runtime = "litert-builtin"
    rounding = RUNTIMES[runtime].get(f"{op.name}/f32")
    if rounding is None or (rounding.contract == "float32_reciprocal" and _adds_in_vectors(op)):
        return None
    return rounding.contract


def _declines(op: AdditionOp) -> bool:
    """Whether XNNPACK leaves an operation on floats to LiteRT's kernels: pools whose strides step over elements."""
    if not isinstance(op, nn.AveragePool2DOp):
        return False
    return any(stride > size for stride, size in zip(op.stride_values(), op.window_values(), strict=True))


def _adds_in_vectors(op: AdditionOp) -> bool:
    """Whether XNNPACK adds neighbours in memory, in an order that depends on the processor's vectors."""
    return isinstance(op, AccumulationOp) and op.axes.get_values()[-1:] == (len(shape_of(op.x)) - 1,)
