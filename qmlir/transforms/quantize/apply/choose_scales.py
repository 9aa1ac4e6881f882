"""`choose-scales`: turns ranges into quantized types, written as casts between the operations of the float network.

Enters: float nn with `calib.observe` and ranges. Leaves: the same network in which every tensor that an integer
operation will read or write passes through `quant.qcast` and `quant.dcast`. Nothing is integer yet. The float network
with its casts is the nominal meaning of the quantized network, and the form in which pre-quantized models come.

An operation that cannot become integer is left alone, and the reason is recorded on it; `quantize-ops` makes the final
decision. Such an operation reads original floats where they exist: only the results of integer operations reach it
through casts. Under the schema symmetric_with_power2_scale the function gets an attribute that says so
(dialects/qmlir.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, i8, i16
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp, DepthwiseConv2DOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import ContractionOp, WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import (
    LEAST_FACTOR,
    QuantizableOp,
    data_operands,
    data_results,
    data_values,
    is_weight,
)
from qmlir.dialects.nn.rows import DivideRowsOp, MultiplyRowsOp
from qmlir.dialects.qmlir import PowerOfTwoAttr, promises_powers_of_two
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target, load_target
from qmlir.ir.context import QmlirContext
from qmlir.ir.fact import restated
from qmlir.ir.facts import DECISION, IMPORTED, POLICY, SCALES, UNROUNDED, WIDENED
from qmlir.ir.interfaces import Array, element_of, shape_of, tensor_type
from qmlir.ir.levels import stating
from qmlir.ir.locations import locate, tensor_location
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import state_values
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.levels import Levels
from qmlir.numerics.schemas import (
    SMALLEST_SCALE,
    STORAGE_RANGES,
    QuantizationError,
    choose_weight_quantization,
    exponent_of,
    power_of_two_above,
    weight_bits,
    weight_range,
)
from qmlir.policies.ledger import (
    CALIBRATION,
    DATA_FREE,
    RANGE,
    decide,
    decision_of,
    note_method,
)
from qmlir.policies.legality import target_of
from qmlir.policies.runtime_kernels import followed_runtime
from qmlir.settings.quant_config import TENSOR_SETTINGS, OpConfig, config_of, settings_of
from qmlir.transforms.quantize.adjust.side_by_side import cast_of_weights
from qmlir.transforms.quantize.apply.on_floats import clamp_to_domain
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.branches import delivered, note_coarse_branches
from qmlir.transforms.quantize.ranges.digits import find_kept, keep_digits, type_of_sums
from qmlir.transforms.quantize.ranges.flat_ends import ranges_of_flat
from qmlir.transforms.quantize.ranges.masks import ranges_of_masked
from qmlir.transforms.quantize.ranges.row_scales import (
    BITS_TO_MULTIPLY,
    type_of_magnitudes,
    type_of_row_sums,
    type_of_rows,
)
from qmlir.transforms.quantize.ranges.scale_groups import FINE, ScaleGroups
from qmlir.transforms.quantize.ranges.state_parts import StateParts, parts_of_states
from qmlir.transforms.quantize.reasons import (
    DELIVERED,
    MOVED,
    STATE_PARTS,
    Reason,
    called,
    carrier_name,
    leave_float,
    why_no_groups,
    why_without_scales,
)

BIAS_LIMITS = {32: 2.0**30, 64: 2.0**62}
"""Accumulator bits → largest bias in the accumulator's steps: half of the range is for the products."""

FINEST_SUMS = 2.0**-14
"""The least step of results of 32 bits, in steps of the sums: contracts for long sums multiply by less than 2^15."""

