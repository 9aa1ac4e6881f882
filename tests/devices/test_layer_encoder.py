"""Encoders of whole layers: layers as data say everything, what is refused, and what encoders may not answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir import stages
from qmlir.analysis.placement import judge
from qmlir.backends.layered import Call, LayerProgram
from qmlir.cli.main import main
from qmlir.compiler import main_function, to_integers
from qmlir.devices import Device, text_of
from qmlir.devices.legality.layers import layer_of
from qmlir.devices.legality.limits import kind_of
from qmlir.devices.model.encoder import LayerEncoder, register_encoder
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Lookup,
    Movement,
    PlacedLayer,
    Pool,
    Product,
    Requantization,
    Step,
    Tensor,
)
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import LayerOp
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.numerics import Array
from qmlir.numerics.fixed_point import requantize
from qmlir.plugins import PluginError
from tests.conftest import crossed

KINDS = (Convolution, Pool, ImageSum, Requantization, Addition, Product, Lookup, Movement)


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.plugins._registered", {})


class Numbers(LayerEncoder):
    """A word for each place of a layer."""

    def constants(self, layer: Layer) -> Sequence[bytes]:
        return [step.weights.tobytes() for step in layer.steps if isinstance(step, Convolution)]

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        for placed in layers:
            yield [*placed.inputs, placed.output, *placed.constants, placed.scratch]


def named(encoder: type[LayerEncoder], device: str = "ethos-u55-like") -> Device:
    register_encoder("numbers", encoder)
    return qmlir.load_device(device).with_({"encoder": "numbers"})


def weights(rng: np.random.Generator, *shape: int) -> Any:
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each kind of layer that devices compute: a residual block with a gate, pools, and a head."""
    rng, path = np.random.default_rng(4), tmp_path_factory.mktemp("layers") / "block.onnx"
    held = {
        "k": weights(rng, 16, 3, 3, 3), "kb": weights(rng, 16, 1)[:, 0], "d": weights(rng, 16, 1, 3, 3),
        "p": weights(rng, 16, 16, 1, 1), "fc": weights(rng, 10, 16), "fb": weights(rng, 10, 1)[:, 0],
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["a"], "stem", pads=[1, 0, 0, 1], strides=[2, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "d"], ["c"], "taps", pads=[1, 1, 1, 1], group=16),
        helper.make_node("Conv", ["c", "p"], ["e"], "point"),
        helper.make_node("Add", ["b", "e"], ["f"], "sum"),
        helper.make_node("Sigmoid", ["f"], ["g"], "gate"),
        helper.make_node("Mul", ["e", "g"], ["h"], "gated"),
        helper.make_node("MaxPool", ["h"], ["i"], "most", kernel_shape=[2, 2], strides=[1, 2]),
        helper.make_node("AveragePool", ["i"], ["j"], "mean", kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Concat", ["i", "j"], ["l"], "both", axis=2),
        helper.make_node("GlobalAveragePool", ["l"], ["m"], "all"),
        helper.make_node("Flatten", ["m"], ["n"], "flat"),
        helper.make_node("Gemm", ["n", "fc", "fb"], ["y"], "head", transB=1),
    ]
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, [1, 3, 12, 11]), ("y", 1, [1, 10]))]
    graph = helper.make_graph(
        nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(a, name) for name, a in held.items()]
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def quantized(network: Path, device: Device) -> ModuleOp:
    samples = list(np.random.default_rng(0).standard_normal((4, 1, 3, 12, 11)).astype(np.float32))
    return qmlir.quantize(network, data=samples, target=device, measure=False)


# -- layers as data


def evaluated(layer: Layer, given: Sequence[Array]) -> Array:
    """What a layer computes of its inputs [images, rows, columns, channels], from its data alone."""
    value, others = given[0].astype(np.int64), iter(given[1:])
    for step in layer.steps:
        other = next(others).astype(np.int64) if isinstance(step, Addition | Product) else None
        value = _after(step, value, other, given)
    return value


