"""Runs a small graph twice, op by op in numpy and as machine code, and wants the same bits.

check(graph, x, w)    graph(%x, %w) builds operations in main and returns the value that main returns
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue

from qmlir.backends.cpu import build
from qmlir.backends.reference import Reference
from qmlir.codegen.kernel import PARALLEL
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.types import element_type_of, is_numpys_own
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass
from qmlir.lowering.nn_to_loops.convert import NNToLoopsPass
from qmlir.lowering.qint_to_loops.convert import QIntToLoopsPass
from qmlir.transforms.loops.finish_loops import FinishLoopsPass
from qmlir.transforms.loops.plan_memory import PlanMemoryPass

Array = npt.NDArray[Any]
Graph = Callable[..., SSAValue | Sequence[SSAValue]]


def network(graph: Graph, *types: Attribute) -> ModuleOp:
    """A module whose main takes tensors of `types` and returns what `graph` builds of them."""
    block = Block(arg_types=types)
    made = graph(*block.args)
    results = [made] if isinstance(made, SSAValue) else list(made)
    for result in results:
        _insert(block, result)
    block.add_op(func.ReturnOp(*results))
    signature = (list(types), [r.type for r in results])
    module = ModuleOp([func.FuncOp("main", signature, Region(block))])
    module.verify()
    return module


def _insert(block: Block, value: SSAValue) -> None:
    """Puts what computes a value into the block, operands first."""
    if isinstance(value, OpResult) and value.op.parent is None:
        for operand in value.op.operands:
            _insert(block, operand)
        block.add_op(value.op)


LARGEST_KERNEL = 1200
"""Operations; kernels are loops around a few registers' worth of unrolled code, Winograd's the most."""


def to_loops(module: ModuleOp) -> ModuleOp:
    """The module on the loops level; each step verified, no kernel too large."""
    lowered = module.clone()
    for step in (NNToLoopsPass(), QIntToLoopsPass(), FinishLoopsPass()):
        step.apply(make_context(), lowered)
        lowered.verify()
    for kernel in lowered.body.block.ops:
        assert PARALLEL not in kernel.attributes or sum(1 for _ in kernel.walk()) <= LARGEST_KERNEL
    return lowered


def run(
    module: ModuleOp, inputs: Sequence[Array], rewrite: Callable[[ModuleOp], None] | None = None
) -> tuple[list[Array], list[Array]]:
    """(expected, got): the results of the reference and of the machine code, whose loops `rewrite` may change."""
    main = module.body.block.first_op
    assert isinstance(main, func.FuncOp)
    reference = Reference(main)
    named = {spec.name: x for spec, x in zip(reference.signature.inputs, inputs, strict=True)}
    with np.errstate(all="ignore"):
        expected = reference.run(named)
    lowered = to_loops(module)
    if rewrite is not None:
        rewrite(lowered)
    PlanMemoryPass().apply(make_context(), lowered)
    LoopsToLLVMPass().apply(make_context(), lowered)
    lowered.verify()
    executable = build(lowered, reference.signature)
    return expected, executable.run(named)


def check(graph: Graph, *inputs: Array, types: Sequence[Attribute] | None = None) -> None:
    """Asserts that machine code and reference agree on every bit that `==` sees, NaN equal to NaN."""
    types = types or [TensorType(element_type_of(x.dtype), x.shape) for x in inputs]
    expected, got = run(network(graph, *types), inputs)
    for e, g in zip(expected, got, strict=True):
        assert e.shape == g.shape
        assert e.dtype == g.dtype
        if not is_numpys_own(e.dtype):  # numpy does not know the NaN of bfloat16
            g, e = g.astype(np.float32), e.astype(np.float32)
        np.testing.assert_array_equal(g, e)
        if e.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(g) & ~np.isnan(e), np.signbit(e) & ~np.isnan(e))


def quantized(shape: Sequence[int], type: UniformType) -> TensorType[UniformType]:
    """A tensor of a quantized type."""
    return TensorType(type, shape)
