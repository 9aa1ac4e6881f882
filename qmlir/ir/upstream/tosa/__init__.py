"""Upstream's tosa dialect, version 1.0, in which zero points, shapes and scales are operands.

xDSL 0.74 has twenty of TOSA's operations, some of them with the types of another version. This package defines TOSA's
operations with upstream's names, properties and rules; only `tosa.cond_if` and `tosa.yield` are xDSL's. Loops,
variables, Fourier transforms, `custom` and computed shapes are missing. The package exports `TOSA`, which is registered
in place of xDSL's dialect of the same name. When xDSL has an operation of version 1.0, delete it here.
"""

from xdsl.dialects.tosa import IfOp, NanModeAttr, RoundingModeAttr, YieldOp
from xdsl.ir import Dialect

from qmlir.ir.upstream.tosa.base import ShapeType
from qmlir.ir.upstream.tosa.contraction import CONTRACTIONS
from qmlir.ir.upstream.tosa.elementwise import ELEMENTWISE
from qmlir.ir.upstream.tosa.reduction import REDUCTIONS
from qmlir.ir.upstream.tosa.resize import ResizeOp
from qmlir.ir.upstream.tosa.resize_mode import ResizeModeAttr
from qmlir.ir.upstream.tosa.shape import MOVEMENTS

TOSA = Dialect(
    "tosa",
    [*CONTRACTIONS, *ELEMENTWISE, *REDUCTIONS, *MOVEMENTS, ResizeOp, IfOp, YieldOp],
    [ShapeType, NanModeAttr, RoundingModeAttr, ResizeModeAttr],
)
