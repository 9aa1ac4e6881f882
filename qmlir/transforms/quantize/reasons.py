"""Why an operation stays float: the one place where the passes of the quantizer ask, and find the sentence.

A reason is a code of the ledger (`policies.ledger.KINDS`, which has the remedy of each) and a sentence in which `it` is
the operation. The passes ask in this order, and the first reason counts:

1. `apply-policy` has written what the policy keeps float (`blocked`).
2. `choose-scales` asks `why_without_scales`, before it chooses scales: tensors without elements; what the config, the
   target and the operands allow (`why_float`); functions that are steep for their data, and what they read
   (ranges/digits.py); tensors without ranges. Then it leaves data movement between float operations (`MOVED`).
3. `quantize-ops` asks `why_without_casts` about an operation without casts around it, and leaves one whose result is
   read as floats too (`SHARED`).
4. Both `quantize-ops` and `nn-to-qint` ask `policies.legality` about an operation on quantized types: the bounds of its
   sums and the factors between its scales. What its integer form requires stands on the operation
   (dialects/nn/quantizable.py), what a target lacks in the target's file.
5. `quantize-bias` asks about the bias, and `narrow-floats` states what computes in floats of 16 bits (`HALVED`).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp, Conv2DOp, DivOp, FullyConnectedOp
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.nn.contraction import SCALES_OF_TERMS, WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import computed_storage, data_operands, data_results, data_values, uniform
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import PARAMETER, POLICY, POWER
from qmlir.ir.interfaces import shape_of
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.numerics.halves import HALVES, HalfPrecision
from qmlir.numerics.levels import Blocks
from qmlir.numerics.schemas import weight_bits
from qmlir.policies.ledger import decide
from qmlir.settings.quant_config import OpConfig, op_config_of, settings_of
from qmlir.transforms.quantize.ranges.scale_group import storage_type

WIDEST = 16
"""The bits of the widest integers that data have."""


FARTHEST = 16.0
"""The largest quotient of a divisor's observed bounds with 16 bits: the least divisor is rounded by 2^−12 of it."""


class Reason(NamedTuple):
    """Why an operation stays float: a code of the ledger, and a sentence in which `it` is the operation."""

    code: str
    sentence: str


def leave_float(op: Operation, why: Reason | UnsupportedError) -> None:
    """Records that an operation stays float, and why."""
    decide(op, "float", why.code, why.need if isinstance(why, UnsupportedError) else why.sentence)


# ---------------------------------------------------------------------------------------------------------------
# Sentences


COMPUTED_WEIGHTS: Reason = Reason(
    "computed-weights",
    "its weights are computed at run time; only constant weights can be quantized",
)
COMPUTED_DIVISOR: Reason = Reason(
    "target",
    "its divisor is computed at run time, and may come near 0, where integers would lose its digits",
)
COMPUTED_PARAMETERS: Reason = Reason(
    "target",
    "it computes a scale or a zero point at run time; quantized, these would be rounded",
)
COMPUTED_BIAS: Reason = Reason("bias", "its bias is computed at run time; only a constant bias can be quantized")


COMPUTED_ON_FLOATS: Reason = Reason(
    "runtime",
    "the model computes it on floats between casts, as LiteRT does; its integer form rounds otherwise",
)

HIGH_POWERS: Reason = Reason("target", "its powers have more digits than integers of 16 bits hold")

KEPT_FLOAT: Reason = Reason("policy", "the policy keeps it in floats")

HALVED: Mapping[HalfPrecision, Reason] = {
    name: Reason("half", f"the policy computes it in {name}, rounded once") for name in HALVES
}
"""The decision about an operation that computes in floats of 16 bits."""

EMPTY: Reason = Reason("empty", "it has a tensor without elements, of which there is nothing to quantize")

MOVED: Reason = Reason("neighbours", "no integer operation makes what it reads, or reads what it makes")

DELIVERED: Reason = Reason("delivered", "moves results behind their dequantization, each operand by its own scale")
"""The decision about data movement that the network ends with, on the quantized side or the float side alike."""

STATE_PARTS: Reason = Reason(
    DELIVERED.code, "moves a state between calls as floats, each of its parts by its own scale"
)
"""The decision about data movement that joins and parts a state whose parts have ranges far apart."""

SHARED: Reason = Reason("shared", "its result is also read as floats, which quantizing it would change")


def unknown(op: OpaqueOp) -> Reason:
    """The reason of an operator that qmlir does not know."""
    return Reason("unknown", f"{op.kind.data} is not known to qmlir: {op.reason.data}")


def on_other_floats(types: str, *, between: bool) -> Reason:
    """The reason of an operation on floats that nothing quantizes, perhaps between quantized operations."""
    where = "between quantized operations" if between else "and only f32 can be quantized"
    return Reason("type", f"it is computed on {types}{' ' if between else ', '}{where}")


