"""Small networks on every device: broadcasts, tensors without dimensions, constants among what stays, host calls."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.simulated import Simulated
from qmlir.devices import shipped_devices
from qmlir.devices.model.stored import as_images
from qmlir.isa.commands import Arithmetic, Convolve, Host
from tests.conftest import crossed
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]


def agree(module: ModuleOp, device: str, *shapes: tuple[int, ...]) -> Simulated:
    """Compares simulator and reference on random inputs of some shapes: values, shapes and types."""
    quantized = qmlir.quantize(module, target=device)
    executable, reference = qmlir.compile(quantized, target=device), qmlir.reference(quantized)
    rng = np.random.default_rng(0)
    for _ in range(2):
        arrays = [np.asarray(rng.normal(size=shape), np.float32) for shape in shapes]
        inputs = {spec.name: a for spec, a in zip(reference.signature.inputs, arrays, strict=True)}
        for ours, expected in zip(executable.run(inputs), reference.run(inputs), strict=True):
            assert isinstance(ours, np.ndarray)
            assert isinstance(expected, np.ndarray)
            assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(ours, expected)
    return executable


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def constant(shape: tuple[int, ...], name: str = "w") -> str:
    numbers = ", ".join(f"{n * 7 % 11 / 4 - 1.1:.2f}" for n in range(prod(shape)))
    return f"%{name} = nn.constant <{tensor(shape)}, [{numbers}]> : {tensor(shape)}"


# ---------------------------------------------------------------------------------------------------------------
# Broadcasts

IMAGE = (1, 4, 6, 4)
"""As many channels as rows."""

REPEATED = [
    (4, 1, 1), (4,), (1,), (), (6, 1), (1, 4), (6, 4), (4, 1, 4), (4, 6, 1), (1, 4, 1, 1), (1, 1, 1, 4), (4, 6, 4),
    (1, 1, 6, 4), (1, 4, 6, 1), (3, 1, 1, 4), (2, 1, 4, 6, 4),
]  # fmt: skip


def pair(kind: str, left: tuple[int, ...], right: tuple[int, ...], computed: bool) -> ModuleOp:
    """A max pool of one element, and its sum or product with a constant or with another input."""
    y, shape = tensor(left), np.broadcast_shapes(left, right)
    window = "{window = array<i64: 1, 1>}" if len(left) == 4 else ""
    first = f"%0 = nn.max_pool2d %x {window} : {y} -> {y}" if window else f"%0 = nn.relu %x : {y} -> {y}"
    second = '%w = nn.relu %z : {0} -> {0}\n calib.observe %w {{name = "w", range = [-2.0, 2.0]}} : {0}'
    given = second.format(tensor(right)) if computed else constant(right)
    observed = f'calib.observe %z {{name = "z", range = [-2.0, 2.0]}} : {tensor(right)}' if computed else ""
    return parsed(f"""
