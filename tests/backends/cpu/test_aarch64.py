"""Code for AArch64, run by an emulator: simd at its extremes, samples of all operations, threads."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Executable, Machine, build
from qmlir.dialects import nn
from qmlir.dialects.simd import (
    AddBytesOp,
    AddWordsOp,
    DotI8Op,
    DotI8QuadsOp,
    DotI16PairsOp,
    DotU8I8QuadsOp,
    LookupBytesOp,
    MulAddShiftRoundOp,
    MulShiftRoundOp,
    PermuteBytesOp,
)
from qmlir.ir.context import make_context
from qmlir.ir.signature import Signature, main_function, signature_of
from qmlir.ir.types import element_type_of
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass
from qmlir.numerics import Array
from qmlir.transforms.loops.plan_memory import PlanMemoryPass
from qmlir.transforms.loops.share_items import ShareItemsPass
from tests.backends.cpu import emulated
from tests.conftest import THOROUGH
from tests.lowering.both import assert_same, compiled, features_of, network, referred, to_loops
from tests.lowering.loops_to_llvm.kernels import lowered, specs, vectorwise
from tests.ops.sample import Sample
from tests.ops.samples import SAMPLES
from tests.ops.test_lowerings import NOT_RUN

PROCESSORS: Mapping[str, tuple[str, str]] = {
    "cortex-a53": ("smlal", "sdot|usdot"),
    "cortex-a76": ("sdot", "usdot"),
    "neoverse-n1": ("sdot", "usdot"),
    "neoverse-v1": ("usdot", "nothing"),
}
"""Processors without instructions for quads, with those of signed bytes, and with those of unsigned by signed bytes.

For each, an instruction that its code for products of bytes has, and those that it must not have.
"""


def machine_of(cpu: str) -> Machine:
    return Machine.of(cpu, None, emulated.TRIPLE)


# ---------------------------------------------------------------------------------------------------------------
# Operations of simd

RNG = np.random.default_rng(64)

LEAST, GREATEST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Case:
    """An operation on vectors %0, %1, …, its operands, and what it is to compute."""

    text: str
    operands: Sequence[Array]
    expected: Array

    def kernel(self, name: str) -> str:
        """The text of a kernel that applies the operation."""
        bits = [(f"i{8 * x.itemsize}", x.size) for x in self.operands]
        out = (f"i{8 * self.expected.itemsize}", self.expected.size)
        return vectorwise(self.text, bits, out).replace("@kernel", f"@{name}")


def sums(count: int) -> Array:
    """Accumulators: near both ends, so that sums wrap, and between."""
    ends = np.array([LEAST, GREATEST, LEAST + 1, GREATEST - 1, 0, -1], np.int64)
    return np.where(RNG.random(count) < 0.6, RNG.choice(ends, count), RNG.integers(LEAST, GREATEST, count)).astype("i4")


def ends(bits: int, count: int) -> list[Array]:
    """Vectors of the least integer only, of the greatest, of −1 (255 as an unsigned byte), and of any."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    chosen = [np.full(count, value) for value in (low, high, -1)]
    return [x.astype(f"i{bits // 8}") for x in (*chosen, RNG.integers(low, high, count, endpoint=True))]


def dots(lanes: int) -> list[Case]:
    """Dot products of pairs and quads of all extremes by all extremes."""
    cases: list[Case] = []
    types = f"vector<{lanes}xi32>, vector<"
    for a in ends(16, 2 * lanes):
        for b in ends(16, 2 * lanes):
            acc = sums(lanes)
            text = f"%r = simd.dot_i16_pairs %0, %1, %2 : {types}{2 * lanes}xi16>"
            cases.append(Case(text, (acc, a, b), DotI16PairsOp.evaluate(acc, a, b)))
    for a in ends(8, 4 * lanes):
        for b in ends(8, 4 * lanes):
            for op in (DotU8I8QuadsOp, DotI8QuadsOp):
                acc = sums(lanes)
                text = f"%r = {op.name} %0, %1, %2 : {types}{4 * lanes}xi8>"
                cases.append(Case(text, (acc, a, b), op.evaluate(acc, a, b)))
    return cases


