"""Layers as streams of VTA: the functional model computes what the layers say, and what VTA cannot is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware import vta
from qmlir.backends.hardware.vta.encoder import Vta
from qmlir.backends.hardware.vta.instructions import MicroOp, Unit, instruction
from qmlir.backends.hardware.vta.stream import MicroOps
from qmlir.devices.model.encoder import encoder_of
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Lookup,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
)
from qmlir.errors import QmlirError
from tests.backends.hardware.faults import faulty
from tests.backends.hardware.vta import layers
from tests.backends.hardware.vta.layers import ENCODER, requantization, run, tensor
from tests.conftest import THOROUGH
from tests.devices.test_layer_encoder import evaluated

SEEDS = range(400 if THOROUGH else 25)
ORDERS = [(), (Unit.LOAD, Unit.COMPUTE), (Unit.COMPUTE,), (Unit.STORE, Unit.COMPUTE)]
DRAWN: dict[str, Callable[[np.random.Generator], Layer]] = {
    "convolution": layers.convolution, "pool": layers.pool, "elements": layers.elements
}  # fmt: skip


def inputs(layer: Layer, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, each.shape, np.int8) for each in layer.inputs]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DRAWN)
def test_layers_are_what_their_data_say(kind: str, seed: int) -> None:
    layer = DRAWN[kind](np.random.default_rng(seed))
    assert ENCODER.refuses(layer) is None, str(layer)
    given = inputs(layer, seed)
    expected = evaluated(layer, given)
    for first in ORDERS:
        assert (run(layer, given, first) == expected).all(), str(layer)


@pytest.mark.parametrize("seed", SEEDS)
def test_movements_are_those_of_numpy(seed: int) -> None:
    layer, compute = layers.movement(np.random.default_rng(seed))
    assert ENCODER.refuses(layer) is None, str(layer)
    given = inputs(layer, seed)
    for first in ORDERS:
        assert (run(layer, given, first) == compute(*given)).all(), str(layer)


def convolution(rng: np.random.Generator, data: tuple[int, int, int], outputs: int, kernel: int, right: int) -> Layer:
    weights = rng.integers(-128, 128, (outputs, kernel, kernel, data[2]), np.int8)
    before, behind = (kernel - 1) // 2, kernel // 2
    step = Convolution(weights, 0, None, 0, 1, (1, 1), (1, 1), (before, behind, before, behind), 32)
    steps = (step, requantization(rng, right))
    return Layer("layer", "conv2d", (tensor("x", *data),), tensor("y", *data[:2], outputs), steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "outputs", "kernel"),
    [
        pytest.param((112, 112, 3), 40, 7, id="columns in parts"),
        pytest.param((1, 1, 4096), 1000, 1, id="weights in many pieces"),
        pytest.param((60, 70, 48), 16, 3, id="rows in parts"),
        pytest.param((20, 20, 100), 20, 11, id="channels in pieces"),
        pytest.param((12, 12, 16), 16, 16, id="the largest window with padding"),
    ],
)
def test_layers_that_are_larger_than_the_buffers(data: tuple[int, int, int], outputs: int, kernel: int) -> None:
    layer = convolution(np.random.default_rng(3), data, outputs, kernel, 12)
    given = inputs(layer, 3)
    expected = evaluated(layer, given)
    for first in ORDERS[:2]:
        assert (run(layer, given, first) == expected).all()


@pytest.mark.parametrize("outputs", [1, 16, 20, 100, 240, 250])
@pytest.mark.parametrize("channels", [16, 32, 250, 4000])
def test_few_sums_do_not_follow_each_other(channels: int, outputs: int) -> None:
    """The model refuses a step that reads a sum on its way; the last parts and pieces are smaller than the first."""
    for data, kernel in (((1, 1, channels), 1), ((3, 4, channels), 3)):
        layer = convolution(np.random.default_rng(channels), data, outputs, kernel, 12)
        given = inputs(layer, outputs)
        assert (run(layer, given) == evaluated(layer, given)).all()


def test_groups_that_do_not_read_as_many_blocks() -> None:
    """Groups of 24 channels: the blocks of the result read two or three blocks of the data."""
    rng = np.random.default_rng(0)
    for data, kernel in (((1, 1, 120), 1), ((2, 5, 120), 2), ((9, 40, 120), 3)):
        layer = convolution(rng, data, 120, kernel, 9)
        step = layer.steps[0]
        assert isinstance(step, Convolution)
        layer = replace(layer, steps=(replace(step, groups=5, weights=step.weights[..., :24]), layer.steps[1]))
        assert ENCODER.refuses(layer) is None
        given = inputs(layer, 0)
        assert (run(layer, given) == evaluated(layer, given)).all()


@pytest.mark.parametrize("right", [0, 1, 15, 16, 17, 20, 30, 31])
def test_shifts_of_all_widths(right: int) -> None:
    """Shifts beyond 15 are several."""
    rng = np.random.default_rng(right)
    layer = convolution(rng, (3, 3, 16), 16, 1, right)
    step = layer.steps[0]
    assert isinstance(step, Convolution)
    bias = rng.integers(-1 << min(right + 7, 29), 1 << min(right + 7, 29), 16)
    layer = replace(layer, steps=(replace(step, bias=bias), layer.steps[1]))
    assert ENCODER.refuses(layer) is None
    given = inputs(layer, right)
    assert (run(layer, given) == evaluated(layer, given)).all()


@pytest.mark.parametrize("size", [(5, 6, 20), (1, 3, 16), (1, 1, 40)])
def test_factors_that_one_weight_does_not_hold(size: tuple[int, int, int]) -> None:
    """A tensor of a much coarser scale is added several times."""
    x, z, y = (tensor(name, *size) for name in "xzy")
    step = Addition(z, 0, 0, 1 << 20, 1 << 28, 26, 0, -128, 127, 8)
    finer = replace(step, multiplier=1 << 28, other_multiplier=1 << 20)
    for steps in ((step,), (requantization(np.random.default_rng(0), 1), step), (finer,)):
        layer = Layer("layer", "add", (x, z), y, steps)
        given = inputs(layer, 1)
        assert (run(layer, given) == evaluated(layer, given)).all()


@pytest.mark.parametrize("window", [(1, 3), (2, 3), (3, 3), (5, 5), (7, 7), (10, 5), (25, 5), (14, 14)])
def test_means(window: tuple[int, int]) -> None:
    """Sums in the middle between two means, of even windows, and those beside them are among the data."""
    rows, columns = window
    number, rng = rows * columns, np.random.default_rng(0)
    data, result = tensor("x", rows, columns * 40, 16), tensor("y", 1, 40, 16)
    layer = Layer("layer", "avgpool", (data,), result, (Pool(True, window, window, (1, 1), (0, 0, 0, 0), True, 0),))
    assert ENCODER.refuses(layer) is None
    sums = rng.integers(-128, 128, (40, 16)) * number + rng.choice([number // 2, -number // 2, 1, 0], (40, 16))
    sums = sums.clip(-128 * number, 127 * number)
    each, more = sums // number, sums % number
    given = each[:, None] + (np.arange(number)[None, :, None] < more[:, None])  # so many elements are one larger
    image = given.reshape(40, rows, columns, 16).transpose(1, 0, 2, 3).reshape(data.shape).astype(np.int8)
    wanted = np.sign(sums) * ((2 * abs(sums) + number) // (2 * number))
    assert (run(layer, [image]) == wanted.reshape(result.shape)).all()
    assert (evaluated(layer, [image]) == wanted.reshape(result.shape)).all()


def test_a_tensor_that_is_constant() -> None:
    contents = np.random.default_rng(0).integers(-128, 128, (1, 3, 4, 18), np.int8)
    held = replace(tensor("c", 3, 4, 18), contents=contents)
    assert len(ENCODER.contents(held)) == ENCODER.size(held) == 2 * 3 * 4 * 16
    assert ENCODER.contents(held)[16 * 12 : 16 * 12 + 3] == contents[0, 0, 0, 16:].tobytes() + b"\0"


@pytest.mark.parametrize("kind", DRAWN)
def test_several_images(kind: str) -> None:
    for seed in range(4):
        layer = DRAWN[kind](np.random.default_rng(seed))
        several = [replace(each, shape=(3, *each.shape[1:])) for each in (*layer.inputs, layer.output)]
        layer = replace(layer, inputs=tuple(several[:-1]), output=several[-1])
        given = inputs(layer, seed)
        for first in ORDERS:
            assert (run(layer, given, first) == evaluated(layer, given)).all(), str(layer)


def test_micro_ops_are_brought_again_when_others_took_their_place() -> None:
    held, many = MicroOps(100), [[MicroOp(n % 2048, turn) for n in range(5000)] for turn in range(2)]
    (load,), *where = held.use(many[0])
    assert (load.address, load.columns, where) == (100, 5000, [0, 5000])
    assert held.use(many[0]) == ([], 0, 5000)
    (load,), *where = held.use(many[1])
    assert (load.buffer_address, load.address, where) == (0, 5100, [0, 5000])
    (load,), *where = held.use(many[0])
    assert (load.buffer_address, load.address, where) == (0, 100, [0, 5000])
    assert len(held.contents) == 4 * 10000


def test_tokens_are_taken_as_often_as_they_are_given() -> None:
    layer = convolution(np.random.default_rng(0), (40, 40, 20), 40, 3, 12)
    stream = [instruction(word) for words in ENCODER.encode(iter([placed(layer)])) for word in words]
    ways = {"load": 0, "store": 0}
    for each in stream:
        before, behind = {Unit.LOAD: (None, "load"), Unit.COMPUTE: ("load", "store"), Unit.STORE: ("store", None)}[
            each.unit
        ]
        for way, pop, push in (
            (before, each.pop_previous, each.push_previous),
            (behind, each.pop_next, each.push_next),
        ):
            assert way is not None or (not pop and not push)
            if way is not None:
                ways[way] += push - pop
    assert ways == {"load": 0, "store": 0}


def placed(layer: Layer) -> PlacedLayer:
    return PlacedLayer(0, layer, (0,) * len(layer.inputs), 0, (0, 0, 0), 0)


# -- what is refused

RNG = np.random.default_rng(0)
SUMS = convolution(RNG, (4, 4, 8), 8, 3, 9)
CONVOLUTION, SCALE = SUMS.steps
assert isinstance(CONVOLUTION, Convolution)
assert isinstance(SCALE, Requantization)
X, Y = SUMS.inputs[0], SUMS.output
MAXIMUM = Pool(False, (2, 2), (1, 1), (1, 1), (0, 0, 0, 0), False, 0)
SUM = Addition(X, 0, 0, 1 << 28, 1 << 28, 29, 0, -128, 127, 8)


def with_steps(*steps: Any, data: Any = X, result: Any = Y) -> Layer:
    return replace(SUMS, steps=steps, inputs=(data,) * (2 if Addition in map(type, steps) else 1), output=result)


REFUSED = {
    "images": (with_steps(SCALE, data=replace(X, shape=(2, 4, 4, 8))), "as many images as it reads, got 1"),
    "another shape": (
        replace(with_steps(SUM), inputs=(X, tensor("z", 1, 4, 8))),
        r"adds tensors of one shape, got \(1, 1, 4, 8\) for \(1, 4, 4, 8\)",
    ),
    "a shape of its own": (
        replace(with_steps(SUM), inputs=(tensor("z", 1, 1, 8), X)),
        r"adds tensors of one shape, got \(1, 1, 1, 8\)",
    ),
    "wide": (with_steps(CONVOLUTION, SCALE, result=replace(Y, bits=16)), "tensors of 8 bits an element, got 16"),
    "nothing": (with_steps(SCALE, data=replace(X, shape=(1, 0, 4, 8))), "tensors with elements, got none"),
    "zero point": (with_steps(replace(CONVOLUTION, zero_point=3), SCALE), "have no zero points, got 3"),
    "zero point of weights": (with_steps(replace(CONVOLUTION, weight_zero_point=1), SCALE), "no zero points, got 1"),
    "zero point of a sum": (with_steps(replace(SUM, own_zero_point=2)), "without zero points, got 2 and 0"),
    "zero point of an image": (with_steps(ImageSum(4), SCALE), "no zero points, got 4"),
    "weights": (
        with_steps(replace(CONVOLUTION, weights=CONVOLUTION.weights.astype(np.int16) * 2), SCALE),
        "weights have 8 bits",
    ),
    "no scale": (with_steps(CONVOLUTION), "stores the low 8 bits of sums, which here reach from -[0-9]+ to [0-9]+"),
    "padding": (
        with_steps(replace(CONVOLUTION, padding=(16, 0, 0, 0), dilation=(9, 1)), SCALE),
        "at most 15 rows and columns of padding, got 16",
    ),
    "contract": (with_steps(CONVOLUTION, replace(SCALE, contract="double")), "power of two, got the contract double"),
    "channels": (
        with_steps(CONVOLUTION, replace(SCALE, multipliers=np.array([1 << 30] * 8), shifts=np.arange(8) - 9)),
        "changes scales by one power of two",
    ),
    "multiplier": (
        with_steps(CONVOLUTION, replace(SCALE, multipliers=np.array([3 << 29]))),
        "powers of two, got the multiplier 1610612736",
    ),
    "shift": (with_steps(CONVOLUTION, replace(SCALE, shifts=np.array([-31]))), "by at most 31, got 32"),
    "shift to the left": (
        with_steps(CONVOLUTION, replace(SCALE, shifts=np.array([18]))),
        "to the left by at most 16, got 17",
    ),
    "sums": (
        with_steps(replace(CONVOLUTION, bias=np.full(8, (1 << 31) - 1)), SCALE),
        "sums wrap at 32 bits, and they may reach 2148[0-9]+",
    ),
    "half of a shift": (
        with_steps(replace(CONVOLUTION, bias=np.full(8, 3 << 29)), replace(SCALE, shifts=np.array([-30]))),
        "sums wrap at 32 bits",
    ),
    "factor": (with_steps(replace(SUM, multiplier=129 << 20)), "by 1 to 127, or by a power of two up to 4096, got 129"),
    "large factor": (with_steps(replace(SUM, other_multiplier=1, multiplier=1 << 13)), "up to 4096, got 8192"),
    "factor of sums": (
        with_steps(SCALE, replace(SUM, multiplier=3 << 20)),
        "multiplies sums by powers of two up to 65536, got 3",
    ),
    "factor below 1": (with_steps(replace(SUM, multiplier=0)), "with factors above 0, got 0"),
    "mean": (
        with_steps(replace(MAXIMUM, average=True, window=(21, 21)), data=tensor("x", 21, 21, 8)),
        "divides by a product in 32 bits, got means of 441 elements",
    ),
    "padding of means": (
        with_steps(replace(MAXIMUM, average=True, padding=(1, 0, 1, 0))),
        "means count padding as 0, got windows that do not",
    ),
    "maximum": (with_steps(MAXIMUM, SUM), "maxima and their scale alone, got another tensor"),
    "window": (
        with_steps(replace(MAXIMUM, window=(40, 40)), data=tensor("x", 40, 40, 8), result=tensor("y", 1, 1, 8)),
        "buffers hold no window of 40x40 elements",
    ),
    "image": (
        with_steps(ImageSum(0), SCALE, data=tensor("x", 40, 40, 8), result=tensor("y", 1, 1, 8)),
        "buffers hold no window of 40x40 elements",
    ),
    "table": (with_steps(Lookup(np.zeros(256, np.int8))), "products of windows, maxima and sums, got a lookup"),
    "table behind": (with_steps(CONVOLUTION, SCALE, Lookup(np.zeros(256, np.int8))), "and bounds, got a lookup"),
    "padding with numbers": (
        with_steps(
            Movement("pad", {"low": (0, 0, 0, 0), "high": (0, 1, 0, 0), "value": (3,)}, ((1, 4, 4, 8), (1, 5, 4, 8))),
            result=tensor("y", 5, 4, 8),
        ),
        "pads with 0, got 3",
    ),
    "movement": (with_steps(Movement("dilate", {}, ((1, 4, 4, 8),) * 2)), "no instructions for a dilate"),
    "movement and more": (with_steps(Movement("reshape", {}, ((1, 4, 4, 8),) * 2), SCALE), "in a layer of its own"),
}  # fmt: skip
"""What cannot be → the layer, and the sentence."""


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_device_cannot(what: str) -> None:
    layer, said = REFUSED[what]
    reason = ENCODER.refuses(layer)
    assert reason is not None
    with pytest.raises(QmlirError, match=said):
        raise QmlirError(reason)


def test_weights_lie_at_whole_tiles() -> None:
    encoder = Vta(qmlir.load_device("vta").with_({"memory.dram.align": 64}))
    assert encoder.refuses(SUMS) == "VTA's addresses of weights count tiles of 256 bytes, got dram with 64"


# -- faults

FAULTS = {
    "halves are dropped": ("epilogue", "self.add((1 << right - 1) * same)", "pass"),
    "shifts beyond 15 are one": ("epilogue", "min(max(right, -16), 15)", "right"),
    "a sum has no half": (
        "epilogue",
        "self.add(np.full(len(self.lower), 1 << right - 1))\n        self.shift(right)\n        self._finish",
        "self.shift(right)\n        self._finish",
    ),
    "no maximum": ("epilogue", "if self.upper.max() > upper:", "if False:"),
    "quotients have no summand": ("epilogue", "return factor, added, right", "return factor, 0, right"),
    "factors begin with their second bit": ("products", "found += self._looped([MicroOp(at, copy)], add)", "pass"),
    "signs are not counted": ("epilogue", "self.acts.append(Sign())", "pass"),
    "tiles are transposed": ("products", "transpose(2, 1, 0, 3)", "transpose(2, 1, 3, 0)"),
    "groups read from the first channel": ("products", "at = first - begin * LANES", "at = 0"),
    "biases begin with the first block": ("products", "self._channels[act] + tile.blocks[0]", "self._channels[act]"),
    "strides of rows are 1": ("products", '"from_inner": windows.stride[0] * columns', '"from_inner": columns'),
    "sums have no copies": ("products", "return max(min(depth * self.weights.repeat,", "return 1 or max(min(1,"),
    "copies are forgotten": ("products", "while copies > 1:", "while False:"),
    "copies are not reset": ("products", "self._reset(at, copies * result)", "self._reset(at, result)"),
    "the last turns read the first blocks": ("products", "done = whole * copies", "done = 0"),
    "pieces read their first block": ("products", "(firsts[block] + begin)", "(firsts[block])"),
    "loads do not wait": ("stream", "loads[0] = replace(loads[0], pop_next=1)", "pass"),
    "sums do not wait for stores": ("stream", "if turn == 0 and number >= 2:", "if False:"),
    "products do not wait for loads": ("stream", "computed[0] = replace(computed[0], pop_previous=1)", "pass"),
    "micro-ops on the chip end early": ("stream", "[], first, first + len(wanted)", "[], first, first + 1"),
    "padding is 0 for maxima": ("maxima", "LEAST = -128", "LEAST = 0"),
    "maxima step by 1": ("maxima", "from_inner=windows.stride[1]", "from_inner=1"),
    "dilations are 1": ("windows", "column * self.dilation[1]", "column"),
    "spans begin without padding": ("windows", "- self.padding[2 * axis]", "- self.padding[2 * axis + 1]"),
    "results lie a row too low": ("windows", "block * rows + tile.rows[0]", "block * rows"),
    "lanes are turned": (
        "movement",
        "tiles[number, row, different[number, row]] = 1",
        "tiles[number, different[number, row], row] = 1",
    ),
}  # fmt: skip
"""What is wrong → the module, a text in it, and what stands there instead."""


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Layer, list[Any], Any]]:
    """Layers with inputs and results, some of which have several parts and pieces."""
    found = list[tuple[Layer, list[Any], Any]]()
    for seed in range(12):
        for draw in DRAWN.values():
            layer = draw(np.random.default_rng(seed))
            found.append((layer, given := inputs(layer, seed), evaluated(layer, given)))
        layer, compute = layers.movement(np.random.default_rng(seed))
        found.append((layer, given := inputs(layer, seed), compute(*given)))
    large = ((40, 40, 20), 40, 3), ((1, 1, 1024), 600, 1), ((24, 24, 90), 80, 5)
    for data, outputs, kernel in (*large, ((1, 1, 1000), 10, 1), ((2, 2, 500), 40, 2)):
        layer = convolution(np.random.default_rng(7), data, outputs, kernel, 11)
        found.append((layer, given := inputs(layer, 7), evaluated(layer, given)))
    return found


def wrong(drawn: list[tuple[Layer, list[Any], Any]], encoder: Any) -> int:
    """The layers of which the model computes something else, or nothing."""
    found = 0
    for layer, given, expected in drawn:
        for first in ORDERS:
            try:
                found += int((run(layer, given, first, encoder) != expected).any())
            except QmlirError:
                found += 1
        if found:
            break
    return found


@pytest.mark.slow
def test_no_fault(drawn: list[tuple[Layer, list[Any], Any]]) -> None:
    assert wrong(drawn, ENCODER) == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught_by_the_model(drawn: list[tuple[Layer, list[Any], Any]], tmp_path: Path, fault: str) -> None:
    encoder = faulty(vta, tmp_path, *FAULTS[fault])("encoder").Vta(qmlir.load_device("vta"))
    assert wrong(drawn, encoder) > 0


def test_the_name_is_qmlirs_own() -> None:
    named = encoder_of(qmlir.load_device("vta").with_({"encoder": "vta"}))
    assert named is not None
    assert isinstance(named.encoder, Vta)
