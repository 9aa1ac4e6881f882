"""Layers in a row, stripe by stripe: the reference's bits, the predicted cycles, less traffic and time, less room."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, seed
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import load_device
from qmlir.devices.model.module import filled_of
from qmlir.dialects.npu import LayerOp
from qmlir.errors import PipelineError
from qmlir.transforms.npu.tile.aliases import joins
from tests.conftest import ROOT, THOROUGH
from tests.graphs import drawn
from tests.lowering.qint_to_npu.layers import Layer
from tests.transforms.npu.test_cascade import chains, layers, run, traffic

EXAMPLES = 20 if THOROUGH else 3

SLOW = {
    "nmp": [("bytes = 262144\nbanks = 8", "bytes = 8192\nbanks = 8"), ("= 16.0, write = 16.0", "= 1.0, write = 1.0")],
    "gemmini": [("bytes = 262144", "bytes = 8192"), ("= 16.0, write = 16.0", "= 1.0, write = 1.0")],
}
"""Devices with little room for data and a slow memory outside, so that stripes pay."""


def slow(name: str, folder: Path) -> Path:
    text = (ROOT / "qmlir" / "targets" / f"{name}.toml").read_text(encoding="utf-8")
    for before, after in SLOW[name]:
        assert before in text
        text = text.replace(before, after, 1)
    written = folder / "slow.toml"
    written.write_text(text, encoding="utf-8")
    return written


def with_room(folder: Path, room: int) -> str:
    """The device `ethos-u55-like` with so many bytes for tensors beside a part for what is brought there."""
    text = (ROOT / "qmlir" / "targets" / "ethos-u55-like.toml").read_text(encoding="utf-8")
    written = folder / f"{room}.toml"
    size = -(-room * 8 // 7 // 64) * 64 + 64
    written.write_text(text.replace("bytes = 2097152", f"bytes = {size}"), encoding="utf-8")
    return str(written)


def fits(module: ModuleOp) -> bool:
    """Whether tensors have room."""
    try:
        Pipeline("npu-tile", "npu-place")(module)
    except PipelineError as error:
        if "tensors must fit" in str(error):
            return False
        raise
    return True


def joined(module: ModuleOp) -> int:
    """How many results are joined from stripes."""
    return sum(isinstance(op, LayerOp) and joins(op) for op in module.walk())


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_layers_in_stripes(name: str, tmp_path: Path) -> None:
    """On random layers in a row; without stripes the same bits, more bytes and more cycles."""
    path = str(slow(name, tmp_path))
    device, banded = load_device(path), list[int]()
    saved: list[tuple[int, int]] = []

    def check(chain: Layer) -> None:
        lowered = layers(chain.module, path)
        stripes, whole = (Pipeline(("npu-cascade", {"stripes": some}))(lowered) for some in (True, False))
        assert joined(whole) == 0
        banded.append(joined(stripes))
        (got, report), (other, without) = run(stripes, device, chain.inputs), run(whole, device, chain.inputs)
        (expected,) = evaluate(main_function(chain.module), chain.inputs)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(other, expected)
        assert len({layer.name for layer in report.layers}) == len(report.layers)
        assert sum(layer.cycles for layer in report.layers) == report.cycles
        if banded[-1]:
            saved.append((without.cycles - report.cycles, traffic(without) - traffic(report)))

    drawn(EXAMPLES)(seed(2)(given(chains(device, (12, 14), (24, 40)))(check)))()
    assert sum(banded) > 0
    assert sum(cycles for cycles, _ in saved) > 0
    assert sum(fewer for _, fewer in saved) > 0


@pytest.mark.slow
def test_stripes_fit_where_layers_do_not(tmp_path: Path) -> None:
    """Into three quarters of the bytes that live at once where layers are whole."""
    device, fitting = load_device("ethos-u55-like"), list[int]()

    def check(chain: Layer) -> None:
        whole = Pipeline("npu-tile", "npu-place")(layers(chain.module, "ethos-u55-like"))
        path = with_room(tmp_path, filled_of(whole)["sram"].bound * 3 // 4)
        lowered = layers(chain.module, path)
        assert not fits(lowered)
        stripes = Pipeline("npu-fit")(lowered)
        if not fits(stripes):
            return
        got, _ = run(stripes, load_device(path), chain.inputs)
        (expected,) = evaluate(main_function(chain.module), chain.inputs)
        np.testing.assert_array_equal(got, expected)
        fitting.append(joined(stripes))

    drawn(EXAMPLES)(seed(3)(given(chains(device, (24, 32), (16, 40)))(check)))()
    assert sum(fitting) > 0
