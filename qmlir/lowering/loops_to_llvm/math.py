"""math → llvm: only the functions that IEEE 754 defines to the last bit.

exp, tanh and similar functions are absent on purpose: LLVM would call the machine's library, whose last bits differ
between machines. Kernels compute them with arithmetic operations instead. `math.fma` is absent because it rounds once,
while the reference rounds the product and the sum.
"""

from collections.abc import Mapping

from xdsl.dialects import math
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation

from qmlir.lowering.loops_to_llvm.arith import elementwise_intrinsic
from qmlir.lowering.loops_to_llvm.lowering import FunctionLowering, Rule, mangled


def _absolute_integer(f: FunctionLowering, op: math.AbsIOp) -> None:
    value = f.value(op.operands[0])
    least_is_poison = f.integer(0, i1)
    f.define(op.results[0], f.intrinsic(f"llvm.abs.{mangled(value.type)}", (value, least_is_poison), value.type))


RULES: Mapping[type[Operation], Rule] = {
    math.AbsFOp: elementwise_intrinsic("llvm.fabs"),
    math.AbsIOp: _absolute_integer,
    math.CeilOp: elementwise_intrinsic("llvm.ceil"),
    math.FloorOp: elementwise_intrinsic("llvm.floor"),
    math.RoundEvenOp: elementwise_intrinsic("llvm.roundeven"),
    math.RoundOp: elementwise_intrinsic("llvm.round"),
    math.TruncOp: elementwise_intrinsic("llvm.trunc"),
    math.SqrtOp: elementwise_intrinsic("llvm.sqrt"),
    math.CopySignOp: elementwise_intrinsic("llvm.copysign"),
}
