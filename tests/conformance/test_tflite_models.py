"""Trained TFLite models against LiteRT's three sets of kernels: a table of model × numerics × outputs that differ.

`make conformance` runs 200 inputs of each, 20 of deeplab; a few are part of tests/frontends/tflite/test_models.py.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import THOROUGH
from tests.frontends.tflite.files import RESOLVERS
from tests.frontends.tflite.trained import (
    FEWER,
    FLOAT,
    LARGE,
    QUANTIZED,
    differing_outputs,
    differing_tensors,
    first_of,
)

pytestmark = [
    pytest.mark.models,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not THOROUGH, reason="minutes; `make conformance` runs it"),
]

SHARE = 1e-4
"""The most outputs that may differ from XNNPACK's, by one step."""


@pytest.mark.parametrize("numerics", RESOLVERS)
@pytest.mark.parametrize("name", QUANTIZED)
def test_the_bits_are_litert_s(name: str, numerics: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/tflite/{name}.tflite")
    count = FEWER.get(name, 200)
    found = differing_outputs(path, numerics, count)
    between = differing_tensors(path, numerics, 2 if name in LARGE else 20)
    sys.stderr.write(f"{name:34s} {numerics:17s} {count:4d} inputs: {found} outputs differ; "
                     f"first tensor: {first_of(between) or 'none'}\n")  # fmt: skip
    if numerics == "litert-xnnpack":
        assert found.differing <= SHARE * found.compared
        assert found.most <= 1
    else:
        assert found.differing == 0
        assert first_of(between) == ""


@pytest.mark.parametrize("name", QUANTIZED)
def test_default_numerics(name: str, shared: Callable[[str], Path]) -> None:
    count = FEWER.get(name, 200)
    found = differing_outputs(shared(f"models/tflite/{name}.tflite"), "default", count)
    sys.stderr.write(f"{name:34s} {'default':17s} {count:4d} inputs: {found} outputs differ from XNNPACK's\n")
    assert found.far <= found.compared / 100


def test_no_model_is_left_out(shared: Callable[[str], Path]) -> None:
    """Those in floats and those that are quantized throughout are all the files there are, but for one."""
    files = {path.stem for path in shared("models/tflite").glob("*.tflite")}
    assert files == {*QUANTIZED, *FLOAT, "kws_dscnn_f32"}
