"""Settles the quantization config of each operation and each tensor of a network."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import CastOp, ConstantOp
from qmlir.dialects.nn.base import is_float, is_half
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands, data_results, data_values, is_weight
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.target import Target
from qmlir.ir.facts import POLICY
from qmlir.numerics.schemas import is_symmetric, weight_bits
from qmlir.settings.quant_config import Format, OpConfig, op_config_of
from qmlir.transforms.quantize.reasons import (
    WIDEST,
    Reason,
    computes_in_halves,
    digits,
    names_format,
    why_float,
    why_lacking,
)

# ---------------------------------------------------------------------------------------------------------------
# Finds the f32 value of a network input: the argument itself, or the cast of an argument in half precision.


def float_input(argument: BlockArgument) -> SSAValue | None:
    """The f32 value of an argument: the argument itself, or its cast from half precision; None if there is neither."""
    if is_float(argument):
        return argument
    casts = (u.operation for u in argument.uses if is_half(argument))
    return next((op.y for op in casts if isinstance(op, CastOp) and is_float(op.y)), None)


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The function argument that a value holds in f32, directly or through a cast from half precision; else None."""
    if isinstance(value, BlockArgument):
        return value
    op = value.owner
    if isinstance(op, CastOp) and isinstance(op.x, BlockArgument) and is_half(op.x) and is_float(value):
        return op.x
    return None


# ---------------------------------------------------------------------------------------------------------------
# Settles the config of each operation and each tensor of a network.
#
# A config is the schema, the precision and the other options in effect (policy.py). Schema and
# precision together are its format.
#
# An operation that computes has the config that its own `qmlir.policy` attribute gives it, and its result has the same
# config. An operation that keeps the scale of its operands (a reshape, a concat, a pool), or that yields no data but
# truth values or indices, takes the format of a layer beside it, unless its own policy names a schema or a precision:
#
# * if the integer operations that make its operands have one format, the operation takes that format;
# * if their formats differ, or if only floats reach the operation, it takes the format of the operations that read its
#   result;
# * if no integer operation reads its result, as at the end of a network, it takes the widest format that reaches it. So
#   a concat of one 16-bit layer and others stays in 16 bits through the transposes and reshapes behind it.
#
# A tensor that no integer operation makes (an input of the network, a constant, the result of a float operation)
# likewise has the format of the operations that read it, if they agree. So a 16-bit layer reads such a tensor in 16
# bits, without a detour through an 8-bit type.
#
# A step of an operator that sums squares (`qmlir.power` is 2) has 16 bits where the config has fewer, if the target
# computes it so and its own policy names no format: a square has twice the digits of its root, and so has the sum of
# squares. In 8 bits, every element below a twentieth of the largest element would become 0. Steps with higher powers
# stay float: they would need more than 16 bits.
#
# The configs are settled once, before casts enter the graph.


