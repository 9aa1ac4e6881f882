"""The reference backend: each operation evaluated by its own numpy meaning, in program order.

It knows no operation by name; it asks them (dialects/interfaces.py). On a module in qint it is the definition of
the right answer: the CPU and every simulator must equal it bit for bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.ir import SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.errors import LoweringError
from qmlir.memory import within_memory
from qmlir.rewriting import node_name
from qmlir.signature import signature_of

Array = npt.NDArray[Any]


@runtime_checkable
class Evaluates(Protocol):
    """An operation that knows its meaning on arrays."""

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]: ...


def evaluate(function: func.FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of a function on arrays of its arguments' types."""
    return trace(function, inputs)[0]


def trace(function: func.FuncOp, inputs: Sequence[Array]) -> tuple[list[Array], Mapping[SSAValue, Array]]:
    """The results of a function, and the value of everything computed on the way."""
    block = function.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[o] for o in op.operands], values
        if isinstance(op, ObserveOp):
            continue
        if not isinstance(op, Evaluates):
            remedy = "run inline first" if isinstance(op, func.CallOp) else "see `qmlir import` for the list"
            raise LoweringError(op.name, node_name(op), "has no meaning that can be evaluated", remedy=remedy)
        with within_memory(op):
            results = cast(Evaluates, op).evaluate(*(values[o] for o in op.operands))
        # Of arrays without dimensions numpy makes numbers, which are no arrays.
        values.update(zip(op.results, map(np.asarray, results), strict=True))
    raise LoweringError("func.func", function.sym_name.data, "must end with func.return")


class Reference:
    """A network as a callable on arrays, called as an executable is (signature.py)."""

    def __init__(self, function: func.FuncOp):
        self.function = function
        self.signature = signature_of(function)

    def __call__(self, inputs: Array | Mapping[str, Array]) -> Any:
        """The only output, or outputs by name."""
        return self.signature.result(self.run(inputs))

    def run(self, inputs: Array | Mapping[str, Array]) -> list[Array]:
        """The outputs in order."""
        return evaluate(self.function, self.signature.arrays(inputs))
