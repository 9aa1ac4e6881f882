"""Code with AVX-512, with and without VNNI, run by an emulator: simd at its extremes, networks."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu import Machine
from tests.backends.cpu import bochs
from tests.backends.cpu.test_aarch64 import all_cases, dots, program

PROCESSORS: Mapping[str, set[str]] = {
    "icelake-server": {"vpdpbusd zmm"},
    "skylake-avx512": {"vpmaddwd zmm"},
}
"""Processors with AVX-512, and instructions that their code for products of bytes has."""


def assert_has(found: set[str], cpu: str) -> None:
    """Asserts that code has the instructions that it was compiled for, and VNNI only where the processor has it."""
    assert found >= PROCESSORS[cpu]
    if cpu != "icelake-server":
        assert not [name for name in found if name.startswith("vpdp")]


@pytest.mark.slow
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_operations_of_simd(cpu: str) -> None:
    bochs.require(cpu)
    cases = all_cases()
    executable = program(cases, Machine.of(cpu))
    got = bochs.run(executable, [x for case in cases for x in case.operands], cpu)
    for case, y in zip(cases, got, strict=True):
        np.testing.assert_array_equal(y, case.expected, f"{case.text} of {case.operands}")
    found = bochs.instructions(executable.object)
    assert_has(found, cpu)
    if cpu == "icelake-server":
        assert found >= {"vpdpbusd xmm", "vpdpbusd zmm"}


@pytest.mark.slow
def test_the_instruction_is_what_runs() -> None:
    """A processor without VNNI stops at vpdpbusd."""
    bochs.require("icelake-server")
    bochs.require("skylake-avx512")
    cases = dots(16)
    executable = program(cases, Machine.of("icelake-server"))
    inputs = [x for case in cases for x in case.operands]
    assert bochs.run_as(executable, inputs, bochs.MODELS["skylake-avx512"]) is None
    assert bochs.run_as(executable, inputs, bochs.MODELS["icelake-server"]) is not None


@pytest.mark.models
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.parametrize("name", ["kws_dscnn_i8", "resnet8_cifar_i8"])
def test_networks(name: str, cpu: str, shared: Callable[[str], Path]) -> None:
    bochs.require(cpu)
    model = shared(f"models/tflite/{name}.tflite")
    executable = qmlir.compile(model, cpu=cpu, threads=1)
    assert_has(bochs.instructions(executable.object), cpu)
    reference = qmlir.reference(model)
    (x,) = reference.signature.inputs
    limits = np.iinfo(x.dtype)
    sample = np.random.default_rng(1).integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True)
    (got,) = bochs.run(executable, [sample], cpu)
    np.testing.assert_array_equal(got, reference(sample))
