"""What operations say about their form on quantized types: its storage types, its sums, and the factors between scales.

Every operation of nn but a constant is a `QuantizableOp`. The quantizer, the lowering to qint and the exporters ask the
operation, and none of them knows an operation by name. Whether an operation is computed in integers follows from what
it says here and from what the target lacks (policies/legality.py).

The integer form of an operation accumulates sums of products, whose largest magnitude follows from types and constants
(`sums`), and multiplies them by the factors between the scales of its operands and of its result (`factors`), each of
which becomes an integer multiplier and a shift (numerics/fixed_point.py).
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import TensorOp, element_of
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

ACCUMULATOR_MAX = 2**31 - 1
"""The largest magnitude of a sum in an i32 accumulator."""

FACTOR_LIMIT = 2.0**fixed_point.MAX_SHIFT
"""Factors between scales are below this, as a multiplier and a shift require (numerics/fixed_point.py)."""

LEAST_FACTOR = 2.0 ** (fixed_point.MIN_SHIFT - 1)
"""The smallest factor that has a multiplier; smaller factors become 0."""

WIDE_FACTOR_LIMIT = 2.0 ** CONTRACTS["single64"].max_shift
"""The limit of factors for an i64 accumulator, like `FACTOR_LIMIT`."""

BYTES = ("i8",)
NARROW = ("i8", "i16")
ALL_STORAGES = ("i8", "i16", "i32")


@dataclass(frozen=True)
class Sums:
    """The sums that an integer form accumulates.

    bounds     the largest magnitude that they can reach: one, or one for each output channel
    name       what errors call them
    by_channel  whether there is a bound for each output channel
    """

    bounds: npt.NDArray[Any]
    name: str
    by_channel: bool = False

    @property
    def bound(self) -> int:
        """The largest magnitude of all sums."""
        return int(self.bounds.max(initial=0))

    def __str__(self) -> str:
        largest = int(self.bounds.argmax()) if self.bounds.size else 0
        return f"{self.name} in channel {largest}" if self.by_channel else self.name

    @staticmethod
    def up_to(bound: int, name: str) -> "Sums":
        """Sums with one bound, which may exceed 64 bits."""
        return Sums(np.array([bound]), name)


@dataclass(frozen=True)
class Scales:
    """The scales of values in the arithmetic of a runtime, which rounds each product and quotient to `dtype`.

    product32  whether the product of two per-tensor scales is rounded to float32
    """

    dtype: type[np.float64 | np.float32]
    product32: bool

    def __call__(self, value: SSAValue) -> npt.NDArray[Any]:
        """The scales of a value: one, or one for each index of its quantized axis."""
        return np.array(uniform(value).scales).astype(self.dtype)

    def product(self, lhs: SSAValue, rhs: SSAValue) -> npt.NDArray[Any]:
        """The products of the scales of two values."""
        product = self(lhs) * self(rhs)
        narrow = self.product32 and not uniform(rhs).is_per_axis
        return product.astype(np.float32).astype(self.dtype) if narrow else product


class QuantizableOp(TensorOp, abc.ABC):
    """An operation that may have quantized operands and results, or says why it may not."""

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ()
    """The storage types of data for which the operation has an integer form; unsigned and narrower storage is computed
    in the next of these (`computed_storage`)."""

    ROUNDS_BY_SIGN: ClassVar[bool] = False
    """Whether the integer form rounds stored integers by their sign, so that other zero points move halves."""

    WHY_FLOAT: ClassVar[str] = ""
    """Why the operation has no integer form on any storage type, as a sentence without its subject; empty if it has."""

    def data_operands(self) -> Sequence[SSAValue]:
        """The operands that carry the network's data: all operands except a bias, a condition or indices."""
        return self.operands

    def data_results(self) -> Sequence[SSAValue]:
        """The results that carry the network's data: all results except truth values and indices."""
        return self.results

    def is_weight(self, value: SSAValue) -> bool:
        """Whether the operation reads `value` as its weights, which may have a scale for each output channel."""
        return False

    def reads_as_stored(self, index: int) -> bool:
        """Whether the operation reads its operand `index` in the operand's storage type, whatever its own precision."""
        return False

    def is_accumulator(self, value: SSAValue) -> bool:
        """Whether the operation takes or gives a value of 32 bits, whatever data its integer form takes.

        An elementwise product gives its own sums, in steps of the product of its operands' scales. A contraction
        gives its sums in any steps, and takes data of 32 bits where its sums have 64.
        """
        return False

    def check_integer_form(self) -> None:
        """Checks what the operation's integer form requires of scales, sizes and operands; all forms have bounded sums.

        Raises:
            UnsupportedError: The operation has no integer form with these.
        """

    def sums(self) -> Sums:
        """The sums that the integer form accumulates; 0 by default."""
        return Sums.up_to(0, "")

    def fits_32_bits(self) -> bool:
        """Whether the sums fit an i32 accumulator for all possible data."""
        return self.sums().bound <= ACCUMULATOR_MAX

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        """The factors between the operation's integers and its result's integers, computed from `scales`.

        There is one factor, or one for each output channel; for a sum, one for each operand. By default integers are
        only moved or looked up, and there is none.
        """
        return np.zeros(0)

    def factors(self, dtype: type[np.float64 | np.float32] = np.float64, *, product32: bool = False) -> Float64s:
        """The real factors between the operation's integers and its result's integers (`ratios`).

        Args:
            dtype: What every product and quotient is rounded to.
            product32: Whether the product of the scales of data and per-tensor weights, or of both sides of a matrix
                product, is rounded to float32.
        """
        with np.errstate(over="ignore", under="ignore"):
            return self.ratios(Scales(dtype, product32)).astype(np.float64)

    def factors_fit(self) -> bool:
        """Whether all factors have a multiplier and a shift, or are so small that they become 0."""
        return bool((self.factors() < (FACTOR_LIMIT if self.fits_32_bits() else WIDE_FACTOR_LIMIT)).all())

    def lost_sums(self) -> str:
        """Describes sums that become 0 because their factor has no multiplier, although they reach half a step.

        Returns the empty string if there are no such sums. Sums of 32 bits never reach half a step.
        """
        found = self.factors()
        if not (found < LEAST_FACTOR).any():
            return ""
        bound = self.sums()
        sums, each = np.broadcast_arrays(bound.bounds, found)
        for channel in np.flatnonzero((each < LEAST_FACTOR) & (sums * each >= 0.5))[:1]:
            where = f" in channel {channel}" if bound.by_channel else ""
            return f"its sums{where} reach {sums[channel]}, and their factor {each[channel]:g} has no multiplier"
        return ""


