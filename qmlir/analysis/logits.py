"""Logits: what a final softmax or sigmoid reads, and what their error does to decisions that are close.

A softmax and a sigmoid saturate: most samples are decided, and their probabilities hardly move whatever errs. A few
samples may hold no close decision, so that their probabilities say little of other samples. `CloseDecisions` takes the
error of the logits on each sample, and computes the probabilities as if the first two classes were equally likely.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.states import states_of

CLOSE = 0.25
"""The share of decisions that count as close."""


def outputs_of(module: ModuleOp) -> list[SSAValue]:
    """Returns the outputs of a network, without the next values of its states."""
    function = main_function(module)
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    kept = {state.index for state in states_of(function).values()}
    return [value for i, value in enumerate(end.operands) if i not in kept]


def before(output: SSAValue, *functions: type[nn.SoftmaxOp | nn.LogSoftmaxOp | nn.SigmoidOp]) -> SSAValue | None:
    """Returns what the last function of an output reads, if it is one of some functions behind casts and reshapes."""
    while isinstance(output.owner, DequantizeCastOp | nn.ReshapeOp):
        output = output.owner.operands[0]
    return output.owner.operands[0] if isinstance(output.owner, functions) else None


def returning(module: ModuleOp, places: Iterable[int], *functions: type) -> ModuleOp:
    """Copies a network so that it returns, as floats behind its own outputs, what functions at their ends read.

    Args:
        module: The network; it stays unchanged.
        places: The numbers of the outputs; an output without such a function is returned itself.
        functions: The functions, such as `nn.SoftmaxOp`.
    """
    module = module.clone()
    function = main_function(module)
    block = function.body.block
    for observer in [o for o in block.ops if isinstance(o, ObserveOp)]:
        Rewriter.erase_op(observer)
    end = block.last_op
    assert isinstance(end, func.ReturnOp)
    outputs, added = outputs_of(module), list[SSAValue]()
    for place in places:
        found = before(outputs[place], *functions)
        value = outputs[place] if found is None else found
        if is_quantized(value):
            cast = DequantizeCastOp(value, TensorType(f32, shape_of(value)))
            block.insert_op_before(cast, end)
            value = cast.result
        added.append(value)
    block.add_op(func.ReturnOp(*end.operands, *added))
    end.detach()
    end.erase()
    function.res_attrs = None
    function.update_function_type()
    return module


@dataclass
class CloseDecisions:
    """What the error of an output's logits does to close decisions.

    axis       the axis of a softmax's classes; None for a sigmoid, whose elements are decisions each
    decisions  how many were counted
    noise      the sum of the noise over the signal of their probabilities, if each were close
    """

    axis: int | None
    decisions: int = 0
    noise: float = 0.0

    def add(self, truth: Array, found: Array) -> None:
        """Adds the float and the quantized logits of a sample."""
        error = found.astype(np.float64) - truth
        if self.axis is not None:
            first = np.flip(np.argsort(truth, axis=self.axis, kind="stable"), axis=self.axis).take([0, 1], self.axis)
            moved = np.take_along_axis(error, first, self.axis)
            error = moved.take(0, self.axis) - moved.take(1, self.axis)
        self.decisions += error.size
        self.noise += float((np.tanh(error / 2) ** 2).sum())

    @property
    def sqnr(self) -> float:
        """The SQNR in dB of probabilities of which a share of `CLOSE` is close."""
        noise = CLOSE * self.noise / max(1, self.decisions)
        return -10 * math.log10(noise) if noise else math.inf


def close_decisions(output: SSAValue) -> CloseDecisions | None:
    """Returns what counts the close decisions of an output; None if it holds no probabilities."""
    logits = before(output, nn.SoftmaxOp, nn.SigmoidOp)
    if logits is None:
        return None
    while isinstance(output.owner, DequantizeCastOp | nn.ReshapeOp):
        output = output.owner.operands[0]
    if not isinstance(output.owner, nn.SoftmaxOp):
        return CloseDecisions(None)
    axis = output.owner.axis.value.data
    return CloseDecisions(axis) if shape_of(output)[axis] > 1 else None
