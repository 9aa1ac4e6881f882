"""The vectors of a self-test: inputs drawn at random, and what the reference makes of them, in C.

The reference is numpy, operation by operation, not the code that is tested. A network whose calls are independent has
samples, the inputs and outputs of a call each. One with states or several entries has steps: calls that follow one
another, of one entry or another, and the states behind them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmlir.cli.embedded.plan import Call, Plan
from qmlir.ir.signature import TensorSpec
from qmlir.numerics import Array

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from qmlir.backends.reference import Reference

SAMPLES = 3
"""The most samples of a self-test, and the most rounds in which it calls each entry."""

MOST = 1 << 16
"""Bytes of all vectors, unless one sample takes more; a tensor of steps that is larger is known by a checksum."""

PER_LINE = 24
"""Numbers in a line."""

FACTOR = 0x9E3779B97F4A7C15
"""The factor of checksums, which is odd: a byte that differs makes another checksum."""


@dataclass(frozen=True)
class Step:
    """A call of a self-test: its inputs, and the outputs that it has to have."""

    call: Call
    inputs: Sequence[Array]
    outputs: Sequence[Array]


@dataclass(frozen=True)
class Steps:
    """The calls of a self-test of a network with states or several entries.

    before  calls that follow one another from the states before the first call on
    states  the states behind them as a program exports them; empty if there are none
    after   calls that go on from these states
    """

    before: Sequence[Step]
    states: bytes
    after: Sequence[Step]


def index_bounds(function: "FuncOp") -> dict[int, int]:
    """Returns how many values an index has, by the places of the arguments that tables are looked up by."""
    from qmlir.dialects.nn import GatherOp
    from qmlir.ir.interfaces import shape_of

    bounds: dict[int, int] = {}
    for place, argument in enumerate(function.body.block.args):
        for use in argument.uses:
            if isinstance(op := use.operation, GatherOp) and op.indices is argument:
                size = shape_of(op.x)[op.axis.value.data]
                bounds[place] = min(size, bounds.get(place, size))
    return bounds


def drawn_inputs(specs: Sequence[TensorSpec], sample: int, bounds: Mapping[str, int]) -> list[Array]:
    """Returns random inputs, the same for the same sample: all integers of small types, floats of normal size.

    Args:
        specs: The inputs.
        sample: The number of the sample.
        bounds: How many values the elements of an index have, by the names of inputs. They follow one another, as the
            places of tokens do; indices of no known range are 0.
    """
    rng = np.random.default_rng(sample)
    found: list[Array] = []
    for spec in specs:
        if spec.dtype == np.bool_:
            found.append(rng.integers(0, 2, spec.shape).astype(spec.dtype))
        elif spec.dtype.kind in "iu" and spec.dtype.itemsize <= 2:
            limits = np.iinfo(spec.dtype)
            found.append(rng.integers(limits.min, limits.max + 1, spec.shape).astype(spec.dtype))
        elif spec.dtype.kind in "iu":
            many = bounds.get(spec.name, 1)
            first = rng.integers(many)
            found.append(((first + np.arange(int(np.prod(spec.shape)))) % many).reshape(spec.shape).astype(spec.dtype))
        else:
            found.append(rng.normal(size=spec.shape).astype(spec.dtype))
    return found


def samples_of(call: Call) -> int:
    """Returns the number of samples of a self-test."""
    one = sum(port.bytes for port in call.ports)
    return max(1, min(SAMPLES, MOST // max(one, 1)))


def steps_of(plan: Plan, reference: "Reference", bounds: Mapping[str, int]) -> Steps:
    """Returns the steps of a self-test, of which the reference computes what they have to give."""
    entries = reference.entries or {plan.first.symbol: reference}
    number = 0

    def step(call: Call) -> Step:
        nonlocal number
        given = drawn_inputs(call.signature.inputs, number, bounds)
        number += 1
        return Step(call, given, entries[call.symbol].advance(given))

    reference.reset()
    rounds = min(samples_of(call) for call in plan.calls)
    before = [step(call) for _ in range(rounds) for call in plan.calls]
    kept = reference.state if plan.block else {}
    states = b"".join(kept[state.argument.name].tobytes() for state in (plan.block.states if plan.block else ()))
    after = [step(call) for call in plan.calls[::-1][: rounds if plan.block else 0]]
    return Steps(before, states, after)


def checksum(data: bytes) -> int:
    """Returns the checksum of bytes: ((b0 · FACTOR + b1) · FACTOR + b2) …, in 64 bits."""
    powers = np.full(len(data), FACTOR, np.uint64)
    powers[:1] = 1
    with np.errstate(over="ignore"):
        weights = np.cumprod(powers, dtype=np.uint64)[::-1]
        return int((np.frombuffer(data, np.uint8).astype(np.uint64) * weights).sum(dtype=np.uint64))


def vectors_text(plan: Plan, samples: Sequence[tuple[Sequence[Array], Sequence[Array]]]) -> str:
    """Returns the header with the vectors: the bytes of inputs and of expected outputs, sample behind sample."""
    lines = [f"/* Samples of {plan.name}: inputs, and the outputs that belong to them, as bytes. */"]
    lines += [f"#define {plan.macro}_SAMPLES {len(samples)}", ""]
    for side, ports in enumerate((plan.first.inputs, plan.first.outputs)):
        for i, port in enumerate(ports):
            data = b"".join(np.ascontiguousarray(sample[side][i]).tobytes() for sample in samples)
            lines += array_lines(plan, f"static const uint8_t {plan.name}_{port.label.lower()}", data)
    return "\n".join(lines)


def step_vectors_text(plan: Plan, steps: Steps) -> str:
    """Returns the header with the vectors of steps: bytes, or the checksums of long outputs and states."""
    lines = [f"/* Calls of {plan.name}: inputs, and the outputs that belong to them, as bytes or as a checksum. */", ""]
    for number, step in enumerate((*steps.before, *steps.after)):
        for kind, arrays in (("input", step.inputs), ("output", step.outputs)):
            for i, array in enumerate(arrays):
                data = np.ascontiguousarray(array).tobytes()
                lines += expected_lines(plan, f"step{number}_{kind}{i}", data, whole=kind == "input")
    if plan.block is not None:
        lines += expected_lines(plan, "states", steps.states)
    return "\n".join(lines)


def is_long(data: int) -> bool:
    """Whether so many bytes of a step are known by a checksum."""
    return data > MOST


def expected_lines(plan: Plan, name: str, data: bytes, *, whole: bool = False) -> list[str]:
    """Returns the definition of bytes, or of their checksum if they are many and not needed as a whole."""
    declared = f"{plan.name}_{name}"
    if is_long(len(data)) and not whole:
        return [f"static const uint64_t {declared} = 0x{checksum(data):016x}u;", ""]
    return array_lines(plan, f"static const uint8_t {declared}", data)


def array_lines(plan: Plan, declared: str, data: bytes) -> list[str]:
    """Returns an aligned array of bytes in C."""
    numbers = [",".join(map(str, data[i : i + PER_LINE])) + "," for i in range(0, len(data), PER_LINE)] or ["0"]
    return [f"{plan.macro}_ALIGNED {declared}[{max(len(data), 1)}] = {{", *numbers, "};", ""]


def weights_text(plan: Plan, weights: Array) -> str:
    """Returns the weights as an array in C."""
    lines = array_lines(plan, f"const uint8_t {plan.name}_weights", weights.tobytes())
    return "\n".join([f'#include "{plan.name}.h"', "", *lines])


GLOW_NUMBERS = np.array([f"0X{byte:02X},".encode() for byte in range(256)])
"""For each byte, by its value, the text that Glow writes for it."""


def glow_text(data: bytes) -> bytes:
    """Returns bytes as Glow's file of weights has them, to be included in an array of C."""
    return GLOW_NUMBERS[np.frombuffer(data, np.uint8)].tobytes()
