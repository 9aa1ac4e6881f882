"""Code for processors that this one is not, run by emulators: operations on integers, simd, divisions, indices.

The programs have no library: what a network on integers calls is in its object, but for memset and memcpy on Linux.
"""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat

import qmlir
from qmlir.backends.cpu import Executable, Machine, build
from qmlir.backends.cpu.llvm import compile_assembly
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.errors import OptionError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import element_of
from qmlir.ir.signature import Signature
from qmlir.ir.source import parse_text
from qmlir.numerics import Array
from tests.backends.cpu import programs
from tests.backends.cpu.test_aarch64 import all_cases, lookups, network_of_samples, program
from tests.conftest import THOROUGH, crossed
from tests.lowering.both import assert_same, compiled, features_of, referred, to_loops
from tests.lowering.loops_to_llvm.kernels import lowered, specs
from tests.ops.sample import Sample
from tests.ops.samples import SAMPLES
from tests.ops.test_lowerings import NOT_RUN

RUN_ON = ("x86-64", *(name for name in PROCESSORS if name != "x86-64-v2"))
"""Processors that all tests run on: those that users name, and the baseline of x86."""

FEW = ("x86-64", "cortex-a53", "cortex-m4", "rv32imc", "rv64gc", "wasm32")
"""Processors for a test that takes long on each."""

IN_FLOATS = frozenset(
    """
    qint.float_add-same_shape qint.float_add-broadcast,_from_unsigned
    qint.interpolate-in_floats qint.interpolate-in_floats,_weights_first
    qint.requantize-float_even qint.requantize-float_even_ties
    qint.requantize-float_sum_ties qint.requantize-float_sum_of_a_fraction
    """.split()
)
"""Samples on integers whose contracts round as floats do: their code has float instructions, and calls the library."""


def on_integers(sample: Sample) -> bool:
    """Whether neither the operands nor the results of a sample are floats, nor quantized tensors of floats."""
    op = sample.build()
    types = [element_of(value) for value in (*op.operands, *op.results)]
    return not any(isinstance(type, AnyFloat) or "f32" in str(type) for type in types)


def machine_of(cpu: str) -> Machine:
    machine = Machine.of(cpu)
    programs.require(machine)
    return machine


INTEGERS = [sample for sample in SAMPLES if str(sample) not in {*NOT_RUN, *IN_FLOATS} and on_integers(sample)]

AT_ONCE = 40
"""Samples of a program."""

PARTS = [INTEGERS[i : i + AT_ONCE] for i in range(0, len(INTEGERS), AT_ONCE)]


def test_samples_left_out_exist() -> None:
    assert {str(sample) for sample in SAMPLES} >= IN_FLOATS
    assert len(INTEGERS) > 150


