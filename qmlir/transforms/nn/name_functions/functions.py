"""Names of functions of one element: what operations compute from a number is compared with what a function says."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr, TensorType, f32
from xdsl.ir import Attribute, Block, Operation

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.nn.name_functions.axes import Unreadable
from qmlir.transforms.nn.name_functions.cones import Cone, Named
from qmlir.transforms.nn.name_functions.probes import probe_pointwise

CLOSE = 1e-5
"""How far a function may be from its name, as a share: some models have few digits of √2 or √(2/π)."""

LEAST_SLOPE = 1e-3
"""How far a gate at 1 has to be from its value at 0 for its product to be a swish, and no multiple of the data."""

_STEPS = np.concatenate([np.geomspace(1e-6, 400, 160), np.linspace(0.05, 12, 150), [1.0, 16.0, 300.0, 1e3, 1e4, 1e6]])
_GRID = np.concatenate([[0.0], _STEPS, -_STEPS])


@dataclass(frozen=True)
class Curve:
    """A function of one number, known at some points.

    x, y       the points and the values there
    constants  the numbers that the operations read
    """

    x: Array
    y: Array
    constants: Sequence[float] = ()

    def at(self, x: float) -> float:
        """The value at one of the points."""
        return float(self.y[np.argmin(np.abs(self.x - x))])

    def is_near(self, other: Array) -> bool:
        """Whether other values, at the first points or at all, are the same, as far as these are finite.

        A model's own form may overflow.
        """
        finite = np.isfinite(self.y[: other.size])
        if finite.mean() < 0.4 or not np.isfinite(other[finite]).all():
            return False
        x, y, other = (v[: finite.size][finite] for v in (self.x, self.y, other))
        size = np.maximum(np.maximum(np.abs(y), 1e-2 * np.abs(x)), np.minimum(np.abs(x), 1))
        return bool((np.abs(y - other) <= CLOSE * size + 1e-30).all())


Properties = Mapping[str, Attribute]
Parameters = Callable[[Curve], Iterator[Properties]]
"""Gives the properties with which a function may be a curve."""


def _without(curve: Curve) -> Iterator[Properties]:
    yield {}


@dataclass(frozen=True)
class Name:
    """A function that operations may compute.

    kind        the operation of that name
    least       the fewest operations that it is written as
    parameters  the properties to try
    scaled      whether a multiple of the function counts, too
    """

    kind: type[FunctionOp]
    least: int = 2
    parameters: Parameters = _without
    scaled: bool = False

    def found(self, curve: Curve, cone: Cone) -> Named | None:
        """The operation, and perhaps a product with a constant, that compute a curve; None if they do not."""
        for properties in self.parameters(curve):
            known = _on_grid(self.kind, tuple(sorted(properties.items())))
            factor = self._factor(curve, known)
            if factor is None or not curve.is_near(factor * known):
                continue
            if curve.is_near(factor * _values(self.kind, properties, curve.x)):
                cost = min(self.least - 1, 1) + (factor != 1)
                return Named(cost, factor == 1, partial(self._write, cone, properties, factor))
        return None

    def _write(self, cone: Cone, properties: Properties, factor: float) -> list[Operation]:
        op = self.kind.make([cone.base], properties)
        if factor == 1:
            return [op]
        constant = nn.ConstantOp(np.array(factor, np.float32))
        return [op, constant, nn.MulOp.make([op.results[0], constant.y])]

    def _factor(self, curve: Curve, values: Array) -> float | None:
        """By what the function is multiplied; None if that does not count."""
        if not self.scaled:
            return 1.0
        own = Curve(_GRID, values).at(16.0)
        factor = curve.at(16.0) / own if own else math.nan
        if not math.isfinite(factor) or factor == 0:
            return None
        return 1.0 if abs(factor - 1) <= CLOSE else factor


def _real(value: float) -> Attribute:
    return FloatAttr(value, f32)


def _values(kind: type[FunctionOp], properties: Properties, x: Array) -> Array:
    """What a function is at some points."""
    op = kind.make([Block(arg_types=[TensorType(f32, [])]).args[0]], properties)
    with np.errstate(all="ignore"):
        return op.scalar(x)


@lru_cache(256)
def _on_grid(kind: type[FunctionOp], properties: tuple[tuple[str, Attribute], ...]) -> Array:
    return _values(kind, dict(properties), _GRID)


def _kinds_of_gelu(curve: Curve) -> Iterator[Properties]:
    yield {}
    yield {"tanh": BoolAttr.from_bool(True)}


def _swish(curve: Curve) -> Iterator[Properties]:
    # sigmoid(alpha · x) and sigmoid(−alpha · x) sum up to 1, whatever the product is multiplied by.
    difference = curve.at(1.0) - curve.at(-1.0)
    share = curve.at(1.0) / difference if difference else 0
    if 0 < share < 1 and abs(share - 0.5) > LEAST_SLOPE:
        yield {"alpha": _real(_short(math.log(share / (1 - share)), curve))}


def _short(value: float, curve: Curve) -> float:
    """The constant of the model that a fitted number is, or 1, or else the number itself."""
    return next((c for c in (1.0, *curve.constants) if abs(c - value) <= 1e-7 * abs(c)), value)


NAMES = (
    Name(nn.SigmoidOp, 3),
    Name(nn.TanhOp, 3),
    Name(nn.GeluOp, 4, _kinds_of_gelu, scaled=True),
    Name(nn.SwishOp, 2, _swish, scaled=True),
    Name(nn.MishOp, 3, scaled=True),
    Name(nn.SoftplusOp, 3),
    Name(nn.HardSwishOp, 3, scaled=True),
)
"""The functions that the operators of a model are named as."""

# ---------------------------------------------------------------------------------------------------------------
# Functions that exporters write as several operators between the casts of a quantized model.
#
# TFLite and ONNX lack some functions of nn, so their exporters write, for data of 16 bits, sin(x) / cos(x) for nn.tan,
# max(x, 0) + alpha · elu(min(x, 0)) for nn.elu, and so on. The operations within have no ranges of their own and would
# stay float; the function has a lookup table. So a network that is exported and read again gives the same bits.


def _elu(curve: Curve) -> Iterator[Properties]:
    yield {"alpha": _real(-curve.at(-300.0))}


def _selu(curve: Curve) -> Iterator[Properties]:
    gamma = curve.at(16.0) / 16
    if gamma:
        yield {"alpha": _real(-curve.at(-300.0) / gamma), "gamma": _real(gamma)}


def _celu(curve: Curve) -> Iterator[Properties]:
    if alpha := -curve.at(-1e6):
        yield {"alpha": _real(alpha)}


def _hard_sigmoid(curve: Curve) -> Iterator[Properties]:
    inside = np.flatnonzero((curve.y > 0.01) & (curve.y < 0.99))
    if inside.size > 1:
        low, high = inside[np.argmin(curve.x[inside])], inside[np.argmax(curve.x[inside])]
        alpha = float((curve.y[high] - curve.y[low]) / (curve.x[high] - curve.x[low]))
        beta = float(curve.y[low] - alpha * curve.x[low])
        yield {"alpha": _real(_short(alpha, curve)), "beta": _real(0.0 if abs(beta) < 1e-12 else _short(beta, curve))}


def _threshold(curve: Curve) -> Iterator[Properties]:
    yield from ({"alpha": _real(c)} for c in curve.constants)


def _shrink(curve: Curve) -> Iterator[Properties]:
    for threshold in curve.constants:
        yield from ({"bias": _real(b), "threshold": _real(threshold)} for b in curve.constants)


EXPORTED = (
    Name(nn.SwishOp, 2, _swish),
    Name(nn.TanOp, 3),
    Name(nn.ReciprocalOp, 1),
    Name(nn.RsqrtOp, 2),
    Name(nn.SoftsignOp, 3),
    Name(nn.EluOp, 4, _elu),
    Name(nn.CeluOp, 5, _celu),
    Name(nn.SeluOp, 2, _selu),
    Name(nn.HardSigmoidOp, 4, _hard_sigmoid),
    Name(nn.ThresholdedReluOp, 2, _threshold),
    Name(nn.ShrinkOp, 6, _shrink),
)
"""The functions that exporters write as several operators, beside `NAMES`."""


def name_function(cone: Cone, names: Sequence[Name]) -> Named | None:
    """The operations that compute a cone's end from its base by name, if it is a function of one element."""
    count = len(cone.computing)
    possible = [n for n in names if n.least <= count and not _is(cone, n)]
    if not possible or shape_of(cone.base) != shape_of(cone.end):
        return None
    constants = cone.numbers()
    around = [s * c * f for c in constants for s in (1, -1) for f in (1, 0.999, 1.001)]
    x = np.concatenate([_GRID, around])
    try:
        probed = probe_pointwise(cone.base, cone.end, cone.operations, x)
    except Unreadable:
        return None
    if probed.y.layout != probed.axes.layout:
        return None
    curve = Curve(x, np.broadcast_to(probed.y.array.reshape(-1), x.shape).astype(np.float64), constants)
    for name in possible:
        if (found := name.found(curve, cone)) is not None:
            return found
    return None


def _is(cone: Cone, name: Name) -> bool:
    """Whether a cone has the function itself already, and perhaps its multiple."""
    return len(cone.computing) <= 2 and any(isinstance(op, name.kind) for op in cone.operations)