func.func @main(%x: {y}{f", %z: {tensor(right)}" if computed else ""}) -> {tensor(shape)} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {y}
  {observed}
  {given}
  {first}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {y}
  %1 = nn.{kind} %0, %w : {y}, {tensor(right)} -> {tensor(shape)}
  calib.observe %1 {{name = "y", range = [-4.0, 4.0]}} : {tensor(shape)}
  func.return %1 : {tensor(shape)}
}}
""")


@pytest.mark.parametrize("device", shipped_devices())
def test_a_constant_for_each_row_where_there_are_as_many_channels(device: str) -> None:
    for kind in ("add", "sub", "mul"):
        agree(pair(kind, IMAGE, (4, 1, 1), computed=False), device, IMAGE)


@pytest.mark.parametrize("shape", REPEATED, ids=str)
def test_operands_that_are_repeated(shape: tuple[int, ...]) -> None:
    agree(pair("add", IMAGE, shape, computed=False), "nmp", IMAGE)
    agree(pair("mul", shape, IMAGE, computed=True), "ethos-u55-like", shape, IMAGE)


def test_vectors_of_a_sequence_are_added_by_the_device() -> None:
    executable = agree(pair("add", (3, 5, 8), (8,), computed=False), "nmp", (3, 5, 8))
    assert any(isinstance(command, Arithmetic) for command in executable.program.commands)


def test_images_are_repeated_as_tensors_are() -> None:
    """What pitches of 0 make of an operand's images is what numpy's broadcasting makes of its tensor."""
    rng = np.random.default_rng(1)
    repeated = 0
    for _ in range(3000):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 2, 3], int(rng.integers(0, 6))))
        own = tuple(n if rng.random() < 0.6 else 1 for n in shape)[int(rng.integers(0, len(shape) + 1)) :]
        (images, image), (count, part) = as_images(shape), as_images(own)
        if (
            count not in (1, images)
            or part[2] != image[2]
            or any(n not in (1, m) for n, m in zip(part, image, strict=True))
        ):
            continue
        array = np.arange(prod(own)).reshape(own)
        by_pitches = np.broadcast_to(array.reshape(count, *part), (images, *image))
        np.testing.assert_array_equal(by_pitches.reshape(shape), np.broadcast_to(array, shape))
        repeated += own != shape
    assert repeated > 300


# ---------------------------------------------------------------------------------------------------------------
# Tensors without dimensions


@pytest.mark.parametrize("device", shipped_devices())
def test_tensors_without_dimensions_cross_to_the_host(device: str) -> None:
    executable = agree(parsed("""
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  calib.observe %x {name = "x", range = [-2.0, 2.0]} : tensor<f32>
  %0 = nn.add %x, %x : tensor<f32>, tensor<f32> -> tensor<f32>
  calib.observe %0 {name = "a", range = [-4.0, 4.0]} : tensor<f32>
  %1 = nn.tanh %0 : tensor<f32> -> tensor<f32>
  func.return %0, %1 : tensor<f32>, tensor<f32>
}
"""), device, ())  # fmt: skip
    assert any(isinstance(command, Host) for command in executable.program.commands)


# ---------------------------------------------------------------------------------------------------------------
# Tensors that stay


@pytest.mark.parametrize("device", ["nmp", "gemmini"])
def test_a_constant_is_loaded_where_all_inputs_of_a_layer_stay(device: str) -> None:
    agree(parsed(f"""
func.func @main(%x: {tensor((1, 4, 4, 8))}) -> {tensor((1, 4, 4, 8))} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {tensor((1, 4, 4, 8))}
  {constant((1, 1, 4, 8))}
  %0 = nn.max_pool2d %x {{window = array<i64: 1, 1>}} : {tensor((1, 4, 4, 8))} -> {tensor((1, 4, 4, 8))}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {tensor((1, 4, 4, 8))}
  %1 = nn.add %0, %w : {tensor((1, 4, 4, 8))}, {tensor((1, 1, 4, 8))} -> {tensor((1, 4, 4, 8))}
  calib.observe %1 {{name = "y", range = [-4.0, 4.0]}} : {tensor((1, 4, 4, 8))}
  func.return %1 : {tensor((1, 4, 4, 8))}
}}
"""), device, (1, 4, 4, 8))  # fmt: skip


@pytest.mark.parametrize("device", ["nmp", "gemmini"])
def test_a_tensor_stays_while_the_host_computes(device: str) -> None:
    """The tensor is read by one layer before the call and by one after it."""
    image = tensor((1, 4, 4, 8))
    executable = agree(parsed(f"""
