"""Sums that the device file makes narrow: what fits is exact whatever the data are, what might not is refused.

The device of these tests stops where a sum does not fit, so a layer that gets through without being proved is found.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.reference import evaluate
from qmlir.backends.simulated import assemble
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import Device, load_device
from qmlir.dialects import qint
from qmlir.errors import PipelineError
from tests.graphs import drawn
from tests.lowering.qint_to_npu.layers import Draft, Layer
from tests.ops.sample import narrow, scaled, zero

TARGETS = Path(__file__).parents[3] / "qmlir" / "targets"
HALF = 1 << 23
"""Numbers of 24 bits are in [−HALF, HALF)."""


@st.composite
def layers(draw: st.DrawFn, device: Device) -> tuple[Layer, bool]:
    """A layer around the limit, on the data that make its sums the largest and the smallest; and whether these fit."""
    draft = Draft(draw, device, 8)
    terms, point = draft.integer(250, 600), draft.zero_point()
    weights = np.where(draft.random(8, 2, terms) < draft.integer(-128, 127), -128, draft.integer(90, 127))
    bias = np.array([draft.integer(-HALF // 4, HALF // 4) for _ in range(2)])
    highest = np.where(weights > 0, 127, -128)
    data = np.concatenate([highest, -1 - highest])
    x = draft.input(*data.shape)
    operands = [x, draft.constant(weights.astype("i1")), [draft.constant(bias.astype("i4"))]]
    acc = draft.add(qint.FullyConnectedOp, operands, zero(point), 32)
    y = draft.add(qint.RequantizeOp, [acc], scaled([1 << 30], [-15], "single") | narrow(), 8)
    sums = (data - point) @ weights.T
    met = np.concatenate([sums, sums + bias])
    fits = bool(-HALF <= met.min() and met.max() < HALF)
    return Layer(draft.module(y), None if fits else "array.modes.acc", [data.astype("i1")]), fits


@pytest.mark.slow
@pytest.mark.parametrize("overflow", ["trap", "saturate"])
def test_sums_of_24_bits(overflow: str, tmp_path: Path) -> None:
    text = (TARGETS / "ethos-u55-like.toml").read_text("utf-8")
    file = tmp_path / "narrow.toml"
    narrower = text.replace('acc = "i32"', 'acc = "i24"').replace("[array]", f'[array]\noverflow = "{overflow}"')
    file.write_text(narrower, "utf-8")
    device, seen = load_device(file), set[bool]()
    commands = Pipeline(("qint-to-npu", {"device": str(file)}), "npu-fuse", "npu-tile", "npu-place", "npu-order")

    def check(case: tuple[Layer, bool]) -> None:
        layer, fits = case
        seen.add(fits)
        if not fits:
            with pytest.raises(PipelineError, match=r"sums take at most 24 bits of i8 by i8 .*array\.modes\.acc"):
                commands(layer.module)
            return
        program = assemble(commands(layer.module))
        assert not program.routines
        (expected,) = evaluate(main_function(layer.module), layer.inputs)
        (got,) = Simulator(program, device).run(*layer.inputs)
        np.testing.assert_array_equal(got, expected)

    drawn(40)(seed(0)(given(layers(device))(check)))()
    assert seen == {True, False}
