"""Programs that the compiler makes for each device: no wait can be spared, and no damage does harm."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import qmlir
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program
from qmlir.backends.simulated import Simulated
from qmlir.devices import Device, shipped_devices
from qmlir.devices.model.timeline import HOST
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.isa.blocks import Fault
from qmlir.isa.encoding import Wait
from tests.backends.npu.accounts import mistakes
from tests.backends.npu.damage import outcomes
from tests.conftest import THOROUGH

SAME = "padding = array<i64: 1, 1, 1, 1>"
IMAGE, HALF = "tensor<1x8x8x16xf32>", "tensor<1x4x4x16xf32>"
NETWORK = f"""
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x10xf32> {{
  %w = nn.constant <tensor<16x3x3x4xf32>, [{", ".join(str(n % 7 - 3.0) for n in range(576))}]> : tensor<16x3x3x4xf32>
  %v = nn.constant <tensor<16x3x3x16xf32>, [{", ".join(str(n % 5 - 2.0) for n in range(2304))}]> : tensor<16x3x3x16xf32>
  %f = nn.constant <tensor<10x256xf32>, [{", ".join(str(n % 9 - 4.0) for n in range(2560))}]> : tensor<10x256xf32>
  %0 = nn.conv2d %x, %w {{{SAME}}} : tensor<1x8x8x4xf32>, tensor<16x3x3x4xf32> -> {IMAGE}
  %1 = nn.relu %0 : {IMAGE} -> {IMAGE}
  %2 = nn.conv2d %1, %v {{{SAME}}} : {IMAGE}, tensor<16x3x3x16xf32> -> {IMAGE}
  %3 = nn.add %1, %2 : {IMAGE}, {IMAGE} -> {IMAGE}
  %4 = nn.max_pool2d %3 {{window = array<i64: 2, 2>, strides = array<i64: 2, 2>}} : {IMAGE} -> {HALF}
  %5 = nn.reshape %4 {{shape = array<i64: 1, 256>}} : {HALF} -> tensor<1x256xf32>
  %6 = nn.fully_connected %5, %f : tensor<1x256xf32>, tensor<10x256xf32> -> tensor<1x10xf32>
  func.return %6 : tensor<1x10xf32>
}}
"""


def image(seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """An input."""
    return np.random.default_rng(seed).standard_normal((1, 8, 8, 4)).astype(np.float32)


@cache
def compiled(device: str | Device) -> Simulated:
    """The network on a device."""
    module = parse_text(make_context(), NETWORK, "network")
    quantized = qmlir.quantize(module, qmlir.profile(module, [image(seed) for seed in range(4)]), target=device)
    executable = qmlir.compile(quantized, target=device)
    assert np.array_equal(executable(image()), qmlir.reference(quantized)(image()))
    return executable


def weakened(program: Program) -> Iterator[Program]:
    """The program once for each of its waits, with that wait for one command fewer."""
    commands = list(program.commands)
    for number, command in enumerate(commands):
        for place, wait in enumerate(command.waits):
            waits = list(command.waits)
            waits[place] = Wait(wait.queue, wait.finished - 1)
            mutant = replace(command, waits=tuple(waits))
            yield replace(program, commands=[*commands[:number], mutant, *commands[number + 1 :]])


@pytest.mark.parametrize("device", shipped_devices())
def test_every_wait_is_needed(device: str) -> None:
    executable = compiled(device)
    weaker = list(weakened(executable.program))
    for program in weaker:
        with pytest.raises(Fault, match="must wait for command"):
            checked(program, executable.device)
    assert len(weaker) > 1


@pytest.mark.parametrize("device", shipped_devices())
def test_each_cost_belongs_to_one_layer(device: str) -> None:
    report = compiled(device).report
    assert report is not None
    assert not mistakes(report)
    host = [layer for layer in report.layers if layer.name in ("quant.qcast", "quant.scast")]
    assert [layer.bound_by for layer in host] == [HOST, HOST]
    assert [layer.bound for layer in host] == [320, 13]


@pytest.mark.parametrize("device", shipped_devices())
def test_damaged_streams(device: str) -> None:
    """Words changed at random and the checksum made right again: 24 on each device, 2,000 in `make conformance`."""
    executable = compiled(device)
    count = 2000 if THOROUGH else 24
    found = outcomes(executable.program, len(device), count, lambda p: executable.with_program(p)(image()))
    assert all(found.values()), found
