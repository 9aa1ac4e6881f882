"""One network of many operations side by side, each with inputs and an output of its own, and what is asked of it."""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

import qmlir
from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp, is_float
from tests.ops.samples import Array, Sample


def side_by_side(samples: Sequence[Sample]) -> tuple[ModuleOp, list[Array]]:
    """A network of samples, and its inputs."""
    block, operations, results, arrays = Block(), list[Operation](), list[SSAValue](), list[Array]()
    for sample in samples:
        drawn = list(zip(sample.operands, sample.arrays(), strict=True))
        inputs = [block.insert_arg(o.type, len(block.args)) for o, _ in drawn[: sample.inputs]]
        constants = [nn.ConstantOp(array, o.type) for o, array in drawn[sample.inputs :]]
        op = sample.build([*inputs, *(c.y for c in constants)])
        operations += [*constants, op]
        results += op.results[:1]
        arrays += [array for _, array in drawn[: sample.inputs]]
    block.add_ops([*operations, func.ReturnOp(*results)])
    types = [a.type for a in block.args], [r.type for r in results]
    return ModuleOp([func.FuncOp("main", types, Region(block))]), arrays


def main(module: ModuleOp) -> func.FuncOp:
    """The only function of a module."""
    (function,) = module.body.block.ops
    assert isinstance(function, func.FuncOp)
    return function


def run(module: ModuleOp, arrays: Sequence[Array]) -> list[Array]:
    """The reference's outputs for inputs in order."""
    reference = qmlir.reference(module)
    return reference.run(dict(zip((i.name for i in reference.signature.inputs), arrays, strict=True)))


def on_floats(module: ModuleOp) -> list[bool]:
    """Of each output whether something on the way to it is computed on floats."""
    end = main(module).body.block.last_op
    assert end is not None
    return [_computed_on_floats(value) for value in end.operands]


def _computed_on_floats(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, Operation):
        return False
    computes = isinstance(op, NNOp) and any(is_float(v) for v in op.data_operands())
    return computes or any(_computed_on_floats(v) for v in op.operands)
