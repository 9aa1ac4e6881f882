"""Certificates as commands write them, of each kind of artefact, for tests that damage and forge certificates.

Each has its folder: `net.json` is the certificate, and its artefact lies beside it.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import qmlir
from qmlir.cli.main import main
from tests.checker.networks import floats
from tests.frontends.onnx.decoder import PLACES, STATES, decoder, samples

NAME = "net.json"

SIZES = {"x": (1, 6, 6, 2)}

IMAGE, WIDE = "tensor<1x6x6x2xf32>", "tensor<1x6x6x4xf32>"

CONVOLUTION = f"""
  %w = {{}} : tensor<4x3x3x2xf32>
  %b = {{}} : tensor<4xf32>
  %0 = nn.conv2d %x, %w, %b {{{{padding = array<i64: 1, 1, 1, 1>, qmlir.name = #qmlir.name<nodes ["first"]>}}}}
    : {IMAGE}, tensor<4x3x3x2xf32>, tensor<4xf32> -> {WIDE}"""
"""The first layer of each network."""

TABLES = f"""
  %1 = nn.gelu %0 : {WIDE} -> {WIDE}
  %2 = nn.floor %1 : {WIDE} -> {WIDE}
  %y = nn.squared_difference %2, %0 : {WIDE}, {WIDE} -> {WIDE}"""

SUMS = f"""
  %1 = nn.add %0, %0 : {WIDE}, {WIDE} -> {WIDE}
  %2 = nn.average_pool2d %1 {{window = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>}} : {WIDE} -> {WIDE}
  %y = nn.softmax %2 {{axis = 3 : i64}} : {WIDE} -> {WIDE}"""

TAPS = "#qmlir.weights<tensor<6x2xi64>, [0, 1, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]>"
PARTS = "#qmlir.weights<tensor<6x2xf64>, [1.0, 0.0, 0.3, 0.7, 0.5, 0.5, 0.25, 0.75, 0.6, 0.4, 0.0, 1.0]>"

RESIZED = f"""
  %1 = nn.clamp %0 {{min = -1.0 : f32, max = 2.0 : f32}} : {WIDE} -> {WIDE}
  %r = nn.resize %1 {{axes = array<i64: 1>, taps = [{TAPS}], weights = [{PARTS}]}} : {WIDE} -> {WIDE}
  %2 = nn.sign %r : {WIDE} -> {WIDE}
  %y = nn.mul %2, %1 : {WIDE}, {WIDE} -> {WIDE}"""

LEAKY = f"""
  %1 = nn.lp_normalization %0 {{axis = 3 : i64, p = 2 : i64}} : {WIDE} -> {WIDE}
  %y = nn.leaky_relu %1 {{alpha = 0.125 : f32}} : {WIDE} -> {WIDE}"""

DENSE = floats(4, 144, scale=0.1)

GROUPED = f"""
  %1 = nn.reshape %0 {{shape = array<i64: 1, 144>}} : {WIDE} -> tensor<1x144xf32>
  %v = {DENSE} : tensor<4x144xf32>
  %2 = nn.fully_connected %1, %v : tensor<1x144xf32>, tensor<4x144xf32> -> tensor<1x4xf32>
  %3 = nn.reshape %2 {{shape = array<i64: 1, 1, 1, 4>}} : tensor<1x4xf32> -> tensor<1x1x1x4xf32>
  %y = nn.add %3, %0 : tensor<1x1x1x4xf32>, {WIDE} -> {WIDE}"""

NORM = f"""
  %1 = nn.lp_normalization %0 {{axis = 3 : i64, p = 2 : i64}} : {WIDE} -> {WIDE}
  %y = nn.sigmoid %1 : {WIDE} -> {WIDE}"""

ROWS = "tensor<1x36x4xf32>"

ATTENTION = f"""
  %1 = nn.reshape %0 {{shape = array<i64: 1, 36, 4>}} : {WIDE} -> {ROWS}
  %2 = nn.transpose %1 {{permutation = array<i64: 0, 2, 1>}} : {ROWS} -> tensor<1x4x36xf32>
  %3 = nn.matmul %1, %2 : {ROWS}, tensor<1x4x36xf32> -> tensor<1x36x36xf32>
  %4 = nn.softmax %3 {{axis = 2 : i64}} : tensor<1x36x36xf32> -> tensor<1x36x36xf32>
  %5 = nn.matmul %4, %1 : tensor<1x36x36xf32>, {ROWS} -> {ROWS}
  %y = nn.reshape %5 {{shape = array<i64: 1, 6, 6, 4>}} : {ROWS} -> {WIDE}"""


def _network(body: str, folder: Path) -> Path:
    """A float network of a convolution and the operations of `body`."""
    rng_weights = CONVOLUTION.format(floats(4, 3, 3, 2, scale=0.3), floats(4))
    text = f"func.func @main(%x: {IMAGE}) -> {WIDE} {{{rng_weights}{body}\n  func.return %y : {WIDE}\n}}\n"
    (folder / "float.mlir").write_text(text)
    return folder / "float.mlir"


def _samples() -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=SIZES["x"]).astype(np.float32) for _ in range(4)]


def _quantized(folder: Path, body: str, **options: Any) -> Path:
    network = qmlir.quantize(_network(body, folder), data=_samples(), **options)
    qmlir.save(network, folder / "q.mlir")
    return folder / "q.mlir"


def _certified(model: Path) -> Path:
    assert main(["certify", str(model), "-o", str(model.parent / NAME), "--quiet"]) == 0
    return model.parent / NAME


def of_network(body: str, **options: Any) -> Callable[[Path], Path]:
    """What quantizes a network with options and certifies it."""
    return lambda folder: _certified(_quantized(folder, body, **options))


def program(device: str, changes: Mapping[str, Any] | None = None, **options: Any) -> Callable[[Path], Path]:
    """What compiles a network for a device and certifies its program."""

    def make(folder: Path) -> Path:
        target = qmlir.load_device(device).with_({"fallback.macs_per_cycle": 0.001, **(changes or {})})
        network = qmlir.quantize(_network(SUMS, folder), data=_samples(), target=target, **options)
        qmlir.compile(network, target=target).save(folder / "net.npu")
        return _certified(folder / "net.npu")

    return make


def machine_code(folder: Path) -> Path:
    """Compiles a network to an object file and certifies that."""
    network = _quantized(folder, TABLES)
    assert main(["compile", str(network), "-o", str(folder / "net.o"), "--quiet"]) == 0
    return _certified(folder / "net.o")


def entries(folder: Path) -> Path:
    """Quantizes a decoder for calls of four rows and of one, and certifies both."""
    onnx.save(decoder(rows="rows"), folder / "decoder.onnx")
    sizes = {"prefill": 4, "decode": 1}
    networks = {n: qmlir.load(folder / "decoder.onnx", bind={"rows": r}, state=STATES) for n, r in sizes.items()}
    data = [samples(PLACES // 4, seed, 4) for seed in range(3)]
    qmlir.save(qmlir.quantize(networks, data=data, measure=False), folder / "q.mlir")
    return _certified(folder / "q.mlir")


CERTIFICATES: Mapping[str, Callable[[Path], Path]] = {
    "int8": of_network(SUMS, schema="symmetric", per_channel=False),
    "per channel": of_network(RESIZED, per_channel=True),
    "int16": of_network(LEAKY, precision="int16"),
    "tables": of_network(TABLES),
    "norm": of_network(NORM),
    "attention": of_network(ATTENTION),
    "divided rows": of_network(GROUPED, activations="dynamic"),
    "few bits": of_network(SUMS, weight_precision="int4"),
    "groups": of_network(GROUPED, weight_precision="int4", granularity="group-32"),
    "codebook": of_network(SUMS, weight_precision="int4", weight_levels="codebook"),
    "entries": entries,
    "program": program("nmp"),
    "packed program": program("nmp", {"queue.exec.unpacks": [3, 4]}, weight_precision="int4"),
}
"""Name → what makes a certificate in a folder."""

if shutil.which("objdump") or shutil.which("llvm-objdump"):
    CERTIFICATES = {**CERTIFICATES, "machine code": machine_code}


def read(path: Path) -> dict[str, Any]:
    """The content of a certificate."""
    return json.loads(path.read_text())