@pytest.mark.slow
@pytest.mark.parametrize("part", range(len(PARTS)) if THOROUGH else [0])
@pytest.mark.parametrize("cpu", RUN_ON if THOROUGH else FEW)
def test_samples_of_operations_on_integers(cpu: str, part: int) -> None:
    """All of them for `make conformance`, a seeded share of all kinds else."""
    machine = machine_of(cpu)
    seeded = np.random.default_rng(64).permutation(len(INTEGERS))[: AT_ONCE // 2]
    samples = PARTS[part] if THOROUGH else [INTEGERS[i] for i in sorted(seeded)]
    module, inputs = network_of_samples(samples)
    signature, named, expected = referred(module, inputs)
    executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
    assert_same(expected, programs.run(executable, [signature.arrays(named)])[0])


# ---------------------------------------------------------------------------------------------------------------
# Operations of simd, with the instructions that they become

WORDS = ("cortex-m4", "wasm32", *(("x86-64", "cortex-m55", "rv32imc", "rv64gcv") if THOROUGH else ()))
"""Processors that have instructions of their own; the portable forms of the others are long for vectors."""


@pytest.mark.slow
@pytest.mark.parametrize("cpu", WORDS)
def test_operations_of_simd(cpu: str) -> None:
    machine, cases = machine_of(cpu), all_cases()
    if not THOROUGH:
        cases = [*(case for case in cases if case.expected.size <= 4), *lookups(16)[:3]]
    executable = program(cases, machine)
    (got,) = programs.run(executable, [[x for case in cases for x in case.operands]])
    for case, y in zip(cases, got, strict=True):
        np.testing.assert_array_equal(y, case.expected, f"{case.text} of {case.operands}")


CONVOLUTION = """func.func @main(%x: tensor<1x8x8x8x!S>) -> tensor<1x6x6x4xi32> {
  %w = nn.constant <tensor<4x3x3x8xi8>, dense<3>> : tensor<4x3x3x8xi8>
  %y = qint.conv2d %x, %w {zero_point = 5 : i32} : tensor<1x8x8x8x!S>, tensor<4x3x3x8xi8> -> tensor<1x6x6x4xi32>
  func.return %y : tensor<1x6x6x4xi32>
}"""


@pytest.mark.parametrize(
    ("cpu", "storage", "instruction"),
    [
        ("cortex-m4", "i8", r"\bsmlad\b"),
        ("cortex-m4", "i16", r"\bsmlad\b"),
        ("cortex-m7", "i8", r"\bsxtb16\b"),
        ("cortex-m55", "i8", r"\bvmlava\.s8"),
        ("rv32imc", "i8", r"\bmul\b"),
        ("rv64gcv", "i8", r"\bv\w*m(acc|ul)"),
        ("wasm32", "i8", r"i32x4\.dot_i16x8_s"),
    ],
)
def test_instructions_of_a_convolution(cpu: str, storage: str, instruction: str) -> None:
    text = (
        CONVOLUTION.replace("!S", storage)
        .replace("= 5", "= 5" if storage == "i8" else "= 0")
        .replace("dense<3>", f"[{', '.join(['3'] * 288)}]")
    )
    module = parse_text(make_context(), text, "test")
    executable = qmlir.compile(module, cpu=cpu)
    assert re.search(instruction, executable.assembly())


# ---------------------------------------------------------------------------------------------------------------
# What code without a library brings itself

DIVISION = """
func.func @main(%w: memref<0xi8>, %arena: memref<0xi8>, %a: memref<{n}xi64>, %b: memref<{n}xi64>, {outputs})
    attributes {{qmlir.inputs = 2 : i64}} {{
  func.call @k(%a, %b, {names}) : (memref<{n}xi64>, memref<{n}xi64>, {types}) -> ()
  func.return
}}
func.func private @k(%a: memref<{n}xi64>, %b: memref<{n}xi64>, {outputs}) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.constant {n} : index
  scf.for %i = %zero to %n step %one {{
    %x = memref.load %a[%i] : memref<{n}xi64>
    %y = memref.load %b[%i] : memref<{n}xi64>
    {steps}
  }}
  func.return
}}
"""

DIVISIONS = ("divui", "divsi", "remui", "remsi")


def dividends_and_divisors() -> tuple[Array, Array]:
    """Pairs of all sizes and signs; the divisors are not 0, and no quotient leaves 64 bits."""
    rng = np.random.default_rng(5)
    special = [1, 2, 3, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**63)]
    pairs = [(a, b) for a in [0, *special] for b in special if (a, b) != (-(2**63), -1)]
    for bits in range(1, 64):
        low = int(rng.integers(1, 63))
        pairs.append((int(rng.integers(-(2**bits), 2**bits)), int(rng.integers(1, 2**low))))
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