# ---------------------------------------------------------------------------------------------------------------
# Operands and results of operations on quantized types, and how they are stored.


def uniform(value: SSAValue) -> UniformType:
    """The quantized element type of a value known to have one."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def widest(element: UniformType) -> int:
    """Returns the largest magnitude of a stored integer minus its zero point."""
    return max(abs(element.storage_min - element.zero_point), abs(element.storage_max - element.zero_point))


def is_exact(op: QuantizableOp) -> bool:
    """Whether an operation's result is its sums as they are: i32 in steps of the product of its operands' scales."""
    return is_plain_sum(op.results[0]) and bool((op.factors() == 1).all()) and op.fits_32_bits()


def is_plain_sum(value: SSAValue) -> bool:
    """Whether a value is stored as i32 with one scale and without a zero point, as sums are that keep their digits."""
    element = uniform(value)
    return element.storage_width == 32 and element.is_signed and element.zero_points == (0,) and not element.is_per_axis


def storage_name(storage: IntegerType) -> str:
    """Returns a storage type as targets and quantized types write it: i8, u8."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}"


def computed_storage(storage: IntegerType) -> str:
    """Returns the type in which integers of a storage type are computed: the narrowest of i8, i16, i32 that fits."""
    return f"i{next(bits for bits in (8, 16, 32) if storage.width.data <= bits)}"


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands whose types a quantized operation needs: all but bias and indices; empty off the nn level."""
    return op.data_operands() if isinstance(op, QuantizableOp) else ()


def data_results(op: Operation) -> Sequence[SSAValue]:
    """The results whose types a quantized operation needs: all but truth values and indices."""
    return op.data_results() if isinstance(op, QuantizableOp) else op.results


def data_values(op: Operation) -> Sequence[SSAValue]:
    """The data operands, including weights, and the data results; empty if there are no data operands."""
    operands = data_operands(op)
    return (*operands, *data_results(op)) if operands else ()


def activations(op: Operation) -> Sequence[SSAValue]:
    """The data operands and the results of an operation, without weights."""
    return [v for v in data_values(op) if not is_weight(v, op)]


def is_weight(value: SSAValue, op: Operation) -> bool:
    """Whether `op` reads `value` as its weights."""
    return isinstance(op, QuantizableOp) and op.is_weight(value)