LARGEST_SCALE = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ChooseScalesPass(ModulePass):
    """Puts `quant.qcast` and `quant.dcast` on each tensor of integer operations; removes observers.

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

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        op_config = config_of(op).op_config()
        op_config.check(self.name)
        idle: dict[tuple[str, str], str] = {}
        for function in defined_functions(op):
            if op_config.schema == "symmetric_with_power2_scale":
                SCALES.put(function, PowerOfTwoAttr())
            chooser = _Chooser(op_config, target, function.body.block)
            idle.update(chooser.run())
            self._check_promise(function)
        if isinstance(ctx, QmlirContext):
            ctx.idle = idle

    def _check_promise(self, function: func.FuncOp) -> None:
        """Refuses scales that break the function's promise of powers of two, the graph's own scales included.

        Raises:
            QuantizationError: The function promises powers of two, and a scale is not a power of two.
        """
        if not promises_powers_of_two(function):
            return
        for broken in PowerOfTwoAttr().broken(function):
            raise QuantizationError(
                f"{SCALES} promises scales that are powers of two",
                where=f'function "{function.sym_name.data}"',
                got=f"{called(broken.value)} of {broken.op.name} with {broken.got}",
                remedy="quantize the float network with schema symmetric_with_power2_scale, or drop the promise",
            )


class _Chooser:
    """Chooses the scales of one function."""

    def __init__(self, default: OpConfig, target: Target, block: Block):
        self.target, self.block = target, block
        self.is_default_target = target.name == load_target().name
        self._look_at(block)
        self._settle(default, {})
        function = block.parent_op()
        self.wide = target.wide_results and function is not None and followed_runtime(function) == "default"
        self.kept = find_kept(self.operations, self.observed, self.op_configs, self.groups, wide=self.wide)
        if rewritten := keep_digits(self.kept):
            self.kept = replace(self.kept, reasons={**self.kept.reasons, **rewritten})
            self._look_at(block)
        if self.kept.reasons:
            self._settle(default, self.kept.reasons)

    def _look_at(self, block: Block) -> None:
        self.divided = {
            o for o in block.ops if isinstance(o, ContractionOp) and isinstance(o.operands[0].owner, DivideRowsOp)
        }
        self.operations = [o for o in block.ops if any(map(is_float, data_values(o)))]
        observers = [o for o in block.ops if isinstance(o, ObserveOp)]
        self.observed = {o.value: seen for o in observers if (seen := o.observation) is not None}
        self.estimated = {o.value for o in observers if o.data_free is not None}
        self.parts = parts_of_states(block, self.observed) if self.is_default_target else StateParts()
        self.observed |= {value: self.observed[part] for value, part in self.parts.reads.items()}

    def _settle(self, default: OpConfig, kept: Mapping[Operation, Reason]) -> None:
        """Settles configs and groups, given which operations stay float for their digits."""
        self.op_configs = OpConfigs(self.block, default, self.target, kept)
        self.observed |= ranges_of_masked(self.block, self.observed, self.op_configs.of_value)
        self.observed |= ranges_of_flat(self.observed, self.op_configs.of_value)
        self.groups = self._grouped()

    def run(self) -> dict[tuple[str, str], str]:
        """Writes the casts; returns why settings of the policy have no effect, by operation or input and setting."""
        able = self._able()
        if floats := [o for o in self.operations if keeps_scale(o) and o not in able]:
            self.groups = self._grouped(floats)
        for op in able:
            if isinstance(op, WeightedOp) and (self._requantizes(op) or isinstance(op.w.owner, ConstantOp)):
                self._cast_weights(op)
            elif isinstance(op, WeightedOp) and (cast := cast_of_weights(op)) is not None:
                IMPORTED.put(cast)
        idle = self._idle(able)
        for op in able:
            note_coarse_branches(op, self.groups)
        self._cast_activations(able)
        for op in able:
            method = None if isinstance(op, MovementOp) else self.groups.method_of(op.results[0])
            if method is not None:
                note_method(op, CALIBRATION, method.called)
            if any(v in self.estimated for v in op.results):
                note_method(op, RANGE, DATA_FREE)
        for observer in [o for o in self.block.ops if isinstance(o, ObserveOp)]:
            Rewriter.erase_op(observer)
        return idle

    def _idle(self, able: Iterable[Operation]) -> dict[tuple[str, str], str]:
        """Why settings of tensors have no effect: no integers hold the tensor, or no calibration chooses its range."""
        held = {v for o in able for v in self._activations(o)}
        idle: dict[tuple[str, str], str] = {}
        for carrier in (o for o in self.block.ops if POLICY.on(o)):
            values = [carrier.value] if isinstance(carrier, ObserveOp) else list(data_results(carrier))
            for name, value in settings_of(POLICY.required(carrier)).items():
                # honour-policy knows better why an operation has no integers of a precision.
                if name not in (*TENSOR_SETTINGS, "precision", "schema", "calibration") or (
                    name == "precision" and not isinstance(carrier, ObserveOp)
                ):
                    continue
                if held.isdisjoint(values):
                    decision = decision_of(carrier)
                    why = "" if decision is None else f"it stays float ({decision.reason.data}), and "
                    idle[carrier_name(carrier), name] = f"{why}no integer operation reads it"
                elif name == "calibration" and (why := self.groups.why_uncalibrated(values[0], value)):
                    idle[carrier_name(carrier), name] = f"{why}, so no such calibration chooses its range"
        return idle

    def _grouped(self, floats: Sequence[Operation] = ()) -> ScaleGroups:
        states = state_values(self.block)
        apart = {*floats, *self.parts.moving}
        return ScaleGroups(self.operations, self.observed, self.op_configs.of_value, states, apart)

    # -- which operations --------------------------------------------------------------------------------------

    def _able(self) -> dict[Operation, None]:
        """The operations that can become integer, in order; the others get their reason recorded."""
        able: dict[Operation, None] = {}
        for op in self.operations:
            if (why := self._why_float(op)) is None:
                able[op] = None
            elif self.observed or decision_of(op) is None:  # without ranges there is nothing new to say
                moves = isinstance(op, MovementOp) and op in self.kept.reasons
                leave_float(op, MOVED if moves and not any(v.owner in able for v in data_operands(op)) else why)
        for op in delivered(self.block, able, self.groups) if self.is_default_target else ():
            decide(op, "quantized", *DELIVERED)
            del able[op]
        for op in [o for o in self.parts.moving if o in able]:
            decide(op, "quantized", *STATE_PARTS)
            del able[op]
        # Data movement between float operations stays float: integers would gain nothing there.
        for op in self._moving_floats(able):
            leave_float(op, MOVED)
            del able[op]
        for op in able:
            DECISION.drop(op)
        return able

    def _moving_floats(self, able: Iterable[Operation]) -> Iterable[Operation]:
        """The data movement that no integer operation is beside.

        An integer operation makes what the movement reads, or reads what the movement makes, directly or through other
        data movement. A movement from what integer operations read, such as an input, to results of the network is
        beside them too, unless float operations read what it moves: these get the input's own digits.
        """
        movements: dict[Operation, None] = {o: None for o in able if isinstance(o, MovementOp)}
        self._leave_beside([o for o in able if o not in movements], movements)
        given = set[Operation]()
        for op in reversed(movements):
            readers = [u.operation for v in op.results for u in v.uses]
            if all(isinstance(o, func.ReturnOp | ObserveOp) or o in given for o in readers):
                given.add(op)
        read = {v for o in able if o not in movements for v in self._activations(o)}
        self._leave_beside([o for o in movements if o in given and not read.isdisjoint(data_operands(o))], movements)
        return movements

    def _leave_beside(self, integers: list[Operation], movements: dict[Operation, None]) -> None:
        """Takes some integer operations, and all movements beside them, out of `movements`."""
        while integers:
            op = integers.pop()
            movements.pop(op, None)
            makers = [v.owner for v in self._activations(op) if isinstance(v.owner, Operation)]
            readers = [u.operation for v in op.results for u in v.uses]
            integers += [o for o in (*makers, *readers) if o in movements]

    def _why_float(self, op: Operation) -> Reason | None:
        lacking = [v for v in self._activations(op) if not self.groups.has_range(v)]
        return why_without_scales(
            op, self.op_configs.why_float(op), lacking, halves=self.op_configs.default.half is not None
        )

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
        """Makes readers of `value` read it through its quantized type.

        If an integer operation computes the value, all its readers do; else only its integer readers.
        """
        element = type_of_magnitudes(value) or self._type_of_sums(value) or self.groups.type_of(value)
        assert element is not None
        if isinstance(value.owner, DequantizeCastOp) and element_of(value.owner.input) == element:
            self._cast_for_others(value, value, element, able, InsertPoint.after(value.owner))
            return  # the value comes through that type already
        if all(isinstance(u.operation, QuantizeCastOp) and u.operation.quantized_type == element for u in value.uses):
            return  # all readers quantize the value so already
        everyone = value.owner in able
        readers = [u for u in value.uses if everyone or _reads_as_data(u.operation, u.index, able)]
        # If the graph came with this cast, the cast is moved to where it precedes all readers.
        own = next((u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)), None)
        if own is not None and own.quantized_type == element:
            where = InsertPoint.after(own) if where.insert_before is own else where
            own.detach()
            quantized = own
        else:
            quantized = QuantizeCastOp(value, TensorType(element, shape_of(value)))
        back = DequantizeCastOp(quantized.result, value.type)
        Rewriter.insert_op([quantized, back], where)
        made = value.owner.location if isinstance(value.owner, Operation) else tensor_location(tensor_name(value))
        locate([quantized, back], made)
        for use in readers:
            if use.operation is not quantized:
                use.operation.operands[use.index] = back.result
            if isinstance(use.operation, FunctionOp) and use.operation not in able:
                clamp_to_domain(use.operation)
        self._cast_for_others(value, back.result, element, able, InsertPoint.after(back))

    def _type_of_sums(self, value: SSAValue) -> UniformType | None:
        """The type of 32 bits of a contraction whose readers need its digits; None if it has another type."""
        op = value.owner
        seen = self.observed.get(value)
        if not self.wide or not isinstance(op, ContractionOp) or seen is None:
            return None
        if op not in self.kept.sums and op not in self.divided:
            return None
        types = (element_of(v.owner.input) for v in data_operands(op) if isinstance(v.owner, DequantizeCastOp))
        finest = math.prod(max(t.scales) for t in types if isinstance(t, UniformType)) * FINEST_SUMS
        if op in self.divided:
            return type_of_row_sums(seen, finest, BITS_TO_MULTIPLY)
        if op in self.kept.rows:
            return type_of_row_sums(seen, finest)
        power_of_two = self.op_configs.of(op).schema == "symmetric_with_power2_scale"
        return type_of_sums(seen, finest, power_of_two=power_of_two)

    def _type_of_rows(self, value: SSAValue, reader: Operation) -> UniformType | None:
        """The type in which a contraction of divided rows reads an operand; None for any other reader."""
        if reader not in self.kept.rows or not isinstance(reader, ContractionOp):
            return None
        op_config = self._weights_of_rows(reader)
        bits = weight_bits(op_config.stored_weights)
        if not isinstance(value.owner, ConstantOp):
            stored = reader.w.owner if isinstance(reader, WeightedOp) else None
            if isinstance(stored, DequantizeCastOp) and isinstance(element := element_of(stored.input), UniformType):
                bits = element.storage_width
            return type_of_rows(reader, bits)
        precision = "int16" if bits > 8 else "int8"
        (scale,) = choose_weight_quantization(value.owner.value.array, None, op_config.schema, precision).tolist()
        return UniformType.per_tensor(i16 if precision == "int16" else i8, scale)

    def _weights_of_rows(self, op: Operation) -> OpConfig:
        """The config of the weights of a contraction of divided rows."""
        op_config = self.op_configs.of(op)
        stated = op_config.weight_precision != "same"
        if stated and weight_bits(op_config.stored_weights) <= 8:
            return op_config
        return replace(op_config, weight_precision=self.kept.rows[op])

    def _cast_for_others(
        self, value: SSAValue, seen: SSAValue, element: UniformType, able: set[Operation], where: InsertPoint
    ) -> None:
        """Makes integer readers with another schema, precision or scale read a value through their own type.

        `seen` is the tensor that readers of `value` read, through the type `element`. If an integer operation computes
        `value`, its quantized type holds all its digits, and the readers cast `seen`. Else they cast `value`, so that
        it is rounded only once.
        """
        exact = seen if value.owner in able else value
        views: dict[UniformType, SSAValue] = {}
        for use in [u for u in seen.uses if _reads_as_data(u.operation, u.index, able)]:
            if isinstance(use.operation, MultiplyRowsOp):
                continue  # it reads sums and magnitudes as they are
            wanted = self._type_for(value, use.operation, use.index)
            if wanted == element:
                continue
            if wanted not in views:
                quantized = QuantizeCastOp(exact, TensorType(wanted, shape_of(seen)))
                back = DequantizeCastOp(quantized.result, seen.type)
                Rewriter.insert_op([quantized, back], where)
                views[wanted] = back.result
            use.operation.operands[use.index] = views[wanted]

    def _type_for(self, value: SSAValue, reader: Operation, index: int) -> UniformType:
        """The type through which an operation reads a value, its operand `index`.

        An operation that keeps scales reads an operand of another format, or an operand it is not tied to, through the
        type of its result. Others read the value's type, in their own format.
        """
        if (rows := self._type_of_rows(value, reader)) is not None:
            return rows
        op_config = self.op_configs.of(reader)
        if isinstance(reader, QuantizableOp) and reader.reads_as_stored(index):
            op_config = self.op_configs.of_value(value)
        other_format = keeps_scale(reader) and op_config.format != self.op_configs.of_value(value).format
        own = other_format or self.groups.leaves_out(reader, value)
        element = self.groups.type_of(reader.results[0]) if own else self.groups.type_of(value, op_config.format)
        assert element is not None
        return element

    def _requantizes(self, op: WeightedOp) -> bool:
        """Turns a float layer's stored weights into floats if the config cannot keep them; returns whether it did.

        It cannot if a scale breaks the promise of powers of two, or if fewer bits are asked for.
        """
        back = op.w.owner
        if not isinstance(back, DequantizeCastOp) or isinstance(op.x.owner, DequantizeCastOp):
            return False
        stored, kept, op_config = back.input.owner, element_of(back.input), self.op_configs.of(op)
        if not isinstance(stored, ConstantOp) or not isinstance(kept, UniformType):
            return False
        breaks = op_config.schema == "symmetric_with_power2_scale" and any(exponent_of(s) is None for s in kept.scales)
        if not breaks and weight_bits(op_config.stored_weights) >= kept.storage_width:
            return False
        (real,) = back.evaluate(stored.value.array)
        constant = ConstantOp(real, tensor_type(op.w), restated(stored))
        constant.y.name_hint = op.w.name_hint
        Rewriter.insert_op(constant, InsertPoint.before(op))
        op.operands[1] = constant.y
        for unused in (back, stored):
            if not any(r.uses for r in unused.results):
                Rewriter.erase_op(unused)
        return True

    def _cast_weights(self, op: WeightedOp) -> None:
        """Casts the weights of one operation to a type of their own: the scale depends on the operation's bias too."""
        assert isinstance(op.w.owner, ConstantOp)
        weights = op.w.owner.value.array
        op_config = self._weights_of_rows(op) if op in self.kept.rows else self.op_configs.of(op)
        axis = op.CHANNEL_AXIS if op_config.per_channel else None
        where, precision, narrow = f"weights {called(op.w)}", op_config.stored_weights, op_config.narrow_weights
        op_config.check_few_bits(where)
        form = op_config.form
        if form is not None and (op_config.group is None or why_no_groups(op, op_config.group) is None):
            self._cast_levels(op, op_config, form)
            return
        searched = op_config.calibration in ("auto", "mse") and not op_config.glow_exact
        scales = choose_weight_quantization(
            weights, axis, op_config.schema, precision, narrow=narrow, searched=searched, where=where
        )
        scales = self._fine_without_weights(op, scales)
        scales = [float(s) for s in self._room_for_shift(op, self._room_for_bias(op, scales))]
        low, high = weight_range(precision, narrow=narrow)
        storage = IntegerType(weight_bits(precision))  # signed, also beside unsigned activations
        if axis is None:
            element = UniformType.per_tensor(storage, scales[0], 0, low, high)
        else:
            element = UniformType.per_axis(storage, axis, scales, None, low, high)
        quantized = QuantizeCastOp(op.w, TensorType(element, weights.shape))
        back = DequantizeCastOp(quantized.result, op.w.type)
        Rewriter.insert_op([quantized, back], InsertPoint.before(op))
        op.operands[1] = back.result

    def _cast_levels(self, op: WeightedOp, op_config: OpConfig, form: type[Levels]) -> None:
        """Casts weights to 8 bits, and rounds them to levels of a form, which are fitted to the layer.

        The cast then reads the real values of these levels, and the constant keeps the float weights.
        """
        weights, constant = _finite_weights(op), op.w.owner
        assert isinstance(constant, ConstantOp)
        by_channel = np.moveaxis(weights, op.CHANNEL_AXIS, 0)
        rows = by_channel.reshape(len(by_channel) if op_config.per_channel else 1, -1)
        limits = weight_range(op_config.stored_weights, narrow=op_config.narrow_weights)
        scales, levels_for = form.fitted(
            rows,
            weight_bits(op_config.stored_weights),
            limits,
            size=op_config.group or 0,
            powers_of_two=op_config.schema == "symmetric_with_power2_scale",
            # Kernels multiply four terms of a sum at a time, and fill up with zeros: depthwise sums and odd channels.
            zero=isinstance(op, DepthwiseConv2DOp) or weights.shape[-1] % 4 != 0,
        )
        scales = self._room_for_shift(op, self._room_for_bias(op, self._fine_without_weights(op, scales)))
        levels = levels_for(scales)
        low, high = levels.span(limits)
        stored = levels.choices((low, high), rows.shape).nearest(rows / scales[:, None]).astype(np.int8)
        held = np.ascontiguousarray(np.moveaxis(stored.reshape(by_channel.shape), 0, op.CHANNEL_AXIS))
        if op_config.per_channel:
            element = UniformType.per_axis(i8, op.CHANNEL_AXIS, scales.tolist(), None, low, high)
        else:
            element = UniformType.per_tensor(i8, float(scales[0]), 0, low, high)
        real = (held * element.parameters_along(held.ndim)[0]).astype(np.float32)
        attributes = restated(constant) | UNROUNDED.entry(WeightsAttr(constant.value.array)) | stating(levels)
        rounded = ConstantOp(real, tensor_type(op.w), attributes)
        rounded.y.name_hint = op.w.name_hint
        quantized = QuantizeCastOp(rounded.y, TensorType(element, weights.shape))
        back = DequantizeCastOp(quantized.result, op.w.type)
        Rewriter.insert_op([rounded, quantized, back], InsertPoint.before(op))
        op.operands[1] = back.result
        if not constant.y.uses:
            Rewriter.erase_op(constant)

    def _fine_without_weights(self, op: WeightedOp, scales: Array) -> Array:
        """Narrows the scale of weights that are all 0 where it would round the bias, the whole result, coarsely."""
        op_config = self.op_configs.of(op)
        data, result = self.groups.type_of(op.x, op_config.format), self.groups.type_of(op.y, op_config.format)
        assert isinstance(op.w.owner, ConstantOp)
        weights = op.w.owner.value.array
        others = tuple(i for i in range(weights.ndim) if len(scales) == 1 or i != op.CHANNEL_AXIS)
        if op_config.glow_exact or op.b is None or data is None or result is None or weights.any(axis=others).all():
            return scales
        finest = max(FINE * result.scale / data.scale, SMALLEST_SCALE)
        if op_config.schema == "symmetric_with_power2_scale":
            finest = power_of_two_above(finest / 2)
        finest = float(np.float32(finest))
        return np.where(weights.any(axis=others), scales, np.minimum(scales, finest))

    def _room_for_bias(self, op: WeightedOp, scales: Array) -> Array:
        """Widens a channel's weight scale where its bias would not fit the accumulator in units of s_x·s_w."""
        op_config = self.op_configs.of(op)
        data = self.groups.type_of(op.x, op_config.format)
        if op.b is None or not is_float(op.b) or data is None:
            return scales
        numbers = op.bias_numbers()
        assert numbers is not None
        width = op_config.added_bias(data.storage_width, self.target.sum_bits)
        limit = min(BIAS_LIMITS[width], 2.0 ** (self.target.sum_bits - 2))
        result = self.groups.type_of(op.y, op_config.format)
        if self.target.moves_bias and op_config.bias in STORAGE_RANGES and result is not None:
            # The bias is shifted left, but its step stays at most a step of the result in the widest channel.
            steps = float(np.max(scales)) * data.scale / result.scale
            limit = min(limit, STORAGE_RANGES[op_config.bias][1] * max(1.0, 2.0 ** -math.ceil(math.log2(steps))))
        least = np.abs(numbers) / (data.scale * limit)
        if len(scales) == 1:
            least = least.max(keepdims=True, initial=0.0)
        return self._widened(op, scales, least)

    def _room_for_shift(self, op: WeightedOp, scales: Array) -> Array:
        """Widens a channel's weight scale where its factor to the result's scale would be too small for the target.

        A factor of 0 would lose the channel's bias. Under the smallest factor, or the smallest that shares a shift with
        the largest, rounding the weights costs far less than a step of the result, beside which their sums are tiny.
        Where the target applies no such factors, scales stay as they are: its host computes the operation.
        """
        op_config = self.op_configs.of(op)
        data, result = self.groups.type_of(op.x, op_config.format), self.groups.type_of(op.y, op_config.format)
        if data is None or result is None or op in self.kept.rows:
            return scales
        own, spread = (0.0, math.inf) if (f := self.target.factors) is None else (f.least, f.spread)
        least = max(own if own <= 2.0 ** -(data.storage_width + 4) else 0.0, LEAST_FACTOR) * result.scale / data.scale
        return self._widened(op, scales, np.full(len(scales), max(least, scales.max(initial=0.0) / spread)))

    def _widened(self, op: WeightedOp, scales: Array, least: Array) -> Array:
        """Weight scales of at least `least`; the operation's WIDENED attribute notes the channels that became wider."""
        # One step up, so that rounding to f32 does not bring it below; a NaN or infinite bias widens nothing.
        least = np.nan_to_num(least * (1 + 2**-20), nan=0.0, posinf=0.0)
        wider = np.minimum(least, LARGEST_SCALE).astype(np.float32).astype(np.float64)
        if self.op_configs.of(op).schema == "symmetric_with_power2_scale":
            wider = np.array([power_of_two_above(s) if s else s for s in wider.tolist()])
        if (widened := np.flatnonzero(wider > scales)).size:
            WIDENED.put(op, sorted({*(WIDENED.of(op) or ()), *widened.tolist()}))
        return np.maximum(scales, wider)


def _finite_weights(op: WeightedOp) -> Array:
    """The constant weights of an operation.

    Raises:
        QuantizationError: Some are no finite numbers.
    """
    assert isinstance(op.w.owner, ConstantOp)
    weights = op.w.owner.value.array
    if not np.isfinite(weights).all():
        raise QuantizationError("weights must be finite numbers", where=f"weights {called(op.w)}")
    return weights


def _reads_as_data(op: Operation, index: int, able: set[Operation]) -> bool:
    """Whether an operation will be integer and reads its operand `index` as an activation."""
    return op in able and op.operands[index] in data_operands(op) and not is_weight(op.operands[index], op)