def quotients(machine: Machine, a: Array, b: Array) -> Executable:
    """A program of all four divisions."""
    n, made = a.size, range(len(DIVISIONS))
    steps = [
        f"%r{i} = arith.{name} %x, %y : i64\n    memref.store %r{i}, %y{i}[%i] : memref<{n}xi64>"
        for i, name in enumerate(DIVISIONS)
    ]
    text = DIVISION.format(
        n=n,
        outputs=", ".join(f"%y{i}: memref<{n}xi64>" for i in made),
        names=", ".join(f"%y{i}" for i in made),
        types=", ".join(f"memref<{n}xi64>" for _ in made),
        steps="\n    ".join(steps),
    ).replace("%w: memref<0xi8>, %arena: memref<0xi8>, ", "")
    signature = Signature(tuple(specs("x", [a, b])), tuple(specs("y", [a] * len(DIVISIONS))))
    return build(lowered(text, features_of(machine), machine.system.bits), signature, machine=machine)


@pytest.mark.parametrize("cpu", ["cortex-m4", "rv32imc", "wasm32"])
def test_quotients_of_64_bits(cpu: str) -> None:
    machine = machine_of(cpu)
    a, b = dividends_and_divisors()
    executable = quotients(machine, a, b)
    assert "call i64 @qmlir.udiv" in executable.llvm_ir
    got = programs.run(executable, [[a, b]])[0]
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    quotient = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    signed = np.array(quotient, np.int64)
    with np.errstate(over="ignore"):
        expected = [(ua // ub).view(np.int64), signed, (ua % ub).view(np.int64), a - signed * b]
    for name, want, found in zip(DIVISIONS, expected, got, strict=True):
        np.testing.assert_array_equal(found, want, name)


def test_linux_divides_by_its_own_means() -> None:
    a, b = dividends_and_divisors()
    assert "@qmlir.udiv" not in quotients(Machine.of("rv64gc"), a, b).llvm_ir


COPY = """func.func @main(%x: tensor<{n}xi8>) -> (tensor<{n}xi8>, tensor<{n}xi8>) {{
  func.return %x, %x : tensor<{n}xi8>, tensor<{n}xi8>
}}"""


@crossed({"cpu": ["cortex-m4", "rv32imc", "wasm32"], "size": [1, 4, 67]})
def test_copies(cpu: str, size: int) -> None:
    machine_of(cpu)
    module = parse_text(make_context(), COPY.format(n=size), "test")
    executable = qmlir.compile(module, cpu=cpu)
    assert "call void @qmlir.copy" in executable.llvm_ir
    x = np.arange(size, dtype=np.int8)
    for y in programs.run(executable, [[x]])[0]:
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("cpu", ["cortex-m4", "rv32imc", "wasm32"])
def test_batches_with_indices_of_32_bits(cpu: str) -> None:
    """The entry for batches takes 64 bits, of which an index has 32."""
    text = "func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {\nfunc.return %x : tensor<1x4xi8>\n}"
    executable = qmlir.compile(parse_text(make_context(), text, "test"), cpu=cpu, batch=3)
    assert "trunc i64" in executable.llvm_ir
    assert executable.object


def test_threads_need_a_system_that_has_them() -> None:
    text = "func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {\nfunc.return %x : tensor<4xi8>\n}"
    module = parse_text(make_context(), text, "test")
    with pytest.raises(OptionError, match=r"threads: must be 1: there are none .*, got 2 on thumbv7em-none-eabi"):
        qmlir.compile(module, 2, cpu="cortex-m4")


def assembly(executable: Executable) -> Sequence[str]:
    return compile_assembly(executable.llvm_ir, executable.machine).splitlines()


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55", "rv32imc"])
def test_softmax_calls_nothing(cpu: str) -> None:
    """It divides integers of 64 bits; on Linux and on ARM, such a quotient is a call of the compiler's library."""
    softmax = first("qint.softmax")
    machine = Machine.of(cpu)
    module, inputs = network_of_samples([softmax])
    signature, _, _ = referred(module, inputs)
    executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
    called = {m[1] for line in assembly(executable) if (m := re.match(r"\s+(?:bl|call)\s+(\S+)", line))}
    assert not [name for name in called if "div" in name and not name.startswith("qmlir.")]


def first(name: str) -> Sample:
    return next(s for s in SAMPLES if s.op.name == name)
