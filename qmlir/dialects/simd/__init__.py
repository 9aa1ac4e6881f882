"""simd: the few vector operations that processors have but for which LLVM has no portable name."""

from xdsl.ir import Dialect

from qmlir.dialects.simd.ops import DotI16PairsOp, MulShiftRoundOp

SIMD = Dialect("simd", [DotI16PairsOp, MulShiftRoundOp])
