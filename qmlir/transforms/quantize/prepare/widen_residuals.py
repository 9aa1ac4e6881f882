"""`widen-residuals`: gives the residual streams of a network 16 bits, while its layers compute on 8.

A residual sum adds to a tensor what layers compute from it, y = x + f(x). A chain of such sums is a residual stream:
each layer reads it and adds to it. What is rounded away of the stream reaches every layer behind, and a stream of n
sums is rounded n times or more. In transformers a few of its channels are also far larger than the others, and a scale
that holds them is coarse for the rest. Layers, in contrast, may read it in 8 bits: the errors of a matrix product
average out, and do not come back.

To a stream belong

* its sums, with the sums, gains and shifts by constants and the normalizations between them and before the first;
* the normalizations that read it, with the gains and shifts by constants behind these;
* the results of layers that are added to it. The layers still compute on 8 bits.

Two kinds of tensors behind a stream get 16 bits with it, as no layer reads them as they are:

* the results of layers that only a function by a table reads, such as GELU, and the function's result: the values are
  rounded to 8 bits once, for the layer behind. A smooth function of 16 bits interpolates a table of 513 entries;
* the results of layers that the network returns.

Layers read the stream through a requantization to their own type. `residuals=outliers`, the default, widens streams of
normalizations in which single values are so large that the step is coarse for the rest: rounding a tensor to 8 bits
would leave less than `OUTLIERS` dB of the nine tenths of its values that are smallest. Normalizations outside of
streams are widened for the same reason, with the gains and shifts behind them. `residuals=int16` widens all streams.
`residuals=auto` widens the streams for which 8 bits are too coarse: the noise of rounding each of its tensors, a
twelfth of the squared step of the scale that calibration chooses, in relation to the tensor's mean square, adds up to
more than −`LEAST` dB. Range and histogram of the profile tell both numbers; a tensor with outliers has a large step and
a small mean square.
"""

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import AddOp, AttendOp, ConstantOp, DivOp, MatMulOp, MulOp, SubOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.functions import LinearOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.normalization import OverTrailingOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.target import Target
from qmlir.display import counted
from qmlir.ir.facts import RESIDUAL
from qmlir.ir.interfaces import shape_of
from qmlir.ir.signature import defined_functions
from qmlir.ir.traversal import reached
from qmlir.numerics.calibration import choose_quantization
from qmlir.numerics.schemas import is_symmetric, weight_bits
from qmlir.policies.legality import target_of
from qmlir.settings.quant_config import OpConfig, add_settings, config_of, op_config_of
from qmlir.transforms.quantize.ranges.margins import BULK, expected
from qmlir.transforms.quantize.reasons import names_format, why_lacking

OUTLIERS = 30.0
"""The SQNR in dB that rounding must leave of a tensor's bulk; that of a normal distribution keeps 38 dB."""

LEAST = 36.0
"""The SQNR in dB that the roundings of a stream must leave of it, for `auto` to leave it in 8 bits."""


@dataclass(frozen=True)
class WidenResidualsPass(ModulePass):
    """Writes a policy of 16 bits on the sums, the normalizations and the entering tensors of residual streams.

    ```mlir
    %1 = nn.fully_connected %x, %w : …
    calib.observe %1 {name = "branch", range = [-1.0, 1.0]} : …
    %2 = nn.add %x, %1 : …
    // becomes, by residuals=int16
    %1 = nn.fully_connected %x, %w : …
    calib.observe %1 {name = "branch", qmlir.policy = {precision = "int16", schema = "symmetric"}, …} : …
    %2 = nn.add %x, %1 {qmlir.policy = {precision = "int16", schema = "symmetric"}} : …
    ```
    """

    name = "widen-residuals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            widen_residuals(function.body.block, config_of(op).op_config(), target_of(ctx))


