"""Code with AVX-512, with and without VNNI, run by an emulator: simd at its extremes, random layers, networks."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu import Machine
from tests.backends.cpu import bochs
from tests.backends.cpu.test_aarch64 import BATCHES, FAMILIES, OF_EACH, all_cases, dots, program
from tests.lowering.both import compiled, features_of, referred, to_loops
from tests.lowering.qint_to_loops.random_layers import Layer, network_of, split, without_collection

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


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_random_layers(cpu: str, batch: int) -> None:
    """The layers of a batch are one program, whose kernels compute their items in parts."""
    bochs.require(cpu)
    machine, rng = Machine.of(cpu), np.random.default_rng([512, batch])
    layers: list[Layer] = [draw(rng) for draw in FAMILIES for _ in range(OF_EACH)]
    inputs = [x for layer in layers for x in layer.inputs]
    with without_collection():
        module = network_of(layers)
        signature, named, expected = referred(module, inputs)
        loops = to_loops(module, features=features_of(machine), verify=batch == 0)
        split(loops, rng)
        executable = compiled(loops, signature, machine, verify=batch == 0)
    got = bochs.run(executable, signature.arrays(named), cpu)
    for layer, e, g in zip(layers, expected, got, strict=True):
        np.testing.assert_array_equal(g, e, layer.drawn)
    assert_has(bochs.instructions(executable.object), cpu)


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
