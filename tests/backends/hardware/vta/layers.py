"""What tests of VTA's encoder share: layers drawn at random, and layers carried out from their streams."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from qmlir.backends.hardware.vta.encoder import Vta
from qmlir.backends.hardware.vta.instructions import Unit
from qmlir.backends.hardware.vta.layout import from_vectors, to_vectors
from qmlir.backends.hardware.vta.machine import Machine
from qmlir.devices import load_device
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
    Step,
    Tensor,
)
from qmlir.numerics import Array

ENCODER = Vta(load_device("vta"))

Rng = np.random.Generator


def tensor(name: str, *shape: int) -> Tensor:
    """A tensor [1, rows, columns, channels] of int8."""
    rows, columns, channels = shape
    return Tensor(name, (1, rows, columns, channels), 8)


def run(
    layer: Layer, given: Sequence[Array], first: Sequence[Unit] = (), encoder: Any = ENCODER, machine: Any = Machine
) -> Array:
    """The result of a layer, from its stream and memory alone; nothing but the result is written."""
    end, places = 256, list[int]()
    constants = encoder.constants(layer)
    sizes = [*map(encoder.size, layer.inputs), encoder.size(layer.output), *map(len, constants)]
    for size in sizes:
        places.append(end)
        end += -(-size // 256) * 256 + 256
    model = machine(end)
    rng = np.random.default_rng(0)
    for noisy in (model.memory, *(held.reshape(-1).view(np.uint8) for held in model.buffers.values())):
        noisy[:] = rng.integers(0, 256, noisy.size)
    number = len(layer.inputs)
    contents = [to_vectors(array.reshape(t.shape)).tobytes() for array, t in zip(given, layer.inputs, strict=True)]
    for at, data in zip([*places[:number], *places[number + 1 :]], [*contents, *constants], strict=True):
        model.memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
    at, size = places[number], sizes[number]
    placed = PlacedLayer(0, layer, tuple(places[:number]), at, tuple(places[number + 1 :]), 0)
    (words,) = encoder.encode(iter([placed]))
    before = model.memory.copy()
    model.run(words, first)
    before[at : at + size] = model.memory[at : at + size]
    assert (before == model.memory).all(), "bytes beside the result were written"
    return from_vectors(model.memory[at : at + size].view(np.int8), layer.output.shape)


def requantization(rng: Rng, right: int, *, channels: int = 1, bounds: tuple[int, int] | None = None) -> Requantization:
    """A change of scale by 2^-right."""
    least, most = bounds or ((0, 127) if rng.random() < 0.4 else (-128, 127))
    zero_point = int(rng.integers(-20, 20)) if rng.random() < 0.3 else 0
    same = np.ones(channels, np.int64)
    return Requantization(same << 30, (1 - right) * same, "shift", 0.0, 0, zero_point, least, most, 8)


def addition(rng: Rng, other: Tensor) -> Addition:
    """A sum of tensors whose scales are powers of two."""
    m, n = (1 << int(rng.integers(24, 30)) for _ in range(2))
    least = 0 if rng.random() < 0.5 else -128
    return Addition(other, 0, 0, m, n, int(rng.integers(24, 31)), int(rng.integers(-3, 3)), least, 127, 8)


def windowed(rng: Rng, most: int, most_kernel: int, more: int = 0) -> dict[str, Any] | None:
    """Rows and columns of a tensor and of what windows make of it; None if a window is larger than the tensor.

    Padding may have `more` elements than a window.
    """
    rows, columns = (int(n) for n in rng.integers(1, most, 2))
    kernel = tuple(int(n) for n in rng.integers(1, most_kernel + 1, 2))
    stride = tuple(int(n) for n in rng.integers(1, 4, 2))
    dilation = tuple(int(n) for n in rng.integers(1, 3, 2)) if rng.random() < 0.2 else (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = (
        tuple(int(rng.integers(0, min(reach[n // 2], 5) + more)) for n in range(4)) if rng.random() < 0.7 else (0,) * 4
    )
    sizes = rows + padding[0] + padding[1], columns + padding[2] + padding[3]
    if sizes[0] < reach[0] or sizes[1] < reach[1]:
        return None
    result = tuple((s - r) // by + 1 for s, r, by in zip(sizes, reach, stride, strict=True))
    return {
        "data": (rows, columns), "result": result, "kernel": kernel, "stride": stride, "dilation": dilation,
        "padding": padding,
    }  # fmt: skip


def convolution(rng: Rng, most: int = 24, most_kernel: int = 5) -> Layer:
    """A convolution of one group, of several, or of as many as channels, with its scale and perhaps a sum behind."""
    while (drawn := windowed(rng, most, most_kernel, 2)) is None:
        pass
    groups = int(rng.choice([1, 1, 1, 2, 3, 20, 32]))
    width = int(rng.integers(1, 50)) if groups == 1 else int(rng.choice([1, 2, 8, 16]))
    outputs = groups * (int(rng.integers(1, 50)) if groups == 1 else int(rng.choice([1, 2, 16])))
    weights = rng.integers(-128, 128, (outputs, *drawn["kernel"], width), np.int8)
    bias = rng.integers(-(1 << 14), 1 << 14, outputs) if rng.random() < 0.8 else None
    step = Convolution(
        weights, 0, bias, 0, groups, drawn["stride"], drawn["dilation"], drawn["padding"], 32
    )  # fmt: skip
    data, result = tensor("x", *drawn["data"], width * groups), tensor("y", *drawn["result"], outputs)
    right = max(0, int(np.log2(weights[0].size * 128 * 8)) - int(rng.integers(0, 6)))
    steps: list[Step] = [step, requantization(rng, right, channels=int(rng.choice([1, outputs])))]
    inputs = [data]
    if rng.random() < 0.3:
        inputs.append(tensor("z", *drawn["result"], outputs))
        steps.append(addition(rng, inputs[1]))
    return Layer("layer", "conv2d", tuple(inputs), result, tuple(steps))


def pool(rng: Rng) -> Layer:
    """A maximum, or a mean."""
    average = bool(rng.random() < 0.5)
    while (drawn := windowed(rng, 30, 4)) is None:
        pass
    step = Pool(average, drawn["kernel"], drawn["stride"], drawn["dilation"], drawn["padding"], average, 0)
    channels = int(rng.integers(1, 70))
    data, result = tensor("x", *drawn["data"], channels), tensor("y", *drawn["result"], channels)
    steps: list[Step] = [step]
    if rng.random() < 0.3:
        steps.append(requantization(rng, int(rng.integers(-2, 3))))
    return Layer("layer", "avgpool" if average else "maxpool", (data,), result, tuple(steps))


def elements(rng: Rng) -> Layer:
    """A sum of tensors, a change of scale, or the sum of an image."""
    shape = (*tuple(int(n) for n in rng.integers(1, 28, 2)), int(rng.integers(1, 70)))
    data, other, result = (tensor(name, *shape) for name in "xzy")
    match int(rng.integers(3)):
        case 0:
            return Layer("layer", "add", (data, other), result, (addition(rng, other),))
        case 1:
            steps = (requantization(rng, int(rng.integers(-3, 9))),)
            return Layer("layer", "requantize", (data,), result, steps)
        case _:
            right = int(np.log2(shape[0] * shape[1])) + int(rng.integers(-2, 2))
            return Layer(
                "layer", "avgpool", (data,), tensor("y", 1, 1, shape[2]), (ImageSum(0), requantization(rng, right))
            )


def movement(rng: Rng) -> tuple[Layer, Any]:
    """Data that move, and the function of numpy that says how."""
    shape = (*tuple(int(n) for n in rng.integers(1, 12, 2)), int(rng.choice([1, 3, 16, 20, 32])))
    data = tensor("x", *shape)
    whole = (1, *shape)
    inputs, numbers, kind = [data], dict[str, tuple[int, ...]](), str(rng.choice([
        "reshape", "transpose", "concat", "slice", "pad", "broadcast"
    ]))  # fmt: skip
    shapes = [whole]
    match kind:
        case "reshape":
            result = (1, 1, 1, int(np.prod(shape)))
            compute = lambda x: x.reshape(result)  # noqa: E731
            numbers["shape"] = result
        case "transpose":
            order = (0, *(1 + rng.permutation(3)).tolist())
            compute = lambda x: x.transpose(order)  # noqa: E731
            numbers["permutation"] = order
        case "concat":
            axis = int(rng.integers(1, 4))
            inputs.append(tensor("z", *shape))
            shapes.append(whole)
            compute = lambda x, z: np.concatenate([x, z], axis)  # noqa: E731
            numbers["axis"] = (axis,)
        case "slice":
            strides = [1, *(int(n) for n in rng.integers(1, 3, 3))]
            offsets = [0, *(int(rng.integers(0, n)) for n in shape)]
            sizes = [-(-(n - at) // by) for n, at, by in zip(whole, offsets, strides, strict=True)]
            compute = lambda x: x[tuple(slice(at, None, by) for at, by in zip(offsets, strides, strict=True))]  # noqa: E731
            numbers |= {"offsets": tuple(offsets), "sizes": tuple(sizes), "strides": tuple(strides)}
        case "pad":
            low, high = ((0, *(int(n) for n in rng.integers(0, 4, 3))) for _ in range(2))
            compute = lambda x: np.pad(x, list(zip(low, high, strict=True)))  # noqa: E731
            numbers |= {"low": low, "high": high, "value": (0,)}
        case _:
            data = inputs[0] = tensor("x", 1, 1, shape[2])
            shapes = [(1, 1, 1, shape[2])]
            compute = lambda x: np.broadcast_to(x, whole)  # noqa: E731
            numbers["shape"] = whole
    result = compute(*(np.zeros(each, np.int8) for each in shapes)).shape
    step = Movement(kind, numbers, (*shapes, result))
    return Layer("layer", "move", tuple(inputs), tensor("y", *result[1:]), (step,)), compute
