"""The reference backend: evaluates each operation in program order by the operation's own `evaluate` in numpy.

It contains no code for particular operations (ir/interfaces.py). On a module in qint its results define the right
answer: the CPU and every simulator must equal them bit for bit.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol, cast, runtime_checkable

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.display import Table
from qmlir.errors import UnsupportedError
from qmlir.ir.callable_network import CallableNetwork
from qmlir.ir.interfaces import Array
from qmlir.ir.memory import within_memory
from qmlir.ir.rewriting import node_name
from qmlir.ir.signature import entry_functions, signature_of


@runtime_checkable
class Evaluates(Protocol):
    """An operation that can compute its results from numpy arrays."""

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]: ...


@cache
def _evaluates(kind: type[Operation]) -> bool:
    """Whether operations of a class compute their results; Python looks for the method anew at each question."""
    return issubclass(kind, Evaluates)


def evaluate(function: func.FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """Returns the results of a function for arrays that match the types of its arguments."""
    return trace(function, inputs)[0]


def trace(function: func.FuncOp, inputs: Sequence[Array]) -> tuple[list[Array], Mapping[SSAValue, Array]]:
    """Returns the results of a function, and the array of every value: arguments, intermediate values and results."""
    block = function.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[o] for o in op.operands], values
        if isinstance(op, ObserveOp):
            continue
        if not _evaluates(type(op)):
            remedy = "run inline first" if isinstance(op, func.CallOp) else "see `qmlir import` for the list"
            raise UnsupportedError.at(op.name, node_name(op), "has no meaning that can be evaluated", remedy=remedy)
        with within_memory(op):
            results = cast(Evaluates, op).evaluate(*(values[o] for o in op.operands))
        # numpy's operators return scalars instead of arrays for operands of rank 0.
        values.update(zip(op.results, map(np.asarray, results), strict=True))
    raise UnsupportedError.at("func.func", function.sym_name.data, "must end with func.return")


class Reference(CallableNetwork):
    """A network as a callable on arrays, with the interface of a compiled executable (callable_network.py)."""

    def __init__(self, function: func.FuncOp):
        super().__init__(signature_of(function))
        self.function = function

    def table(self) -> Table:
        count = sum(1 for op in self.function.body.block.ops if op.results)
        return Table(f"reference of {self.signature.described()}; {count} operations in numpy")

    def run_in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Evaluates the function on its arguments in order, states among them; returns its results in order."""
        return [np.array(result) for result in evaluate(self.function, arrays)]  # a result may be an argument itself


def reference_of(module: ModuleOp) -> Reference:
    """Returns the callable of a network; of several entries, that of the first, which gives the others."""
    return Reference.joined({f.sym_name.data: Reference(f) for f in entry_functions(module)})
