"""The dialect `example`: one operation, squareplus, a smooth relu that takes a square root and no exponential.

An operation whose class derives from `FunctionOp` says what it is on one real number. Its types, its tables for 8 and
16 bits, its kernels and its place in the ledger follow from that.
"""

from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, traits_def

from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.quant.rules import FreeScale
from qmlir.numerics.elementary.lanes import N


@irdl_op_definition
class SquareplusOp(FunctionOp):
    """squareplus(x) = (x + √(x² + 1)) / 2."""

    name = "example.squareplus"
    traits = traits_def(FreeScale())  # the result has the scale of its own observed range

    def function(self, x: N) -> N:
        return (x + (x * x + 1.0).square_root()) * 0.5


EXAMPLE = Dialect("example", [SquareplusOp])
