"""Refusals of softmax, log-softmax and L2 normalization: they need 64-bit integers, which TOSA does not have."""

from typing import NoReturn

from xdsl.ir import SSAValue

from qmlir.dialects.qint.normalization import L2NormalizationOp, LogSoftmaxOp, SoftmaxOp
from qmlir.lowering.qint_to_tosa.tensors import TosaCode


def _softmax(code: TosaCode, op: SoftmaxOp, x: SSAValue) -> NoReturn:
    code.refuse(
        "divides by a sum of 64 bits, and tosa divides integers of 32 only",
        remedy="lower it with --qint-to-linalg, or leave the softmax to what reads the scores",
    )


def _log_softmax(code: TosaCode, op: LogSoftmaxOp, x: SSAValue) -> NoReturn:
    code.refuse(
        "takes the logarithm of a sum of 64 bits, and tosa has no integers so wide",
        remedy="lower it with --qint-to-linalg, or leave it to what reads the scores",
    )


def _l2_normalization(code: TosaCode, op: L2NormalizationOp, x: SSAValue) -> NoReturn:
    code.refuse(
        "divides by a root in 64 bits, and tosa has no integers so wide", remedy="lower it with --qint-to-linalg"
    )


RULES = {SoftmaxOp: _softmax, LogSoftmaxOp: _log_softmax, L2NormalizationOp: _l2_normalization}
