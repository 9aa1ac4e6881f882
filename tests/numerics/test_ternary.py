"""Ternary weights in a network: quantized, saved, compiled, certified and exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.analysis.counts import decided
from qmlir.dialects.nn import ConstantOp
from qmlir.ir.levels import levels_of
from qmlir.numerics.schemas import QuantizationError
from qmlir.numerics.ternary import Ternary
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


def images() -> list[Any]:
    return list(np.load(DIGITS / "digits.npz")["calibration_images"][:, None])


def quantized(**options: Any) -> Any:
    arguments: dict[str, Any] = {"weight_precision": "int2", "weight_levels": "ternary", **options}
    return qmlir.quantize(DIGITS / "digits.onnx", data=images(), **arguments)


@pytest.mark.parametrize("rounding", ["auto", "nearest", "gptq"])
def test_a_network(rounding: str, tmp_path: Path) -> None:
    module = quantized(rounding=rounding)
    held = [(op, levels) for op in module.walk() if isinstance(op, ConstantOp) and (levels := levels_of(op))]
    assert len(held) == 5
    for op, levels in held:
        assert isinstance(levels, Ternary)
        for row, ends in zip(op.value.array, levels.ends, strict=True):
            assert set(np.unique(row)) <= {-ends[0], 0, ends[1]}
    qmlir.save(module, tmp_path / "net.mlir")
    read = qmlir.load(tmp_path / "net.mlir")
    assert read.is_structurally_equivalent(module)
    network, reference = qmlir.compile(read), qmlir.reference(module)
    for image in images()[:4]:
        np.testing.assert_array_equal(network(image), reference(image))
    assert certificate_of(module)[1]["verdict"] == "integer-only"
    said = [each.entry.reason for each in decided(module)]
    assert sum("ternary weights with two magnitudes per channel" in reason for reason in said) == 5
    for name in ("net.onnx", "net.tflite"):
        qmlir.export(module, tmp_path / name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight_precision": "int4"}, "weight-levels=ternary needs weights of 2 to 2 bits, got weight-precision=int4"),
        ({"granularity": "group-32"}, "needs weights of 2 to 6 bits|has no multipliers of groups"),
        (
            {"rounding": "adaround"},
            "rounding=adaround knows no ternary weights, whose levels are not at even distances",
        ),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QuantizationError, match=said):
        quantized(**options)
