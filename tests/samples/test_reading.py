"""`qmlir.read_samples`: samples as functions take them, and how a network says that they are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.dialects.inputs import reading_notes
from qmlir.errors import FileError, OptionError
from tests.cli.small import Small, write_small


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("small"))


def test_arrays(small: Small) -> None:
    samples = qmlir.read_samples(str(small.data), small.onnx)
    np.testing.assert_array_equal(np.stack([s["image"] for s in samples])[:, 0], small.samples)


def test_a_network_keeps_how_its_samples_were_read(small: Small, tmp_path: Path) -> None:
    stored = np.random.default_rng(2).integers(0, 256, (5, 1, 2, 8, 8), np.uint8)
    stored.tofile(tmp_path / "bytes.bin")
    samples = qmlir.read_samples(tmp_path / "bytes.bin", small.onnx, dtype="uint8")
    quantized = qmlir.quantize(small.onnx, data=samples)
    assert reading_notes(quantized).dtype == "uint8"
    again = qmlir.read_samples(tmp_path / "bytes.bin", quantized)
    np.testing.assert_array_equal(np.stack([s["image"] for s in again]), stored.astype(np.float32))
    with pytest.raises(FileError, match="give the stored type as --dtype"):
        qmlir.read_samples(tmp_path / "bytes.bin", small.onnx)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "byte8"}, "--dtype: must be a numpy type, such as uint8, got byte8"),
        ({"dtype": "object"}, "--dtype: must be a type of numbers, got object"),
        ({"dtype": np.uint8}, "dtype: must be text, got"),
        ({"preprocess": "scal=1"}, '--preprocess: has no option "scal"; did you mean scale'),
        ({"preprocess": 1}, "preprocess: must be text, got 1 of type int"),
    ],
)
def test_options_that_are_refused(small: Small, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        qmlir.read_samples(small.data, small.onnx, **options)
