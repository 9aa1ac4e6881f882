"""The function that an import builds: its block, and the constants in it.

A constant enters the block at its first use, and all its uses share one operation. A large constant that repeats a
smaller array enters the block as the smaller array and a broadcast.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Block, OpResult, SSAValue

from qmlir.dialects.nn.shape import BroadcastOp, ConstantOp
from qmlir.dialects.qmlir import BLOCK
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.windows import ints
from qmlir.frontends.values import Blocked, Constant, Dequantized, Ints, Refusal, Value, once
from qmlir.ir.budget import Budget
from qmlir.ir.interfaces import Array
from qmlir.ir.names import NAME, NameAttr
from qmlir.ir.rewriting import name_hint

_Key = tuple[int, Ints | None]

REPEATED = 16 << 20
"""If the repetitions in a constant take at least this many bytes, the network computes them by a broadcast."""


@dataclass
class Builder:
    """Builds the function that an import returns.

    block      the function's block
    budget     how many more bytes of constants the import may compute
    constants  the constants in the block, by identity and permutation
    derived    the constants that `rearranged` has made, by identity, method and argument
    """

    block: Block
    budget: Budget = field(default_factory=Budget)
    constants: dict[_Key, tuple[Constant | Array, SSAValue]] = field(
        default_factory=dict[_Key, tuple[Constant | Array, SSAValue]]
    )

    derived: dict[tuple[int, str, Ints], tuple[Constant | Array, Constant]] = field(
        default_factory=dict[tuple[int, str, Ints], tuple[Constant | Array, Constant]]
    )

    def rearranged(self, constant: Constant, how: Literal["reshaped", "transposed", "reversed"], to: Ints) -> Constant:
        """Returns a constant with its elements in another order or shape; equal requests return the same constant."""
        identity = _identity(constant)
        key = id(identity), how, to
        if key not in self.derived:
            self.derived[key] = identity, getattr(constant, how)(to)
        return self.derived[key][1]

    def ssa(self, value: Value) -> SSAValue:
        """Returns the value in the IR; a constant enters the IR at its first use."""
        return value if isinstance(value, SSAValue) else self.constant(value)

    def constant(self, constant: Constant, permutation: Ints | None = None) -> SSAValue:
        """Returns a constant's value in the IR, its dimensions permuted if asked for; all uses share the value."""
        identity = _identity(constant)
        key = id(identity), permutation
        # The entry keeps the array alive, so that no other array can get its id.
        if key not in self.constants:
            moved = constant if permutation is None else constant.transposed(permutation)
            self.constants[key] = identity, self._add_constant(moved)
        return self.constants[key][1]

    def _add_constant(self, constant: Constant) -> SSAValue:
        quantized = constant if isinstance(constant, Dequantized) else None
        if quantized is None and (wide := self._add_repeated(constant)) is not None:
            return wide
        array = constant.array if quantized is None else quantized.stored
        type = None if quantized is None else TensorType(quantized.type, array.shape)
        try:
            op = ConstantOp(np.ascontiguousarray(array).reshape(array.shape), type)
        except KeyError:
            raise Refusal(f'"{constant.name}" is of type {array.dtype}') from None
        if constant.name:
            op.attributes[NAME] = NameAttr.of(tensors=[constant.name])
            op.y.name_hint = name_hint(constant.name)
        if isinstance(constant, Blocked):
            op.attributes[BLOCK] = IntegerAttr(constant.block, i64)
        self.block.add_op(op)
        if quantized is None:
            return op.y
        cast = DequantizeCastOp(op.y, TensorType(quantized.type.expressed, array.shape))
        self.block.add_op(cast)
        return cast.result

    def _add_repeated(self, constant: Constant) -> SSAValue | None:
        """Adds a large constant that repeats a smaller array, as an `nn.broadcast`; None for any other constant."""
        array = constant.array
        own = once(array)
        if array.nbytes - own.nbytes < REPEATED:
            return None
        source = self._add_constant(type(constant)(own, constant.name))
        op = BroadcastOp.make([source], {"shape": ints(list(array.shape))})
        self.block.add_op(op)
        return op.y

    def finish(self) -> None:
        """Erases the constants that no operation uses."""
        for _, value in self.constants.values():
            while value.first_use is None and isinstance(value, OpResult):
                op = value.op
                value = op.operands[0] if op.operands else value
                op.detach()
                op.erase()
                if not isinstance(op, DequantizeCastOp):
                    break


def _identity(constant: Constant) -> Constant | Array:
    """Returns the object that identifies a constant: its array, or the constant itself if it is quantized.

    The float array of a quantized constant is computed only on demand.
    """
    return constant if isinstance(constant, Dequantized) else constant.array
