"""The code of `simd.mul_shift_round` is the contract `single`: proved from the LLVM dialect that the compiler writes.

The kernel of two lanes is lowered for x86, and its operations run on symbolic vectors, a list of lanes each. Products
are unknown numbers again, so the proof holds for all data, multipliers and offsets at a shift.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import z3
from xdsl.dialects import llvm
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from qmlir.ir.interfaces import Array
from tests.conftest import THOROUGH
from tests.lowering.loops_to_llvm.kernels import lowered, vectorwise, with_main
from tests.proofs import definitions
from tests.proofs.bits import Proof, Term

LANES = 2
FACTORS = [((-(1 << 31), (1 << 31) - 1), (0, (1 << 31) - 1))] * LANES

Vector = list[Term]


@cache
def _kernel(promise: str) -> Sequence[Operation]:
    text = f"%r = simd.mul_shift_round %0, %1, %2, %3 {promise} : vector<{LANES}xi32>"
    module = lowered(with_main(vectorwise(text, [("i32", LANES)] * 4, ("i32", LANES)), 4))
    function = next(op for op in module.ops if isinstance(op, llvm.FuncOp) and op.sym_name.data == "kernel")
    return list(function.body.block.ops)


BINARY: Mapping[str, Callable[[Term, Term], Term]] = {
    "llvm.add": lambda a, b: a + b,
    "llvm.sub": lambda a, b: a - b,
    "llvm.and": lambda a, b: a & b,
    "llvm.or": lambda a, b: a | b,
    "llvm.shl": lambda a, b: a << b,
    "llvm.ashr": lambda a, b: a >> b,
    "llvm.lshr": z3.LShR,
}


def _constant(value: Any) -> Vector:
    if isinstance(value, IntegerAttr):
        return []  # an index
    assert isinstance(value, DenseIntOrFPElementsAttr)
    numbers: Array = np.array(value.get_values())
    element = value.get_element_type()
    assert isinstance(element, IntegerType)
    width = element.width.data
    count = value.get_shape()[0]
    return [z3.BitVecVal(int(n), width) for n in np.broadcast_to(numbers, (count,))]


def _cast(lanes: Vector, count: int) -> Vector:
    """The same bits as another number of lanes, of which the first has the lowest bits."""
    whole = z3.Concat(*reversed(lanes)) if len(lanes) > 1 else lanes[0]
    width = sum(lane.size() for lane in lanes) // count
    return [z3.Extract((lane + 1) * width - 1, lane * width, whole) for lane in range(count)]


def _run(ops: Sequence[Operation], operands: Sequence[Vector], proof: Proof) -> Vector:
    """What a kernel stores, for what it loads in turn."""
    known: dict[SSAValue, Vector] = {}
    loads = iter(_loaded(ops, operands))
    stored: Vector = []
    for op in ops:
        inputs = [known.get(v, []) for v in op.operands]
        match op:
            case llvm.ConstantOp():
                known[op.result] = _constant(op.value)
            case llvm.LoadOp():
                known[op.results[0]] = next(loads)
            case llvm.ShuffleVectorOp():
                both = inputs[0] + inputs[1]
                known[op.results[0]] = [both[i] for i in op.mask.get_values()]
            case llvm.BitcastOp():
                count = op.results[0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
                known[op.results[0]] = _cast(inputs[0], count)
            case llvm.StoreOp():
                stored = inputs[0]
            case llvm.ReturnOp():
                pass
            case _ if op.name == "llvm.mul":
                known[op.results[0]] = [proof.multiplied(a, b) for a, b in zip(*inputs, strict=True)]
            case _:
                known[op.results[0]] = [BINARY[op.name](a, b) for a, b in zip(*inputs, strict=True)]
    return stored


def _loaded(ops: Sequence[Operation], operands: Sequence[Vector]) -> list[Vector]:
    """The operands in the order of the loads."""
    sources = [op.operands[0] for op in ops if isinstance(op, llvm.LoadOp)]
    return [operands[source.index] for source in sources if isinstance(source, BlockArgument)]


def counterexample(ops: Sequence[Operation], shift: int) -> z3.ModelRef | None:
    """Lanes for which the code is not (a · m · 2^(s − 31) rounded half up) + offset; None if there are none."""
    proof, names = Proof(FACTORS), ("a", "m", "offset")
    a, m, offset = ([z3.BitVec(f"{name}{lane}", 32) for lane in range(LANES)] for name in names)
    shifts, most = [z3.BitVecVal(shift, 32)] * LANES, 1 << 61 >> 31 - shift  # offset · 2^(31 − shift) is within 2^61
    for lane in range(LANES):
        proof.assumed += [m[lane] >= 0, offset[lane] >= -most, offset[lane] <= most]
    y = _run(ops, [a, m, shifts, offset], proof)
    claims = []
    for lane, product in enumerate(proof.products):
        factors = z3.And(product.lhs == z3.SignExt(32, a[lane]), product.rhs == z3.SignExt(32, m[lane]))
        rescaled = z3.SignExt(32, y[lane] - offset[lane])
        claims += [factors, definitions.half_up(product.value, rescaled, 31 - shift)]
    return proof.counterexample(z3.And(*claims))


@pytest.mark.slow
@pytest.mark.parametrize(("promise", "most"), [("", -1), ("drops_33", -2)])
def test_the_code_of_a_requantization_is_single(promise: str, most: int) -> None:
    for shift in range(-31, most + 1) if THOROUGH else (-31, -17, -3, most):
        assert counterexample(_kernel(promise), shift) is None, f"shift {shift}"


def test_a_broken_promise_is_refuted() -> None:
    """With 32 dropped bits, half of a result is no multiple of 2^32, which `drops_33` promises."""
    assert counterexample(_kernel("drops_33"), -1) is not None
