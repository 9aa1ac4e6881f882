"""Data movement between a network's inputs and the operations that compute: integers from the first operation on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker import check_certificate
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import PipelineError, UnsupportedError
from qmlir.ir.interfaces import Array, element_of
from qmlir.numerics import fixed_point
from tests.checker.networks import certified
from tests.frontends.onnx.agreement import floats, model, node
from tests.frontends.tflite.cases import CASES

RNG = np.random.default_rng(14)
IMAGE, ROWS, VOLUME = [1, 3, 8, 8], [1, 3, 8], [1, 3, 4, 6, 4]


@dataclass(frozen=True)
class Network:
    """An ONNX network: its nodes, the shapes of its inputs, its constants and its outputs."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, Sequence[int]]
    constants: Mapping[str, Array]
    outputs: Sequence[str] = ("y",)
    opset: int = 17

    def save(self, folder: Path) -> Path:
        """Writes the network's file."""
        proto = model(self.nodes, self.inputs, self.constants, outputs=self.outputs, opset=self.opset)
        onnx.save(proto, folder / "net.onnx")
        return folder / "net.onnx"

    def samples(self, count: int = 4) -> list[dict[str, Array]]:
        """Uniformly distributed inputs."""
        return [{k: RNG.uniform(-2, 2, s).astype(np.float32) for k, s in self.inputs.items()} for _ in range(count)]


def integers(*values: int) -> Array:
    """A constant of int64."""
    return np.array(values, np.int64)


def layer(x: str, y: str = "y", w: str = "w", **attributes: Any) -> onnx.NodeProto:
    """A convolution."""
    return node("Conv", f"{x} {w}", y, **attributes)


def phases(x: str) -> list[onnx.NodeProto]:
    """The four slices of an image with every second row and column, joined: the Focus stem of YOLO."""
    slices = [node("Slice", f"{x} from{i} to axes steps", f"{x}{i}") for i in range(4)]
    return [*slices, node("Concat", " ".join(f"{x}{i}" for i in range(4)), "k", axis=1)]


