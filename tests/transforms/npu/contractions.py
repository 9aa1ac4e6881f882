"""Layers with a contraction, written out on the qint level, and how they run on a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.report import predicted_cycles
from qmlir.backends.npu.stream import Program
from qmlir.backends.reference import Reference
from qmlir.backends.simulated import assemble
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import load_device
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.numerics.contracts import CONTRACTS
from qmlir.stages import TO_COMMANDS, to_layers

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Convolution:
    """A convolution, its change of scale, and perhaps a sum with a second input and a table.

    kernel  output channels, rows, columns, input channels of the weights; of a depthwise one the first is 1
    """

    image: tuple[int, int, int, int]
    kernel: tuple[int, int, int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    depthwise: bool = False
    bits: int = 8
    bias: bool = True
    per_channel: bool = False
    residual: bool = False

    @property
    def result(self) -> tuple[int, int, int, int]:
        """Shape of the result."""
        sizes = [
            (size + before + after - (kernel - 1) * dilation - 1) // stride + 1
            for size, kernel, stride, dilation, before, after in zip(
                self.image[1:3], self.kernel[1:3], self.strides, self.dilations, self.padding[::2], self.padding[1::2],
                strict=True,
            )
        ]  # fmt: skip
        return self.image[0], sizes[0], sizes[1], self.kernel[3] if self.depthwise else self.kernel[0]

    def module(self, contract: str, *, whole: bool = False) -> ModuleOp:
        """A function of the layer, whose weights are drawn; `whole` adds the integers of a residual as they are."""
        draw = np.random.default_rng(prod(self.kernel))
        limit = (1 << self.bits - 1) - 1
        channels = self.result[3]
        weights = _listed(draw.integers(-limit, limit + 1, prod(self.kernel)))
        bias = _listed(draw.integers(-1000, 1000, channels))
        element, sums = f"i{self.bits}", "i32" if self.bits == 8 else "i64"
        x, w, b = _type(self.image, element), _type(self.kernel, element), _type((channels,), sums)
        acc, y = _type(self.result, sums), _type(self.result, element)
        terms = prod(self.kernel[1:]) if not self.depthwise else prod(self.kernel[1:3])
        shift = -(self.bits - 1) - terms.bit_length() // 2
        several = range(channels if self.per_channel else 1)
        with_bias, of_bias = (", %b", f", {b}") if self.bias else ("", "")
        name = "depthwise_conv2d" if self.depthwise else "conv2d"
        groups = f", groups = {self.groups} : i64" if self.groups > 1 else ""
        last = "%r"
        lines = [
            f"%w = nn.constant <{w}, {weights}> : {w}",
            f"%b = nn.constant <{b}, {bias}> : {b}",
            f"%acc = qint.{name} %x, %w{with_bias} {{strides = array<i64: {_listed(self.strides)[1:-1]}>, "
            f"dilations = array<i64: {_listed(self.dilations)[1:-1]}>, "
            f"padding = array<i64: {_listed(self.padding)[1:-1]}>{groups}}} : {x}, {w}{of_bias} -> {acc}",
            f"%r = qint.requantize %acc {{multiplier = array<i32: {', '.join('1073741824' for _ in several)}>, "
            f"shift = array<i32: {', '.join(str(shift - n % 2) for n in several)}>, "
            f'contract = "{contract}", min = {-limit - 1} : i32, max = {limit} : i32}} : {acc} -> {y}',
        ]
        if self.residual:
            factors = "2, 2>, shift = 1" if whole else "536870912, 1073741824>, shift = 30"
            lines.append(
                f"%s = qint.add %r, %z {{multipliers = array<i64: {factors} : i32, "
                f"min = 0 : i32, max = {limit} : i32}} : {y}, {y} -> {y}"
            )
            last = "%s"
        given = f"%x: {x}, %z: {y}" if self.residual else f"%x: {x}"
        body = "\n  ".join(lines)
        text = f"func.func @main({given}) -> {y} {{\n  {body}\n  func.return {last} : {y}\n}}\n"
        return parse_text(make_context(), text, "layer")

    def inputs(self, count: int) -> list[list[Array]]:
        """Inputs drawn from all there are."""
        draw = np.random.default_rng(1)
        half = 1 << self.bits - 1
        shapes = [self.image, self.result] if self.residual else [self.image]
        return [
            [draw.integers(-half, half, shape).astype(f"i{self.bits // 8}") for shape in shapes] for _ in range(count)
        ]


def program(module: ModuleOp, device: str | Path) -> Program:
    """A module on the qint level as commands of a device."""
    return assemble(Pipeline(*to_layers(str(device)), *TO_COMMANDS)(module))


def mismatches(layer: Convolution, device: str | Path, count: int = 2) -> int:
    """How many numbers of a device differ from the reference; its cycles are those predicted."""
    described = load_device(str(device))
    contract = described.quant.contract
    whole = described.ops.add is not None and described.ops.add.operand_scale == "rounded"
    module = layer.module(contract if layer.bits == 8 else CONTRACTS[contract].wide or contract, whole=whole)
    made = program(module, device)
    assert not made.routines, "the device computes all of it"
    simulator, reference = Simulator(made, described, {}), Reference(main_function(module))
    wrong = 0
    for inputs in layer.inputs(count):
        (got,), (wanted,) = simulator.run(*inputs), reference.run(_named(reference, inputs))
        assert got.shape == wanted.shape
        wrong += int((got != wanted).sum())
    assert simulator.report is not None
    assert simulator.report.cycles == predicted_cycles(made, described)
    return wrong


def _named(reference: Reference, inputs: Sequence[Array]) -> dict[str, Array]:
    return {spec.name: array for spec, array in zip(reference.signature.inputs, inputs, strict=True)}


def _listed(numbers: Any) -> str:
    return f"[{', '.join(str(int(n)) for n in numbers)}]"


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"
