"""Integers divided by sums of their neighbours: not written in tosa."""

from typing import NoReturn

from xdsl.ir import SSAValue

from qmlir.dialects.qint.normalization import SoftmaxOp
from qmlir.lowering.qint_to_tosa.tensors import TosaCode


def _softmax(code: TosaCode, op: SoftmaxOp, x: SSAValue) -> NoReturn:
    code.refuse(
        "divides by a sum of 64 bits, and tosa divides integers of 32 only",
        remedy="lower it with --qint-to-linalg, or leave the softmax to what reads the scores",
    )


RULES = {SoftmaxOp: _softmax}
