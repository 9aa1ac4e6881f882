"""Code for little memory: the same bits, results over operands, arenas within the sizes that are promised."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir import compiler
from qmlir.backends.cpu import Machine
from qmlir.backends.cpu.stack import stack_bytes
from qmlir.errors import OptionError
from qmlir.ir.facts import ARENA_BOUND, ARENA_SIZE
from qmlir.running.machine_code import to_planned_loops
from tests.conftest import THOROUGH, crossed
from tests.graphs import Graph, quantized

PROCESSORS = (None, "x86-64", "x86-64-v3")

EACH = 25 if THOROUGH else 10
"""Random networks of each schema."""

MOST = {
    "kws_dscnn_i8": 16_000,
    "resnet8_cifar_i8": 32_768,
    "vww_mbv1_i8": 40_000,
    "ad_fcae_i8": 768,
}
"""Bytes of the arena, everything but the stack in it."""


def _runs(module: compiler.ModuleOp, graph: Graph) -> bool:
    """Whether every sample has the same bits; the three processors take turns, because each compiles anew."""
    cpu = PROCESSORS[len(list(module.walk())) % len(PROCESSORS)]
    small, reference = compiler.compile(module, memory="small", cpu=cpu), qmlir.reference(module)
    for sample in graph.samples:
        for ours, expected in zip(small.run(sample), reference.run(sample), strict=True):
            np.testing.assert_array_equal(ours, expected)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric"])
def test_random_networks_have_the_same_bits(schema: str) -> None:
    assert quantized(schema, EACH, _runs) >= EACH * 3 // 5


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST if THOROUGH else ("kws_dscnn_i8", "ad_fcae_i8"))
def test_networks_have_the_same_bits(name: str, shared: Callable[[str], Path]) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(shared(f"models/tflite/{name}.tflite")))
    rng = np.random.default_rng(0)
    (spec,) = qmlir.reference(module).signature.inputs
    x = rng.integers(-128, 128, spec.shape).astype(spec.dtype)
    small, fast = compiler.compile(module, memory="small", cpu="x86-64-v3"), compiler.compile(module)
    np.testing.assert_array_equal(small(x), fast(x))
    assert small.sizes.arena <= MOST[name]


@pytest.mark.slow
@crossed({"name": MOST, "cpu, triple": [("x86-64-v3", None), (None, "aarch64-linux-gnu")]})
def test_networks_take_no_more_than_promised(
    name: str, cpu: str | None, triple: str | None, shared: Callable[[str], Path]
) -> None:
    integers = qmlir.to_integers(qmlir.Pipeline("simplify")(qmlir.load(shared(f"models/tflite/{name}.tflite"))))
    to_planned_loops(integers, 1, Machine.of(cpu, None, triple), memory="small")
    assert ARENA_SIZE.required(integers) <= MOST[name]


@crossed({"name": MOST, "cpu": ["cortex-m4", "cortex-m7", "cortex-m55", "rv32imc"]})
@pytest.mark.slow
def test_the_stack_of_a_microcontroller_is_small(name: str, cpu: str, shared: Callable[[str], Path]) -> None:
    """A kilobyte at most, and the arena as promised, with integers at both ends."""
    module = qmlir.Pipeline("simplify")(qmlir.load(shared(f"models/tflite/{name}.tflite")))
    executable = compiler.compile(module, memory="small", cpu=cpu)
    stack = stack_bytes(executable.assembly(), executable.entry)
    assert stack is not None
    assert stack <= 1024
    assert executable.sizes.arena <= MOST[name]


@pytest.mark.slow
def test_a_result_lies_over_its_operand(shared: Callable[[str], Path]) -> None:
    """The arena of kws is less than two of its tensors of 8,000 bytes, of which each layer reads one and writes one."""
    module = qmlir.to_integers(qmlir.Pipeline("simplify")(qmlir.load(shared("models/tflite/kws_dscnn_i8.tflite"))))
    to_planned_loops(module, 1, Machine.host(), memory="small")
    assert 8_000 < ARENA_BOUND.required(module) <= ARENA_SIZE.required(module) < 2 * 8_000


def test_several_threads_are_refused() -> None:
    module = qmlir.load(Path(__file__).parents[3] / "examples/digits/digits.onnx")
    with pytest.raises(OptionError, match="must be fast for several threads"):
        compiler.compile(module, 2, memory="small")


def test_the_choice_is_one_of_two() -> None:
    module = qmlir.load(Path(__file__).parents[3] / "examples/digits/digits.onnx")
    with pytest.raises(OptionError, match="must be one of fast, small"):
        compiler.compile(module, memory="tiny")
