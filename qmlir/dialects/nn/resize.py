"""Interpolations: resizes, and samples at computed places."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.contraction import SAME_SCALE
from qmlir.dialects.nn.quantizable import ACCUMULATOR_MAX, NARROW, Float64s, Scales, Sums, uniform, widest
from qmlir.dialects.quant.rules import FreeScale
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, shape_of
from qmlir.ir.samples import Axes, MixesSamples
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import WIDE_LIMIT
from qmlir.numerics.elementary.lanes import I64, Lanes, N

INTERPOLATION_BITS = 15
"""The most fraction bits of an interpolation weight whose sums have 32 bits, or 62 where it rounds itself."""

WIDE_INTERPOLATION_BITS = 20
"""The most fraction bits of an interpolation weight whose sums have 62 bits and are requantized."""

LONGEST_SUM = (1 << 62) - 1
"""The largest magnitude of a sum in an i64 accumulator, before low bits are dropped."""

FRACTION_BITS = 24
"""The fraction bits that a sum of 64 bits keeps: more would need factors between scales that have no multiplier."""

SUM_BITS = WIDE_LIMIT.bit_length() - 1
"""The bits of a sum of 64 bits when it is requantized: lower bits are dropped before."""

# ---------------------------------------------------------------------------------------------------------------
# Resizing of images by interpolation.


@dataclass(frozen=True)
class FixedWeights:
    """Weights of an interpolation as multiples of 2^−bits.

    weights  the multiples, for each axis
    reach    the largest magnitude of the sums
    dropped  how many low bits of the sums are dropped before they are requantized
    """

    bits: int
    weights: list[npt.NDArray[np.int32]]
    reach: int
    dropped: int


@irdl_op_definition
class ResizeOp(UnaryTensorOp, NNOp, InterpolationOp):
    """A resize: each element is a weighted sum of neighbours, one axis after another (dialects/interpolation.py).

    The f64 weights are rounded to the element type; then each product and each sum is rounded to it.

    The integer form requires, unless it `rounds_itself`, that some number of fraction bits of the weights makes sums of
    62 bits, and that results with these weights are off by at most half a step.
    """

    name = "nn.resize"
    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    WEIGHTS: ClassVar[str] = "float64"

    traits = traits_def(FreeScale())

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.interpolated_shape(shape_of(self.x))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.interpolated(inputs[0]),)

    def float32_weights(self) -> list[Float64s]:
        """The weights of each axis rounded to f32, as float networks and model files hold them."""
        return [weights.astype(np.float32).astype(np.float64) for _, _, weights in self.tables()]

    def fixed_weights(self) -> "FixedWeights":
        """The weights in fixed point, with as many bits as fit sums of 32 bits, or of 62 bits where these are too few.

        Raises:
            UnsupportedError: No number of bits fits, or the result could be off by more than half a step.
        """
        away, found = 0.0, None
        wide = WIDE_INTERPOLATION_BITS
        for most, limit in ((INTERPOLATION_BITS, ACCUMULATOR_MAX), (wide, WIDE_LIMIT - 1), (wide, LONGEST_SUM)):
            found = self._fitted_weights(most, limit)
            if found is not None and (away := self._steps_away(found)) <= 0.5:
                return found
        if found is None:
            raise UnsupportedError("its weighted sums do not fit a 64-bit accumulator", code="accumulator")
        raise UnsupportedError(f"its weights in {found.bits} bits would be up to {away:.2g} steps of its result off")

    def _fitted_weights(self, most: int, limit: int) -> "FixedWeights | None":
        """The weights with the most bits under which all sums stay within a limit; None if no number of bits fits."""
        real, widest_data = self.float32_weights(), widest(uniform(self.x))
        largest = max(float(np.abs(w).max(initial=0)) for w in real)
        for bits in range(most, 0, -1):
            if largest * 2.0**bits >= 1 << 31:
                continue
            stored = [fixed_point.fixed_point_rows(w, bits) for w in real]
            reach = prod(int(np.abs(w.astype(np.int64)).sum(axis=1).max(initial=0)) for w in stored) * widest_data
            if reach <= limit:
                more = max(reach.bit_length() - SUM_BITS, bits * len(real) - FRACTION_BITS)
                return FixedWeights(bits, stored, reach, max(0, more) if limit > ACCUMULATOR_MAX else 0)
        return None

    def _steps_away(self, fixed: "FixedWeights") -> float:
        """How many steps of the result the weights in fixed point could move it."""
        real, element = self.float32_weights(), uniform(self.x)
        norms = [float(np.abs(w).sum(axis=1).max(initial=0)) for w in real]
        half = (element.storage_max - element.storage_min) / 2
        away = 0.0
        for axis, (weights, rounded) in enumerate(zip(real, fixed.weights, strict=True)):
            errors = rounded / (1 << fixed.bits) - weights
            each = np.abs(errors).sum(axis=1) * half + np.abs(errors.sum(axis=1)) * widest(element)
            away += float(each.max(initial=0)) * prod(n for other, n in enumerate(norms) if other != axis)
        return away * element.scale / uniform(self.y).scale

    def check_integer_form(self) -> None:
        if not self.rounds_itself():
            self.fixed_weights()

    def sums(self) -> Sums:
        if self.rounds_itself():
            return super().sums()
        fixed = self.fixed_weights()
        return Sums.up_to(fixed.reach >> fixed.dropped, "a weighted sum")

    def rounds_itself(self) -> bool:
        """Whether a 16-bit interpolation keeps scale and zero point, and its weights are ≥ 0 and sum to 1.

        Such an interpolation rounds its own 64-bit sums. All others need 32-bit sums and a requantization.
        """
        data, result = uniform(self.x), uniform(self.y)
        same = (data.scale, data.zero_point) == (result.scale, result.zero_point)
        weights = self.float32_weights()
        parts = all(bool((w >= 0).all()) and np.allclose(w.sum(axis=1), 1, atol=SAME_SCALE) for w in weights)
        return data.storage_width > 8 and same and parts

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        if self.rounds_itself():
            return super().ratios(scales)
        fixed = self.fixed_weights()
        return scales(self.x) / (scales(self.y) * scales.dtype(1 << fixed.bits * len(fixed.weights) - fixed.dropped))


# ---------------------------------------------------------------------------------------------------------------
# Sampling of images at computed coordinates, which may lie between elements.


CUBIC = -0.75
"""Keys' cubic convolution coefficient a, with the value that PyTorch and ONNX use."""


