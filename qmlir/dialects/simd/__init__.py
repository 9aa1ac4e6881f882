"""simd: the few vector operations that a processor has and LLVM has no portable name for."""

from xdsl.ir import Dialect

from qmlir.dialects.simd.ops import DotI16PairsOp, MulShiftRoundOp

SIMD = Dialect("simd", [DotI16PairsOp, MulShiftRoundOp])
