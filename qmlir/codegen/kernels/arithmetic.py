"""What parametrizes kernels: how they multiply, add and finish accumulators, and how they quantize."""

import abc
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.value import Value
from qmlir.numerics import Array

# ---------------------------------------------------------------------------------------------------------------
# The division and rounding of a quantization as loops-level code; the numpy form is `numerics.QUANTIZATIONS`.


def divisor(scales: Array, quantization: str) -> Array:
    """Scales in the form that `rounded_steps` takes: as given for `exact`, else in float32, or float32 reciprocals."""
    if quantization == "exact":
        return scales
    narrow = scales.astype(np.float32)
    return np.float32(1) / narrow if quantization == "float32_reciprocal" else narrow


def rounded_steps(x: Value, scale: Value, quantization: str) -> Value:
    """round(x / scale) as f64, for x in f32 and a scale from `divisor`."""
    if quantization == "exact":
        return (x.to(f64) / scale).round_even()
    if quantization == "float32_reciprocal":
        return (x * scale).to(f64).round_even()
    quotient = (x / scale).to(f64)
    if quantization == "float32_away":
        return (quotient.magnitude() + 0.5).floor().with_sign_of(quotient)
    return quotient.round_even()


# ---------------------------------------------------------------------------------------------------------------
# Interfaces that parametrize contraction kernels: how they multiply and add, and how they finish accumulators.


class Arithmetic(abc.ABC):
    """How a contraction multiplies and adds; implementations are frozen dataclasses.

    group    channels that one step multiplies; weights are [blocks, KH, KW, C' / group, lanes, group]
    element  element type of the input that `step` reads, and so of a tile (see tile.py)
    """

    group: int
    element: Attribute

    @property
    def keeps(self) -> bool:
        """Whether `prepare` only converts the type and keeps the number."""
        return True

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts an input element to the form that a tile holds."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, block: Value, lanes: int) -> Value:
        """The initial accumulators of a block of output channels: the bias or zeros."""

    @abc.abstractmethod
    def weights(self, w: Buffer, at: Value, lanes: int) -> Value:
        """Loads the weights of one step; `at` is the number of steps whose weights lie before."""

    @abc.abstractmethod
    def step(self, accumulator: Value, x: Buffer, place: tuple[Value, Value], w: Value) -> Value:
        """Adds the products of one group of inputs, at `place` in `x`, to the accumulators."""


class Epilogue(abc.ABC):
    """The computation on accumulators before they are stored; implementations are frozen dataclasses.

    parameters   how many buffers of per-channel parameters it reads, [blocks · lanes] each
    """

    parameters: int

    @abc.abstractmethod
    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        """The result's elements, computed from accumulators and the parameters of their channels, lane by lane."""
