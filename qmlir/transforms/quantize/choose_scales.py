"""`choose-scales`: from ranges to quantized types, as casts around the float network.

Enters: float nn with `calib.observe` and ranges. Leaves: the same network in which every tensor that an integer
operation will read or write passes through `quant.qcast` and `quant.dcast`. Nothing is integer yet; the float
network with its casts is the nominal meaning of the quantized one, and the form in which pre-quantized models come.

An operation that cannot become integer is left alone, and the reason is recorded on it; `quantize-ops` has the last
word. Such an operation reads floats as they are where they exist: only what an integer operation computes reaches it
through a cast. Under the schema symmetric_with_power2_scale the function states so (dialects/scales.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.interfaces import Array, element_of, shape_of
from qmlir.dialects.nn import ConstantOp, DivOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qmlir import DECISION
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.schemas import (
    Precision,
    QuantizationError,
    Schema,
    WeightPrecision,
    choose_quantization,
    choose_weight_quantization,
    power_of_two_above,
    weight_precision,
    weight_range,
)
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.scales import SCALES, PowerOfTwoAttr, broken_promises, promises_powers_of_two
from qmlir.ledger import decide, decision_of
from qmlir.legality import bias_constant, computed_storage, data_operands, data_values, is_weight, target_of
from qmlir.passes import option
from qmlir.target import Target
from qmlir.transforms.quantize.reasons import (
    COMPUTED_BIAS,
    COMPUTED_DIVISOR,
    COMPUTED_WEIGHTS,
    Reason,
    blocked,
    called,
    no_range,
    source_of,
)
from qmlir.transforms.quantize.scale_groups import ScaleGroups

BIAS_LIMIT = 2.0**30
"""A quantized bias of 8-bit data stays below this, half of 32 bits; the other half is for the products."""

LARGEST_SCALE = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ChooseScalesPass(ModulePass):
    """Puts `quant.qcast` and `quant.dcast` on each tensor that an integer operation will touch; removes observers.

    ```mlir
    %0 = nn.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    calib.observe %0 {name = "y", range = [-2.0, 2.0]} : tensor<4xf32>
    // becomes
    %0 = nn.add %dx, %dx : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.0157:0>>
    %2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 0.0157:0>> to tensor<4xf32>
    ```
    """

    name = "choose-scales"
    schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")
    precision: Precision = option("int8", "storage of activations and weights")
    weight_precision: WeightPrecision = option("same", "storage of weights, where it is another")
    per_channel: bool = option(True, "one scale for each output channel of weights, instead of one for all")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        # Refuses a schema and a precision that do not go together, whatever the network.
        choose_quantization(0.0, 0.0, self.schema, self.precision, where="choose-scales")
        for function in (f for f in op.walk() if isinstance(f, func.FuncOp) and not f.is_declaration):
            if self.schema == "symmetric_with_power2_scale":
                function.attributes[SCALES] = PowerOfTwoAttr()
            _Chooser(self, target, function.body.block).run()
            self._check_promise(function)

    def _check_promise(self, function: func.FuncOp) -> None:
        """Refuses to break what the function states: with another schema, or beside scales that came with the graph.

        Raises:
            QuantizationError: Powers of two are promised, and a scale is none.
        """
        if not promises_powers_of_two(function):
            return
        for broken in broken_promises(function):
            raise QuantizationError(
                f"{SCALES} promises scales that are powers of two",
                where=f'function "{function.sym_name.data}"',
                got=f"{called(broken.value)} of {broken.op.name} with scale {broken.got}",
                remedy="quantize the float network with schema symmetric_with_power2_scale, or drop the promise",
            )


def storage_type(precision: Precision) -> IntegerType:
    """The storage type of a precision: int8 → i8, uint8 → ui8."""
    width = int(precision.removeprefix("u").removeprefix("int"))
    return IntegerType(width, Signedness.UNSIGNED if precision.startswith("u") else Signedness.SIGNLESS)


class _Chooser:
    """The choice for one function."""

    def __init__(self, options: ChooseScalesPass, target: Target, block: Block):
        self.options, self.target, self.block = options, target, block
        self.storage = storage_type(options.precision)
        self.operations = [o for o in block.ops if any(map(is_float, data_values(o)))]
        self.observed = {o.value: o.bounds for o in block.ops if isinstance(o, ObserveOp) and o.bounds}
        self.groups = ScaleGroups(
            self.operations, self.observed, schema=options.schema, precision=options.precision, storage=self.storage
        )

    def run(self) -> None:
        able = self._able()
        for op in able:
            if isinstance(op, WeightedOp) and isinstance(op.w.owner, ConstantOp):
                self._cast_weights(op)
        self._cast_activations(able)
        for observer in [o for o in self.block.ops if isinstance(o, ObserveOp)]:
            Rewriter.erase_op(observer)

    # -- which operations --------------------------------------------------------------------------------------

    def _able(self) -> dict[Operation, None]:
        """The operations that can become integer, in order; the others get their reason recorded."""
        able: dict[Operation, None] = {}
        for op in self.operations:
            if (why := self._why_float(op)) is None:
                able[op] = None
                op.attributes.pop(DECISION, None)
            elif self.observed or decision_of(op) is None:
                decide(op, "float", *why)  # without ranges there is nothing new to say
        # Data movement follows what computes: between float operations it has nothing to gain.
        computing = {self.groups.root(v) for o in able if not isinstance(o, MovementOp) for v in self._activations(o)}
        for op in [o for o in able if isinstance(o, MovementOp) and self.groups.root(o.y) not in computing]:
            decide(op, "float", "neighbours", "it moves values that only float operations read and write")
            del able[op]
        return able

    def _why_float(self, op: Operation) -> Reason | None:
        """Why an operation cannot become integer: target, weights, bias, or a tensor without a range."""
        if (reason := self.target.why_float(op.name, computed_storage(self.storage))) is not None:
            return "target", reason
        if isinstance(op, WeightedOp) and not isinstance(source_of(op.w).owner, ConstantOp):
            return COMPUTED_WEIGHTS
        if isinstance(op, DivOp) and not isinstance(source_of(op.rhs).owner, ConstantOp):
            return COMPUTED_DIVISOR
        if isinstance(op, WeightedOp) and op.b is not None and bias_constant(op) is None:
            return COMPUTED_BIAS
        if (reason := blocked(op)) is not None:
            return reason
        lacking = [v for v in self._activations(op) if not self.groups.has_range(v)]
        # A result that is only moved lacks what an operand lacks: no need to name both.
        lacking = [v for v in lacking if not (isinstance(op, MovementOp) and v in op.results)] or lacking
        return no_range(map(called, lacking)) if lacking else None

    def _activations(self, op: Operation) -> Sequence[SSAValue]:
        return [v for v in data_values(op) if not is_weight(v, op)]

    # -- casts -------------------------------------------------------------------------------------------------

    def _cast_activations(self, able: Iterable[Operation]) -> None:
        able = set(able)
        touched = {v for o in able for v in self._activations(o)}
        first = self.block.first_op
        assert first is not None
        for value in [*self.block.args, *(r for o in list(self.block.ops) for r in o.results)]:
            if value in touched:
                where = InsertPoint.after(value.owner) if isinstance(value.owner, Operation) else None
                self._cast(value, able, where or InsertPoint.before(first))

    def _cast(self, value: SSAValue, able: set[Operation], where: InsertPoint) -> None:
        """Sends readers of `value` through its quantized type.

        All of them if integers compute it, else only those that are integer operations themselves.
        """
        element = self.groups.type_of(value)
        assert element is not None
        if isinstance(value.owner, DequantizeCastOp) and element_of(value.owner.input) == element:
            return  # it comes through that type already
        if all(isinstance(u.operation, QuantizeCastOp) and u.operation.quantized_type == element for u in value.uses):
            return  # the graph says so already
        everyone = value.owner in able
        readers = [u for u in value.uses if everyone or _reads_as_data(u.operation, u.index, able)]
        # A cast that the graph came with is the one, moved to where all readers see it.
        own = next((u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)), None)
        if own is not None and own.quantized_type == element:
            own.detach()
            quantized = own
        else:
            quantized = QuantizeCastOp(value, TensorType(element, shape_of(value)))
        back = DequantizeCastOp(quantized.result, value.type)
        Rewriter.insert_op([quantized, back], where)
        for use in readers:
            if use.operation is not quantized:
                use.operation.operands[use.index] = back.result

    def _cast_weights(self, op: WeightedOp) -> None:
        """Weights get a type of their own for each operation that reads them: the bias enters into it."""
        assert isinstance(op.w.owner, ConstantOp)
        weights = op.w.owner.value.array
        axis = op.CHANNEL_AXIS if self.options.per_channel else None
        where = f"weights {called(op.w)}"
        precision = weight_precision(self.options.weight_precision, self.options.precision)
        scales = choose_weight_quantization(weights, axis, self.options.schema, precision, where=where)
        scales = [float(s) for s in self._room_for_bias(op, scales)]
        low, high = weight_range(precision)
        storage = storage_type(precision)
        if axis is None:
            element = UniformType.per_tensor(storage, scales[0], 0, low, high)
        else:
            element = UniformType.per_axis(storage, axis, scales, None, low, high)
        quantized = QuantizeCastOp(op.w, TensorType(element, weights.shape))
        back = DequantizeCastOp(quantized.result, op.w.type)
        Rewriter.insert_op([quantized, back], InsertPoint.before(op))
        op.operands[1] = back.result

    def _room_for_bias(self, op: WeightedOp, scales: Array) -> Array:
        """Widens a channel's weight scale where its bias would not fit the accumulator in units of s_x·s_w.

        16-bit data have accumulators of 64 bits where the target has these; of 8-bit data they stay in 32.
        """
        data = self.groups.type_of(op.x)
        if op.b is None or not is_float(op.b) or data is None:
            return scales
        assert isinstance(op.b.owner, ConstantOp)
        limit = BIAS_LIMIT if self.storage.width.data <= 8 else 2.0 ** (self.target.sum_bits - 2)
        least = np.abs(op.b.owner.value.array.astype(np.float64)) / (data.scale * limit)
        if len(scales) == 1:
            least = least.max(keepdims=True, initial=0.0)
        # One step up, so that rounding to f32 does not bring it below; a NaN or infinite bias widens nothing.
        least = np.nan_to_num(least * (1 + 2**-20), nan=0.0, posinf=0.0)
        wider = np.minimum(least, LARGEST_SCALE).astype(np.float32).astype(np.float64)
        if self.options.schema == "symmetric_with_power2_scale":
            wider = np.array([power_of_two_above(s) if s else s for s in wider.tolist()])
        return np.maximum(scales, wider)


def _reads_as_data(op: Operation, index: int, able: set[Operation]) -> bool:
    """Whether operand `index` of an integer operation is an activation of it."""
    return op in able and index < len(data_operands(op)) and not is_weight(op.operands[index], op)
