"""A task: all that is known about a layer that sums products with weights, passed whole from lowerings to kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Code
from qmlir.codegen.kernels.interfaces import Arithmetic, Epilogue, FinishedKernel, TapArithmetic
from qmlir.codegen.kernels.packed_weights import PLAIN
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.lowering import Array, Kernel, MainLowering
from qmlir.codegen.value import Value
from qmlir.ir.types import is_memref
from qmlir.numerics.groups import Groups
from qmlir.numerics.levels import Levels

A = TypeVar("A", bound=Arithmetic | TapArithmetic, covariant=True)
"""How a layer multiplies and adds."""

B = TypeVar("B", bound=Arithmetic | TapArithmetic)


@dataclass(frozen=True)
class Broadcast:
    """The batch of an operand that batch n of the result reads: Σ ((n div d) mod m) · s over the digits (d, m, s)."""

    digits: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(operand: Sequence[int], result: Sequence[int]) -> "Broadcast":
        """The broadcast of an operand to a result, both given by their batch dimensions."""
        aligned = [1] * (len(result) - len(operand)) + list(operand)
        digits: list[tuple[int, int, int]] = []
        divisor = stride = 1
        for size, full in zip(reversed(aligned), reversed(result), strict=True):
            if size != 1:
                digits.append((divisor, full, stride))
                stride *= size
            divisor *= full
        return Broadcast(tuple(digits))

    def apply(self, code: Code, batch: Value) -> Value:
        """The operand's batch that a batch of the result reads."""
        total = code.index(0)
        for divisor, modulus, stride in self.digits:
            total = total + (batch // divisor) % modulus * stride
        return total


@dataclass(frozen=True, kw_only=True)
class Layer(Generic[A]):
    """What determines the code of a layer besides sizes that a kernel chooses: y = finish(start + Σ x · w).

    name         what kernels are named after
    window       the geometry
    outputs      output channels
    groups       groups of a grouped convolution; each has its own blocks of output channels
    x_batch,
    w_batch      broadcasts of a matrix product's batches; None if x has the result's batches, and w has no batches
    """

    name: str
    window: Window
    outputs: int
    arithmetic: A
    epilogue: Epilogue
    groups: int = 1
    x_batch: Broadcast | None = None
    w_batch: Broadcast | None = None


@dataclass(frozen=True, eq=False)
class Reals:
    """The floats that integers as weights stand for: (integer − point) · scale, both operations rounded to f32.

    scales   f32 [O, G], one for each output and block of its weights, in the order in which they are summed
    points   f32 [O, G]; None for zeros
    size     the weights of a block, if G is not 1
    """

    scales: Array
    points: Array | None
    size: int

    @property
    def is_by_output(self) -> bool:
        """Whether all weights of an output have one scale."""
        return self.scales.shape[1] == 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(Layer[A]):
    """A layer to lower: what determines its code, and its data.

    result      the tensor to compute
    x           the input's buffer; its memory is [N, H, W, C] in row-major order, whatever its shape is
    weights     an array [O, KH, KW, C / groups], of a depthwise convolution [KH, KW, O]; or a buffer, of a contraction
                one that is packed already
    bias, parameters   one entry for each output channel; the bias may be a buffer that is padded already
    largest     the largest magnitude of integer data minus their zero point
    multipliers integers [O, KW] by which the sums of taps are multiplied, if they are; x is read in one row
    offsets     integers [O, KW] by which the sums of the taps' data are multiplied, beside `multipliers`, if they are
    block_sums  the buffer of these sums, i32 [outputs of all rows · KW]
    narrow      whether i32 holds the sums that are multiplied
    levels      which integers the weights are; those of fewer than 8 bits are packed (packed_weights.py)
    reals       the floats that they stand for, if they multiply floats
    """

    result: SSAValue
    x: SSAValue
    weights: Array | SSAValue
    bias: Array | SSAValue | None = None
    parameters: Sequence[Array] = ()
    largest: int = 0
    multipliers: Array | None = None
    offsets: Array | None = None
    block_sums: SSAValue | None = None
    narrow: bool = False
    levels: Levels = PLAIN
    reals: Reals | None = None

    @property
    def grouped(self) -> Groups | None:
        """The levels if they have a multiplier for each group of terms."""
        return self.levels if isinstance(self.levels, Groups) else None

    @property
    def layer(self) -> Layer[A]:
        """What determines the layer's code."""
        return self.layer_in(self.arithmetic)

    def layer_in(self, arithmetic: B) -> Layer[B]:
        """What determines the layer's code in another arithmetic."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(Layer)}
        given["arithmetic"] = arithmetic
        return Layer(**given)

    @property
    def element(self) -> Attribute:
        """The element type of the input's buffer."""
        assert is_memref(self.x.type)
        return self.x.type.element_type

    @property
    def is_plain(self) -> bool:
        """Whether the weights are constant, of one group, and multiplied by nothing else than data."""
        return not isinstance(self.weights, SSAValue) and self.groups == 1 and self.multipliers is None

    @property
    def is_of_bytes(self) -> bool:
        """Whether data, constant weights and the zero point are bytes, and sums have 32 bits."""
        if isinstance(self.weights, SSAValue) or self.weights.dtype != np.int8 or self.element != i8:
            return False
        return self.arithmetic.sums == i32 and -128 <= self.arithmetic.zero_point <= 127


@dataclass(frozen=True)
class LayerKernel(FinishedKernel, Generic[A]):
    """A kernel that computes a layer."""

    layer: Layer[A]
    has_bias: bool

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the function is named after."""
        return self.layer.name

    @property
    def epilogue(self) -> Epilogue:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The computation on the sums."""
        return self.layer.epilogue


def call_on(
    state: MainLowering, task: Task[A], kernel: Kernel, items: int,
    source: tuple[SSAValue, Sequence[int]], constants: Sequence[SSAValue], shape: Sequence[int],
) -> None:  # fmt: skip
    """Calls a kernel that computes the result of a task.

    Args:
        state: The lowering.
        task: The task.
        kernel: The kernel; its buffers are the source, the constants and the result.
        items: The size of its outermost loop.
        source: The input, and the shape under which the kernel reads it.
        constants: The buffers between.
        shape: The shape under which it writes the result.
    """
    y = state.allocate_result(task.result)
    state.call(kernel, [state.view(*source), *constants, state.view(y, shape)], items)
    state.replace(task.result, y)