def _after(step: Step, x: Array, other: Array | None, given: Sequence[Array]) -> Array:
    match step:
        case Convolution():
            return _convolved(step, x - step.zero_point)
        case Pool():
            least = -(1 << 40)
            if not step.average:
                return _windows(x, step.window, step.stride, step.dilation, step.padding, least).max((3, 4))
            inside = _windows(np.ones_like(x), step.window, step.stride, step.dilation, step.padding, 0).sum((3, 4))
            fill = step.zero_point if step.counts_padding else 0
            total = _windows(x, step.window, step.stride, step.dilation, step.padding, fill).sum((3, 4))
            count = np.full_like(inside, step.window[0] * step.window[1]) if step.counts_padding else inside
            return np.sign(total) * ((abs(total) + count // 2) // count)
        case ImageSum():
            return (x - step.zero_point).sum((1, 2), keepdims=True)
        case Requantization():
            real = requantize(x - step.input_zero_point, step.multipliers, step.shifts, step.contract)
            assert step.summand == 0
            return (real + step.zero_point).clip(step.lower, step.upper)
        case Addition():
            assert other is not None
            total = (x - step.own_zero_point) * step.multiplier
            total = total + (other - step.other_zero_point) * step.other_multiplier
            rounded = (total + (1 << step.shift - 1)) >> step.shift
            return (rounded + step.zero_point).clip(step.lower, step.upper)
        case Product():
            assert other is not None
            return (x - step.own_zero_point) * (other - step.other_zero_point)
        case Lookup():
            return step.table.reshape(-1)[x + step.table.size // 2].astype(np.int64)
        case Movement(kind="concat"):
            (axis,) = step.numbers["axis"]
            arrays = [a.reshape(shape) for a, shape in zip(given, step.shapes, strict=False)]
            return np.concatenate(arrays, axis)
        case Movement():
            assert step.kind == "reshape"
            return x.reshape(step.numbers["shape"])


def _windows(x: Array, kernel: Any, stride: Any, dilation: Any, padding: Any, fill: int) -> Array:
    """The windows [images, rows, columns, kernel rows, kernel columns, channels]."""
    top, bottom, left, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, (1, 2))
    views = views[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return views.transpose(0, 1, 2, 4, 5, 3)


def _convolved(step: Convolution, x: Array) -> Array:
    windows = _windows(x, step.kernel, step.stride, step.dilation, step.padding, 0)
    own = step.weights.astype(np.int64) - step.weight_zero_point
    outputs, channels = len(own) // step.groups, x.shape[3] // step.groups
    parts = [
        np.einsum(
            "nyxrsc,orsc->nyxo", windows[..., g * channels : (g + 1) * channels], own[g * outputs : (g + 1) * outputs]
        )
        for g in range(step.groups)
    ]
    return np.concatenate(parts, 3) + (0 if step.bias is None else step.bias)


@crossed({"name": ["ethos-u55-like", "nmp", "gemmini", "nvdla-small", "vta"]})
def test_the_data_of_a_layer_say_what_it_computes(network: Path, name: str) -> None:
    device, rng = qmlir.load_device(name), np.random.default_rng(1)
    module = to_integers(quantized(network, device), device)
    module = qmlir.Pipeline(*stages.to_layers(text_of(device)))(module)
    seen: set[type[Step]] = set()
    for op in (op for op in main_function(module).body.block.ops if isinstance(op, LayerOp)):
        operations = [each for each in op.operations() if not isinstance(each, ConstantOp)]
        kind = kind_of(operations[0])
        assert kind is not None
        layer = layer_of(operations, op.label.data, kind, str, device)
        names = {str(argument): n for n, argument in enumerate(op.block.args)}
        for _ in range(3):
            given = [
                rng.integers(-128, 128, v.type.get_shape(), np.int8)  # type: ignore[attr-defined]
                for v in op.inputs
            ]
            inputs = [given[names[t.name]].reshape(t.shape) for t in layer.inputs]
            (expected,) = op.evaluate(*given)
            assert (evaluated(layer, inputs).reshape(-1) == expected.reshape(-1)).all(), str(layer)
        seen |= {type(step) for step in layer.steps}
    assert seen >= {Convolution, Requantization, Addition}
    assert name != "ethos-u55-like" or seen == {*KINDS}


# -- places


class Padded(Numbers):
    """Takes rows of 16 bytes, and scratch memory."""

    def size(self, tensor: Tensor) -> int:
        return tensor.bytes + 5

    def scratch(self, layer: Layer) -> int:
        return 100 if layer.kind == "conv2d" else 0


def lives(program: LayerProgram) -> list[tuple[int, int, int, int]]:
    """Of each tensor, constant and scratch memory: its first and last step, its address and the one behind it."""
    tensors, steps = dict[str, Tensor](), dict[str, list[int]]()
    found = [(-1, len(program.steps), at, at + len(data)) for at, data in program.constants.items()]
    sides = [(-1, program.inputs), (len(program.steps), program.outputs)]
    for n, step in enumerate(program.steps):
        if isinstance(step, Call):
            sides.append((n, (*step.inputs, *step.written)))
            continue
        sides.append((n, (*step.layer.inputs, step.layer.output)))
        if size := Padded.scratch(None, step.layer):  # type: ignore[arg-type]
            found.append((n, n, step.scratch, step.scratch + size))
    for n, some in sides:
        for tensor in some:
            tensors[tensor.name] = tensor
            steps.setdefault(tensor.name, []).append(n)
    for name, tensor in tensors.items():
        at = program.addresses[name]
        found.append((min(steps[name]), max(steps[name]), at, at + tensor.bytes + 5))
    return found


def test_what_lives_together_lies_apart(network: Path) -> None:
    device = named(Padded)
    program = qmlir.compile(quantized(network, device), target=device).layered
    assert program is not None
    everything = lives(program)
    for n, (first, last, low, high) in enumerate(everything):
        assert low % 16 == 0
        assert high <= program.size
        for other in everything[:n]:
            together = first <= other[1] and other[0] <= last
            assert not together or high <= other[2] or other[3] <= low
    words = [[*p.inputs, p.output, *p.constants, p.scratch] for p in program.layers]
    assert words == program.words.commands
    assert [p.number for p in program.layers] == list(range(len(words)))


def test_a_constant_operand_is_there(tmp_path: Path) -> None:
    """A sum with a constant: the encoder lays it out, and its address is that of a constant."""
    rng, path = np.random.default_rng(2), tmp_path / "sum.onnx"
    held = [
        numpy_helper.from_array(weights(rng, 8, 8, 1, 1), "k"),
        numpy_helper.from_array(weights(rng, 1, 8, 4, 4), "c"),
    ]
    nodes = [helper.make_node("Conv", ["x", "k"], ["a"]), helper.make_node("Add", ["a", "c"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 4, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    device, samples = named(Numbers), list(rng.standard_normal((4, 1, 1, 8, 4, 4)).astype(np.float32))
    program = qmlir.compile(
        qmlir.quantize(path, data=[s[0] for s in samples], target=device, measure=False), target=device
    )
    assert program.layered is not None
    (placed,) = [p for p in program.layered.layers if any(t.contents is not None for t in p.layer.inputs)]
    for tensor, address in zip(placed.layer.inputs, placed.inputs, strict=True):
        if tensor.contents is not None:
            assert program.layered.constants[address] == tensor.contents.tobytes()


# -- refusals


class NoMeans(Numbers):
    """Has no means, and adds nothing behind a convolution."""

    def refuses(self, layer: Layer) -> str | None:
        if any(isinstance(step, Pool) and step.average for step in layer.steps):
            return f"there are no means of {layer.inputs[0].shape[3]} channels"
        if len(layer.steps) > 2:
            return "there is nothing behind a change of scale"
        return None


def test_refused_layers_reach_the_host_and_device_check(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from qmlir.devices.description.summary import toml_of

    device, reason = named(NoMeans), "there are no means of 16 channels (encoder numbers)"
    judged = {each.operation: each.refusals for each in judge(qmlir.load(network), device)}
    assert judged["qint.average_pool2d"] == (reason,)
    assert judged["qint.conv2d"] == ()
    q = quantized(network, device)
    program = qmlir.compile(q, target=device)
    assert program.layered is not None
    assert any(reason in entry.reason for entry in program.ledger)
    assert any(isinstance(step, Call) and "mean" in step.name for step in program.layered.steps)
    assert {len(placed.layer.steps) for placed in program.layered.layers} == {1, 2}  # nothing was fused
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 11)).astype(np.float32)
    assert (program(x) == qmlir.reference(q)(x)).all()
    (tmp_path / "mine.toml").write_text(toml_of(device), encoding="utf-8")
    assert main(["device", "check", str(tmp_path / "mine.toml"), str(network)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "words of 32 bits by the encoder numbers of this program" in shown
    assert reason in shown


def test_a_device_without_fallback_refuses(network: Path) -> None:
    device = named(NoMeans).with_({"fallback": {"kind": "error"}})
    with pytest.raises(QmlirError, match="there are no means of 16 channels"):
        qmlir.compile(quantized(network, device), target=device)


class ByName(Numbers):
    """Refuses a layer by its name, which no judged operation has."""

    def refuses(self, layer: Layer) -> str | None:
        return "it is not wanted" if layer.name.startswith("stem") else None


def test_a_layer_that_is_refused_late_is_an_error(network: Path) -> None:
    device = named(ByName)
    with pytest.raises(UnsupportedError, match=r"^layer stem\S*: it is not wanted \(encoder numbers\)"):
        qmlir.compile(quantized(network, device), target=device)


def test_layers_have_to_fit_the_memory(network: Path) -> None:
    device = named(type("Large", (Numbers,), {"scratch": lambda self, layer: 1 << 24}))
    with pytest.raises(UnsupportedError, match=r"must fit the 2097152 bytes of the memory sram, got \d+ bytes by"):
        qmlir.compile(quantized(network, device), target=device)


class Raises(Numbers):
    """Answers with something else than is asked for, as `WHERE` says."""

    WHERE = ""

    def refuses(self, layer: Layer) -> str | None:
        return 3 if self.WHERE == "refuses" else None  # type: ignore[return-value]

    def size(self, tensor: Tensor) -> int:
        if self.WHERE == "raises":
            raise KeyError(tensor.bits)
        return -1 if self.WHERE == "size" else tensor.bytes

    def scratch(self, layer: Layer) -> int:
        return "1" if self.WHERE == "scratch" else 0  # type: ignore[return-value]

    def constants(self, layer: Layer) -> Sequence[bytes]:
        return [np.zeros(3)] if self.WHERE == "constants" else []  # type: ignore[list-item]

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        for placed in layers:
            if self.WHERE == "encode":
                raise ZeroDivisionError("by zero")
            yield [1 << 32] if self.WHERE == "wide" else [placed.number]
        if self.WHERE == "more":
            yield [1]


WRONG = {
    "refuses": r"^ethos-u55-like: encoder numbers of .* why it refuses a layer of kind \w+, or None, got 3",
    "raises": r"must give the bytes of the tensor \w+, got KeyError: \d+",
    "size": r"must say the bytes of the tensor \w+, 0 or more, got -1",
    "scratch": r"must say the bytes of scratch memory of layer \S+, 0 or more, got '1'",
    "constants": r"must give the constants of layer \S+ as bytes, got a value of type ndarray",
    "encode": r"^stem\S*: conv2d .* must encode every layer that it does not refuse, got ZeroDivisionError: by zero",
    "wide": r"must encode each layer in words of 32 bits, got 0x100000000",
    "more": r"must yield the words of each of \d+ layers, got those of more",
}


@pytest.mark.parametrize("where", WRONG)
def test_encoders_that_are_wrong(where: str, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = quantized(network, qmlir.load_device("ethos-u55-like"))
    monkeypatch.setattr(Raises, "WHERE", where)
    with pytest.raises(PluginError, match=WRONG[where]):
        qmlir.compile(ready, target=named(Raises))


def test_a_file_of_a_program_has_no_layers(network: Path, tmp_path: Path) -> None:
    device = named(Numbers)
    program = qmlir.compile(quantized(network, device), target=device)
    program.save(tmp_path / "net.npu")
    loaded = qmlir.load_program(tmp_path / "net.npu", device)
    with pytest.raises(QmlirError, match=r"must have layers for an encoder of layers, .*compile the network again"):
        _ = loaded.words
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 11)).astype(np.float32)
    assert (loaded(x) == program(x)).all()
