"""Names of functions that are a line on each side of 0: ReLU, leaky ReLU and PReLU.

Keras' PReLU reaches ONNX as relu(x) + (−a)·relu(−x), other exporters write max(x, a·x), a choice between x and a·x, or
(1 + a)/2·x + (1 − a)/2·|x|. Each of these operators would be rounded for itself, and in a range of its own.
"""

from functools import partial

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Operation

from qmlir.dialects import nn
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.nn.name_functions.axes import Unreadable
from qmlir.transforms.nn.name_functions.cones import Cone, Named, constant_along
from qmlir.transforms.nn.name_functions.probes import probe

SETTINGS = ((0, 1), (0, 1e-30), (0, 1e-3), (0, 1e3), (0, 1e30))
"""Means and deviations of the probes: as small and as large as float32 holds with room for a slope, so that a bound
that a model has beside the bend, such as 1e-12 before a logarithm or 65504, is seen."""

EXACT = 1e-7
"""How far a line may be from its slope times the argument, as a share: f32 has as many digits."""

BENT = {nn.ReluOp, nn.LeakyReluOp, nn.PReluOp, nn.AbsOp, nn.ClampOp, nn.MaximumOp, nn.MinimumOp, nn.WhereOp}
"""Operations without which no function bends at 0."""


def name_hinge(cone: Cone) -> Named | None:
    """The operation that computes a cone's end from its base, if that is x above 0 and a multiple of x below."""
    kinds = {type(op) for op in cone.computing}
    if not kinds & BENT or len(cone.computing) < 2 or shape_of(cone.base) != shape_of(cone.end):
        return None
    try:
        probed = probe(cone.base, cone.end, cone.operations, SETTINGS)
    except Unreadable:
        return None
    x, y = probed.x, probed.y.array
    if probed.reduced or probed.y.layout != probed.axes.layout or y.dtype.kind != "f":
        return None
    slopes = np.broadcast_to(y, x.shape) / x
    half = len(SETTINGS)
    low = probed.varying(np.where(x[:1] < 0, slopes[:1], slopes[half : half + 1]))
    if not np.isfinite(low).all() or (np.abs(np.abs(low) - 1) <= EXACT).any():
        return None
    if not (np.abs(slopes - np.where(x < 0, low, 1)) <= EXACT * np.maximum(np.abs(low), 1)).all():
        return None
    low = np.where(np.abs(low) <= EXACT, 0, low)
    return Named(1, True, partial(_write, cone, constant_along(low, probed.y.layout, probed.axes.sizes)))


def _write(cone: Cone, slopes: Array) -> list[Operation]:
    if not slopes.any():
        return [nn.ReluOp.make([cone.base], {})]
    if slopes.size == 1:
        return [nn.LeakyReluOp.make([cone.base], {"alpha": FloatAttr(float(slopes.reshape(())), f32)})]
    constant = nn.ConstantOp(slopes.astype(np.float32))
    return [constant, nn.PReluOp.make([cone.base, constant.y])]
