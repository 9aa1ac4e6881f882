"""Layers in a row: what stays inside the device, the reference's bits, the predicted cycles, less traffic."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import SSAValue

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.report import Report, predicted_cycles
from qmlir.backends.reference import evaluate
from qmlir.backends.simulated import assemble, serial
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import Device, load_device
from qmlir.dialects import nn, qint
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import shape_of
from qmlir.stages import TO_COMMANDS, to_layers
from qmlir.transforms.npu.cascade.residency import address_of
from tests.conftest import THOROUGH
from tests.graphs import drawn
from tests.lowering.qint_to_npu.layers import Draft, Layer
from tests.ops.sample import axis, pads, window
from tests.transforms.npu.test_contraction import device_file

Array = npt.NDArray[Any]

EXAMPLES = 20 if THOROUGH else 10


@st.composite
def chains(
    draw: st.DrawFn, device: Device, rows: tuple[int, int] = (3, 14), channels: tuple[int, int] = (2, 40)
) -> Layer:
    """Two to five layers, each on what the one before yields, and perhaps a sum with an earlier tensor.

    Of rows, which columns are as many as, and of channels there are from so many to so many.
    """
    draft = Draft(draw, device, 8)
    x = draft.input(1, draft.integer(*rows), draft.integer(*rows), draft.integer(*channels))
    known = [draft.requantize(x)]
    for _ in range(draft.integer(2, 5)):
        known.append(_layer(draft, known[-1]))
    y = draft.requantize(known[-1])
    if same := [value for value in known if shape_of(value) == shape_of(y)]:
        y = draft.sum(y, draw(st.sampled_from(same)))
    inputs = [draft.random(8, *shape_of(argument)) for argument in draft.block.args]
    return Layer(draft.module(y), None, inputs)


def _layer(draft: Draft, x: SSAValue) -> SSAValue:
    """A convolution, depthwise or without a window or neither, a pool, of any stride and padding; or something else."""
    kind = draft.draw(st.sampled_from(["conv2d", "depthwise", "pointwise", "maxpool", "other"]))
    if kind == "other":
        return _without_window(draft, x)
    _, rows, columns, channels = shape_of(x)
    kernel = [1 if kind == "pointwise" else draft.integer(1, min(3, n)) for n in (rows, columns)]
    strides = [1 if kind == "pointwise" else draft.integer(1, 2) for _ in kernel]
    padding = [draft.integer(0, k - 1) for k in kernel for _ in range(2)]
    taken = window(strides, padding)
    if kind == "maxpool":
        return draft.add(qint.MaxPool2DOp, [x], {**taken, **window(window=kernel)})
    outputs = channels if kind == "depthwise" else draft.integer(1, 40)
    shape = (1, *kernel, channels) if kind == "depthwise" else (outputs, *kernel, channels)
    bias = draft.constant(draft.random(16, outputs).astype("i4"))
    op = qint.DepthwiseConv2DOp if kind == "depthwise" else qint.Conv2DOp
    return draft.requantize(
        draft.add(op, [x, draft.constant(draft.random(8, *shape)), [bias]], taken, 32), most=-3, contraction=True
    )


def _without_window(draft: Draft, x: SSAValue) -> SSAValue:
    """A change of scale alone, or data that move: reads of what stays that go out again."""
    _, rows, columns, channels = shape_of(x)
    match draft.draw(st.sampled_from(["requantize", "reshape", "concat", "pad", "slice"])):
        case "reshape":
            return draft.add(nn.ReshapeOp, [x], {"shape": ints([1, columns, rows, channels])})
        case "concat":
            return draft.add(nn.ConcatOp, [[x, draft.requantize(x), x]], axis(draft.integer(1, 2)))
        case "pad":
            return draft.add(nn.PadOp, [x], pads([0, 1, 0, 0], [0, 0, 2, 0], IntegerAttr(7, IntegerType(8))))
        case "slice":
            taken = {"offsets": ints([0, 1, 0, 0]), "sizes": ints([1, rows - 1, columns, channels])}
            return draft.add(nn.SliceOp, [x], {**taken, "strides": ints([1] * 4)}) if rows > 1 else x
        case _:
            return draft.requantize(x)


def layers(module: ModuleOp, device: str) -> ModuleOp:
    """A module of layers."""
    return Pipeline(*to_layers(device))(module)


def staying(module: ModuleOp) -> list[LayerOp]:
    return [op for op in module.walk() if isinstance(op, LayerOp) and address_of(op) is not None]


def run(module: ModuleOp, device: Device, inputs: Sequence[Array]) -> tuple[Array, Report]:
    """What the device computes, in order and beside each other; its cycles are those predicted."""
    program = assemble(Pipeline(*TO_COMMANDS[2:])(module))
    simulator = Simulator(program, device)
    (got,) = simulator.run(*inputs)
    (alone,) = Simulator(serial(program, device), device).run(*inputs)
    np.testing.assert_array_equal(got, alone)
    assert simulator.report is not None
    assert simulator.report.cycles == predicted_cycles(program, device)
    return got, simulator.report


def traffic(report: Report) -> int:
    return sum(layer.read.total() + layer.written.total() for layer in report.layers)


def stays_exact(name: str, examples: int) -> int:
    """How many results stay of random layers in a row; the bits are the reference's."""
    device = load_device(name)
    stayed: list[int] = []

    def check(chain: Layer) -> None:
        lowered = Pipeline("npu-cascade")(layers(chain.module, name))
        stayed.append(len(staying(lowered)))
        got, _ = run(lowered, device, chain.inputs)
        (expected,) = evaluate(main_function(chain.module), chain.inputs)
        np.testing.assert_array_equal(got, expected)

    drawn(examples)(seed(0)(given(chains(device))(check)))()
    return sum(stayed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nmp", "gemmini"])
def test_layers_in_a_row(name: str) -> None:
    assert stays_exact(name, EXAMPLES) > EXAMPLES


@pytest.mark.slow
def test_one_memory_for_data_results_and_sums(tmp_path: Path) -> None:
    """32 KiB in eight banks: what stays takes the room of all others."""
    acc = '[[memory]]\nid = "acc"\nbytes = 131072\nalign = 64\nholds = ["acc", "bias"]\n'
    device = device_file(
        tmp_path,
        (acc, ""),
        ("bytes = 262144\nbanks = 8\nalign = 32", "bytes = 32768\nbanks = 8\nalign = 64"),
        ('holds = ["ifm", "ofm"]', 'holds = ["ifm", "ofm", "acc", "bias"]'),
        ('to = ["act", "wgt", "acc"]', 'to = ["act", "wgt"]'),
        ('from = ["act", "acc"]', 'from = ["act"]'),
    )
    assert stays_exact(str(device), EXAMPLES // 2) > EXAMPLES // 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nmp", "gemmini"])
def test_what_stays_is_no_traffic(name: str) -> None:
    """Without it the same bits, more bytes, and no fewer cycles."""
    device, fewer = load_device(name), list[int]()

    def check(chain: Layer) -> None:
        module, inputs = chain.module, chain.inputs
        apart = layers(module, name)
        lowered = Pipeline("npu-cascade")(apart)
        (got, report), (other, without) = run(lowered, device, inputs), run(apart, device, inputs)
        np.testing.assert_array_equal(got, other)
        assert traffic(report) <= traffic(without)
        fewer.append(without.cycles - report.cycles)

    drawn(EXAMPLES // 4)(seed(1)(given(chains(device))(check)))()
    assert sum(fewer) > 0