@dataclass
class Stream:
    """A residual stream: sums that add to a tensor what is computed from it.

    sums      the residual sums
    carriers  the operations that compute the stream's tensors, the sums among them
    readers   the normalizations that read it, with the gains and shifts behind them
    entering  the results of layers that are added to it
    inputs    the inputs of the network that it begins with
    """

    sums: list[AddOp] = field(default_factory=list[AddOp])
    carriers: dict[Operation, None] = field(default_factory=dict[Operation, None])
    readers: dict[Operation, None] = field(default_factory=dict[Operation, None])
    entering: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])

    def take_in(self, other: "Stream") -> None:
        """Joins another stream that shares operations with this stream."""
        self.sums += other.sums
        self.carriers |= other.carriers
        self.entering |= other.entering
        self.inputs |= other.inputs

    def tensors(self) -> list[SSAValue]:
        """The tensors whose rounding stays in the stream."""
        return [*self.entering, *(op.results[0] for op in self.carriers)]

    def written(self) -> list[SSAValue]:
        """The results of the stream's own operations and of the normalizations that read it."""
        return [op.results[0] for op in (*self.carriers, *self.readers)]

    def layers(self) -> Iterator[tuple[SSAValue, FunctionOp | None]]:
        """The results of layers behind the stream that only a function by a table reads, or that the network returns.

        Yields:
            (the layer's result, the function; None for a result of the network). The function's result is read by
            layers only, whose results follow.
        """
        waiting = [*self.inputs, *(op.results[0] for op in (*self.carriers, *self.readers))]
        seen = set[SSAValue]()
        while waiting:
            for layer in uses_of(waiting.pop()):
                made = layer.operation.results[0] if _is_layer(layer) else None
                if made is None or made in seen:
                    continue
                seen.add(made)
                match uses_of(made):
                    case [use] if isinstance(use.operation, ReturnOp):
                        yield made, None
                    case [use] if isinstance(use.operation, FunctionOp) and not isinstance(use.operation, LinearOp):
                        function = use.operation
                        if all(_is_layer(u) for u in uses_of(function.results[0])):
                            yield made, function
                            waiting.append(function.results[0])
                    case _:
                        pass


def widen_residuals(block: Block, default: OpConfig, target: Target) -> None:
    """Writes a policy of 16 bits on the residual streams that are to be widened; changes the operations of `block`.

    Args:
        block: A float network with observers.
        default: The options in effect; an operation's own policy overrides them, and an operation or a tensor whose
            policy names a schema or a precision stays as it is.
        target: The target that the network is compiled for. An operation that it computes on 8 bits only stays so.
    """
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    for stream in residual_streams(block):
        wanted = {op_config_of(s, default).residuals for s in stream.sums}
        if wanted == {"same"}:
            continue
        why = f"widened with a residual stream of {counted(len(stream.sums), 'sum')}"
        if "int16" not in wanted:
            auto = "auto" in wanted
            if not auto and not any(isinstance(op, OverTrailingOp) for op in (*stream.carriers, *stream.readers)):
                continue
            noises = _noises(stream.tensors() if auto else stream.written(), observers, default, bulk=not auto)
            noise, least = (sum(noises), LEAST) if auto else (max(noises, default=0.0), OUTLIERS)
            if noise == 0 or (left := -10 * math.log10(noise)) >= least:
                continue
            why += f", of which 8 bits would leave an SQNR of {left:.1f} dB"
        for op in (*stream.carriers, *stream.readers):
            widen(op, op_config_of(op, default), op, target, why)
        for value in stream.entering:
            _widen_result(value, observers, default, target, why)
        for value, function in stream.layers():
            if function is None or widen(function, op_config_of(function, default), function, target, why):
                _widen_result(value, observers, default, target, why)
    _widen_normalizations(block, observers, default, target)


def _widen_result(
    value: SSAValue, observers: Mapping[SSAValue, ObserveOp], default: OpConfig, target: Target, why: str
) -> None:
    """Gives the result of a layer 16 bits, if it is observed."""
    if value in observers and isinstance(value.owner, Operation):
        widen(observers[value], op_config_of(value.owner, default), value.owner, target, why)


