"""`choose-scales`: from ranges to quantized types, as casts around the float network.

Enters: float nn with `calib.observe` and ranges. Leaves: the same network in which every tensor that an integer
operation will read or write passes through `quant.qcast` and `quant.dcast`. Nothing is integer yet; the float
network with its casts is the nominal meaning of the quantized one, and the form in which pre-quantized models come.

Tensors tied by operations of one scale (pools, data movement, concat) form a group with one type, chosen for the
union of their ranges. The forced range of a function (sigmoid, tanh) stands in for a profile.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.interfaces import Array, shape_of
from qmlir.dialects.nn import ConstantOp, DepthwiseConv2DOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import FixedScale, SameScale
from qmlir.dialects.quant.schemas import (
    Precision,
    Schema,
    choose_quantization,
    choose_weight_quantization,
    power_of_two_above,
    weight_range,
)
from qmlir.dialects.quant.types import UniformType, default_range
from qmlir.passes import option
from qmlir.rewriting import tensor_name
from qmlir.target import Target
from qmlir.transforms.quantize.legality import data_values, storage_name, storage_type, target_of

BIAS_LIMIT = 2.0**30
"""A quantized bias stays below this, half the accumulator's range; the other half is for the products."""


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
    per_channel: bool = option(True, "one scale for each output channel of weights, instead of one for all")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        for function in (f for f in op.walk() if isinstance(f, func.FuncOp) and not f.is_declaration):
            _Chooser(self, target, function.body.block).run()