def _linear(fraction: N) -> list[N]:
    return [1.0 - fraction, fraction]


def _cubic(fraction: N) -> list[N]:
    """The cubic convolution weights of the neighbours at offsets −1, 0, 1 and 2."""

    def far(x: N) -> N:
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC

    def near(x: N) -> N:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1.0

    back = 1.0 - fraction
    return [far(fraction + 1.0), near(fraction), near(back), far(back + 1.0)]


METHODS = {"nearest": (0, None), "linear": (0, _linear), "cubic": (-1, _cubic)}
"""Method → (offset of the first neighbour, function from the fractional part to the weights; None for nearest)."""

PADDINGS = ("zeros", "border", "reflect_edges", "reflect_centres")


@dataclass(frozen=True)
class Sampling:
    """How nn.sample reads a place (a coordinate) along one axis, according to its `method` and `padding`."""

    method: str
    padding: str

    def neighbours(self, place: N, length: int) -> tuple[N, list[N]]:
        """The index of the first neighbour of a place, as a whole float, and the weights of it and the next ones."""
        first, weigh = METHODS[self.method]
        place = self._inside(place.round_even() if weigh is None else place, length)
        before = place if weigh is None else place.floor()
        weights = [place.same(1.0)] if weigh is None else weigh(place - before)
        return before + float(first), weights

    def _inside(self, place: N, length: int) -> N:
        """The place to read, moved into the image as the padding mode requires."""
        match self.padding:
            case "zeros":
                return place
            case "border" if self.method == "cubic":  # `tap` clips each neighbour separately, as PyTorch does
                return place
            case "border":
                return place.maximum_number(0.0).minimum_number(length - 1.0)
            case _:
                return self._reflected(place, length)

    def _reflected(self, place: N, length: int) -> N:
        low, high = (-0.5, length - 0.5) if self.padding == "reflect_edges" else (0.0, length - 1.0)
        if low == high:
            return place.same(low)
        distance = (place - low).magnitude()
        turns = (distance / (high - low)).floor()
        rest = distance - turns * (high - low)
        odd = (turns - (turns * 0.5).floor() * 2.0).equals(1.0)
        within = place.same(low).less_equal(place) & place.less_equal(high)
        return within.choose(place, odd.choose(high - rest, rest + low))

    def tap(self, neighbour: N, weight: N, length: int) -> tuple[N, N]:
        """The i64 index at which to read a neighbour, and its weight, which is 0 outside a zero-padded image."""
        if self.padding == "zeros":
            inside = neighbour.same(0.0).less_equal(neighbour) & neighbour.less_equal(length - 1.0)
            weight = inside.choose(weight, weight.same(0.0))
        elif self.padding != "border":
            neighbour = self._reflected(neighbour, length)
        return neighbour.maximum_number(0.0).minimum_number(length - 1.0).to(I64), weight