def widen(carrier: Operation, op_config: OpConfig, op: Operation, target: Target, why: str) -> bool:
    """Gives an operation, or a tensor by its observer, 16 bits if it has 8 bits and the target computes it in 16.

    Returns whether it has 16 bits now.
    """
    if op_config.half is not None or op_config.keep_float or weight_bits(op_config.integers) > 8:
        return False
    if names_format(carrier) or names_format(op):
        return False
    # Under a symmetric schema, files of every format can store 16 bits.
    schema = op_config.schema if is_symmetric(op_config.schema) else "symmetric"
    if carrier is op and why_lacking(op, replace(op_config, schema=schema, precision="int16"), target) is not None:
        return False
    add_settings(carrier, {"precision": "int16", "schema": schema})
    RESIDUAL.put(op, why)
    return True


def _widen_normalizations(
    block: Block, observers: Mapping[SSAValue, ObserveOp], default: OpConfig, target: Target
) -> None:
    """Gives normalizations whose results have outliers 16 bits, with the gains and shifts behind them."""
    for op in [o for o in block.ops if isinstance(o, OverTrailingOp) and not RESIDUAL.on(o)]:
        tail = _tail(op)
        noise = max(_noises([o.results[0] for o in tail], observers, default, bulk=True), default=0.0)
        if op_config_of(op, default).residuals == "same" or noise == 0 or (left := -10 * math.log10(noise)) >= OUTLIERS:
            continue
        for each in tail:
            why = f"widened for outliers, for which 8 bits would leave an SQNR of {left:.1f} dB"
            widen(each, op_config_of(each, default), each, target, why)


def _noises(
    values: Iterable[SSAValue], observers: Mapping[SSAValue, ObserveOp], default: OpConfig, *, bulk: bool
) -> list[float]:
    """The noise that rounding leaves of each tensor with a histogram, in relation to the tensor or to its bulk."""
    return [n for v in values if (n := noise_of(v, observers.get(v), default, bulk=bulk)) is not None]


def noise_of(value: SSAValue, observer: ObserveOp | None, default: OpConfig, *, bulk: bool) -> float | None:
    """The mean square of a tensor's rounding errors in relation to its own; None without a histogram, or if it is 0."""
    seen = None if observer is None else observer.observation
    if observer is None or seen is None or seen.histogram is None or not isinstance(value.owner, Operation):
        return None
    signal = seen.histogram.power(BULK if bulk else 1.0)
    op_config = op_config_of(observer, op_config_of(value.owner, default))
    if signal == 0 or op_config.glow_exact:
        return None
    wider = expected(value, seen, op_config)
    given = op_config.schema, op_config.integers, wider.histogram, op_config.calibration
    scale, _ = choose_quantization(*wider.bounds, *given)
    return scale**2 / 12 / signal


# ---------------------------------------------------------------------------------------------------------------
# Finds the residual streams of a network.


def residual_streams(block: Block) -> list[Stream]:
    """The residual streams of a float network, in the order of their first sums."""
    places = {op: place for place, op in enumerate(block.ops)}
    found: list[Stream] = []
    carried = set[Operation]()
    for op in block.ops:
        if not isinstance(op, AddOp) or not _is_residual(op, places):
            continue
        stream = Stream()
        _trace(op, stream, carried)
        carried.update(stream.carriers)
        for other in [s for s in found if not s.carriers.keys().isdisjoint(stream.carriers)]:
            stream.take_in(other)
            found.remove(other)
        stream.sums.append(op)
        found.append(stream)
    for stream in found:
        _find_readers(stream)
    return found


def _is_residual(op: AddOp, places: Mapping[Operation, int]) -> bool:
    """Whether a sum adds to a tensor what is computed from the tensor."""
    shape = shape_of(op.y)
    if not is_float(op.y) or shape_of(op.lhs) != shape or shape_of(op.rhs) != shape:
        return False
    return any(
        _read_elsewhere(skip, op) and branch is not skip and _is_computed_from(branch, _moved_from(skip), places)
        for skip, branch in ((op.lhs, op.rhs), (op.rhs, op.lhs))
    )