def dots_of_bytes(lanes: int) -> list[Case]:
    """Dot products of all extremes by all extremes, each a scalar."""
    text = f"""%acc = vector.extract %0[0] : i32 from vector<1xi32>
  %sum = simd.dot_i8 %acc, %1, %2 : vector<{lanes}xi8>
  %r = vector.broadcast %sum : i32 to vector<1xi32>"""
    pairs = [(sums(1), a, b) for a in ends(8, lanes) for b in ends(8, lanes)]
    return [Case(text, operands, DotI8Op.evaluate(*operands)) for operands in pairs]


def dots_of_the_same_weights() -> Case:
    """Four steps with one vector of weights: what depends on the weights alone is computed once."""
    acc, b = sums(16), ends(8, 64)[3]
    data = [ends(8, 64)[i] for i in (0, 1, 2, 3)]
    steps = [f"%s{i + 1} = simd.dot_u8_i8_quads %s{i}, %{i + 2}, %1 : vector<16xi32>, vector<64xi8>" for i in range(4)]
    text = "\n".join(steps).replace("%s0", "%0").replace("%s4", "%r")
    total = acc
    for a in data:
        total = DotU8I8QuadsOp.evaluate(total, a, b)
    return Case(text, (acc, b, *data), total)


def roundings(lanes: int) -> list[Case]:
    """Requantizations of extremes with all shifts; sums of two that come as near 2^63 as they may."""
    cases: list[Case] = []
    for _ in range(4):
        a, multiplier = sums(lanes), RNG.integers(2**30, 2**31, lanes).astype("i4")
        a[0], multiplier[0] = LEAST, GREATEST
        shift = RNG.permutation(np.resize(np.arange(-31, 0), lanes)).astype("i4")
        text = f"%r = simd.mul_shift_round %0, %1, %2 : vector<{lanes}xi32>"
        cases.append(Case(text, (a, multiplier, shift), MulShiftRoundOp.evaluate(a, multiplier, shift)))
        offset = RNG.integers(-128, 128, lanes).astype("i4")
        least = np.minimum(shift, -2)
        text = f"%r = simd.mul_shift_round %0, %1, %2 drops_33 : vector<{lanes}xi32>"
        cases.append(Case(text, (a, multiplier, least), MulShiftRoundOp.evaluate(a, multiplier, least)))
        near = np.maximum(shift, -23)
        text = f"%r = simd.mul_shift_round %0, %1, %2, %3 : vector<{lanes}xi32>"
        expected = MulShiftRoundOp.evaluate(a, multiplier, near, offset)
        cases.append(Case(text, (a, multiplier, near, offset), expected))
        near = np.minimum(near, -2)
        text = f"%r = simd.mul_shift_round %0, %1, %2, %3 drops_33 : vector<{lanes}xi32>"
        expected = MulShiftRoundOp.evaluate(a, multiplier, near, offset)
        cases.append(Case(text, (a, multiplier, near, offset), expected))
        p, b, q = (sums(lanes) // 2 for _ in range(3))
        a = a // 2
        a[:1], p[:1], b[:1], q[:1] = LEAST // 2, LEAST // 2, LEAST // 2, LEAST // 2
        drop = RNG.permutation(np.resize(np.arange(32, 63), lanes)).astype("i4")
        text = f"%r = simd.mul_add_shift_round %0, %1, %2, %3, %4 : vector<{lanes}xi32>"
        expected = MulAddShiftRoundOp.evaluate(a, p, b, q, drop)
        cases.append(Case(text, (a, p, b, q, drop), expected))
    return cases


def roundings_that_share() -> Case:
    """Roundings of other data by the same factors and shifts, from which some numbers are derived once."""
    a, multiplier, shift = sums(8), RNG.integers(2**30, 2**31, 8).astype("i4"), np.full(8, -1, "i4")
    text = """%a = simd.mul_shift_round %0, %1, %2 : vector<8xi32>
  %b = simd.mul_add_shift_round %0, %1, %0, %1, %3 : vector<8xi32>
  %c = simd.mul_shift_round %b, %1, %2 : vector<8xi32>
  %r = arith.addi %a, %c : vector<8xi32>"""
    drop = np.full(8, 40, "i4")
    once = MulShiftRoundOp.evaluate(a, multiplier, shift)
    both = MulAddShiftRoundOp.evaluate(a, multiplier, a, multiplier, drop)
    with np.errstate(over="ignore"):
        expected = once + MulShiftRoundOp.evaluate(both, multiplier, shift)
    return Case(text, (a, multiplier, shift, drop), expected)


def permutations(lanes: int) -> list[Case]:
    """Permutations of bytes, with places that occur more than once."""
    x = ends(8, lanes)[3]
    places = RNG.integers(0, min(lanes, 16), lanes).astype("i1")
    text = f"%r = simd.permute_bytes %0, %1 : vector<{lanes}xi8>"
    return [Case(text, (x, places), PermuteBytesOp.evaluate(x, places))]


def lookups(lanes: int) -> list[Case]:
    """Places in tables of every size, the first and the last one among them."""
    cases: list[Case] = []
    for entries in (16, 32, 64, 128, 256):
        table, places = RNG.integers(-128, 128, entries).astype(np.int8), RNG.integers(0, entries, lanes)
        places[:2] = 0, entries - 1
        places = places.astype(np.uint8).view(np.int8)
        text = f"%r = simd.lookup_bytes %0, %1 : vector<{entries}xi8>, vector<{lanes}xi8>"
        cases.append(Case(text, (table, places), LookupBytesOp.evaluate(table, places)))
    return cases


def sums_of_bytes(lanes: int) -> Case:
    """Weighted sums of bytes, with other weights in each lane."""
    a, b = (RNG.integers(-128, 128, lanes).astype("i1") for _ in range(2))
    high, low = (RNG.integers(-(2**15), 2**15, 2 * lanes).astype("i2").view("i4") for _ in range(2))
    k_h, k_l = RNG.integers(-(2**23), 2**23, lanes).astype("i4"), RNG.integers(0, 2**16, lanes).astype("i4")
    operands = (a, b, high, low, k_h, k_l, RNG.integers(10, 20, lanes).astype("i4"))
    text = f"%r = simd.add_bytes %0, %1, %2, %3, %4, %5, %6 : vector<{lanes}xi8>, vector<{lanes}xi32>"
    return Case(text, operands, AddBytesOp.evaluate(*operands))


def sums_of_words(lanes: int) -> Case:
    """Weighted sums of words, with other weights in each lane."""
    a, b = (RNG.integers(-(2**15), 2**15, lanes).astype("i2") for _ in range(2))
    high, low = (RNG.integers(-(2**14), 2**14, 2 * lanes).astype("i2").view("i4") for _ in range(2))
    k_h, k_l = RNG.integers(-(2**23), 2**23, lanes).astype("i4"), RNG.integers(0, 2**16, lanes).astype("i4")
    operands = (a, b, high, low, k_h, k_l, RNG.integers(10, 18, lanes).astype("i4"))
    text = f"%r = simd.add_words %0, %1, %2, %3, %4, %5, %6 : vector<{lanes}xi16>, vector<{lanes}xi32>"
    return Case(text, operands, AddWordsOp.evaluate(*operands))


def all_cases() -> list[Case]:
    return [
        *(case for lanes in (1, 3, 4, 6, 16) for case in dots(lanes)),
        *(case for lanes in (3, 16) for case in dots_of_bytes(lanes)),
        dots_of_the_same_weights(),
        *(case for lanes in (2, 4, 6, 16, 32) for case in roundings(lanes)),
        roundings_that_share(),
        *(case for lanes in (8, 16, 32, 48) for case in permutations(lanes)),
        *(case for lanes in (16, 32) for case in lookups(lanes)),
        *(sums_of_bytes(lanes) for lanes in (3, 8, 16)),
        *(sums_of_words(lanes) for lanes in (3, 8, 16)),
    ]


def program(cases: Sequence[Case], machine: Machine) -> Executable:
    """One program that computes all cases."""
    operands = [x for case in cases for x in case.operands]
    results = [case.expected for case in cases]
    types = [f"memref<{x.size}xi{8 * x.itemsize}>" for x in (*operands, *results)]
    calls: list[str] = []
    kernels: dict[str, str] = {}  # the names of the kernels by their texts
    at = 0
    for i, case in enumerate(cases):
        name = kernels.setdefault(case.kernel("@"), f"k{len(kernels)}")
        places = [*range(at, at + len(case.operands)), len(operands) + i]
        at += len(case.operands)
        arguments, own = (", ".join(t) for t in ([f"%a{p}" for p in places], [types[p] for p in places]))
        calls.append(f"func.call @{name}({arguments}) : ({own}) -> ()")
    declared = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    main = f"func.func @main({declared}) attributes {{qmlir.inputs = {len(operands)} : i64}} {{\n"
    named = [text.replace("@@", f"@{name}") for text, name in kernels.items()]
    text = "\n".join([main, *calls, "func.return\n}", *named])
    signature = Signature(tuple(specs("x", operands)), tuple(specs("y", results)))
    return build(lowered(text, features_of(machine), machine.system.bits), signature, machine=machine)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_operations_of_simd(cpu: str) -> None:
    emulated.require()
    cases, machine = all_cases(), machine_of(cpu)
    executable = program(cases, machine)
    got = emulated.run(executable, [x for case in cases for x in case.operands], cpu)
    for case, y in zip(cases, got, strict=True):
        np.testing.assert_array_equal(y, case.expected, f"{case.text} of {case.operands}")
    found = emulated.instructions(executable.object)
    has, lacks = PROCESSORS[cpu]
    assert found >= {has, "smlal", "srshl", "tbl"}
    assert not [name for name in found if re.fullmatch(lacks, name)]


@pytest.mark.slow
def test_the_instruction_is_what_runs() -> None:
    """A processor without sdot stops at it; the same cases without its features run there."""
    cases = dots(4)
    inputs = [x for case in cases for x in case.operands]
    dotprod = program(cases, Machine.of("cortex-a53", "+dotprod", emulated.TRIPLE))
    assert emulated.run_as(dotprod, inputs, "cortex-a53")[0] == -signal.SIGILL
    assert emulated.run_as(dotprod, inputs, "cortex-a76")[0] == 0
    i8mm = program(cases, Machine.of("cortex-a76", "+i8mm", emulated.TRIPLE))
    assert emulated.run_as(i8mm, inputs, "cortex-a76")[0] == -signal.SIGILL
    assert emulated.run_as(i8mm, inputs, "max")[0] == 0


# ---------------------------------------------------------------------------------------------------------------
# The samples of all operations

RUN = [sample for sample in SAMPLES if str(sample) not in NOT_RUN]

AT_ONCE = 40 if THOROUGH else 20
"""Samples of a program."""

SAMPLED = [RUN[i : i + AT_ONCE] for i in range(0, len(RUN), AT_ONCE)] if THOROUGH else [RUN[:: len(RUN) // AT_ONCE]]
"""Samples by program: all, or some of all kinds."""


def network_of_samples(samples: Sequence[Sample]) -> tuple[ModuleOp, list[Array]]:
    """A network of one operation beside the other, and its inputs."""
    arrays = [sample.arrays(3) for sample in samples]
    inputs = [x for sample, own in zip(samples, arrays, strict=True) for x in own[: sample.inputs]]

    def graph(*values: SSAValue) -> list[SSAValue]:
        left = iter(values)
        results: list[SSAValue] = []
        for sample, own in zip(samples, arrays, strict=True):
            given = [next(left) for _ in range(sample.inputs)]
            results.append(sample.build([*given, *(nn.ConstantOp(x).y for x in own[sample.inputs :])]).results[0])
        return results

    return network(graph, *(TensorType(element_type_of(x.dtype), x.shape) for x in inputs)), inputs


@pytest.mark.slow
@pytest.mark.parametrize("part", range(len(SAMPLED)))
@pytest.mark.parametrize("cpu", PROCESSORS if THOROUGH else ["cortex-a76"])
def test_samples_of_operations(cpu: str, part: int) -> None:
    """Floats and integers of all types."""
    emulated.require()
    machine = machine_of(cpu)
    module, inputs = network_of_samples(SAMPLED[part])
    signature, named, expected = referred(module, inputs)
    executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
    got = emulated.run(executable, signature.arrays(named), cpu)
    assert_same(expected, got)


def test_threads() -> None:
    """The object holds a pool of threads, which share all loops."""
    emulated.require()
    machine = machine_of("cortex-a76")
    module, inputs = network_of_samples(RUN[::100])
    _, named, expected = referred(module, inputs)
    signature = signature_of(main_function(module))
    loops = to_loops(module, features=features_of(machine))
    steps = (PlanMemoryPass(), ShareItemsPass(threads=3, least_work=1), LoopsToLLVMPass(features_of(machine)))
    for step in steps:
        step.apply(make_context(), loops)
    executable = build(loops, signature, machine=machine)
    assert executable.uses_pool
    assert_same(expected, emulated.run(executable, signature.arrays(named), "cortex-a76"))