class OpConfigs:
    """The configs of the operations and the tensors of a block."""

    def __init__(self, block: Block, default: OpConfig, target: Target, kept: Mapping[Operation, Reason] | None = None):
        """Settles the configs of a float network with observers.

        Args:
            block: The network.
            default: The options in effect.
            target: The target that the network is compiled for.
            kept: The operations that stay float for their digits, and why.
        """
        self._kept = kept or {}
        self.default, self._target = default, target
        self._observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
        self._operations: dict[Operation, OpConfig] = {}
        self._values: dict[SSAValue, OpConfig] = {}
        self._floats: dict[SSAValue, list[Format]] = {}  # value that comes as floats → formats its readers want
        operations = [o for o in block.ops if any(map(is_float, data_values(o)))]
        self._leave_to_readers(block.args)
        for op in block.ops:
            if not data_values(op) and not isinstance(op, DequantizeCastOp):
                self._leave_to_readers(op.results)
        for op in operations:
            self._follow_operands(op)
        for op in reversed(operations):
            self._follow_readers(op)
        for op in operations:
            self._follow_settled(op)

    def of(self, op: Operation) -> OpConfig:
        """The config of an operation."""
        return self._operations.get(op) or self._own(op)

    def of_value(self, value: SSAValue) -> OpConfig:
        """The config of a tensor: the config of the operation that makes it, changed by the tensor's observer."""
        if value not in self._values:
            self._values[value] = self._op_config_of_value(value)
        return self._values[value]

    def why_float(self, op: Operation) -> Reason | None:
        """Why an operation stays float even if all ranges are known; None if it may become integer."""
        why = why_float(op, self.of(op), op_config_of(op, self.default), self._target)
        return self._kept.get(op) if why is None else why

    def _own(self, op: Operation) -> OpConfig:
        """The config of an operation apart from its neighbours: 16 bits for squares if the target computes on these."""
        own = op_config_of(op, self.default)
        if not 0 < digits(op, own) <= WIDEST or names_format(op):
            return own
        # Under a symmetric schema, files of every format can store 16 bits.
        schema = own.schema if is_symmetric(own.schema) else "symmetric"
        wide = replace(own, schema=schema, precision="int16", weight_precision=own.stored_weights)
        return own if why_lacking(op, wide, self._target) else wide

    # Settling the configs.

    def _leave_to_readers(self, values: Iterable[SSAValue]) -> None:
        """Leaves the format of values that come as floats to their readers, unless their observer names a format."""
        for value in values:
            if value not in self._observers or not names_format(self._observers[value]):
                self._floats[value] = []

    def _follow_operands(self, op: Operation) -> None:
        """Settles the config of an operation by its operands, or leaves it to the readers of its result."""
        halved = self._own(op).half is not None and computes_in_halves(op)
        if halved or names_format(op) or not (keeps_scale(op) or _only_compares(op)):
            self._operations[op] = self._own(op)
            if self.why_float(op) is not None:
                self._leave_to_readers(op.results)
            return
        made = self._made_operands(op)
        if len({self.of_value(v).format for v in made}) == 1:
            self._operations[op] = self._of_one_scale(op, made[0])
        else:
            self._leave_to_readers(op.results)

    def _follow_readers(self, op: Operation) -> None:
        """Settles the config of an operation left to its readers, and notes the format it wants of its operands."""
        if op not in self._operations:
            (result,) = op.results
            wanted = self._floats.get(result, [])
            made = [self.of_value(v).format for v in self._made_operands(op)]
            if made and (not wanted or any(self._reads_floats(u.operation) for u in result.uses)):
                wanted = made
            if not wanted:
                return
            format = max(wanted, key=_bits)
            self._operations[op] = self._of_one_scale(op, data_operands(op)[0], format)
            self._floats[result] = [format]
        if self.why_float(op) is not None:
            return
        for value in data_operands(op):
            if value in self._floats and not is_weight(value, op):
                self._floats[value].append(self._operations[op].format)

    def _follow_settled(self, op: Operation) -> None:
        """Settles the config of an operation that no integer operation reads: the widest format of its operands."""
        if op not in self._operations:
            operands = data_operands(op)
            format = max((self.of_value(v).format for v in operands), key=_bits)
            self._operations[op] = self._of_one_scale(op, operands[0], format)

    def _made_operands(self, op: Operation) -> list[SSAValue]:
        """The data operands of an operation whose format the operations that make them have settled."""
        return [v for v in data_operands(op) if v not in self._floats]

    def _reads_floats(self, op: Operation) -> bool:
        """Whether an operation reads its operands as unrounded floats: it stays float, or is not to be quantized."""
        return not isinstance(op, ObserveOp) and (op not in self._operations or self.why_float(op) is not None)

    def _of_one_scale(self, op: Operation, source: SSAValue, format: Format | None = None) -> OpConfig:
        """The config of an operation that keeps the scale of `source`, in `format` or else in the source's format.

        If the target computes the operation in the precision of its own config only, that config holds unchanged.
        """
        format = self.of_value(source).format if format is None else format
        own = op_config_of(op, self.default)
        op_config = own.in_format(format)
        if isinstance(op, MovementOp) and not POLICY.on(op) and source not in self._floats:
            # The result has the values of the operand, so it has the operand's config, less a range or parameters.
            op_config = self.of_value(source).with_settings({"range": None, "parameters": None}).in_format(format)
        return own if why_lacking(op, op_config, self._target) and not why_lacking(op, own, self._target) else op_config

    def _op_config_of_value(self, value: SSAValue) -> OpConfig:
        made = isinstance(value.owner, Operation) and not isinstance(value.owner, ConstantOp)
        op_config = self.of(value.owner) if made and isinstance(value.owner, Operation) else self.default
        wanted = set(self._floats.get(value, ()))
        if len(wanted) == 1:
            op_config = op_config.in_format(*wanted)
        searched = op_config.schema == "symmetric_with_power2_scale"
        if argument_of(value) is not None and op_config.calibration == "auto" and not searched:
            op_config = op_config.with_settings(
                {"calibration": "minmax"}
            )  # inputs such as pictures use all of their range
        return op_config_of(self._observers[value], op_config) if value in self._observers else op_config


def _only_compares(op: Operation) -> bool:
    """Whether an operation reads data but yields none: truth values or indices."""
    return bool(data_operands(op)) and not data_results(op)


def _bits(format: Format) -> int:
    """The number of bits of a value in a format."""
    return weight_bits(format[1])