func.func @main(%x: {image}) -> {image} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {image}
  %0 = nn.max_pool2d %x {{window = array<i64: 1, 1>}} : {image} -> {image}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {image}
  %1 = nn.add %0, %0 : {image}, {image} -> {image}
  calib.observe %1 {{name = "a", range = [-4.0, 4.0]}} : {image}
  %2 = nn.log_softmax %1 {{axis = 3 : i64}} : {image} -> {image}
  %3 = nn.add %0, %2 : {image}, {image} -> {image}
  calib.observe %3 {{name = "y", range = [-4.0, 4.0]}} : {image}
  func.return %3 : {image}
}}
"""), device, (1, 4, 4, 8))  # fmt: skip
    assert sum(isinstance(command, Host) for command in executable.program.commands) > 2


# ---------------------------------------------------------------------------------------------------------------
# What follows sums over an image


@crossed({"computed": [False, True], "device": shipped_devices()})
def test_a_tensor_is_added_to_the_means_of_an_image(device: str, computed: bool) -> None:
    image, mean = tensor((2, 3, 3, 12)), tensor((2, 1, 1, 12))
    given = f'%w = nn.relu %z : {mean} -> {mean}\ncalib.observe %w {{name = "w", range = [0.0, 2.0]}} : {mean}'
    agree(parsed(f"""
func.func @main(%x: {image}, %z: {mean}) -> {mean} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {image}
  calib.observe %z {{name = "z", range = [-2.0, 2.0]}} : {mean}
  {given if computed else constant((2, 1, 1, 12))}
  %0 = nn.max_pool2d %x {{window = array<i64: 1, 1>}} : {image} -> {image}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {image}
  %1 = nn.global_average_pool %0 : {image} -> {mean}
  calib.observe %1 {{name = "m", range = [-1.0, 1.0]}} : {mean}
  %2 = nn.sub %1, %w : {mean}, {mean} -> {mean}
  calib.observe %2 {{name = "y", range = [-3.0, 3.0]}} : {mean}
  func.return %2 : {mean}
}}
"""), device, (2, 3, 3, 12), (2, 1, 1, 12))  # fmt: skip


def test_the_host_and_the_device_compute_nothing_that_nothing_reads() -> None:
    image = tensor((1, 4, 4, 2))
    executable = agree(parsed(f"""
func.func @main(%x: {image}) -> {image} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {image}
  {constant((2, 1, 1, 2))}
  %0 = nn.max_pool2d %x {{window = array<i64: 1, 1>}} : {image} -> {image}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {image}
  %1 = nn.conv2d %0, %w : {image}, {tensor((2, 1, 1, 2))} -> {image}
  calib.observe %1 {{name = "c", range = [-4.0, 4.0]}} : {image}
  %2 = nn.softmax %1 {{axis = 3 : i64}} : {image} -> {image}
  func.return %0 : {image}
}}
"""), "nmp", (1, 4, 4, 2))  # fmt: skip
    assert not any(isinstance(command, Convolve) for command in executable.program.commands)


# ---------------------------------------------------------------------------------------------------------------
# Slices that run backwards


@pytest.mark.parametrize("device", shipped_devices())
@pytest.mark.parametrize("axis", range(4))
def test_a_slice_runs_backwards(device: str, axis: int) -> None:
    """Between pools, so that the device moves the elements, which some read where they lie."""
    shape = (3, 4, 4, 8)
    steps = [-1 if a == axis else 1 for a in range(4)]
    offsets = [n - 1 if a == axis else 0 for a, n in enumerate(shape)]
    y, window = tensor(shape), "{window = array<i64: 1, 1>}"
    module = parsed(
        f"""
func.func @main(%x: {y}) -> {y} {{
  calib.observe %x {{name = "x", range = [-2.5, 2.5]}} : {y}
  %0 = nn.average_pool2d %x {window} : {y} -> {y}
  calib.observe %0 {{name = "p", range = [-2.5, 2.5]}} : {y}
  %1 = nn.slice %0 {{offsets = array<i64: {offsets}>, sizes = array<i64: {list(shape)}>,
    strides = array<i64: {steps}>}} : {y} -> {y}
  %2 = nn.average_pool2d %1 {window} : {y} -> {y}
  calib.observe %2 {{name = "y", range = [-2.5, 2.5]}} : {y}
  func.return %2 : {y}
}}
""".replace("i64: [", "i64: ").replace("]>", ">")
    )
    agree(module, device, shape)