class _Chooser:
    """The choice for one function."""

    def __init__(self, options: ChooseScalesPass, target: Target, block: Block):
        self.options, self.target, self.block = options, target, block
        self.storage = storage_type(options.precision)
        self.parent: dict[SSAValue, SSAValue] = {}
        self.types: dict[SSAValue, UniformType] = {}  # by group representative

    def run(self) -> None:
        operations = [o for o in self.block.ops if o.results and any(map(is_float, data_values(o)))]
        self._tie(operations)
        self._choose_groups(operations)
        able = [o for o in operations if self._is_able(o)]
        self._cast_activations({v for o in able for v in self._activations(o)})
        for operation in able:
            if isinstance(operation, WeightedOp):
                self._cast_weights(operation)
        for observer in [o for o in self.block.ops if isinstance(o, ObserveOp)]:
            Rewriter.erase_op(observer)

    # -- groups of one scale -----------------------------------------------------------------------------------

    def _group(self, value: SSAValue) -> SSAValue:
        root = value
        while (above := self.parent.get(root, root)) is not root:
            root = above
        return root

    def _tie(self, operations: Iterable[Operation]) -> None:
        for op in operations:
            if op.has_trait(SameScale, value_if_unregistered=False):
                first, *rest = data_values(op)
                for other in rest:
                    if self._group(other) is not self._group(first):
                        self.parent[self._group(other)] = self._group(first)

    def _choose_groups(self, operations: Iterable[Operation]) -> None:
        ranges: dict[SSAValue, list[tuple[float, float]]] = {}
        forced: dict[SSAValue, list[tuple[float, int]]] = {}
        observed = {o.value: o.bounds for o in self.block.ops if isinstance(o, ObserveOp) and o.bounds}
        for value, bounds in observed.items():
            ranges.setdefault(self._group(value), []).append(bounds)
        for op in operations:
            for value in data_values(op):
                if isinstance(value.owner, ConstantOp) and not _is_weight(value, op):
                    array = value.owner.value.array
                    ranges.setdefault(self._group(value), []).append((float(array.min()), float(array.max())))
            for rule in op.get_traits_of_type(FixedScale):
                parameters = rule.result_parameters(self.options.schema, self.options.precision)
                forced.setdefault(self._group(op.results[0]), []).append(parameters)
        for group in {*ranges, *forced}:
            if (own := set(forced.get(group, ()))) and self._only_forced(group, operations):
                if len(own) == 1:
                    self.types[group] = self._type(*own.pop())
                    continue
            reals = ranges.get(group, []) + [self._real_range(*p) for p in forced.get(group, ())]
            lo, hi = min(r[0] for r in reals), max(r[1] for r in reals)
            self.types[group] = self._type(
                *choose_quantization(lo, hi, schema=self.options.schema, precision=self.options.precision)
            )

    def _only_forced(self, group: SSAValue, operations: Iterable[Operation]) -> bool:
        """Whether every value that enters a group from outside is the result of a function with a forced range."""
        for op in operations:
            if op.has_trait(SameScale, value_if_unregistered=False):
                continue
            for result in op.results:
                if self._group(result) is group and not op.get_traits_of_type(FixedScale):
                    return False
        members = [v for o in operations for v in data_values(o) if self._group(v) is group]
        return not any(isinstance(v, BlockArgument) or isinstance(v.owner, ConstantOp) for v in members)

    def _real_range(self, scale: float, zero_point: int) -> tuple[float, float]:
        low, high = default_range(self.storage)
        return (low - zero_point) * scale, (high - zero_point) * scale

    def _type(self, scale: float, zero_point: int) -> UniformType:
        return UniformType.per_tensor(self.storage, scale, zero_point)

    # -- casts -------------------------------------------------------------------------------------------------

    def _activations(self, op: Operation) -> list[SSAValue]:
        return [v for v in data_values(op) if not _is_weight(v, op)]

    def _is_able(self, op: Operation) -> bool:
        """Whether an operation can become integer: the target has it and every tensor it touches has a type."""
        if self.target.why_float(op.name, storage_name(self.storage)) is not None:
            return False
        if isinstance(op, WeightedOp) and not isinstance(op.w.owner, ConstantOp):
            return False
        return all(self._group(v) in self.types for v in self._activations(op))

    def _cast_activations(self, values: set[SSAValue]) -> None:
        for value in [*self.block.args, *(r for o in self.block.ops for r in o.results)]:
            if value in values:
                after = value.owner if isinstance(value.owner, Operation) else None
                self._cast(value, self.types[self._group(value)], after)

    def _cast(self, value: SSAValue, element: UniformType, after: Operation | None) -> None:
        """Sends every reader of `value` through a quantized type."""
        first = self.block.first_op
        assert first is not None
        readers = [u for u in value.uses if not isinstance(u.operation, ObserveOp)]
        type = TensorType(element, shape_of(value))
        quantized = QuantizeCastOp(value, type)
        back = DequantizeCastOp(quantized.result, value.type)
        Rewriter.insert_op([quantized, back], InsertPoint.after(after) if after else InsertPoint.before(first))
        for use in readers:
            use.operation.operands[use.index] = back.results[0]

    def _cast_weights(self, op: WeightedOp) -> None:
        """Weights get a type of their own for each operation that reads them: the bias enters into it."""
        constant = op.w.owner
        assert isinstance(constant, ConstantOp)
        weights = constant.value.array
        axis = 3 if isinstance(op, DepthwiseConv2DOp) else 0
        per_axis = axis if self.options.per_channel else None
        scales = self._room_for_bias(
            op,
            choose_weight_quantization(weights, per_axis, self.options.schema, self.options.precision, where=unnamed(op.w)),
        )
        low, high = weight_range(self.options.precision)
        storage = IntegerType(self.storage.width.data)
        if per_axis is None:
            element = UniformType.per_tensor(storage, float(scales[0]), 0, low, high)
        else:
            element = UniformType.per_axis(storage, axis, [float(s) for s in scales], None, low, high)
        quantized = QuantizeCastOp(op.w, TensorType(element, weights.shape))
        back = DequantizeCastOp(quantized.results[0], constant.y.type)
        Rewriter.insert_op([quantized, back], InsertPoint.before(op))
        op.operands[1] = back.results[0]

    def _room_for_bias(self, op: WeightedOp, scales: Array) -> Array:
        """Widens a channel's weight scale where its bias would not fit the accumulator in units of s_x·s_w."""
        if op.b is None or not isinstance(op.b.owner, ConstantOp):
            return scales
        data = self.types[self._group(_uncast(op.x))].scale
        least = np.abs(op.b.owner.value.array.astype(np.float64)) / (data * BIAS_LIMIT)
        if len(scales) == 1:
            least = least.max(keepdims=True)
        wider = [float(np.float32(s)) for s in least * (1 + 2**-20)]
        if self.options.schema == "symmetric_with_power2_scale":
            wider = [power_of_two_above(s) if s else s for s in wider]
        return np.maximum(scales, wider)


def _is_weight(value: SSAValue, op: Operation) -> bool:
    return isinstance(op, WeightedOp) and value is op.w


def _uncast(value: SSAValue) -> SSAValue:
    """The value behind casts inserted by this pass."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    return value


def unnamed(value: SSAValue) -> str:
    """What to call a value in a reason."""
    return tensor_name(value) or "an unnamed tensor"
