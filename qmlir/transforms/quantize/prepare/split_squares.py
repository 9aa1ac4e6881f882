"""`split-squares`: computes a squared difference of 16 bits as a difference and its square.

A squared difference of bytes is a table of all pairs of operands, correctly rounded. Of 16 bits it is

    d = a − b,  y = d · d

since differences and products have integer forms of 16 bits. The range of d is [−√h, √h], with h the greatest y that
is expected. Half a step of d, √h / 65534, moves y by at most h / 32767: by one step where y's integers are on both
sides of 0, as under symmetric schemas, by two where all of them stand for [0, h]. The product rounds half a step.
"""

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import MulOp, SquaredDifferenceOp, SubOp
from qmlir.dialects.nn.base import is_float
from qmlir.ir.facts import POLICY
from qmlir.ir.names import names_of
from qmlir.ir.rewriting import node_name, take_over
from qmlir.ir.signature import defined_functions
from qmlir.settings.quant_config import OpConfig, add_settings, config_of, op_config_of
from qmlir.transforms.quantize.ranges.margins import expected


@dataclass(frozen=True)
class SplitSquaresPass(ModulePass):
    """Splits squared differences that are to have 16 bits into a difference and a product.

    ```mlir
    %y = nn.squared_difference %a, %b : …
    calib.observe %y {name = "y", range = [0.0, 9.0]} : …
    // becomes, by precision=int16
    %d = nn.sub %a, %b : …
    calib.observe %d {name = "y difference", range = [-3.0, 3.0], qmlir.policy = {calibration = "minmax"}} : …
    %y = nn.mul %d, %d : …
    calib.observe %y {name = "y", range = [0.0, 9.0]} : …
    ```
    """

    name = "split-squares"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            split_squares(function.body.block, config_of(op).op_config())


def split_squares(block: Block, default: OpConfig) -> None:
    """Splits the squared differences of a block that have an observed range and a config of 16 bits, in place."""
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    for op in [o for o in block.ops if isinstance(o, SquaredDifferenceOp)]:
        op_config, observer = op_config_of(op, default), observers.get(op.y)
        seen = None if observer is None else observer.observation
        wide = op_config.half is None and not op_config.keep_float and op_config.integers == "int16"
        if observer is not None and seen is not None and wide and is_float(op.y):
            _split(op, expected(op.y, seen, op_config_of(observer, op_config)).bounds[1])


def _split(op: SquaredDifferenceOp, highest: float) -> None:
    """Splits a squared difference whose greatest expected result is known."""
    difference = SubOp.make([op.lhs, op.rhs])
    square = MulOp.make([difference.y, difference.y], dict(op.properties))
    for new in (difference, square):
        POLICY.set(new, POLICY.of(op))
    root = math.sqrt(max(highest, 0.0))
    observer = ObserveOp(difference.y, f"{node_name(op)} difference", (-root, root))
    POLICY.set(observer, POLICY.of(op))
    add_settings(observer, {"calibration": "minmax"})  # the root gives the range, whatever narrows other ranges
    Rewriter.insert_op([difference, observer, square], InsertPoint.before(op))
    names = names_of(op)
    op.y.replace_all_uses_with(square.y)
    take_over(square.y, [names])
    Rewriter.erase_op(op)
