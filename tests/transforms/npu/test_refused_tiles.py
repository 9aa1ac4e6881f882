"""Tiles whose commands a device has no words for: every tiled operation gets smaller ones, where there are any."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.simulated import Simulated
from qmlir.devices import Device
from qmlir.devices.model.encoder import Encoder, Issued, register_encoder
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import Arithmetic, Convolve, Move, Normalize, Pool, Reduce, Softmax
from qmlir.isa.encoding import Command

DEVICE = "npu-transformer"

Extent = Callable[[Any], int]

EXTENTS: dict[str, tuple[type[Command], Extent, int]] = {
    "rows of a sum": (Arithmetic, lambda c: c.rows, 3),
    "columns of a sum": (Arithmetic, lambda c: c.columns, 5),
    "channels of a sum": (Arithmetic, lambda c: c.channels, 7),
    "rows of a pool": (Pool, lambda c: c.out_rows, 2),
    "columns that a pool reads": (Pool, lambda c: c.columns, 6),
    "channels of a pool": (Pool, lambda c: c.channels, 3),
    "elements of a mean": (Reduce, lambda c: c.rows * c.columns * c.channels, 20),
    "channels of a mean": (Reduce, lambda c: c.channels, 2),
    "rows of a softmax": (Softmax, lambda c: c.rows, 5),
    "rows of a normalization": (Normalize, lambda c: c.rows, 1),
    "bytes of a transfer of a tensor": (Move, lambda c: c.size * c.rows * c.planes, 1100),
    "terms of a fully connected layer": (Convolve, lambda c: c.channels * c.out_channels, 64),
}
"""What an encoder limits: the command, its extent, and the most that words say."""


class Limited(Encoder):
    """The words of the instruction set, with an extent of one kind of command in few bits."""

    limit: tuple[type[Command], Extent, int]

    def refuses(self, command: Command) -> str | None:
        kind, extent, most = self.limit
        if isinstance(command, kind) and extent(command) > most:
            return f"words say at most {most}, got {extent(command)}"
        return None

    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        return (each.command.words() for each in commands)


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.plugins._registered", {})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sum, a pool, a layer normalization, a softmax, a transposition, a mean and a fully connected layer."""
    path = tmp_path_factory.mktemp("refused") / "net.onnx"
    rng = np.random.default_rng(3)
    held = {
        "scale": rng.standard_normal(16), "offset": rng.standard_normal(16), "matrix": rng.standard_normal((16, 24)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Add", ["x", "z"], ["sum"], "sum"),
        helper.make_node("MaxPool", ["sum"], ["pool"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["pool"], ["last"], "last", perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["last", "scale", "offset"], ["norm"], "norm"),
        helper.make_node("Softmax", ["norm"], ["soft"], "soft"),
        helper.make_node("Transpose", ["soft"], ["first"], "first", perm=[0, 3, 2, 1]),
        helper.make_node("GlobalAveragePool", ["first"], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "matrix"], ["y"], "fc"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 12, 12]) for n in "xz"]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 24])]
    constants = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in held.items()]
    graph = helper.make_graph(nodes, "net", ends, out, constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


SAMPLES = np.random.default_rng(0).standard_normal((4, 2, 1, 16, 12, 12)).astype(np.float32)


def quantized(model: Path, target: Device | str) -> ModuleOp:
    samples = [dict(zip("xz", two, strict=True)) for two in SAMPLES]
    return qmlir.quantize(model, data=samples, target=target, measure=False)


def limited(kind: type[Command], extent: Extent, most: int) -> Device:
    register_encoder("limited", type("Narrow", (Limited,), {"limit": (kind, extent, most)}))
    return qmlir.load_device(DEVICE).with_({"encoder": "limited"})


@pytest.fixture(scope="module")
def unlimited(model: Path) -> Simulated:
    return qmlir.compile(quantized(model, DEVICE), target=DEVICE)


@pytest.mark.parametrize("limit", EXTENTS)
def test_tiles_are_as_small_as_words_need(limit: str, model: Path, unlimited: Simulated) -> None:
    kind, extent, most = EXTENTS[limit]
    assert max(extent(c) for c in unlimited.program.commands if isinstance(c, kind)) > most
    device = limited(kind, extent, most)
    q = quantized(model, device)
    program = qmlir.compile(q, target=device)
    extents = [extent(c) for c in program.program.commands if isinstance(c, kind)]
    assert extents
    assert max(extents) <= most
    assert not any("words say" in entry.reason for entry in program.ledger)
    sample = dict(zip("xz", SAMPLES[0], strict=True))
    assert (program(sample) == qmlir.reference(q)(sample)).all()


def test_larger_tiles_come_first(model: Path) -> None:
    kind, extent, most = EXTENTS["channels of a mean"]
    device = limited(kind, extent, most)
    program = qmlir.compile(quantized(model, device), target=device).program
    assert [(c.rows * c.columns, c.channels) for c in program.commands if isinstance(c, Reduce)] == [(36, 2)] * 8


def test_no_tile_at_all_names_the_layer_and_the_reason(model: Path) -> None:
    device = limited(Pool, lambda c: c.rows, 2)  # a window of three rows needs three of them inside the image
    said = r'^npu.layer "pool\S*": the smallest tile: words say at most 2, got 3 \(encoder limited\)$'
    with pytest.raises(UnsupportedError, match=said):
        qmlir.compile(quantized(model, device), target=device)
