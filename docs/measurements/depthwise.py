"""GMAC/s of MobileNetV2's depthwise layers, each a network by itself: `python -m docs.measurements.depthwise`.

Each figure is the least time of many calls on one thread; arguments name the rounding contracts to measure.
"""

import ctypes
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.cpu.jit import Executable
from qmlir.backends.cpu.llvm import host_cpu
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text

LAYERS = (
    (112, 32, 1),
    (112, 96, 2),
    (56, 144, 1),
    (56, 144, 2),
    (28, 192, 1),
    (14, 384, 1),
    (14, 576, 1),
    (7, 960, 1),
)
"""Height and width of the image, channels, stride."""

SECONDS = 0.5
"""How long each layer is measured."""


def layer(size: int, channels: int, stride: int, contract: str, extent: int = 3) -> ModuleOp:
    """A depthwise convolution of int8 and its requantization; without, as floats, for the contract `f32`."""
    rng = np.random.default_rng(channels)
    output, pad = -(-size // stride), extent // 2
    window = f"{{padding = array<i64: {pad}, {pad}, {pad}, {pad}>, strides = array<i64: {stride}, {stride}>"
    image, result = f"1x{size}x{size}x{channels}", f"1x{output}x{output}x{channels}"
    kernel = f"1x{extent}x{extent}x{channels}"
    if contract == "f32":
        numbers = ", ".join(str(float(w)) for w in rng.integers(-127, 128, extent * extent * channels))
        text = f"""func.func @main(%x: tensor<{image}xf32>) -> tensor<{result}xf32> {{
          %w = nn.constant <tensor<{kernel}xf32>, [{numbers}]> : tensor<{kernel}xf32>
          %y = nn.depthwise_conv2d %x, %w {window}}} : tensor<{image}xf32>, tensor<{kernel}xf32> -> tensor<{result}xf32>
          func.return %y : tensor<{result}xf32>
        }}"""
        return parse_text(make_context(), text, "layer")
    weights = ", ".join(map(str, rng.integers(-127, 128, extent * extent * channels)))
    bias = ", ".join(map(str, rng.integers(-9999, 9999, channels)))
    multiplier = ", ".join(map(str, 128 * rng.integers(1 << 23, 1 << 24, channels)))
    shift = ", ".join(["-7"] * channels)
    constant = ", constant = array<i32: 3, -1>" if contract == "float_sum" else ""
    text = f"""func.func @main(%x: tensor<{image}xi8>) -> tensor<{result}xi8> {{
      %w = nn.constant <tensor<{kernel}xi8>, [{weights}]> : tensor<{kernel}xi8>
      %b = nn.constant <tensor<{channels}xi32>, [{bias}]> : tensor<{channels}xi32>
      %acc = qint.depthwise_conv2d %x, %w, %b {window}, zero_point = -128 : i32}}
        : tensor<{image}xi8>, tensor<{kernel}xi8>, tensor<{channels}xi32> -> tensor<{result}xi32>
      %y = qint.requantize %acc {{multiplier = array<i32: {multiplier}>, shift = array<i32: {shift}>,
        contract = "{contract}", zero_point = -128 : i32, min = -128 : i32, max = 127 : i32{constant}}}
        : tensor<{result}xi32> -> tensor<{result}xi8>
      func.return %y : tensor<{result}xi8>
    }}"""
    return parse_text(make_context(), text, "layer")


def least_seconds(network: Executable, seconds: float = SECONDS) -> float:
    """The least time of a call into the machine code, on buffers that exist already."""
    rng = np.random.default_rng(0)
    tables: list[Any] = []
    for specs in (network.signature.inputs, network.signature.outputs):
        arrays = [rng.integers(-128, 128, s.shape).astype(s.dtype) for s in specs]
        tables.append(((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)), arrays))
    least, stop = float("inf"), time.perf_counter() + seconds
    frame, weights = network._new_frame(), network.weights.ctypes.data
    while time.perf_counter() < stop:
        start = time.perf_counter()
        network._function(weights, frame.arena_address, tables[0][0], tables[1][0])
        least = min(least, time.perf_counter() - start)
    return least


def processor() -> str:
    """The name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    """Measures all layers."""
    contracts = sys.argv[1:] or ["single", "float_even", "float_sum", "f32"]
    sys.stdout.write(f"{processor()}, {host_cpu()}\n")
    sys.stdout.write("GMAC/s".ljust(17) + "".join(c.rjust(12) for c in contracts) + "\n")
    for size, channels, stride in LAYERS:
        macs = (-(-size // stride)) ** 2 * channels * 9
        sys.stdout.write(f"{size}x{size}x{channels} s{stride}".ljust(17))
        for contract in contracts:
            network = qmlir.compile(layer(size, channels, stride, contract))
            sys.stdout.write(f"{macs / least_seconds(network) / 1e9:12.1f}")
            sys.stdout.flush()
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
