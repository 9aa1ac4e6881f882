"""What a device makes of whole networks: counted, with the reasons, and consistent with the limits."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.legality.limits import share_on_device
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text


def filled(value: float, count: int) -> str:
    """As many equal numbers."""
    return ", ".join([str(value)] * count)


SAME = "padding = array<i64: 1, 1, 1, 1>"
IMAGE = "tensor<1x8x8x16xf32>"
NETWORK = f"""
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x10xf32> {{
  %w = nn.constant <tensor<16x3x3x4xf32>, [{filled(0.5, 16 * 3 * 3 * 4)}]> : tensor<16x3x3x4xf32>
  %v = nn.constant <tensor<1x3x3x16xf32>, [{filled(0.25, 1 * 3 * 3 * 16)}]> : tensor<1x3x3x16xf32>
  %f = nn.constant <tensor<10x1024xf32>, [{filled(0.125, 10 * 1024)}]> : tensor<10x1024xf32>
  %0 = nn.conv2d %x, %w {{{SAME}}} : tensor<1x8x8x4xf32>, tensor<16x3x3x4xf32> -> {IMAGE}
  %1 = nn.depthwise_conv2d %0, %v {{{SAME}}} : {IMAGE}, tensor<1x3x3x16xf32> -> {IMAGE}
  %2 = nn.reshape %1 {{shape = array<i64: 1, 1024>}} : {IMAGE} -> tensor<1x1024xf32>
  %3 = nn.fully_connected %2, %f : tensor<1x1024xf32>, tensor<10x1024xf32> -> tensor<1x10xf32>
  func.return %3 : tensor<1x10xf32>
}}
"""


def network() -> ModuleOp:
    return parse_text(make_context(), NETWORK, "network")


@pytest.mark.parametrize("name", shipped_devices())
def test_a_float_network(name: str) -> None:
    judged = judge(network(), name)
    macs = {v.operation: v.macs for v in judged if v.macs}
    assert macs == {
        "qint.conv2d": 64 * 16 * 36,
        "qint.depthwise_conv2d": 64 * 16 * 9,
        "qint.fully_connected": 10 * 1024,
    }
    refused = {v.operation: v.refusals for v in judged if v.refusals}
    assert refused == {}
    assert share_on_device(judged) == 1


def test_what_a_device_lacks_stays_on_a_fast_host() -> None:
    host = {"fallback.macs_per_cycle": 1e6, "fallback.bytes_per_cycle": 1e6, "fallback.setup": 0}
    judged = judge(network(), load_device("vta").with_(host))
    refused = {v.operation: v.refusals for v in judged if v.refusals}
    lacks, dearer = refused["qint.depthwise_conv2d"]
    assert lacks == "vta has no depthwise (ops.depthwise)"
    assert dearer.startswith("what vta computes instead must take no more cycles than the host, got ")
    with_it = "qint.depthwise_conv2d, with which it runs, stays on the host: vta has no depthwise (ops.depthwise)"
    assert (with_it,) in [v.refusals for v in judged if v.operation == "qint.requantize"]


def test_a_network_stays_as_it_was() -> None:
    module = network()
    before = str(module)
    judge(module, "nmp")
    assert str(module) == before


def test_an_asymmetric_network_on_a_device_without_zero_points() -> None:
    module = network()
    data = [np.random.default_rng(0).standard_normal((1, 8, 8, 4)).astype(np.float32) + 1]
    quantized = qmlir.quantize(module, qmlir.profile(module, data), schema="asymmetric")
    judged = judge(quantized, load_device("gemmini"))
    reasons = {v.operation: v.refusals for v in judged}
    assert any("zero points are 0" in r for r in reasons["qint.conv2d"])
    assert not any(v.refusals for v in judge(quantized, load_device("ethos-u55-like")))


SUM = """
func.func @main(%x: tensor<1x8x8x4xf32>, %y: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> {
  %0 = nn.add %x, %y : tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32> -> tensor<1x8x8x4xf32>
  func.return %0 : tensor<1x8x8x4xf32>
}
"""


@pytest.mark.parametrize("name", shipped_devices())
def test_a_sum_is_one_in_integers_however_the_device_changes_scales(name: str) -> None:
    judged = judge(parse_text(make_context(), SUM, "sum"), name)
    assert [(v.operation, v.refusals) for v in judged] == [("qint.add", ())]


def empty_slice(*shape: int) -> str:
    """A network that slices nothing off the last dimension of a sum."""
    whole = f"tensor<{'x'.join(map(str, shape))}xf32>"
    none = f"tensor<{'x'.join(map(str, (*shape[:-1], 0)))}xf32>"
    order = ", ".join(map(str, range(len(shape))))
    offsets, sizes = f"{'0, ' * (len(shape) - 1)}{shape[-1]}", ", ".join(map(str, (*shape[:-1], 0)))
    return f"""
func.func @main(%x: {whole}) -> ({whole}, {none}) {{
  %0 = nn.add %x, %x : {whole}, {whole} -> {whole}
  %1 = nn.slice %0 {{offsets = array<i64: {offsets}>, sizes = array<i64: {sizes}>,
    strides = array<i64: {", ".join("1" * len(shape))}>}} : {whole} -> {none}
  %2 = nn.transpose %1 {{permutation = array<i64: {order}>}} : {none} -> {none}
  func.return %0, %2 : {whole}, {none}
}}
"""


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 4, 3, 2), (2, 2, 3, 1, 4)])
def test_what_has_no_elements_stays_on_the_host(name: str, shape: tuple[int, ...]) -> None:
    judged = judge(parse_text(make_context(), empty_slice(*shape), "empty"), name)
    assert {v.refusals for v in judged if v.operation in ("nn.slice", "nn.transpose")} == {("tensors have elements",)}


PRODUCT = """
func.func @main(%x: tensor<1x16x16xf32>, %y: tensor<1x16x16xf32>) -> tensor<1x16x16xf32> {
  %0 = nn.matmul %x, %y : tensor<1x16x16xf32>, tensor<1x16x16xf32> -> tensor<1x16x16xf32>
  func.return %0 : tensor<1x16x16xf32>
}
"""


@pytest.mark.parametrize("name", shipped_devices())
def test_a_product_of_two_computed_matrices_needs_its_key(name: str) -> None:
    refused = {v.operation: v.refusals for v in judge(parse_text(make_context(), PRODUCT, "product"), name)}
    computes = load_device(name).ops.matmul is not None
    assert refused["qint.matmul"] == (() if computes else (f"{name} has no matmul (ops.matmul)",))
