"""`calib.observe`: an observer of an activation whose range the quantizer needs, with the observed range."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import element_type
from qmlir.numerics import Int64s
from qmlir.numerics.histograms import Histogram

Bounds = tuple[float, float]

EXPONENTS = (-1074, 1023)
"""The least and the greatest exponent of a bin width: those of float64's powers of two."""


@irdl_attr_definition
class HistogramAttr(ParametrizedAttribute):
    """Counts of values in bins of width 2^k; the first bin is [first·2^k, (first + 1)·2^k).

        #calib.histogram<k = -3, first = -2, counts = [4, 0, 7]>

    (C1) k is an exponent of float64, there is at least one count, and all counts are 0 or more
    """

    name = "calib.histogram"
    exponent: IntAttr
    first: IntAttr
    counts: DenseArrayBase[IntegerType]

    @staticmethod
    def of(exponent: int, first: int, counts: Sequence[int] | Int64s) -> "HistogramAttr":
        """Builds the attribute from plain numbers: the exponent k, the index of the first bin, and the counts."""
        held = BytesAttr(np.asarray(counts, "<i8").tobytes())  # from_list checks and packs each number by itself
        return HistogramAttr(IntAttr(exponent), IntAttr(first), DenseArrayBase(i64, held))

    def histogram(self) -> Histogram:
        """Returns the histogram as plain data."""
        counts = np.array(self.counts.get_values(), np.float64)
        width = math.ldexp(1.0, self.exponent.data)
        return Histogram(self.first.data * width, width, counts)

    def verify(self) -> None:
        counts = self.counts.get_values()
        low, high = EXPONENTS
        if not low <= self.exponent.data <= high or not counts or min(counts) < 0:  # C1
            raise VerifyException(f"a histogram needs counts of 0 or more, and k in [{low}, {high}]; profile again")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def field(name: str) -> None:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")

        with parser.in_angle_brackets():
            field("k")
            exponent = parser.parse_integer()
            parser.parse_punctuation(",")
            field("first")
            first = parser.parse_integer()
            parser.parse_punctuation(",")
            field("counts")
            counts = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        if any(not -(1 << 63) <= count < 1 << 63 for count in counts):
            parser.raise_error("the counts of a histogram are signed 64-bit integers")
        return cls.of(exponent, first, counts).parameters

    def print_parameters(self, printer: Printer) -> None:
        counts = ", ".join(map(str, self.counts.get_values()))
        with printer.in_angle_brackets():
            printer.print_string(f"k = {self.exponent.data}, first = {self.first.data}, counts = [{counts}]")


@dataclass(frozen=True)
class Observation:
    """The observed distribution of a tensor's values.

    bounds     the least and the greatest value
    histogram  the histogram of the values; None if it is unknown
    average    the means of each sample's least and greatest value; None if they are unknown
    derived    whether the range follows from another tensor's, as a mask's does: calibrations leave it whole
    """

    bounds: Bounds
    histogram: Histogram | None = None
    average: Bounds | None = None
    derived: bool = False


@irdl_op_definition
class ObserveOp(IRDLOperation):
    """Marks a float tensor whose range the quantizer needs, and holds the range once it is known.

        calib.observe %v {name = "conv1_out", range = [-1.5, 6.0]} : tensor<1x8x8x16xf32>

    With `data_free`, the range was estimated without samples, and the ledger says so.

    For calibrations other than minmax, the operation also holds the histogram of the values and the mean range of a
    sample. It has a memory effect, so that no pass removes it as dead code. The pass `quantize` consumes it.

    (C1) the range, and the average of ranges, are each two finite numbers, the first not above the second
    (C2) the tensor's elements are floats
    """

    name = "calib.observe"
    value = operand_def(TensorType)
    tensor = prop_def(StringAttr, prop_name="name")
    range = opt_prop_def(ArrayAttr[FloatAttr[AnyFloat]])
    histogram = opt_prop_def(HistogramAttr)
    average = opt_prop_def(ArrayAttr[FloatAttr[AnyFloat]])
    data_free = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value attr-dict `:` type($value)"

    LIMITS: ClassVar = 2

    def __init__(self, value: SSAValue, tensor: str, bounds: tuple[float, float] | None = None):
        properties: dict[str, Attribute] = {"name": StringAttr(tensor)}
        if bounds is not None:
            properties["range"] = bounds_attribute(*bounds)
        super().__init__(operands=[value], properties=properties)

    @property
    def bounds(self) -> Bounds | None:
        """The observed [lowest, highest] real value, or None before profiling."""
        return _bounds(self.range) if self.range is not None else None

    @property
    def observation(self) -> Observation | None:
        """The range, histogram and mean range, or None before profiling."""
        if (bounds := self.bounds) is None:
            return None
        histogram = self.histogram.histogram() if self.histogram is not None else None
        return Observation(bounds, histogram, _bounds(self.average) if self.average is not None else None)

    def verify_(self) -> None:
        if not isinstance(element_type(self.value.type), AnyFloat):  # C2
            raise VerifyException(f"'{self.name}' learns the range of float tensors, got {self.value.type}")
        for what, given in (("range", self.range), ("average", self.average)):
            bounds = [b.value.data for b in given] if given is not None else [0.0, 0.0]
            finite = all(abs(b) < float("inf") for b in bounds)  # False for NaN too
            if len(bounds) != self.LIMITS or not finite or bounds[0] > bounds[1]:  # C1
                raise VerifyException(
                    f'the {what} of "{self.tensor.data}" must be two finite numbers in order, got {bounds}; '
                    "profile it again"
                )


def bounds_attribute(lo: float, hi: float) -> ArrayAttr[FloatAttr[AnyFloat]]:
    """Builds the attribute in which an observer holds two bounds."""
    return ArrayAttr([FloatAttr(lo, f64), FloatAttr(hi, f64)])


def _bounds(held: ArrayAttr[FloatAttr[AnyFloat]]) -> Bounds:
    lo, hi = (bound.value.data for bound in held)
    return lo, hi


CALIB = Dialect("calib", [ObserveOp], [HistogramAttr])
