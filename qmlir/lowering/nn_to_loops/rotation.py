"""Lowering of Hadamard transforms of floats; qint-to-loops lowers those of integers."""

from qmlir.codegen.kernels.hadamard import Hadamard, lanes_of
from qmlir.codegen.lowering import MainLowering, Rules
from qmlir.dialects.nn.rotation import HadamardOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import is_integer


def _hadamard(state: MainLowering, op: HadamardOp) -> None:
    element = element_of(op.x)
    if not is_integer(element):
        kernel = Hadamard(op.block.value.data, lanes_of(element, state.machine), element)
        state.compute(kernel, op.y, op.blocks(), (op.x, op.blocks()))


RULES: Rules = {HadamardOp: _hadamard}
