"""Integer interpolation."""

from qmlir.dialects.qint.resize import ResizeOp
from qmlir.lowering.kernel import MainLowering, Rules
from qmlir.lowering.kernels.resize import lower_resize


def _resize(state: MainLowering, op: ResizeOp) -> None:
    lower_resize(state, "qint_resize", op.tables(), op.x, op.acc, op.zero_point.value.data)


RULES: Rules = {ResizeOp: _resize}
