"""Each kernel on each processor that has what it takes: it is chosen for a layer, and gives the reference's bits.

A processor computes one program, in which each layer of `LAYERS` is by itself; beside them are random layers. Programs
for this machine's architecture run here if it has their features, and all others in emulators.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.analysis.layers import chosen_kernels, number_layers
from qmlir.backends.cpu import Executable, Machine, enabled
from qmlir.backends.cpu.llvm import known_to_llvm, missing_here
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.codegen.machine import Capabilities, capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp, SaturatingFullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from qmlir.ir.context import make_context
from qmlir.lowering.nn_to_loops.convert import NNToLoopsPass
from qmlir.lowering.qint_to_loops.candidates import SATURATING, SUMS, TAPS
from qmlir.lowering.qint_to_loops.convert import QIntToLoopsPass
from qmlir.numerics import Array
from qmlir.transforms.loops.finish_loops import FinishLoopsPass
from tests.backends.cpu import bochs, emulated, programs
from tests.conftest import THOROUGH
from tests.lowering.both import compiled, referred
from tests.lowering.qint_to_loops import (
    test_random_bytes,
    test_random_convolutions,
    test_random_depthwise,
    test_random_elementwise,
    test_random_matrices,
    test_random_pools,
)
from tests.lowering.qint_to_loops.random_layers import Layer, network_of, split, without_collection
from tests.lowering.qint_to_loops.test_contraction import integers, requantized
from tests.lowering.qint_to_loops.test_packed_weights import (
    convolution,
    depthwise,
    even,
    far,
    fully_connected,
    multiples,
)

# ---------------------------------------------------------------------------------------------------------------
# Layers


def sums_of(w: Array, zero_point: int = 5, *, wide: bool = False, groups: int = 1) -> Callable[[SSAValue], SSAValue]:
    """A contraction with weights [O, KH, KW, C / groups], or [O, C], requantized."""

    def graph(x: SSAValue) -> SSAValue:
        operands, element = [x, ConstantOp(w).y, []], i64 if wide else i32
        properties: dict[str, Attribute] = {"zero_point": int32(zero_point)}
        if w.ndim == 4:
            properties |= {"padding": ints((1, 1, 1, 1)), "groups": IntegerAttr(groups, i64)}
        acc = (Conv2DOp if w.ndim == 4 else FullyConnectedOp).make(operands, properties, element=element).acc
        return requantized(acc, len(w), 3, contract="single64" if wide else "single")

    return graph


def taps_of(channels: int) -> Callable[[SSAValue], SSAValue]:
    """A depthwise convolution, requantized."""

    def graph(x: SSAValue) -> SSAValue:
        properties = {"zero_point": int32(0), "padding": ints((1, 1, 1, 1))}
        acc = DepthwiseConv2DOp.make([x, ConstantOp(integers(1, 1, 3, 3, channels)).y, []], properties).acc
        return requantized(acc, channels, 4)

    return graph


def saturating(x: SSAValue) -> SSAValue:
    acc = SaturatingFullyConnectedOp.make([x, ConstantOp(integers(1, 20, 64)).y, []], {"zero_point": int32(0)}).acc
    return requantized(acc, 20, 3)


def product_of(columns: int) -> Callable[[SSAValue], SSAValue]:
    """A product by a matrix that a kernel packs."""

    def graph(a: SSAValue) -> SSAValue:
        b = ConstantOp(integers(1, 33, columns))
        acc = MatMulOp.make([a, b.y], {"lhs_zero_point": int32(3), "rhs_zero_point": int32(-2)}).acc
        return requantized(acc, columns, 3)

    return graph


def product_of_words(a: SSAValue) -> SSAValue:
    acc = MatMulOp.make([a, ConstantOp(integers(1, 33, 7, bits=16)).y], element=i64).acc
    return requantized(acc, 7, 3, contract="single64")


def few(*shape: int) -> Array:
    """Small weights of eight bits."""
    return np.random.default_rng(3).integers(-40, 40, shape).astype(np.int8)


IMAGE, WIDE = integers(0, 1, 6, 7, 12), integers(0, 1, 6, 7, 12, bits=16)

LAYERS: Mapping[str, tuple[Array, Callable[[SSAValue], SSAValue]]] = {
    "bytes": (IMAGE, sums_of(integers(1, 20, 3, 3, 12))),
    "a row of bytes": (integers(0, 1, 64), sums_of(integers(1, 24, 64))),
    "rows of bytes": (integers(0, 9, 64), sums_of(few(24, 64))),
    "many taps": (integers(0, 1, 4, 5, 64), sums_of(few(8, 3, 3, 64))),
    "many taps of 5 bits": (integers(0, 1, 4, 5, 64), convolution(even(5, 8, 3, 3, 64))),
    "3x3 of many channels": (integers(0, 1, 24, 24, 32), sums_of(few(32, 3, 3, 32))),
    "5 bits": (IMAGE, convolution(even(5, 12, 3, 3, 12))),
    "a row of 4 bits": (integers(0, 1, 64), fully_connected(even(4, 24, 64))),
    "multiples of 4 bits": (IMAGE, convolution(multiples(32, 12, 3, 3, 12))),
    "entries of a codebook": (IMAGE, convolution(far(5, 12, 3, 3, 12))),
    "a row of entries": (integers(0, 1, 64), fully_connected(far(5, 12, 64))),
    "taps of a codebook": (integers(0, 1, 5, 6, 24), depthwise(far(5, 1, 3, 3, 24))),
    "words": (WIDE, sums_of(integers(1, 20, 3, 3, 12), 0, wide=True)),
    "words of both": (WIDE, sums_of(integers(1, 20, 3, 3, 12, bits=16), 0, wide=True)),
    "a product of words": (integers(0, 5, 33, bits=16), product_of_words),
    "pairs of groups": (IMAGE, sums_of(integers(1, 12, 3, 3, 2), groups=6)),
    "odd groups": (IMAGE, sums_of(integers(1, 8, 3, 3, 3), groups=4)),
    "beyond words": (IMAGE, sums_of(integers(1, 8, 3, 3, 12), 40000)),
    "saturating": (integers(0, 3, 64), saturating),
    "a product": (integers(0, 5, 33), product_of(7)),
    "a product of several blocks": (integers(0, 5, 33), product_of(24)),
    "taps": (integers(0, 1, 9, 8, 24), taps_of(24)),
    "taps of few channels": (integers(0, 1, 9, 8, 3), taps_of(3)),
    "taps of some channels": (integers(0, 1, 9, 8, 5), taps_of(5)),
}

CANDIDATES = (*SUMS, *SATURATING, *TAPS)

# ---------------------------------------------------------------------------------------------------------------
# Processors


@dataclass(frozen=True)
class Runner:
    """A processor, and what runs its programs.

    machine   the processor
    run       computes the outputs of a program
    random    whether random layers are part of the program
    """

    machine: Machine
    run: Callable[[Executable, Sequence[Array]], list[Array]]
    random: bool = True


def here(cpu: str) -> Runner:
    """A processor of this machine's architecture; skips the test if it has features that this one lacks.

    Random layers are computed for it family by family (`batches`).
    """
    if cpu != "native" and cpu not in known_to_llvm().processors:
        pytest.skip(f"{cpu} is a processor of another architecture")
    machine = Machine.of(cpu)
    if missing := missing_here(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    return Runner(machine, lambda executable, inputs: executable.run_in_order(inputs), random=False)


def in_bochs(cpu: str) -> Runner:
    """A processor with AVX-512; Bochs computes the wrong bits for gf2p8affineqb, by which LLVM shifts bytes."""
    bochs.require(cpu)
    return Runner(Machine.of(cpu, "-gfni"), lambda executable, inputs: bochs.run(executable, inputs, cpu))


def in_qemu(cpu: str) -> Runner:
    """A processor of AArch64, with a C library."""
    emulated.require()
    machine = Machine.of(cpu, None, emulated.TRIPLE)
    return Runner(machine, lambda executable, inputs: emulated.run(executable, inputs, cpu))


def alone(cpu: str) -> Runner:
    """A processor whose programs have no library; its emulators are too slow for random layers."""
    machine = Machine.of(cpu)
    programs.require(machine)
    return Runner(machine, lambda executable, inputs: programs.run(executable, [inputs])[0], random=False)


RUNNERS: Mapping[str, Callable[[str], Runner]] = {
    **dict.fromkeys(("native", "x86-64-v2", "x86-64-v3", "alderlake", "znver4", "sapphirerapids"), here),
    **dict.fromkeys(("icelake-server", "skylake-avx512"), in_bochs),
    **dict.fromkeys((cpu for cpu in PROCESSORS if not cpu.startswith("x86")), alone),
    **dict.fromkeys(("cortex-a53", "cortex-a76", "neoverse-v1"), in_qemu),
}

FAMILIES = (
    test_random_bytes.draw,
    test_random_convolutions.draw,
    test_random_depthwise.draw,
    test_random_depthwise.draw_sliding,
    test_random_elementwise.draw,
    test_random_matrices.draw,
    test_random_pools.draw,
)

OF_EACH, BATCHES = (7, 16) if THOROUGH else (2, 1)
"""Random layers of each family in a program, and programs of a processor."""


def lowered(module: ModuleOp, machine: Capabilities) -> tuple[ModuleOp, set[str]]:
    """A module on the loops level, and the names of the kernels that were chosen."""
    loops, memory = module.clone(), "small" if machine.small else "fast"
    count, features = len(number_layers(loops)), ",".join(f"+{name}" for name in sorted(machine.features))
    for step in (NNToLoopsPass(features, memory), QIntToLoopsPass(features, memory), FinishLoopsPass()):
        step.apply(make_context(), loops)
    return loops, {name for name, _ in chosen_kernels(loops, count)}


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("memory", ["fast", "small"])
@pytest.mark.parametrize("cpu", RUNNERS)
def test_kernels(cpu: str, memory: str, batch: int) -> None:
    """The kernels' items are computed in parts, in any order, as threads and stripes would."""
    runner, rng = RUNNERS[cpu](cpu), np.random.default_rng([64, batch])
    layers = [Layer((x,), graph, name) for name, (x, graph) in LAYERS.items()] if batch == 0 else []
    if runner.random or not layers:
        layers += [draw(rng) for draw in FAMILIES for _ in range(OF_EACH)]
    inputs = [x for layer in layers for x in layer.inputs]
    with without_collection():
        signature, named, expected = referred(module := network_of(layers), inputs)
        machine = replace(capabilities(enabled(runner.machine)), small=memory == "small")
        loops, chosen = lowered(module, machine)
        split(loops, rng)
        executable = compiled(loops, signature, runner.machine, verify=batch == 0)
    # Where a processor sums four products at once, Winograd's products of pairs save nothing.
    never = {"Winograd"} if machine.quad_rate == 4 else set[str]()
    assert batch or chosen >= {each.name for each in CANDIDATES if each.has(machine)} - never
    for layer, e, g in zip(layers, expected, runner.run(executable, signature.arrays(named)), strict=True):
        np.testing.assert_array_equal(g, e, layer.drawn)


FIRST_CHOICES = ("x86-64-v3", "znver4", "cortex-a76", "cortex-m4", "cortex-m55", "rv32imc")
"""Processors of which each prefers a kernel that no other one does."""


@pytest.mark.slow
def test_each_kernel_is_the_first_choice_of_some_processor() -> None:
    machines = [capabilities(enabled(Machine.of(cpu))) for cpu in FIRST_CHOICES]
    machines += [replace(machines[0], small=True), capabilities("+amx-int8")]
    module = network_of([Layer((x,), graph, name) for name, (x, graph) in LAYERS.items()])
    preferred = {name for machine in machines for name in lowered(module, machine)[1]}
    assert preferred >= {each.name for each in CANDIDATES}