def no_long_sums(target: Target) -> Reason:
    """The reason of a bias of 64 bits on a target without such sums."""
    return Reason("bias", f"a bias of 64 bits needs sums of 64 bits, which {target.name} has not")


# ---------------------------------------------------------------------------------------------------------------
# Decisions


def blocked(op: Operation) -> Reason | None:
    """The reason if the policy keeps an operation float, or its weights have a scale for each block; None otherwise."""
    if op_config_of(op, OpConfig()).keep_float:
        return KEPT_FLOAT
    sources = [source_of(v).owner for v in op.operands]
    stated = (levels_of(o) for o in sources if isinstance(o, ConstantOp))
    blocks = next((levels for levels in stated if isinstance(levels, Blocks)), None)
    if blocks is None:
        return None
    if blocks.size == 1:
        return Reason("blocked", SCALES_OF_TERMS)
    return Reason(
        "blocked", f"its weights have a scale for each block of {blocks.size}, which integer sums cannot share"
    )


def steep(storage: str, left: float, allowed: float, first: Operation | None) -> Reason:
    """The reason of a function that is steep for its data.

    Args:
        storage: The type that its argument would be rounded to.
        left: The decibels of the result that would remain.
        allowed: The decibels that the result's type allows.
        first: The function before it whose argument is meant; None if it is its own.
    """
    whose = "its input" if first is None else f"the input of {first.name} before it"
    return Reason(
        "steep", f"rounding {whose} to {storage} would leave {left:.0f} of the {allowed:.0f} dB of its result"
    )


def sums_of_steep(precision: str, left: float, allowed: float, reader: Operation) -> Reason:
    """The reason of a contraction whose sums a steep function reads, `reader`; otherwise as `steep`."""
    kept = f"{left:.0f} of the {allowed:.0f} dB of {reader.name}"
    return Reason("steep", f"rounding its input to {precision} would leave {kept}, which reads its sums")


def saturating(function: Operation) -> Reason:
    """Why the memory of a recurrent cell stays float, with the function that reads it."""
    return Reason(
        "steep",
        f"it computes or reads a memory most of which saturates {function.name}; its steps are coarse for the rest",
    )


def read_by_steep(reader: Operation) -> Reason:
    """The reason of an operation whose result only floats read, for a `reader` that needs its digits."""
    return Reason("steep", f"only {reader.name} reads its result, and needs more digits than integers of 16 bits have")


def computes_in_halves(op: Operation) -> bool:
    """Whether an operation on f32 can compute in floats of 16 bits; data movement follows the operations beside it."""
    return isinstance(op, NNOp) and op.TAKES_HALVES and any(map(is_float, data_operands(op)))


def halved(op: Operation, op_config: OpConfig, half: HalfPrecision) -> Reason:
    """The decision about an operation in floats of 16 bits, whose weights may be asked for in fewer bits."""
    if not isinstance(op, WeightedOp) or op_config.blocks_bits is None:
        return HALVED[half]
    kept = "only constants of fully connected layers are stored in fewer bits"
    return Reason(HALVED[half].code, f"{HALVED[half].sentence}; its weights keep 16 bits: {kept}")


def no_range(lacking: Iterable[str]) -> Reason:
    """The reason that no range is known for some tensors, given by names from `called`."""
    names = ", ".join(dict.fromkeys(lacking))
    return Reason("no-range", f"no range is known for {names}")


def called(value: SSAValue) -> str:
    """The name of a tensor in messages: from the source model, else from its observer, else from the text of the IR."""
    source = source_of(value)
    observed = (u.operation.tensor.data for u in source.uses if isinstance(u.operation, ObserveOp))
    if name := tensor_name(source) or next(observed, ""):
        return f'"{name}"'
    if source.name_hint:
        return f"%{source.name_hint}"
    return f"the result of {source.owner.name}" if isinstance(source.owner, Operation) else "an unnamed tensor"


def carrier_name(op: Operation) -> str:
    """The name of an operation or of an input's observer in messages."""
    return f'input "{op.tensor.data}"' if isinstance(op, ObserveOp) else f'{op.name} "{node_name(op)}"'


def source_of(value: SSAValue) -> SSAValue:
    """The value that a chain of quantize and dequantize casts begins with."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    return value


def names_format(carrier: Operation) -> bool:
    """Whether the policy of an operation or an observer names a schema or a precision."""
    policy = POLICY.of(carrier)
    return policy is not None and not {"schema", "precision"}.isdisjoint(settings_of(policy))


def why_lacking(op: Operation, op_config: OpConfig, target: Target) -> Reason | None:
    """Why a target does not compute an operation on integers of a config's precision; None if it does."""
    refusal = target.refusal(op, computed_storage(storage_type(op_config.integers)))
    return None if refusal is None else Reason(*refusal)


