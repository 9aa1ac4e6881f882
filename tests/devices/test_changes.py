"""The keys that a report names move operations to the device when they are set; what has none is said to have none."""

from collections.abc import Mapping
from typing import Any

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8

from qmlir.analysis.placement import BETWEEN_HOSTS, explain, judge
from qmlir.devices import Device, load_device
from qmlir.devices.description.changing import Change, settings_of, toml_value, value_of
from qmlir.devices.legality.changes import ANSWERS, CALLER, NO_COMMAND, needed_for
from qmlir.devices.legality.limits import LIMITS, Legality, refusals
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.devices.test_limits import CASES, TABLE, depthwise, device, elsewhere, product
from tests.ops.sample import Sample

COMMANDS = {"ops.depthwise", "ops.add", "ops.mul", "ops.avgpool", "ops.move", "ops.softmax", "ops.rms_norm"}
"""Limits of every command, which no key of a file lifts."""


def as_set(device: Device, changes: tuple[Change, ...]) -> Device:
    """The device after `--set` of each change."""
    return device.with_(settings_of(f"{change.key}={toml_value(change.needed)}" for change in changes))


@pytest.mark.parametrize(("key", "described", "kept", "broken", "says"), CASES, ids=[c[0] for c in CASES])
def test_the_answer_to_a_limit(key: str, described: Device, kept: Sample, broken: Sample, says: str) -> None:
    op = broken.build()
    if key == "queue.arranges":  # a queue that arranges, but not to where the array reads weights
        described = elsewhere()
    before = refusals(op, described)
    needed = needed_for([op], described, refusals)
    if key in COMMANDS or says == "got upup":  # a rounding that no device has
        assert before
        assert not needed.settings
        assert needed.no_key.startswith("no device file allows more: ")
        assert says in needed.no_key
        return
    if not before:  # the case of `channels_multiple`, whose operations differ by the device
        described = device(conv2d={"channels_multiple": 3, "groups": True})
        needed = needed_for([op], described, refusals)
    changes = needed.changes(described)
    assert changes, needed.no_key
    assert all(change.now != change.needed for change in changes)
    assert refusals(op, as_set(described, changes)) == []
    for left_out in changes:  # none is asked for in vain
        others = tuple(change for change in changes if change is not left_out)
        assert refusals(op, as_set(described, others)) or key == "quant.shift"


def test_every_limit_has_an_answer_or_is_of_every_command() -> None:
    assert {limit.key for limit in LIMITS} - set(ANSWERS) == {
        "ops.depthwise", "ops.*", "ops.move", "ops.avgpool", "ops.softmax",
    }  # fmt: skip


def test_tables_that_a_device_lacks() -> None:
    vta = load_device("vta")
    for op, keys in (
        (depthwise().build(), ["array.depthwise", "ops.depthwise"]),
        (TABLE.build(), ["ops.lut"]),
        (product(16).build(), ["queue.exec.arranges", "ops.matmul"]),
    ):
        changes = needed_for([op], vta, refusals).changes(vta)
        assert [change.key for change in changes] == keys
        assert refusals(op, as_set(vta, changes)) == []


def test_a_change_in_words() -> None:
    assert str(Change("ops.conv2d.stride_max", 2, 4)) == "ops.conv2d.stride_max: 2 → 4"
    assert str(Change("ops.lut", None, {"entries": 256, "type": "i8"})) == (
        'ops.lut: none → { entries = 256, type = "i8" }'
    )
    nmp = load_device("nmp")
    assert value_of(nmp, "memory.act.bytes") == 262144
    assert value_of(nmp, "array.modes.1.acc") == "i40"
    assert value_of(nmp, "quant.shift.max") == 47
    assert value_of(load_device("vta"), "ops.lut") is None
    assert value_of(nmp, "memory.none.bytes") is None


# ---------------------------------------------------------------------------------------------------------------
# Whole networks

SHIFT = (
    'multiplier = array<i32: 1073741824>, shift = array<i32: -7>, contract = "shift", min = -128 : i32, max = 127 : i32'
)
X = "tensor<1x32x32x64xi8>"
ACC = "tensor<1x32x32x64xi32>"


def network(*lines: str, result: str = X) -> ModuleOp:
    body = "\n".join(lines)
    return parse_text(make_context(), f"func.func @main(%x: {X}) -> {result} {{\n{body}\n}}", "network")


def filled(count: int) -> str:
    return ", ".join(["3"] * count)


DEPTHWISE = (
    f"%w = nn.constant <tensor<1x3x3x64xi8>, [{filled(576)}]> : tensor<1x3x3x64xi8>",
    f"%a = qint.depthwise_conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>}} : {X}, tensor<1x3x3x64xi8> -> {ACC}",
    f"%d = qint.requantize %a {{{SHIFT}}} : {ACC} -> {X}",
)
CONVOLUTION = (
    f"%w = nn.constant <tensor<64x3x3x64xi8>, [{filled(36864)}]> : tensor<64x3x3x64xi8>",
    f"%a = qint.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>}} : {X}, tensor<64x3x3x64xi8> -> {ACC}",
    f"%d = qint.requantize %a {{{SHIFT}}} : {ACC} -> {X}",
)
RETURN = f"func.return %d : {X}"
MOVED = (f"%m = nn.transpose %d {{permutation = array<i64: 0, 2, 1, 3>}} : {X} -> {X}", f"func.return %m : {X}")
SUM = "multipliers = array<i64: 65536, 65536>, shift = 20 : i32, min = -128 : i32, max = 127 : i32"
ADDED = (f"%e = qint.add %d, %d {{{SUM}}} : {X}, {X} -> {X}", f"func.return %e : {X}")
QUOTIENT = "multiplier = 1073741824 : i32, shift = 3 : i32, min = -128 : i32, max = 127 : i32"