PHASES = {f"from{i}": integers(i % 2, i // 2) for i in range(4)} | {
    "to": integers(8, 8), "axes": integers(2, 3), "steps": integers(2, 2)
}  # fmt: skip


def _networks() -> Iterator[tuple[str, Network]]:
    joined, wide = {"w": floats(4, 3, 3, 3)}, {"w": floats(4, 12, 3, 3)}
    yield "focus", Network([*phases("x"), layer("k")], {"x": IMAGE}, PHASES | wide)
    behind = [layer("x", "c", "u"), *phases("c"), layer("k")]
    yield "focus behind a layer", Network(behind, {"x": IMAGE}, PHASES | wide | {"u": floats(3, 3, 1, 1)})
    split = [node("Split", "x", "a b c", axis=1), node("Concat", "c b a", "k", axis=1), layer("k")]
    yield "split", Network(split, {"x": IMAGE}, joined, opset=12)
    gather = [node("Gather", "x i", "a", axis=1), node("Gather", "x j", "b", axis=1)]
    constants = {"i": integers(2, 0), "j": integers(1)} | joined
    yield "gather", Network([*gather, node("Concat", "a b", "k", axis=1), layer("k")], {"x": IMAGE}, constants)
    pads = {"p": integers(0, 0, 1, 1, 0, 0, 1, 1), "q": integers(0, 0, 2, 0, 0, 0, 0, 2), "w": floats(4, 6, 3, 3)}
    nodes = [node("Pad", "x p", "a"), node("Pad", "x q", "b"), node("Concat", "a b", "k", axis=1), layer("k")]
    yield "pad", Network(nodes, {"x": IMAGE}, pads)
    blocks = [node("Reshape", "x s", "a"), node("Transpose", "a", "b", perm=[0, 3, 5, 1, 2, 4])]
    shapes = {"s": integers(1, 3, 4, 2, 4, 2), "t": integers(1, 12, 4, 4)}
    yield "blocks", Network([*blocks, node("Reshape", "b t", "k"), layer("k")], {"x": IMAGE}, shapes | wide)
    yield "space to depth", Network([node("SpaceToDepth", "x", "k", blocksize=2), layer("k")], {"x": IMAGE}, wide)
    part = {"s": integers(0), "e": integers(2), "a": integers(1)}
    halves = [node("Slice", "x s e a", "p"), node("Slice", "z s e a", "q"), node("Concat", "p q", "k", axis=1)]
    yield "two inputs", Network([*halves, layer("k")], {"x": IMAGE, "z": IMAGE}, part | {"w": floats(4, 4, 3, 3)})
    later = {"s": integers(1), "e": integers(3), "a": integers(2), "w": floats(4, 3, 3)}
    nodes = [node("Concat", "c x", "k", axis=2), node("Slice", "k s e a", "next"), layer("k")]
    cache = {"c": [1, 3, 2], "x": [1, 3, 1]}
    yield "cache of what is joined", Network(nodes, cache, later, ("y", "next"))
    nodes = [node("Slice", "c s e a", "d"), node("Concat", "d x", "next", axis=2), node("Concat", "c x", "k", axis=2)]
    yield "cache that moves on", Network([*nodes, layer("k")], cache, later | {"e": integers(2)}, ("y", "next"))
    nodes = [node("Slice", "x s e a", "d"), node("Slice", "d s e a", "z"), layer("x")]
    yield "part as an output", Network(nodes, {"x": ROWS}, later | {"e": integers(6)}, ("y", "z"))
    yield "input as an output", Network([layer("x"), node("Identity", "x", "z")], {"x": ROWS}, later, ("y", "z"))
    turns = [node("Slice", f"x s{i} e{i} a", f"d{i}") for i in (0, 1)]
    turns += [node("Transpose", f"d{i}", f"t{i}", perm=[0, 1, 3, 2]) for i in (0, 1)]
    turns += [node("Concat", "t0 t1", "k", axis=1), node("Slice", "k s0 e1 a", "m"), node("Reshape", "m s", "n")]
    ends = {"s0": integers(0), "e0": integers(2), "s1": integers(1), "e1": integers(3), "a": integers(1)}
    yield "a chain", Network([*turns, layer("n")], {"x": IMAGE}, ends | {"s": integers(*IMAGE)} | joined)
    cube, filters = floats(4, 3, 3, 3, 3), floats(4, 4, 1, 1, 1)
    pool = {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}
    yield "volume", Network([layer("x", pads=[1] * 6)], {"x": VOLUME}, {"w": cube})
    yield "groups of a volume", Network([layer("x", group=3)], {"x": VOLUME}, {"w": floats(6, 1, 3, 3, 3)})
    nodes = [layer("x", "c", pads=[1] * 6), node("Relu", "c", "r"), node("MaxPool", "r", "m", **pool)]
    yield "pooled volume", Network([*nodes, layer("m", w="v")], {"x": VOLUME}, {"w": cube, "v": filters})
    upward = node("ConvTranspose", "x w", strides=[2, 2, 2])
    yield "transposed volume", Network([upward], {"x": VOLUME}, {"w": floats(3, 4, 2, 2, 2)})
    for kind in ("MaxPool", "AveragePool"):
        nodes = [node(kind, "x", "m", **pool), layer("m")]
        yield f"{kind} of a volume", Network(nodes, {"x": VOLUME}, {"w": floats(4, 3, 1, 1, 1)})
    yield "row", Network([layer("x")], {"x": ROWS}, {"w": floats(4, 3, 3)})
    yield "transposed row", Network([node("ConvTranspose", "x w", strides=[2])], {"x": ROWS}, {"w": floats(3, 4, 2)})
    nodes = [node("AveragePool", "x", "m", kernel_shape=[2]), layer("m")]
    yield "pooled row", Network(nodes, {"x": ROWS}, {"w": floats(4, 3, 1)})


NETWORKS = dict(_networks())


def without_floats(module: ModuleOp) -> bool:
    """Whether no operation of a network computes floats."""
    return not any(is_float(v) for o in module.walk() if not isinstance(o, ConstantOp) for v in o.results)


def stored(x: Array, type: Any) -> Array:
    """An input as integers of its quantized type."""
    assert isinstance(type, UniformType)
    limits = type.storage_min, type.storage_max
    return fixed_point.quantize(x, np.array(type.scale), np.array(type.zero_point), *limits, np.int8)


def run(module: ModuleOp, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of the machine code, which are the reference's bit for bit."""
    found = [f(dict(inputs)) for f in (qmlir.compile(module), qmlir.reference(module))]
    code, reference = ([*f.values()] if isinstance(f, dict) else [f] for f in found)
    for one, other in zip(code, reference, strict=True):
        np.testing.assert_array_equal(one, other)
    return code


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_moved_inputs_are_integers(name: str, tmp_path: Path) -> None:
    """Nothing stays float, and with integers at its ends the network computes what it computes of the same floats."""
    network = NETWORKS[name]
    path, samples = network.save(tmp_path), network.samples()
    module = qmlir.quantize(path, data=samples, fail_on_float=True)
    assert {e.outcome for e in qmlir.decisions(module)} == {"quantized"}
    inside = qmlir.quantize(path, data=samples, io="int8")
    assert without_floats(inside)
    types = {v.name_hint or "": element_of(v) for v in inside.body.block.first_op.body.block.args}  # type: ignore[union-attr]
    given = {k: stored(x, types[k]) for k, x in samples[0].items()}
    back = {k: fixed_point.dequantize(q.astype(np.int64), types[k].scale, types[k].zero_point).astype(np.float32)  # type: ignore[attr-defined]
            for k, q in given.items()}  # fmt: skip
    results = inside.body.block.first_op.body.block.last_op.operands  # type: ignore[union-attr]
    for found, wanted, value in zip(run(inside, given), run(module, back), results, strict=True):
        type = element_of(value)
        assert isinstance(type, UniformType)
        real = fixed_point.dequantize(found.astype(np.int64), type.scale, type.zero_point)
        np.testing.assert_array_equal(real.astype(np.float32), wanted)


@pytest.mark.parametrize("name", ["focus", "volume", "cache that moves on"])
def test_networks_of_moved_inputs_are_certified(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    module = qmlir.quantize(network.save(tmp_path), data=network.samples(), io="int8")
    check_certificate(certified(module, tmp_path).path)


def test_a_device_moves_inputs_too(tmp_path: Path) -> None:
    network = NETWORKS["focus"]
    module = qmlir.quantize(network.save(tmp_path), data=network.samples(), target="ethos-u55-like")
    assert {e.outcome for e in qmlir.decisions(module)} == {"quantized"}


@pytest.mark.parametrize("case", [c for c in CASES if c.kind.startswith("CONV_3D")], ids=lambda c: c.name)
def test_volumes_of_tflite_files(case: Any, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(case.build("float32"))
    samples = [floats(*case.shapes[0], seed=i) for i in range(4)]
    assert without_floats(qmlir.quantize(tmp_path / "net.tflite", data=samples, io="int8", fail_on_float=True))


FLOATS = {"rules": [{"name": "f", "keep_float": True}]}


def read_as_floats(x: str) -> Network:
    """A network whose input is read by a layer, by a slice, and by a sine, itself or as the slice."""
    nodes = [node("Slice", "x s e a", "d"), layer("x"), node("Sin", x, "f")]
    return Network(nodes, {"x": ROWS}, {"s": integers(1), "e": integers(6), "a": integers(2), "w": floats(4, 3, 3)},
                   ("y", "f"))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("x", ["x", "d"])
def test_float_operations_read_the_digits_of_an_input(x: str, tmp_path: Path) -> None:
    """What moves an input to a float operation stays float, as the input holds more digits than its integers."""
    network = read_as_floats(x)
    path, samples = network.save(tmp_path), network.samples()
    module = qmlir.quantize(path, data=samples, policy=FLOATS)
    reasons = {e.node: e.reason for e in qmlir.decisions(module) if e.outcome == "float"}
    if x == "d":
        assert reasons["d"] == "no integer operation makes what it reads, or reads what it makes"
    _, found = run(module, samples[0])
    wanted = np.sin(samples[0]["x"][..., 1:6] if x == "d" else samples[0]["x"])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    with pytest.raises(UnsupportedError, match=r'output "f": must be dequantized integers, got nn\.sin'):
        qmlir.quantize(path, data=samples, policy=FLOATS, io="int8")
    with pytest.raises(PipelineError, match="no integer operation makes what it reads" if x == "d" else "policy"):
        qmlir.quantize(path, data=samples, policy=FLOATS, fail_on_float=True)


@pytest.mark.slow
def test_float_operations_read_the_integers_of_an_interface(tmp_path: Path) -> None:
    """With integers as input, what stays float reads them dequantized, and gives integers again."""
    network = read_as_floats("x")
    nodes = [*network.nodes, layer("f", "z")]
    network = Network(nodes, network.inputs, network.constants, ("y", "z"))
    path, samples = network.save(tmp_path), network.samples()
    floating = qmlir.quantize(path, data=samples, policy=FLOATS)
    module = qmlir.quantize(path, data=samples, policy=FLOATS, io="int8")
    type = element_of(module.body.block.first_op.body.block.args[0])  # type: ignore[union-attr]
    assert isinstance(type, UniformType)
    given = stored(samples[0]["x"], type)
    back = fixed_point.dequantize(given.astype(np.int64), type.scale, type.zero_point).astype(np.float32)
    results = module.body.block.first_op.body.block.last_op.operands  # type: ignore[union-attr]
    for found, wanted, value in zip(run(module, {"x": given}), run(floating, {"x": back}), results, strict=True):
        scale, zero_point = element_of(value).scale, element_of(value).zero_point  # type: ignore[attr-defined]
        real = fixed_point.dequantize(found.astype(np.int64), scale, zero_point)
        np.testing.assert_array_equal(real.astype(np.float32), wanted)


@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_an_input_read_in_two_scales_holds_the_finer_one(precision: str, part: bool, tmp_path: Path) -> None:
    """A concatenation with a wider input reads it in steps of its own, or a layer reads it in 16 bits."""
    nodes = [layer("x"), node("Slice", "x s e a", "d"), node("Concat", f"{'d' if part else 'x'} z", "k", axis=1)]
    constants = {"s": integers(1), "e": integers(3), "a": integers(1), "w": floats(4, 3, 3)}
    constants["v"] = floats(4, 5 if part else 6, 3)
    network = Network([*nodes, layer("k", "l", "v")], {"x": ROWS, "z": ROWS}, constants, ("y", "l"))
    samples = [each | {"z": each["z"] * 8} for each in network.samples()]
    policy = {"rules": [{"name": "y", "precision": precision}]}
    module = qmlir.quantize(network.save(tmp_path), data=samples, policy=policy, io=precision)
    assert without_floats(module)
    x, _ = (element_of(v) for v in module.body.block.first_op.body.block.args)  # type: ignore[union-attr]
    assert isinstance(x, UniformType)
    assert x.scale < (4.1 / 255 if precision == "int8" else 9 / 65535)
    run(module, {k: np.full(s, 7, precision) for k, s in network.inputs.items()})