def _power(op: Operation, op_config: OpConfig) -> int:
    """The exponent in an operation's `qmlir.power` attribute; 1 without the attribute, and under `glow_exact`."""
    return 1 if op_config.glow_exact else POWER.of(op) or 1


def digits(op: Operation, op_config: OpConfig) -> int:
    """The bits of the powers that an operation reads or makes of integers of a config; 0 of any other operation."""
    exponent = _power(op, op_config)
    return exponent * weight_bits(op_config.integers) if exponent > 1 and op_config.half is None else 0


def _keeps_digits(divisor: SSAValue) -> bool:
    """Whether a divisor was observed so far from 0 that integers of 16 bits keep its digits (`FARTHEST`)."""
    observers = (u.operation for u in divisor.uses if isinstance(u.operation, ObserveOp))
    seen = next((o.observation for o in observers if o.observation is not None), None)
    if seen is None:
        return False
    near, far = sorted(map(abs, seen.bounds))
    return seen.bounds[0] * seen.bounds[1] > 0 and far <= FARTHEST * near


def why_float(op: Operation, op_config: OpConfig, own: OpConfig, target: Target) -> Reason | None:
    """Why an operation stays float even if all ranges are known; None if it may become integer.

    Args:
        op: The operation.
        op_config: Its config, which may follow its neighbours.
        own: Its config apart from its neighbours.
        target: The target that the network is compiled for.
    """
    if digits(op, own) > WIDEST and not names_format(op):
        return HIGH_POWERS
    if op_config.half is not None and not isinstance(op, MovementOp):
        return HALVED[op_config.half] if computes_in_halves(op) else KEPT_FLOAT
    if (reason := why_lacking(op, op_config, target)) is not None:
        return reason
    if isinstance(op, WeightedOp) and not isinstance(source_of(op.w).owner, ConstantOp):
        return COMPUTED_WEIGHTS
    if isinstance(op, DivOp) and not isinstance(source_of(op.rhs).owner, ConstantOp):
        if op_config.integers != "int16" or not _keeps_digits(op.rhs):
            return COMPUTED_DIVISOR
    if PARAMETER.on(op):
        return COMPUTED_PARAMETERS
    if isinstance(op, WeightedOp) and op.b is not None and op.bias_constant() is None:
        return COMPUTED_BIAS
    return blocked(op)


def why_without_scales(
    op: Operation, why: Reason | None, lacking: Sequence[SSAValue], *, halves: bool
) -> Reason | None:
    """Why no scales can be chosen for an operation; None if they can.

    Args:
        op: The operation.
        why: The reason that holds whatever the ranges are, from `why_float`; None if there is none.
        lacking: Its tensors without a range.
        halves: Whether other operations compute in floats of 16 bits.
    """
    if any(0 in shape_of(v) for v in data_values(op)):
        return EMPTY
    if why is not None or not lacking:
        return why
    if halves and isinstance(op, MovementOp):
        return MOVED
    # A moved result lacks a range only because its operand does: naming the operand is enough.
    return no_range(
        map(called, [v for v in lacking if not (isinstance(op, MovementOp) and v in op.results)] or lacking)
    )


def why_without_casts(
    op: Operation, sources: Sequence[SSAValue | None], result: UniformType | None, target: Target
) -> Reason:
    """Why an operation has no casts around it, by which it would become integer.

    Args:
        op: The operation.
        sources: For each data operand, the quantized value that it is cast from; None without a cast.
        result: The type that its result is cast to; None without a cast.
        target: The target that the network is compiled for.
    """
    if isinstance(op, WeightedOp) and not isinstance(source_of(op.w).owner, ConstantOp):
        return COMPUTED_WEIGHTS
    known = next((uniform(s) for s in sources if s is not None), result)
    storage = computed_storage(known.storage) if known is not None else "i8"
    if (refusal := target.refusal(op, storage)) is not None:
        return Reason(*refusal)
    lacking = [v for v, s in zip(data_operands(op), sources, strict=True) if s is None]
    return no_range(map(called, [*lacking, *(data_results(op) if result is None else ())]))


# ---------------------------------------------------------------------------------------------------------------
# Groups of weights, which are a matter of the weights alone


def why_no_groups(op: WeightedOp, size: int) -> str | None:
    """Why a contraction's weights get no multiplier for each group of `size` terms of a sum; None if they do.

    Kernels multiply four terms at a time, neighbouring channels, which are of one group then.
    """
    if not isinstance(op, Conv2DOp | FullyConnectedOp) or (isinstance(op, Conv2DOp) and op.group_count() > 1):
        return "groups of weights are for convolutions of all channels, and for fully connected layers"
    _, *terms = shape_of(op.w)
    if prod(terms) <= size:
        return f"its sums have {prod(terms)} terms, which are no more than a group"
    if terms[-1] % 4:
        return f"groups of weights need a multiple of 4 input channels, and it has {terms[-1]}"
    return None
