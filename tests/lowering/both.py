"""Runs a small graph twice, op by op in numpy and as machine code, and wants the same bits.

check(graph, x, w)    graph(%x, %w) builds operations in main and returns the value that main returns

The machine code is what users get: it uses this processor's features. What has an operation of `simd` is compiled a
second time, with the operation's portable form; `make test` does so for a third of the graphs. Matrices have none, so
then kernels do without them. A graph that has a kernel for the matrix unit is compiled with that, too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue

from qmlir.backends.cpu import Machine, build, enabled
from qmlir.backends.cpu.jit import Executable
from qmlir.backends.reference import Reference
from qmlir.codegen.features import multiplies_matrices
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.facts import PARALLEL
from qmlir.ir.signature import Signature
from qmlir.ir.types import element_type_of, is_numpys_own
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass
from qmlir.lowering.nn_to_loops.convert import NNToLoopsPass
from qmlir.lowering.qint_to_loops.convert import QIntToLoopsPass
from qmlir.transforms.loops.finish_loops import FinishLoopsPass
from qmlir.transforms.loops.plan_memory import PlanMemoryPass
from tests.conftest import THOROUGH

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


def features_of(machine: Machine, *, matrices: bool = True) -> str:
    """The features of a processor, those of a matrix unit if asked for, as an option of a pass."""
    return ",".join(f"+{name}" for name in sorted(enabled(machine)) if matrices or not name.startswith("amx"))


def to_loops(module: ModuleOp, *, features: str | None = None, verify: bool = True) -> ModuleOp:
    """The module on the loops level; each step verified if asked to, no kernel too large.

    `features` are those by which kernels are chosen; by default those of this processor.
    """
    lowered = module.clone()
    features = features_of(Machine.host()) if features is None else features
    for step in (NNToLoopsPass(features), QIntToLoopsPass(features), FinishLoopsPass()):
        step.apply(make_context(), lowered)
        if verify:
            lowered.verify()
    for kernel in lowered.body.block.ops:
        assert not PARALLEL.on(kernel) or sum(1 for _ in kernel.walk()) <= LARGEST_KERNEL
    return lowered


def compiled(
    lowered: ModuleOp,
    signature: Signature,
    machine: Machine | None = None,
    *,
    portable: bool = False,
    verify: bool = True,
) -> Executable:
    """Compiles a module on the loops level, which its passes change in place.

    Args:
        lowered: The module.
        signature: The inputs and outputs of its main.
        machine: The processor; by default the processor of this machine.
        portable: Whether to lower the operations of `simd` without the processor's own instructions.
        verify: Whether to verify the module after its last pass.
    """
    machine = machine or Machine.host()
    features = "" if portable else features_of(machine)
    PlanMemoryPass().apply(make_context(), lowered)
    LoopsToLLVMPass(features, machine.system.bits).apply(make_context(), lowered)
    if verify:
        lowered.verify()
    return build(lowered, signature, machine=machine)


def referred(module: ModuleOp, inputs: Sequence[Array]) -> tuple[Signature, dict[str, Array], list[Array]]:
    """The signature of a module's main, its inputs by name, and its results by the reference."""
    main = module.body.block.first_op
    assert isinstance(main, func.FuncOp)
    reference = Reference(main)
    named = {spec.name: x for spec, x in zip(reference.signature.inputs, inputs, strict=True)}
    with np.errstate(all="ignore"):
        return reference.signature, named, reference.run(named)


def run(
    module: ModuleOp,
    inputs: Sequence[Array],
    rewrite: Callable[[ModuleOp], None] | None = None,
    machine: Machine | None = None,
    *,
    features: str | None = None,
    portable: bool = False,
    verify: bool = True,
) -> tuple[list[Array], list[Array]]:
    """(expected, got): the results of the reference and of the machine code, whose loops `rewrite` may change.

    `features` are those by which kernels are chosen, by default those of the machine.
    """
    signature, named, expected = referred(module, inputs)
    features = features_of(machine or Machine.host(), matrices=not portable) if features is None else features
    lowered = to_loops(module, features=features, verify=verify)
    if rewrite is not None:
        rewrite(lowered)
    return expected, compiled(lowered, signature, machine, portable=portable, verify=verify).run(named)


def check(graph: Graph, *inputs: Array, types: Sequence[Attribute] | None = None, features: str | None = None) -> None:
    """Asserts that machine code and reference agree on every bit that `==` sees, NaN equal to NaN.

    Args:
        graph: What is computed.
        inputs: The arrays of its inputs.
        types: The types of the inputs; those of the arrays by default.
        features: The features by which kernels are chosen; by default those of this processor, and then those but its
            matrix unit, too.
    """
    types = types or [TensorType(element_type_of(x.dtype), x.shape) for x in inputs]
    signature, named, expected = referred(module := network(graph, *types), inputs)
    plain = to_loops(module, features=features or features_of(Machine.host(), matrices=False))
    forms = [(plain, False)]
    operations = [op.name for op in plain.walk()]
    turn = THOROUGH or len(operations) % 3 == 0  # tests/lowering/loops_to_llvm/ has each operation by itself, too
    if turn and any(name.startswith("simd.") for name in operations):
        forms.append((plain, True))
    if features is None and multiplies_matrices(enabled(Machine.host())):
        with_unit = to_loops(module, verify=False)
        if not with_unit.is_structurally_equivalent(plain):  # what is the same would be compiled to the same code
            forms.append((to_loops(module), False))
    for lowered, portable in forms:
        got = compiled(lowered.clone(), signature, portable=portable).run(named)
        assert_same(expected, got)


def assert_same(expected: Sequence[Array], got: Sequence[Array]) -> None:
    """Asserts that two results of a network are the same in shapes, types and every bit that `==` sees."""
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
