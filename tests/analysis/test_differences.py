"""The first tensor whose bits differ between two runs."""

import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.analysis.differences import CPU, REFERENCE, compare
from qmlir.errors import FileError, OptionError, QmlirError
from tests.cli.small import Small, write_small
from tests.transforms.quantize.calibrated import parsed

Array = npt.NDArray[Any]

TEXT = """
func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x4xf32> {
  %w = nn.constant <tensor<4xf32>, WEIGHTS> : tensor<4xf32>
  %0 = nn.mul %x, %w {qmlir.name = #qmlir.name<tensors ["product"]>} : tensor<1x4xf32>, tensor<4xf32> -> tensor<1x4xf32>
  %1 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = nn.sqrt %1 {qmlir.name = #qmlir.name<tensors ["root"]>} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %2 : tensor<1x4xf32>
}
"""
SAMPLES = [np.array([[1.0, 2.0, 3.0, -4.0]], np.float32), np.array([[1.0, 0.0, 3.0, np.nan]], np.float32)]


ONES = "[1.0, 1.0, 1.0, 1.0]"


def renamed(text: str) -> str:
    """The network with other names of tensors, under the same name of its input."""
    return re.sub(r'tensors \["(\w+)"\]', r'tensors ["other_\1"]', text)


def network(weights: str) -> Any:
    return parsed(TEXT.replace("WEIGHTS", weights))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("small"))


def test_executors_agree(small: Small) -> None:
    samples = [s[None] for s in small.samples]
    found = compare(qmlir.quantize(small.onnx, data=samples), iter(samples))
    assert found.first is None
    assert found.samples == len(samples)
    assert {"image", "active", "pooled", "scores"} <= set(found.compared)
    assert found.left_out == ()


@pytest.mark.parametrize("form", ["name", "path", "text of a path", "device"])
def test_a_device_agrees(small: Small, tmp_path: Path, form: str) -> None:
    """The device is given as for `target=`; another device than the shipped one proves that it is the one that runs."""
    samples = [s[None] for s in small.samples[:2]]
    device: Any = "nmp"
    if form != "name":
        text = (resources.files("qmlir") / "targets" / "nmp.toml").read_text("utf-8")
        (tmp_path / "own.toml").write_text(text.replace('name = "nmp"', 'name = "own"'), "utf-8")
        device = tmp_path / "own.toml"
        device = {"path": device, "text of a path": str(device), "device": qmlir.load_device(device)}[form]
    found = compare(qmlir.quantize(small.onnx, data=samples, target=device), samples, executors=(device, REFERENCE))
    assert found.first is None
    assert "pooled" in found.compared


def test_the_first_difference_is_where_networks_part() -> None:
    found = compare(network(ONES), SAMPLES, network("[1.0, 1.0, 1.5, 1.0]"), executors=(CPU, CPU))
    assert [d.tensor for d in found.differences] == ["product", "r", "root"]
    first = found.first
    assert first is not None
    assert (first.operation, first.elements, first.of, first.sample, first.place) == ("nn.mul", 2, 8, 0, (0, 2))
    assert first.values == (3.0, 4.5)
    assert first.largest == 1.5
    assert first.as_dict()["values"] == (3.0, 4.5)


def test_zeros_of_another_sign_differ_and_nan_equals_itself() -> None:
    found = compare(network(ONES), SAMPLES[1:], network("[1.0, -1.0, 1.0, 1.0]"))
    assert found.first is not None
    assert (found.first.tensor, found.first.elements, found.first.largest) == ("product", 1, 0.0)


def test_what_is_not_there_is_left_out(small: Small) -> None:
    samples = [s[None] for s in small.samples[:1]]
    found = compare(qmlir.load(small.onnx), samples, small.onnx)  # the path is simplified when it is loaded
    assert found.left_out == ("features", "active", "flat")  # of another layout, or fused
    assert found.compared == ("image", "pooled", "scores")


def test_refusals(small: Small) -> None:
    samples = [s[None] for s in small.samples[:1]]
    with pytest.raises(QmlirError, match="at least one sample"):
        compare(small.onnx, [])
    with pytest.raises(OptionError, match="must be two"):
        compare(small.onnx, samples, executors=("cpu", "cpu", "cpu"))  # type: ignore[arg-type]
    known = "must be one of cpu, reference, .*nmp.*, or the path of a .toml file"
    with pytest.raises(OptionError, match=f"executors: {known}, got cup; did you mean cpu"):
        compare(small.onnx, samples, executors=("cup", "cpu"))
    with pytest.raises(OptionError, match=f"executors: {known}, got 3 of type int"):
        compare(small.onnx, samples, executors=(3, "cpu"))  # type: ignore[arg-type]
    with pytest.raises(FileError, match=r"none.toml: must be a device file that can be read"):
        compare(small.onnx, samples, executors=("cpu", Path("none.toml")))
    with pytest.raises(QmlirError, match="same names, shapes and types"):
        compare(network(ONES), SAMPLES[:1], parsed(renamed(TEXT.replace("WEIGHTS", ONES))))
