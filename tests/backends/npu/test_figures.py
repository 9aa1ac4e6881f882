"""No figure of any device is one that cannot be: nothing computes faster than its bound, and no memory overflows.

`impossible` (accounts.py) says what cannot be.
"""

from collections.abc import Mapping

import qmlir
from qmlir.backends.simulated import Simulated, serial
from qmlir.compiler import Pipeline
from qmlir.devices import Device, load_device, shipped_devices
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.stages import OBSERVE
from qmlir.transforms.quantize.ranges.apply_profile import fill_ranges
from tests.backends.npu.accounts import impossible
from tests.conftest import crossed

IMAGE = "tensor<1x6x6x16xf32>"
SAME = "padding = array<i64: 1, 1, 1, 1>"
NETWORK = f"""
func.func @main(%x: tensor<1x6x6x4xf32>) -> tensor<1x10xf32> {{
  %w = nn.constant <tensor<16x3x3x4xf32>, [{", ".join(str(n % 7 - 3.0) for n in range(576))}]> : tensor<16x3x3x4xf32>
  %d = nn.constant <tensor<1x3x3x16xf32>, [{", ".join(str(n % 5 - 2.0) for n in range(144))}]> : tensor<1x3x3x16xf32>
  %f = nn.constant <tensor<10x576xf32>, [{", ".join(str(n % 9 - 4.0) for n in range(5760))}]> : tensor<10x576xf32>
  %0 = nn.conv2d %x, %w {{{SAME}}} : tensor<1x6x6x4xf32>, tensor<16x3x3x4xf32> -> {IMAGE}
  %1 = nn.depthwise_conv2d %0, %d {{{SAME}}} : {IMAGE}, tensor<1x3x3x16xf32> -> {IMAGE}
  %2 = nn.add %0, %1 : {IMAGE}, {IMAGE} -> {IMAGE}
  %3 = nn.reshape %2 {{shape = array<i64: 1, 576>}} : {IMAGE} -> tensor<1x576xf32>
  %4 = nn.fully_connected %3, %f : tensor<1x576xf32>, tensor<10x576xf32> -> tensor<1x10xf32>
  func.return %4 : tensor<1x10xf32>
}}
"""

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "as it is": {},
    "little of everything": {
        "array.lanes": {"k": 1, "n": 1}, "array.modes.0.rate": 0.3, "queue.0.bytes_per_cycle": 0.3,
        "memory.0.bytes_per_cycle": {"read": 0.7, "write": 0.3}, "queue.0.setup": 500, "queue.1.setup": 300,
    },
    "much of everything": {
        "array.lanes": {"k": 64, "n": 64, "m": 8}, "queue.0.bytes_per_cycle": 64.0, "queue.0.setup": 0,
        "queue.1.setup": 0, "fallback.bytes_per_cycle": 64.0,
    },
    "more depthwise lanes than others": {
        "array.lanes": {"k": 2, "n": 2}, "array.depthwise": {"lanes": {"c": 16, "taps": 9, "m": 4}},
        "ops.depthwise": {}, "array.fold": {},
    },
    "setups that overlap, passes that do not": {
        "queue.0.outstanding": 8, "queue.1.outstanding": 8, "queue.1.setup": 100,
        "array.fold": {"preload": 16, "fill": 16, "drain": 5, "overlapped": False},
    },
    "waits for everything": {"sync": {"kind": "barrier"}, "array.fold": {"fill": 64}},
}  # fmt: skip


def compiled(device: Device) -> Simulated:
    """The network on a device, with ranges that are as good as any for its cycles."""
    module = Pipeline(*OBSERVE)(parse_text(make_context(), NETWORK, "network"))
    fill_ranges(module)
    return qmlir.compile(qmlir.quantize(module, target=device), target=device)


@crossed({"name": shipped_devices(), "variant": VARIANTS})
def test_nothing_is_faster_than_its_bound(name: str, variant: str) -> None:
    device = load_device(name).with_(VARIANTS[variant])
    executable = compiled(device)
    assert not impossible(executable)
    alone = executable.with_program(serial(executable.program, device))
    assert not impossible(alone)
    assert executable.predicted.least <= alone.predicted_cycles
    report = executable.predicted
    assert all(layer.cycles >= layer.bound > 0 for layer in report.layers if layer.products)


def test_depthwise_lanes_make_the_peak() -> None:
    """With the array's lanes as the peak, 36 products in a cycle once were 900 % of it."""
    device = load_device("nmp").with_(VARIANTS["more depthwise lanes than others"])
    (layer,) = (each for each in compiled(device).predicted.layers if each.products == 6 * 6 * 16 * 9)
    assert layer.products > 2 * 2 * layer.cycles
    assert layer.products <= device.peak_macs * layer.bound