FAST = {"fallback.macs_per_cycle": 1e6, "fallback.setup": 0, "fallback.bytes_per_cycle": 1e3}
"""A host that computes anything sooner than a device."""

NETWORKS: dict[str, tuple[str, Mapping[str, Any], ModuleOp, str]] = {
    "a table is missing": ("vta", FAST, network(*DEPTHWISE, *ADDED), "ops.depthwise"),
    "a limit": ("nmp", {"ops.conv2d.kernel_max": [2, 3]}, network(*CONVOLUTION, RETURN), "ops.conv2d.kernel_max"),
    "movement beside it": (
        "nmp", {"ops.conv2d.kernel_max": [2, 3]}, network(*CONVOLUTION, *MOVED), "ops.conv2d.kernel_max",
    ),
    "rounding": ("ethos-u55-like", {}, network(*CONVOLUTION, RETURN), "quant.scale"),
    "widths of sums": ("nmp", {"array.modes": [{"a": "i8", "w": "i8", "acc": "i24"}]},
                       network(*(line.replace("[3,", "[127,").replace(" 3", " 127") for line in CONVOLUTION), RETURN),
                       "array.modes.0.acc"),
    "a memory": ("vta", {"memory.wgt.bytes": 256}, network(*CONVOLUTION, RETURN), "memory.wgt.bytes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_key_moves_operations_to_the_device(kind: str) -> None:
    name, narrow, module, key = NETWORKS[kind]
    described = load_device(name).with_(narrow)
    judged, gains = explain(module, described)
    refused = [each for each in judged if each.refusals]
    assert refused
    assert all(each.keys for each in refused)
    assert any(change.key == key for change in refused[0].keys)
    for each in refused:
        after = judge(module, as_set(described, each.keys).with_({"fallback.macs_per_cycle": 0.01}))
        assert not any(other.refusals for other in after if other.operation == each.operation)
    assert gains
    assert sum(gain.operations for gain in gains) == len(refused)
    assert gains == sorted(gains, key=lambda gain: (-gain.share, -gain.cycles))


def refused_of(judged: list[Legality], operation: str) -> Legality:
    return next(each for each in judged if each.operation == operation)


def test_what_the_host_computes_sooner_has_the_hosts_key() -> None:
    """A sum between two operations of the host: with a slow host it pays to compute it on the device."""
    odd = SHIFT.replace('"shift"', '"single"')
    lines = (
        f"%a = qint.requantize %x {{{odd}}} : {X} -> {X}",
        f"%b = qint.add %a, %a {{{SUM}}} : {X}, {X} -> {X}",
        f"%c = qint.requantize %b {{{odd}}} : {X} -> {X}",
        f"%e = qint.add %c, %x {{{SUM}}} : {X}, {X} -> {X}",
        f"func.return %e : {X}",
    )
    module, nmp = network(*lines), load_device("nmp")
    judged, _ = explain(module, nmp)
    between = next(each for each in judged if each.operation == "qint.add" and each.refusals)
    (change,) = between.keys
    assert (change.key, change.now) == ("fallback.macs_per_cycle", 16.0)
    assert not any(each.refusals for each in judge(module, as_set(nmp, between.keys)) if each.operation == "qint.add")


def test_what_has_no_key() -> None:
    lines = (
        f"%s = qint.div %x, %x {{{QUOTIENT}}} : {X}, {X} -> {X}",
        f"%m = nn.transpose %s {{permutation = array<i64: 0, 2, 1, 3>}} : {X} -> {X}",
        f"%n = nn.transpose %m {{permutation = array<i64: 0, 2, 1, 3>}} : {X} -> {X}",
        f"%e = qint.add %n, %x {{{SUM}}} : {X}, {X} -> {X}",
        f"func.return %e, %m : {X}, {X}",
    )
    judged, gains = explain(network(*lines, result=f"({X}, {X})"), load_device("nmp"))
    assert refused_of(judged, "qint.div").no_key == NO_COMMAND
    assert refused_of(judged, "nn.transpose").no_key == BETWEEN_HOSTS
    assert not gains
    real = test.TestOp(result_types=[TensorType(f32, [4])]).results[0]
    stored = UniformType.per_tensor(i8, 0.5, 0)
    cast = QuantizeCastOp(real, TensorType(stored, [4]))
    assert needed_for([cast], load_device("nmp")).no_key == CALLER


@pytest.mark.parametrize("name", ["gemmini", "nvdla-small", "vta"])
def test_a_key_that_the_hardware_of_an_encoder_contradicts(name: str) -> None:
    """Data of 16 bits have no key there, and the reason names the encoder; nothing is raised on the way."""
    encoder = name.partition("-")[0]
    described = load_device(name).with_({"encoder": encoder})
    for _, _, _, broken, _ in CASES:
        needed_for([broken.build()], described)
    (op,) = (broken.build() for key, _, _, broken, _ in CASES if key == "quant.types")
    needed = needed_for([op], described)
    assert not needed.settings
    assert needed.no_key == f"quant.types must be ['i8'] for the encoder {encoder}, got ['i8', 'i16']"
