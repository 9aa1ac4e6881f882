"""What a device takes at least to move data is no more than its commands take, and as much where bursts decide."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.model.boundary_transfers import least_moving
from qmlir.dialects.nn.movement import MovementOp
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.conftest import crossed

MOVEMENT = {
    "nn.transpose %a {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x4x16x8xi8>": "1x16x8x4",
    "nn.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x16x8xi8>": "1x16x4x8",
    "nn.concat %a, %a {axis = 3 : i64} : tensor<1x4x16x8xi8>, tensor<1x4x16x8xi8>": "1x4x16x16",
    "nn.pad %a {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = 0 : i8} : tensor<1x4x16x8xi8>": (
        "1x6x18x8"
    ),
}
"""What moves a tensor of 1x4x16x8 → the shape of its result."""

POOL = "qint.max_pool2d {} {{window = array<i64: 1, 1>}} : tensor<{}xi8> -> tensor<{}xi8>"


def network(moves: str, shape: str, source: str, first: bool) -> ModuleOp:
    """Movement of a tensor, and a pool of single elements that a device computes: after it, or before."""
    moved = f"{moves} -> tensor<{shape}xi8>"
    if first:
        given, lines = "%a", [f"%b = {moved}", f"%y = {POOL.format('%b', shape, shape)}"]
    else:
        given, lines = "%x", [f"%a = {POOL.format('%x', source, source)}", f"%y = {moved}"]
    body = "\n".join([*lines, f"func.return %y : tensor<{shape}xi8>"])
    text = f"func.func @main({given}: tensor<{source}xi8>) -> tensor<{shape}xi8> {{\n{body}\n}}"
    return parse_text(make_context(), text, "network")


def movement(module: ModuleOp) -> MovementOp:
    return next(op for op in module.walk() if isinstance(op, MovementOp))


@crossed({"moves, shape": MOVEMENT.items(), "reads": [True, False], "device": shipped_devices()})
def test_no_more_than_the_commands_take(moves: str, shape: str, reads: bool, device: str) -> None:
    module = network(moves, shape, "1x4x16x8", first=reads)
    op = movement(module)
    least = least_moving(op, load_device(device), reads)
    report = qmlir.compile(module, target=device).predicted
    (taken,) = (layer.cycles for layer in report.layers if layer.name == op.name)
    assert 0 < least <= taken


@pytest.mark.parametrize("device", shipped_devices())
def test_what_no_device_moves_runs_on_the_host(device: str) -> None:
    moves = "nn.dilate %a {dilations = array<i64: 1, 3, 2, 1>, value = -7 : i8} : tensor<1x4x5x8xi8>"
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 5, 8)).astype(np.int8)
    for first in (True, False):
        module = network(moves, "1x10x9x8", "1x4x5x8", first=first)
        compiled, wanted = qmlir.compile(module, target=device), qmlir.reference(module)
        (layer,) = (layer for layer in compiled.predicted.layers if layer.name == movement(module).name)
        assert set(layer.busy) == {"the host"}
        np.testing.assert_array_equal(compiled(x), wanted(x))


@pytest.mark.parametrize(
    ("device", "read", "written", "taken"),
    [
        ("nmp", 49152, 768, 50000),  # 12288 bytes, of each a burst of 64 is read at 16 a cycle
        ("gemmini", 49152, 768, 49960),
        ("vta", 1536, 1536, 3393),  # without bursts, at 8 a cycle
    ],
)
def test_channels_become_the_last(device: str, read: int, written: int, taken: int) -> None:
    moves = "nn.transpose %a {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x64x64xi8>"
    module = network(moves, "1x64x64x3", "1x3x64x64", first=True)
    op = movement(module)
    assert [least_moving(op, load_device(device), reads) for reads in (True, False)] == [read, written]
    report = qmlir.compile(module, target=device).predicted
    assert [layer.cycles for layer in report.layers if layer.name == op.name] == [taken]