def _moved_from(value: SSAValue) -> set[SSAValue]:
    """A value, and the values whose elements it moves."""
    found = {value}
    while isinstance(value.owner, MovementOp) and len(data_operands(value.owner)) == 1:
        value = data_operands(value.owner)[0]
        found.add(value)
    return found


def uses_of(value: SSAValue) -> list[Use]:
    """The operands that read a value, directly or moved, observers left out."""
    return [u for u in _moved_uses(value) if not isinstance(u.operation, MovementOp | ObserveOp)]


def _moved_uses(value: SSAValue) -> Iterator[Use]:
    """The operands that read a value, directly or moved, those of data movement among them."""

    def behind(use: Use) -> Iterable[Use]:
        return use.operation.results[0].uses if isinstance(use.operation, MovementOp) else ()

    return reached(value.uses, behind)


def _is_layer(use: Use) -> bool:
    """Whether an operand is the data of a layer with weights."""
    return isinstance(use.operation, WeightedOp) and use.index == 0


def _read_elsewhere(value: SSAValue, reader: Operation) -> bool:
    """Whether operations other than `reader` read a value, or a value whose elements it moves."""
    moved = _moved_from(value)
    movers = {v.owner for v in moved}
    uses = (u.operation for v in moved for u in v.uses)
    return any(o is not reader and o not in movers and not isinstance(o, ObserveOp) for o in uses)


def _is_computed_from(value: SSAValue, sources: set[SSAValue], places: Mapping[Operation, int]) -> bool:
    """Whether a value is computed from one of some values."""
    first = min((places[v.owner] for v in sources if isinstance(v.owner, Operation)), default=-1)
    waiting, seen = [value], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in sources:
            return True
        if value in seen or not isinstance(value.owner, Operation) or places[value.owner] <= first:
            continue
        seen.add(value)
        waiting += value.owner.operands
    return False


def _trace(op: Operation, stream: Stream, known: Container[Operation]) -> None:
    """Adds the operations that a tensor of the stream is carried by, up to the layers whose results enter it.

    It ends at carriers of other streams (`known`), which the stream then takes in.
    """
    waiting = [op]
    while waiting:
        op = waiting.pop()
        if op in stream.carriers:
            continue
        if not isinstance(op, MovementOp):
            stream.carriers[op] = None
        if op in known:
            continue
        for value in data_operands(op):
            made = value.owner
            if isinstance(made, Block):
                stream.inputs[value] = None
            elif isinstance(made, WeightedOp | MatMulOp | AttendOp):
                stream.entering[value] = None
            elif isinstance(made, MovementOp | OverTrailingOp | AddOp):
                waiting.append(made)
            elif _shifts(made):
                waiting.append(made)


def _shifts(op: Operation) -> bool:
    """Whether an operation adds a constant to a tensor, or multiplies or divides it by a constant."""
    if isinstance(op, DivOp):
        return isinstance(op.rhs.owner, ConstantOp)
    return isinstance(op, AddOp | SubOp | MulOp) and any(isinstance(v.owner, ConstantOp) for v in (op.lhs, op.rhs))


def _find_readers(stream: Stream) -> None:
    """Adds the normalizations that read a stream, with the gains and shifts by constants that alone read these."""
    for value in (*stream.inputs, *(op.results[0] for op in stream.carriers)):
        for norm in _reading(value):
            for step in _tail(norm):
                if step in stream.carriers:
                    break
                stream.readers[step] = None


def _tail(norm: Operation) -> list[Operation]:
    """A normalization, with the gains and shifts by constants that alone read it, and each other."""
    tail = [norm]
    while True:
        users = [u.operation for u in tail[-1].results[0].uses if not isinstance(u.operation, ObserveOp)]
        if len(users) != 1 or not _shifts(users[0]):
            return tail
        tail += users


def _reading(value: SSAValue) -> Iterator[OverTrailingOp]:
    """The normalizations that read a value, directly or moved."""
    return (u.operation for u in _moved_uses(value) if isinstance(u.operation, OverTrailingOp))
