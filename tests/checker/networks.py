"""Certified networks for the tests of the checker, small enough to be checked a hundred times."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.certify import certificate_of, file_hashes

RNG = np.random.default_rng(20)


def floats(*shape: int, scale: float = 1.0) -> str:
    """A constant of normally distributed floats, as text."""
    array = (RNG.normal(size=shape) * scale).astype(np.float32)
    return f'nn.constant <tensor<{"x".join(map(str, shape))}xf32>, "0x{array.tobytes().hex()}">'


def text() -> str:
    """A float network with convolutions, tables of one operand and of two, a sum, a mean and a softmax."""
    image, wide = "tensor<1x6x6x2xf32>", "tensor<1x6x6x6xf32>"
    return f"""
func.func @main(%x: {image}) -> tensor<1x5xf32> {{
  %w = {floats(6, 3, 3, 2, scale=0.3)} : tensor<6x3x3x2xf32>
  %b = {floats(6)} : tensor<6xf32>
  %0 = nn.conv2d %x, %w, %b {{padding = array<i64: 1, 1, 1, 1>}} : {image}, tensor<6x3x3x2xf32>, tensor<6xf32> -> {wide}
  %1 = nn.sigmoid %0 : {wide} -> {wide}
  %d = {floats(1, 3, 3, 6, scale=0.3)} : tensor<1x3x3x6xf32>
  %2 = nn.depthwise_conv2d %1, %d {{padding = array<i64: 1, 1, 1, 1>}} : {wide}, tensor<1x3x3x6xf32> -> {wide}
  %3 = nn.gelu %2 : {wide} -> {wide}
  %4 = nn.add %3, %1 : {wide}, {wide} -> {wide}
  %p = nn.average_pool2d %4 {{window = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>}} : {wide} -> {wide}
  %s = nn.squared_difference %p, %1 : {wide}, {wide} -> {wide}
  %5 = nn.global_average_pool %s : {wide} -> tensor<1x1x1x6xf32>
  %6 = nn.reshape %5 {{shape = array<i64: 1, 6>}} : tensor<1x1x1x6xf32> -> tensor<1x6xf32>
  %f = {floats(5, 6)} : tensor<5x6xf32>
  %g = {floats(5)} : tensor<5xf32>
  %7 = nn.fully_connected %6, %f, %g : tensor<1x6xf32>, tensor<5x6xf32>, tensor<5xf32> -> tensor<1x5xf32>
  %8 = nn.softmax %7 {{axis = 1 : i64}} : tensor<1x5xf32> -> tensor<1x5xf32>
  func.return %8 : tensor<1x5xf32>
}}
"""


UNCOMPILED = {
    "source": {"file": "source.mlir", "sha256": 64 * "0"},
    "code": [
        {"form": form, "functions": 0, "instructions": 0, "floats": [], "moves": {}} for form in ("LLVM IR", "x86_64")
    ],
}
"""What `qmlir certify` adds to a certificate, in place of compiling the network each time."""


@dataclass(frozen=True)
class Certified:
    """A certificate and its artefact in a folder."""

    folder: Path
    integers: ModuleOp
    certificate: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.folder / "certificate.json"

    def write(self, folder: Path, *, fresh: bool = True) -> "Certified":
        """The same in another folder; with `fresh`, the certificate has the hashes of the files that are written."""
        files = qmlir.save(self.integers, folder / "net.mlir")
        certificate = {**UNCOMPILED, **self.certificate}
        if fresh:
            certificate["artefact"] = file_hashes(files)
        (folder / "certificate.json").write_text(json.dumps(certificate))
        return Certified(folder, self.integers, certificate)


def certified(module: ModuleOp, folder: Path) -> Certified:
    """Certifies a quantized network."""
    return Certified(folder, *certificate_of(module)).write(folder)


def quantized(folder: Path, precision: Any = "int8") -> ModuleOp:
    """The network of this module, quantized."""
    (folder / "float.mlir").write_text(text())
    samples = [RNG.normal(size=(1, 6, 6, 2)).astype(np.float32) for _ in range(8)]
    return qmlir.quantize(folder / "float.mlir", data=samples, precision=precision)


def small(folder: Path, precision: Any = "int8") -> Certified:
    """The network of this module, quantized and certified."""
    return certified(quantized(folder, precision), folder)
