"""What a device computes in place of an operation that it refuses gives the same bits, and is chosen by its cycles."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import qmlir
from qmlir.analysis.placement import judge
from qmlir.devices import Device, load_device
from qmlir.devices.legality.equivalents import Grouped, equivalent_of, joined_weights
from qmlir.devices.legality.limits import reasons
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import shape_of
from qmlir.ir.source import parse_text
from qmlir.isa.commands import Convolve, Pool, Reduce

SLOW = {"fallback.macs_per_cycle": 0.25}
"""A host beside which every equivalent pays."""

SHIFT = (
    'multiplier = array<i32: 1073741824>, shift = array<i32: -8>, contract = "CONTRACT", '
    "min = -128 : i32, max = 127 : i32"
)


def network(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "network")


def drawn(seed: int, *shape: int) -> str:
    numbers = np.random.default_rng(seed).integers(-128, 128, shape).reshape(-1)
    return ", ".join(map(str, numbers))


def depthwise(channels: int, times: int, contract: str, doubled: bool = False) -> ModuleOp:
    """A depthwise convolution of 2 images of 9 by 10 pixels with so many outputs for each channel, or twice its sum."""
    window, total = "padding = array<i64: 1, 1, 1, 1>", "multipliers = array<i64: 65536, 65536>, shift = 20 : i32"
    outputs = channels * times
    x, w, y = f"tensor<2x9x10x{channels}xi8>", f"tensor<1x3x3x{outputs}xi8>", f"tensor<2x9x10x{outputs}x"
    return network(f"""func.func @main(%x: {x}) -> {y}i8> {{
      %w = nn.constant <{w}, [{drawn(1, 3, 3, outputs)}]> : {w}
      %b = nn.constant <tensor<{outputs}xi32>, [{drawn(2, outputs)}]> : tensor<{outputs}xi32>
      %a = qint.depthwise_conv2d %x, %w, %b {{{window}}} : {x}, {w}, tensor<{outputs}xi32> -> {y}i32>
      %y = qint.requantize %a {{{SHIFT.replace("CONTRACT", contract)}}} : {y}i32> -> {y}i8>
      %s = qint.add %y, %y {{{total}, min = -128 : i32, max = 127 : i32}} : {y}i8>, {y}i8> -> {y}i8>
      func.return {"%s" if doubled else "%y"} : {y}i8>
    }}""")


def grouped(channels: int, outputs: int, groups: int, contract: str) -> ModuleOp:
    x, w, y = (
        f"tensor<1x7x8x{channels}xi8>",
        f"tensor<{outputs}x3x3x{channels // groups}xi8>",
        f"tensor<1x7x8x{outputs}x",
    )
    return network(f"""func.func @main(%x: {x}) -> {y}i8> {{
      %w = nn.constant <{w}, [{drawn(3, outputs, 3, 3, channels // groups)}]> : {w}
      %a = qint.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>, groups = {groups} : i64}} : {x}, {w} -> {y}i32>
      %y = qint.requantize %a {{{SHIFT.replace("CONTRACT", contract)}}} : {y}i32> -> {y}i8>
      func.return %y : {y}i8>
    }}""")


def pool(kind: str, image: tuple[int, int], out: tuple[int, int], attributes: str) -> ModuleOp:
    """A pool, and a change of scale with which the network does something on any device."""
    x, y = (f"tensor<2x{'x'.join(map(str, size))}x6xi8>" for size in (image, out))
    return network(f"""func.func @main(%x: {x}) -> {y} {{
      %p = qint.{kind} %x {{{attributes}}} : {x} -> {y}
      func.return %p : {y}
    }}""")


def only(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def check(module: ModuleOp, device: Device) -> Any:
    """Checks that a device computes all of a network, with the bits of the reference in both simulators."""
    assert not any(each.refusals for each in judge(module, device))
    x = np.random.default_rng(0).integers(-128, 128, shape_of(module_argument(module))).astype(np.int8)
    expected = qmlir.reference(module)(x)
    executable = qmlir.compile(module, target=device)
    assert np.array_equal(executable(x), expected)
    return executable


def module_argument(module: ModuleOp) -> Any:
    function: Any = module.body.block.first_op
    return function.body.block.args[0]


# ---------------------------------------------------------------------------------------------------------------
# Convolutions of fewer groups


@pytest.mark.parametrize("new", [1, 2, 3, 6])
def test_joined_weights(new: int) -> None:
    """The convolution is the same; each weight between channels that were apart is zero."""
    weights = np.random.default_rng(0).integers(1, 9, (12, 2, 3, 4))
    found = joined_weights(weights, 6, new)
    assert found.shape == (12, 2, 3, 24 // new)
    assert np.count_nonzero(found) == weights.size
    for output in range(12):
        at = output // 2 % (6 // new) * 4
        assert np.array_equal(found[output, ..., at : at + 4], weights[output])


@pytest.mark.parametrize(
    ("channels", "times", "words"),
    [
        (64, 1, "a convolution of 4 groups of 16 channels, 16 times its MACs"),
        (24, 1, "a convolution of 1 group of 24 channels, 24 times its MACs"),
        (3, 1, "a convolution of 1 group of 3 channels, 3 times its MACs"),
        (32, 2, "a convolution of 2 groups of 16 channels, 16 times its MACs"),
    ],
)
def test_depthwise_on_an_array_without_a_unit_for_it(channels: int, times: int, words: str) -> None:
    vta = load_device("vta").with_(SLOW)
    module = depthwise(channels, times, "shift")
    op = only(module, "qint.depthwise_conv2d")
    before = str(module)
    found = equivalent_of(op, vta)
    assert found is not None
    assert isinstance(found.form, Grouped)
    assert found.words.startswith(words)
    assert found.macs == 2 * 90 * 9 * channels * times * int(words.split(", ")[1].split()[0])
    assert str(module) == before
    executable = check(module, vta)
    assert all(c.channels <= shape_of(op.operands[0])[-1] // found.form.groups for c in convolutions(executable))


def convolutions(executable: Any) -> list[Convolve]:
    return [command for command in executable.program.commands if isinstance(command, Convolve)]


@pytest.mark.parametrize(
    ("name", "narrow"),
    [
        ("nmp", {"ops.depthwise.kernel_max": [1, 1]}),
        ("nvdla-small", {"ops.depthwise.kernel_max": [3, 2]}),
        ("gemmini", {"ops.depthwise.kernel_max": [2, 2]}),
        ("ethos-u55-like", {"ops.depthwise.kernel_max": [2, 2]}),
    ],
)
def test_depthwise_beyond_the_limits_of_the_unit(name: str, narrow: Mapping[str, Any]) -> None:
    device = load_device(name).with_({**narrow, **SLOW})
    op = only(depthwise(16, 1, device.quant.contract), "qint.depthwise_conv2d")
    assert reasons(op, device)
    check(depthwise(16, 1, device.quant.contract), device)
    check(depthwise(16, 2, device.quant.contract), device)  # two outputs for each channel: more than any unit computes


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(8, 8, 4), (48, 96, 3), (64, 32, 2), (40, 20, 10)])
@pytest.mark.parametrize("name", ["vta", "nvdla-small", "ethos-u55-like"])
def test_groups(channels: int, outputs: int, groups: int, name: str) -> None:
    device = load_device(name).with_(SLOW)
    module = grouped(channels, outputs, groups, device.quant.contract)
    check(module, device)
    op = only(module, "qint.conv2d")
    native = channels // groups % device.layout.channels == 0 and outputs // groups % device.layout.channels == 0
    assert bool(reasons(op, device)) != native
    assert native or equivalent_of(op, device) is not None


def test_the_host_keeps_what_it_computes_in_fewer_cycles() -> None:
    host = {"fallback.macs_per_cycle": 1e6, "fallback.setup": 0, "fallback.bytes_per_cycle": 1e6}
    fast = load_device("vta").with_(host)
    judged = judge(depthwise(64, 1, "shift", doubled=True), fast)
    first = judged[0].refusals
    assert first[0] == "vta has no depthwise (ops.depthwise)"
    assert first[1].startswith("what vta computes instead must take no more cycles than the host, got ")
    assert " more as a convolution of 4 groups of 16 channels, 16 times its MACs with zeros between " in first[1]


def test_what_is_alone_goes_to_the_device() -> None:
    """Nothing else of the network is the device's, for which the user asked."""
    fast = load_device("vta").with_({"fallback.macs_per_cycle": 1e6, "fallback.setup": 0})
    check(depthwise(64, 1, "shift"), fast)


def test_a_device_whose_host_computes_nothing_takes_any_equivalent() -> None:
    alone = load_device("vta").with_({"fallback.kind": "error", "fallback.macs_per_cycle": 1e6, "fallback.setup": 0})
    check(depthwise(64, 1, "shift"), alone)


# ---------------------------------------------------------------------------------------------------------------
# Pools

POOLS = [
    ((25, 5), (1, 1), "window = array<i64: 25, 5>", [8, 8]),
    ((127, 3), (1, 1), "window = array<i64: 127, 3>", [8, 2]),
    ((7, 7), (1, 1), "window = array<i64: 7, 7>", [3, 3]),
    ((12, 11), (4, 3), "window = array<i64: 9, 7>, strides = array<i64: 1, 2>", [4, 4]),
    (
        (12, 11), (6, 6), "window = array<i64: 7, 5>, strides = array<i64: 2, 2>, padding = array<i64: 3, 2, 2, 3>",
        [3, 2],
    ),
    ((20, 9), (6, 9), "window = array<i64: 8, 1>, dilations = array<i64: 2, 1>", [5, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("image", "out", "attributes", "most"), POOLS)
@pytest.mark.parametrize("name", ["nvdla-small", "vta"])
def test_maxima_of_maxima(
    image: tuple[int, int], out: tuple[int, int], attributes: str, most: list[int], name: str
) -> None:
    device = load_device(name).with_({"ops.maxpool": {"kernel_max": most}, **SLOW})
    module = pool("max_pool2d", image, out, attributes)
    assert reasons(only(module, "qint.max_pool2d"), device)
    executable = check(module, device)
    pools = [command for command in executable.program.commands if isinstance(command, Pool)]
    assert all(c.kernel_rows <= most[0] and c.kernel_columns <= most[1] for c in pools)


def test_a_window_that_does_not_reduce_has_no_equivalent() -> None:
    narrow = load_device("nvdla-small").with_({"ops.maxpool": {"kernel_max": [1, 8]}})
    assert equivalent_of(only(pool("max_pool2d", *POOLS[0][:3]), "qint.max_pool2d"), narrow) is None


@pytest.mark.parametrize(("rows", "columns"), [(25, 5), (12, 12), (49, 1), (16, 16), (11, 3)])
@pytest.mark.parametrize(
    ("name", "offset"), [("nvdla-small", 0), ("ethos-u55-like", 0), ("ethos-u55-like", 128), ("gemmini", 0)]
)
def test_a_mean_over_the_image_is_a_sum(rows: int, columns: int, name: str, offset: int) -> None:
    """Where a sum and a change of scale give every mean, they take its place; elsewhere the host computes it."""
    device = load_device(name).with_({"ops.avgpool": {"kernel_max": [4, 4]}, **SLOW})
    given = f"window = array<i64: {rows}, {columns}>, offset = {offset} : i32"
    module = pool("average_pool2d", (rows, columns), (1, 1), given)
    found = equivalent_of(only(module, "qint.average_pool2d"), device)
    if found is None:
        assert all(each.refusals for each in judge(module, device))
        return
    executable = check(module, device)
    assert any(isinstance(command, Reduce) for command in executable.program.commands)
    extreme = np.full((2, rows, columns, 6), -128, np.int8)
    for x in (extreme, -1 - extreme):
        assert np.array_equal(executable(x), qmlir.reference(module)(x))


def test_some_means_are_sums() -> None:
    """The devices above have equivalents of some means: the test of bits is of something."""
    taken = 0
    for name in ("nvdla-small", "ethos-u55-like"):
        device = load_device(name).with_({"ops.avgpool": {"kernel_max": [4, 4]}})
        for rows, columns in ((25, 5), (12, 12), (49, 1)):
            module = pool("average_pool2d", (rows, columns), (1, 1), f"window = array<i64: {rows}, {columns}>")
            taken += equivalent_of(only(module, "qint.average_pool2d"), device) is not None
    assert taken >= 4


def test_a_mean_beyond_every_window_of_a_padded_image() -> None:
    """Padding that counts makes another mean of the same sum."""
    device = load_device("nvdla-small").with_({"ops.avgpool": {"kernel_max": [4, 4]}})
    given = "window = array<i64: 9, 9>, padding = array<i64: 1, 1, 1, 1>"
    inside = pool("average_pool2d", (7, 7), (1, 1), given)
    counted = pool("average_pool2d", (7, 7), (1, 1), given + ", count_include_pad = true")
    assert equivalent_of(only(inside, "qint.average_pool2d"), device) is not None
    assert equivalent_of(only(counted, "qint.average_pool2d"), device) is None