@irdl_op_definition
class SampleOp(NNOp):
    """y[n, o, c] = x[n, :, c] sampled at places[n, o, :]: a weighted sum of the elements around that place.

    x [N, L0, …, Ld−1, C]; places [N, …, d] holds coordinates, where element i along an axis has coordinate i;
    y [N, …, C].

    method    "nearest" (half to even), "linear" or "cubic", the same along each axis
    padding   the value outside the image: "zeros", the "border" elements, or the image mirrored at its outer edges
              ("reflect_edges", −1/2 and L − 1/2) or at the centres of its outer elements ("reflect_centres")

    The sum along the first axis is the outermost; each product and each sum is rounded separately.

    (C1) x and places have the same batch size N, each place has one coordinate for each image axis, and no image axis
         is empty
    (C2) the method and the padding are among those listed above
    """

    name = "nn.sample"
    WHY_FLOAT: ClassVar[str] = "its weights are computed at run time"

    x = operand_def(TensorType)
    places = operand_def(TensorType)
    method = prop_def(StringAttr)
    padding = prop_def(StringAttr)
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS

    assembly_format = "$x `,` $places attr-dict `:` type($x) `,` type($places) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        x, places = shape_of(self.x), shape_of(self.places)
        if len(x) < 3 or len(places) < 2 or x[0] != places[0] or places[-1] != len(x) - 2 or 0 in x[1:-1]:  # C1
            raise VerifyException(
                f"'{self.name}' needs images [N, …, C] and places [N, …, d], got {list(x)} and {list(places)}"
            )
        if self.method.data not in METHODS or self.padding.data not in PADDINGS:  # C2
            raise VerifyException(
                f"'{self.name}' samples by {', '.join(METHODS)} with {', '.join(PADDINGS)}, "
                f"got {self.method.data} with {self.padding.data}"
            )
        return [(*places[:-1], x[-1])]

    def sample_axis(self, axes: Axes) -> int:
        if set(axes) != {0}:
            raise MixesSamples("needs the images and the places of each sample along their first axes")
        return 0

    def sampling(self) -> Sampling:
        """The method and padding as a `Sampling`."""
        return Sampling(self.method.data, self.padding.data)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, places = inputs
        batch = np.arange(x.shape[0], dtype=np.int64).reshape(-1, *[1] * (places.ndim - 2))
        axes = [self._taps(places[..., a], x.shape[a + 1]) for a in range(places.shape[-1])]

        def summed(at: tuple[Array, ...]) -> Array:
            if len(at) == len(axes):
                return x[(batch, *at)]
            total = np.zeros((*places.shape[:-1], x.shape[-1]), x.dtype)
            for place, weight in axes[len(at)]:
                total += np.broadcast_to(weight, place.shape)[..., None] * summed((*at, place))
            return total

        with np.errstate(all="ignore"):
            return (summed(()),)

    def _taps(self, places: Array, length: int) -> list[tuple[Array, Array]]:
        """(indices, weights) of each neighbour along an axis of the given length."""
        first, weights = self.sampling().neighbours(Lanes(places), length)
        found = [self.sampling().tap(first + float(k), weight, length) for k, weight in enumerate(weights)]
        return [(at.array, weight.array) for at, weight in found]
