"""Layers as writes of NVDLA's registers: the functional model computes what the network computes, bit for bit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper, save

import qmlir
from qmlir.backends.hardware.nvdla import jobs
from qmlir.backends.hardware.nvdla.encoder import NVDLAEncoder
from qmlir.backends.hardware.nvdla.finishing import common_factors, finishing
from qmlir.backends.hardware.nvdla.jobs import Cube, Driver, Finish
from qmlir.backends.hardware.nvdla.layouts import atoms, cube_bytes, from_surfaces, to_surfaces
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.machine import run as run_program
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.pools import averaging, reciprocals
from qmlir.backends.hardware.nvdla.program import Kind, Program, write
from qmlir.backends.hardware.nvdla.registers import BY_ADDRESS
from qmlir.backends.hardware.nvdla.replay import job_traces
from qmlir.backends.hardware.nvdla.trace import read
from qmlir.backends.hardware.nvdla.words import BASE, step_of, word
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
from tests.backends.hardware.boards import Network, NvdlaBoard, device_of
from tests.backends.hardware.nvdla.vectors import vectors
from tests.devices.test_layer_encoder import evaluated

ENCODER = NVDLAEncoder(device_of("nvdla-small"))
ONE, NONE = (1, 1), (0, 0, 0, 0)


def scale(
    channels: int = 1, *, seed: int = 0, least: int = -128, most: int = 127, zero_point: int = 0
) -> Requantization:
    """A change of scale with a multiplier for each channel and one shift."""
    factors = np.random.default_rng(seed).integers(1 << 13, 1 << 15, channels)
    pairs = [(int(m) << 31 - int(m).bit_length(), int(m).bit_length() - 24) for m in factors]
    multipliers, shifts = np.array(pairs, np.int64).T
    return Requantization(multipliers, shifts, "away16", 0.0, 0, zero_point, least, most, 8)


def convolution(
    inputs: int, outputs: int, kernel: tuple[int, int], *, groups: int = 1, bias: int = 1 << 12, zero_point: int = 0,
    padding: tuple[int, int, int, int] = NONE, stride: tuple[int, int] = ONE, dilation: tuple[int, int] = ONE,
) -> Convolution:  # fmt: skip
    """A convolution of random weights, and a bias of numbers below a limit."""
    rng = np.random.default_rng(inputs * outputs)
    weights = rng.integers(-127, 128, (outputs, *kernel, inputs // groups), np.int8)
    numbers = rng.integers(-bias, bias, outputs) if bias else None
    return Convolution(weights, 0, numbers, zero_point, groups, stride, dilation, padding, 32)


def layer(kind: str, shape: tuple[int, int, int], *steps: Step, others: int = 0) -> Layer:
    """A layer of an image; its result has the shape that its steps give."""
    inputs = [Tensor(f"x{n}", (1, *shape), 8) for n in range(1 + others)]
    unfinished = Layer("layer", kind, tuple(inputs), inputs[0], steps)
    given = [np.zeros(tensor.shape, np.int8) for tensor in inputs]
    found = evaluated(unfinished, given).shape
    return replace(unfinished, output=Tensor("y", (1, *found[1:]) if len(found) == 4 else (1, 1, 1, found[-1]), 8))


def computed(layer: Layer, given: list[Any], swapped: bool = False) -> Any:
    """What the functional model computes of a layer: (its result, the steps of the driver)."""
    memory, at = Memory(), 0
    places: list[int] = []

    def put(data: bytes) -> int:
        nonlocal at
        memory.write(BASE + at, data)
        found, at = at, at + -(-len(data) // 32) * 32
        return found

    order = list(enumerate(given))
    for _, image in reversed(order) if swapped else order:
        places.append(put(to_surfaces(image[0])))
    constants = tuple(put(data) for data in ENCODER.constants(layer))
    output = put(bytes(cube_bytes(*layer.output.shape[1:])))
    inputs = tuple(reversed(places)) if swapped else tuple(places)
    (words,) = ENCODER.encode(iter([PlacedLayer(0, layer, inputs, output, constants, 0)]))
    steps = [step_of(each) for each in words]
    assert [word(step) for step in steps] == list(words)
    Nvdla(memory).execute(steps)
    data = memory.read(BASE + output, cube_bytes(*layer.output.shape[1:])).tobytes()
    return from_surfaces(data, *layer.output.shape[1:]), steps


BIG = convolution(64, 16, (3, 3), padding=(1, 1, 1, 1))

LAYERS: dict[str, Layer] = {
    "point": layer("conv2d", (5, 7, 24), convolution(24, 19, (1, 1)), scale(19)),
    "padded": layer("conv2d", (9, 8, 3), convolution(3, 16, (3, 5), padding=(1, 2, 3, 0)), scale(16)),
    "strides": layer("conv2d", (17, 15, 9), convolution(9, 8, (3, 3), stride=(3, 2), padding=(1, 1, 1, 1)), scale(8)),
    "dilated": layer("conv2d", (14, 15, 8), convolution(8, 8, (3, 2), dilation=(2, 4), padding=(2, 1, 0, 3)), scale(8)),
    "zero point": layer(
        "conv2d", (6, 6, 8), convolution(8, 8, (3, 3), zero_point=-17, padding=(1, 1, 1, 1)), scale(8, zero_point=9)
    ),
    "relu": layer("conv2d", (6, 6, 8), convolution(8, 11, (3, 3)), scale(11, least=0)),
    "relu6": layer("conv2d", (6, 6, 8), convolution(8, 11, (3, 3)), scale(11, least=0, most=77)),
    "clamp": layer("conv2d", (6, 6, 8), convolution(8, 11, (3, 3)), scale(11, least=-31)),
    "wide bias": layer("conv2d", (6, 6, 8), convolution(8, 11, (3, 3), bias=1 << 22), scale(11, least=0)),
    "no bias": layer("conv2d", (6, 6, 8), convolution(8, 11, (3, 3), bias=0), scale()),
    "strips": layer("conv2d", (60, 40, 64), BIG, scale(16)),
    "rows between those of windows": layer("conv2d", (17, 14, 9), convolution(9, 8, (1, 1), stride=(4, 3)), scale(8)),
    "rows that a strip leaves out": layer("conv2d", (130, 96, 96), convolution(96, 8, (1, 2), stride=(2, 1)), scale(8)),
    "strips of strides": layer(
        "conv2d", (80, 40, 32), convolution(32, 8, (5, 3), stride=(2, 1), padding=(2, 2, 1, 1)), scale(8)
    ),
    "streams": layer("conv2d", (4, 4, 128), convolution(128, 200, (3, 3), padding=(1, 1, 1, 1)), scale(200)),
    "depthwise": layer(
        "depthwise", (7, 9, 20), convolution(20, 20, (3, 3), groups=20, padding=(1, 1, 1, 1)), scale(20)
    ),
    "groups of 8": layer("conv2d", (7, 6, 16), convolution(16, 32, (3, 3), groups=2), scale(32)),
    "groups of 4": layer("conv2d", (7, 6, 24), convolution(24, 24, (3, 3), groups=6), scale(24)),
    "multiplier": layer("depthwise", (7, 6, 12), convolution(12, 24, (3, 3), groups=12), scale(24)),
    "fully connected": layer("fc", (1, 1, 100), convolution(100, 10, (1, 1)), scale(10)),
    "image mean": layer("avgpool", (25, 5, 12), ImageSum(3), scale()),
    "scale": layer("requantize", (5, 6, 13), scale(13, least=0)),
    "scale with zero points": layer("requantize", (5, 6, 13), replace(scale(zero_point=-7), input_zero_point=5)),
    "maximum": layer("maxpool", (9, 11, 17), Pool(False, (3, 2), (2, 2), ONE, (1, 1, 0, 1), False, 0)),
    "wide maximum": layer("maxpool", (7, 300, 5), Pool(False, (5, 3), (1, 1), ONE, (2, 2, 1, 1), False, 0)),
    "far maximum": layer("maxpool", (20, 20, 8), Pool(False, (2, 3), (5, 7), ONE, NONE, False, 0)),
    "mean 2x2": layer("avgpool", (8, 9, 9), Pool(True, (2, 2), (2, 2), ONE, NONE, False, 0)),
    "mean 3x3": layer("avgpool", (8, 9, 9), Pool(True, (3, 3), (1, 1), ONE, (1, 1, 1, 1), True, -5)),
    "mean 2x8": layer("avgpool", (8, 70, 9), Pool(True, (2, 8), (2, 1), ONE, NONE, True, 0)),
    "mean 6x6": layer("avgpool", (12, 11, 9), Pool(True, (6, 6), (3, 2), ONE, (1, 2, 0, 2), True, 0)),
    "flattening": layer("move", (3, 4, 16), Movement("reshape", {"shape": (1, 192)}, ((1, 3, 4, 16), (1, 192)))),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_the_model_computes_a_layer(name: str) -> None:
    case, rng = LAYERS[name], np.random.default_rng(len(name))
    assert ENCODER.refuses(case) is None
    for low, high in ((-128, 128), (100, 128), (-128, -100)):
        given = [rng.integers(low, high, tensor.shape, np.int8) for tensor in case.inputs]
        got, _ = computed(case, given)
        assert (got == evaluated(case, given).reshape(got.shape)).all()


def parts(name: str) -> int:
    """How many jobs compute a layer."""
    case = LAYERS[name]
    _, steps = computed(case, [np.zeros(tensor.shape, np.int8) for tensor in case.inputs])
    return sum(step.kind is Kind.WAIT for step in steps)


def test_how_layers_are_divided() -> None:
    assert {name: parts(name) for name in ("point", "streams")} == {"point": 1, "streams": 1}
    assert parts("strips") > 1
    assert parts("depthwise") == 3
    assert parts("groups of 8") == 2
    assert parts("groups of 4") == 3, "two groups of 4 channels are a job of 8"
    assert parts("wide maximum") == 19, "5 rows overlap: 16 columns at a time"


def addition(lhs: int, rhs: int, shift: int, **changes: Any) -> Addition:
    """A sum whose operands have two multipliers."""
    other = Tensor("x1", (1, 6, 7, 19), 8)
    plain = Addition(other, 0, 0, lhs, rhs, shift, 0, -128, 127, 8)
    return replace(plain, **changes)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("step", "number"),
    [
        (addition(127 * 9001, 88 * 9001, 21), 3), (addition(-3 * 16383, 127 * 16383, 20), 3),
        (addition(1 << 30, 1 << 30, 31), 1), (addition(127 * 5, 126 * 5, 10, lower=0), 1), (addition(1, 1, 1), 1),
        (addition(3, 5, 3), 1), (addition(127 * 16383, 64 * 16383, 22), 1), (addition(2 * 999, 56 * 999, 14), 1),
        (addition(0, 77, 7), 1), (addition(0, 64, 7), 1), (addition(-3 * 700, 125 * 700, 17), 1),
        (addition(119 * 777, 127 * 777, 18, own_zero_point=-128, other_zero_point=127, zero_point=-3), 1),
        (addition(37 * 901, 78 * 901, 17, own_zero_point=9, other_zero_point=-128, zero_point=127), 1),
        # The rectifier comes before the zero points of the operands; the addend of the conversion has 32 bits.
        (addition(101 * 777, 100 * 777, 17, own_zero_point=-128, other_zero_point=127, zero_point=-3, lower=-3), 3),
        (addition(127 * 16383, 126 * 16383, 26, own_zero_point=-128, other_zero_point=-128, zero_point=127), 3),
    ],
    ids=lambda step: f"{step.multiplier} {step.other_multiplier} {step.shift}" if isinstance(step, Addition) else "",
)  # fmt: skip
def test_the_model_adds_two_tensors(step: Addition, number: int, swapped: bool) -> None:
    """Sums are rounded once, halves up, in a pass through SDP or in a job for each 8 channels.

    Either operand may lie first in memory.
    """
    case, rng = layer("add", (6, 7, 19), step, others=1), np.random.default_rng(step.shift)
    assert ENCODER.refuses(case) is None
    given = [rng.integers(-128, 128, tensor.shape, np.int8) for tensor in case.inputs]
    got, steps = computed(case, given, swapped)
    assert (got == evaluated(case, given)[0]).all()
    assert sum(each.kind is Kind.WAIT for each in steps) == number


def test_sums_in_strips_of_rows() -> None:
    case, rng = layer("add", (200, 100, 8), addition(5, 127, 8), others=1), np.random.default_rng(0)
    case = replace(case, steps=(replace(case.steps[0], other=case.inputs[1]),))
    given = [rng.integers(-128, 128, tensor.shape, np.int8) for tensor in case.inputs]
    got, steps = computed(case, given)
    assert (got == evaluated(case, given)[0]).all()
    assert sum(each.kind is Kind.WAIT for each in steps) == 3, "79 rows of 100 columns of both fit 31 banks"


# -- registers


def test_registers_are_those_of_the_vectors(shared: Callable[[str], Path]) -> None:
    """The units that convolve get the registers with which the RTL gave the vectors, banks and strides among them."""
    seen = 0
    for vector in vectors(shared):
        meta: Any = vector.meta
        if meta["kind"] != "conv" or "clip" not in meta or meta["clip"] or not vector.name.startswith("conv_"):
            continue
        seen += 1
        width, height, channels, kernels, rows, columns = (meta[key] for key in "WHCKRS")
        out_width, out_height, _ = meta["out"]
        left, right, top, bottom = meta["pad"]
        packed = atoms(kernels * rows * columns * channels) * 8
        banks = jobs.fits((height, width * atoms(channels)), packed, 8 * rows * columns * channels)
        assert banks is not None
        job = jobs.Convolution(
            Cube(meta["addr"]["x"], height, width, channels, meta["line"], meta["surf"]),
            Cube.whole(meta["addr"]["y"], out_height, out_width, kernels), meta["addr"]["w"], packed, (rows, columns),
            tuple(meta["stride"][::-1]), tuple(meta["dil"][::-1]), (top, bottom, left, right), meta["padv"], *banks,
            Finish(),
        )  # fmt: skip
        own = {step.address: step.value for step in Driver().run(job) if step.kind is Kind.WRITE}
        theirs = {step.address: step.value for step in vector.program.commands if step.kind is Kind.WRITE}
        for address in own.keys() | theirs.keys():
            place = BY_ADDRESS[address]
            if place.unit in ("CDMA", "CSC", "CMAC_A", "CMAC_B", "CACC"):
                assert own.get(address) == theirs.get(address), f"{vector.name}: {place.unit}.{place.name}"
    assert seen >= 50


def test_units_take_their_groups_in_turn() -> None:
    """A layer of PDP between two convolutions leaves the groups of the others in turn."""
    driver, cube = Driver(), Cube.whole(BASE, 4, 4, 8)
    pool = jobs.Pool(cube, cube, (1, 1), ONE, NONE)
    passed = jobs.Pass(cube, cube, Finish())
    for job, waited in ((passed, 0x1), (pool, 0x10), (passed, 0x2), (passed, 0x1), (pool, 0x20)):
        steps = driver.run(job)
        assert steps[-1].value == waited
        group = int(waited in (0x2, 0x20))
        unit = "PDP" if job is pool else "SDP"
        assert write(unit, "S_POINTER", PRODUCER=group) in steps


# -- numbers


def test_one_shift_for_all_factors() -> None:
    common = common_factors(np.array([3 << 29, 1 << 30]), np.array([-2, -5]))
    assert not isinstance(common, str)
    assert [float(n) / 2.0 ** common[1] for n in common[0]] == [0.75 / 4, 0.5 / 32]
    found = common_factors(np.array([(1 << 31) - (1 << 16), 1 << 30]), np.array([0, -15]))
    assert found == "all multipliers of a layer have 16 bits and one shift, got 17 bits for one shift"
    assert "shifted right by at most 47 bits" in str(common_factors(np.array([(1 << 30) + (1 << 16)]), np.array([-40])))


@pytest.mark.parametrize("area", range(1, 129))
def test_means_by_a_factor(area: int) -> None:
    """Every mean of up to 128 bytes has a factor of 16 bits."""
    found = averaging(area)
    assert found is not None
    assert finishing(found, np.zeros(1, np.int64)) != ""


def test_means_by_reciprocals() -> None:
    """A window has reciprocals if its size is a power of two, or if it is 3x3, 5x5 or 7x7."""
    found = {(rows, columns) for rows in range(1, 9) for columns in range(1, 9) if reciprocals((rows, columns))}
    powers = {(1 << m, 1 << n) for m in range(4) for n in range(4)}
    assert powers | {(3, 3), (5, 5), (7, 7)} <= found
    assert (6, 6) not in found


# -- what is refused


def changed(name: str, **changes: Any) -> Layer:
    """A layer with other numbers in its first step."""
    first, *rest = LAYERS[name].steps
    return replace(LAYERS[name], steps=(replace(first, **changes), *rest))


REFUSED: dict[str, tuple[Layer, str]] = {
    "images": (
        replace(LAYERS["point"], inputs=(Tensor("x", (2, 5, 7, 24), 8),), output=Tensor("y", (2, 5, 7, 19), 8)),
        "one image at a time, got 2",
    ),
    "bits": (replace(LAYERS["point"], output=Tensor("y", (1, 5, 7, 19), 16)), "have 8 bits"),
    "channels": (replace(LAYERS["point"], output=Tensor("y", (1, 5, 7, 8193), 8)), "at most 8192 each, got 8193"),
    "weights' zero point": (changed("point", weight_zero_point=3), "weights have the zero point 0, got 3"),
    "wide sums": (changed("point", sum_bits=64), "sums have 32 bits, got 64"),
    "stride": (changed("point", stride=(9, 1)), "strides are at most 8, got 9"),
    "dilation": (changed("dilated", dilation=(33, 1)), "dilations are at most 32, got 33"),
    "padding above": (changed("padded", padding=(32, 0, 0, 0)), "columns left of the data are at most 31, got 32"),
    "padding right": (changed("padded", padding=(0, 0, 0, 64)), "columns right of the data are at most 63, got 64"),
    "buffer": (
        layer("conv2d", (4, 2000, 64), convolution(64, 8, (3, 3)), scale(8)),
        "the rows of a window, of 128000 bytes each, and 8 kernels, of 4608 bytes, fit 32 banks of 4096 bytes",
    ),
    "contract": (
        layer("conv2d", (5, 7, 24), convolution(24, 19, (1, 1)), replace(scale(19), contract="single")),
        "rounded once, halves away from 0, got single",
    ),
    "shifts": (
        layer("conv2d", (5, 7, 24), convolution(24, 2, (1, 1)),
              replace(scale(2), multipliers=np.array([(1 << 31) - (1 << 16), 1 << 30]), shifts=np.array([0, -20]))),
        "16 bits and one shift, got 22 bits",
    ),
    "two clamps": (
        layer("conv2d", (5, 7, 24), convolution(24, 19, (1, 1)), scale(19, least=-50, most=50)),
        "clamped at one bound other than 0, got -50 and 50",
    ),
    "clamp and wide bias": (
        layer("conv2d", (5, 7, 24), convolution(24, 19, (1, 1), bias=1 << 20), scale(19, most=50)),
        "a bias has 16 bits before it is moved left",
    ),
    "dilated pool": (changed("maximum", dilation=(2, 1)), "pools have no dilations, got 2"),
    "large pool": (changed("maximum", window=(9, 2)), "windows of at most 8 rows and columns"),
    "mean of elements alone": (changed("mean 3x3", counts_padding=False), "count the elements of the padding"),
    "mean of a zero point": (changed("mean 6x6", zero_point=4), "count padding as 0, got 4"),
    "shapes of sums": (
        replace(layer("add", (6, 7, 19), addition(1, 1, 1), others=1),
                inputs=(Tensor("x", (1, 6, 7, 19), 8), Tensor("z", (1, 1, 1, 19), 8))),
        "added have one shape, got 1x6x7x19 and 1x1x1x19",
    ),
    "multipliers of sums": (
        layer("add", (6, 7, 19), addition(129, 1, 5), others=1), "multipliers of 8 bits beside one of both, got 129",
    ),
    "common multiplier": (
        layer("add", (6, 7, 19), addition(16385, 16385, 5), others=1), "of both operands has 15 bits",
    ),
    "clamped sum": (
        layer("add", (6, 7, 19), addition(1, 1, 1, upper=50), others=1), "clamped at 0 alone, got -128 and 50",
    ),
    "reshape": (
        layer("move", (3, 4, 16), Movement("reshape", {"shape": (1, 4, 3, 16)}, ((1, 3, 4, 16), (1, 4, 3, 16)))),
        "reshaped to the channels of one pixel",
    ),
    "channels of a reshape": (
        layer("move", (3, 4, 9), Movement("reshape", {"shape": (1, 108)}, ((1, 3, 4, 9), (1, 108)))),
        "a multiple of 8 channels, got 9",
    ),
    "movement": (
        replace(LAYERS["flattening"], steps=(Movement("transpose", {}, ()),)), "NVDLA computes no layer of movement",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    refused, says = REFUSED[name]
    assert says in str(ENCODER.refuses(refused))


# -- networks


def blocks(tmp_path: Path) -> Path:
    """A network with each kind of layer: convolutions, a residual sum, pools, and a head."""
    rng, path = np.random.default_rng(4), tmp_path / "blocks.onnx"

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    held = {
        "k": weights(16, 3, 3, 3), "kb": weights(16, 1)[:, 0], "d": weights(16, 1, 3, 3), "p": weights(16, 16, 1, 1),
        "g": weights(24, 8, 3, 3), "fc": weights(10, 144), "fb": weights(10, 1)[:, 0],
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["a"], "stem", pads=[1, 0, 0, 1], strides=[2, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "d"], ["c"], "taps", pads=[1, 1, 1, 1], group=16),
        helper.make_node("Conv", ["c", "p"], ["e"], "point"),
        helper.make_node("Add", ["b", "e"], ["f"], "sum"),
        helper.make_node("Relu", ["f"], ["f2"], "relu2"),
        helper.make_node("MaxPool", ["f2"], ["h"], "most", kernel_shape=[3, 3], strides=[1, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["h", "g"], ["i"], "groups", group=2),
        helper.make_node("AveragePool", ["i"], ["j"], "mean", kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("Flatten", ["j"], ["n"], "flat"),
        helper.make_node("Gemm", ["n", "fc", "fb"], ["y"], "head", transB=1),
    ]
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, [1, 3, 12, 11]), ("y", 1, [1, 10]))]
    constants = [numpy_helper.from_array(a, name) for name, a in held.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def test_jobs_as_traces(tmp_path: Path) -> None:
    """Each job is a trace of NVIDIA's form, whose checksum a run from a reset gives, and no run with another weight."""
    small, samples = (
        device_of("nvdla-small"),
        np.random.default_rng(0).standard_normal((4, 1, 3, 12, 11)).astype(np.float32),
    )
    network = Network.of(qmlir.quantize(blocks(tmp_path), data=samples, target=small, measure=False), small)
    paths: list[Path] = []

    class Traced(NvdlaBoard):
        def run(self, placed: PlacedLayer, words: Sequence[int]) -> None:
            traces = job_traces(words, self.device, f"layer{placed.number:02}")
            paths.extend(trace.write(tmp_path / "traces") for trace in traces)

    run = network.run(samples[0], board=Traced)
    assert set(run.differing.values()) == {0}
    jobs_of_all = sum(step_of(each).kind is Kind.WAIT for each in network.program.words.all)
    assert len(paths) == jobs_of_all > len(network.program.layers)
    for path in paths:
        trace = read(path)
        assert [check.holds(run_program(trace.program)) for check in trace.checks] == [True], path.name
    stem = read(paths[0])
    segments = [(at, bytes(byte ^ 1 for byte in data)) for at, data in stem.program.segments]
    assert not stem.checks[0].holds(run_program(Program(stem.program.commands, segments)))


@pytest.mark.parametrize("bias", ["i16", "i32"])
def test_a_network_of_every_kind(tmp_path: Path, bias: str) -> None:
    small = device_of("nvdla-small", quant__bias__type=bias, fallback__bytes_per_cycle=0.01)
    samples = np.random.default_rng(0).standard_normal((4, 1, 3, 12, 11)).astype(np.float32)
    quantized = qmlir.quantize(blocks(tmp_path), data=samples, target=small, measure=False)
    network, reference = Network.of(quantized, small), qmlir.reference(quantized)
    kinds = {placed.layer.kind for placed in network.program.layers}
    assert kinds >= {"conv2d", "depthwise", "add", "maxpool", "avgpool", "fc"}
    for sample in samples:
        run = network.run(sample)
        assert set(run.differing.values()) == {0}
        assert (run.outputs[0] == np.asarray(reference(sample))).all()
