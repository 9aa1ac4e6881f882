"""The models that compilers are compared on, float and as onnxruntime's quantizer writes them: QDQ and QOperator.

`make conformance` makes and runs all five (ResNet-50, MobileNetV2, MiniLM, DS-CNN, ResNet-8), `make test` the two small
ones; figures are printed. Random weights, seeded: what is compared is arithmetic, on inputs of the calibration's kind.

A QOperator model is integers in onnxruntime too, and with its numerics we have its bits. A QDQ model is floats between
casts there, its optimizations off: a sum near the middle between two integers becomes either, which fifty layers of
random weights carry on; `STEPS` bounds that by what was measured. Signed weights beside unsigned data saturate in
onnxruntime on some processors, so its copy has unsigned weights, which mean the same.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

import qmlir
from tests.conformance.test_quantized_models import session, with_unsigned_weights
from tests.conftest import THOROUGH

Array = npt.NDArray[Any]
Find = Callable[[str], Path]

MODELS = ["dscnn", "resnet8", "mobilenetv2", "minilm", "resnet50"] if THOROUGH else ["dscnn", "resnet8"]
TYPES = ["u8s8", "u8s8rr", "s8s8"] if THOROUGH else ["u8s8"]
FORMS = [f"{form}_{types}" for form in ("qdq", "qop") for types in TYPES]
"""Operators between casts or on integers; bytes of data and of weights, `rr` with weights of 7 bits."""

STEPS = {"dscnn": 1, "resnet8": 1, "mobilenetv2": 4, "minilm": 10, "resnet50": 4}
PART = {"minilm": 0.08}
"""How far the results may be apart, in steps of theirs or, where they are floats, as a part of the largest."""

INPUTS = 3
SMALL = 1 << 20
EPSILON = 1e-5
"""How far floats may be apart, of the largest; sums are ordered differently."""

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="session")
def peers(shared: Find, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models: $QMLIR_PEERS, or one where they are made."""
    if "QMLIR_PEERS" in os.environ:
        return Path(os.environ["QMLIR_PEERS"]) / "models"
    folder = tmp_path_factory.mktemp("peers")
    command = [sys.executable, "-W", "ignore", str(shared("peers/build_models.py")), "--only", ",".join(MODELS)]
    environment = {**os.environ, "QMLIR_PEERS": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "models"


def inputs(model: onnx.ModelProto) -> list[Array]:
    """Normally distributed, as its calibration was."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return [np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in range(7, 7 + INPUTS)]


def ours(path: Path, samples: list[Array], numerics: str) -> list[Array]:
    """Our results, compiled; the first one is the reference's to the last bit, as far as minutes allow."""
    start = time.perf_counter()
    module = qmlir.load(path, numerics=numerics)
    loaded = time.perf_counter()
    executable = qmlir.compile(module)
    compiled = time.perf_counter()
    sys.stdout.write(
        f"\n{path.stem}, numerics={numerics}: imported in {loaded - start:.1f} s, compiled in {compiled - loaded:.1f} s"
    )
    results = [np.asarray(executable(x)) for x in samples]
    if numerics == "default" or path.stat().st_size < SMALL:
        np.testing.assert_array_equal(results[0], np.asarray(qmlir.reference(module)(samples[0])))
    return results


@pytest.mark.parametrize("name", MODELS)
def test_floats(name: str, peers: Path) -> None:
    path = peers / f"{name}.onnx"
    model = onnx.load(path)
    samples = inputs(model)
    theirs = session(model, optimized=False)
    expected = np.array([theirs(x) for x in samples])
    apart = np.abs(np.array(ours(path, samples, "default")) - expected).max() / np.abs(expected).max()
    sys.stdout.write(f"; {apart:.1e} of the largest from onnxruntime\n")
    assert apart < EPSILON


def step(model: onnx.ModelProto) -> float | None:
    """The scale of the network's output; None where a float operator makes it."""
    (last,) = [n for n in model.graph.node if model.graph.output[0].name in n.output]
    if last.op_type != "DequantizeLinear":
        return None
    (scale,) = [t for t in model.graph.initializer if t.name == last.input[1]]
    return float(numpy_helper.to_array(scale).reshape(()))


@pytest.mark.parametrize("numerics", ["default", "onnxruntime-vnni"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_quantized(name: str, form: str, numerics: str, peers: Path) -> None:
    path = peers / f"{name}_{form}.onnx"
    model = onnx.load(path)
    samples, one = inputs(model), step(model)
    theirs = session(with_unsigned_weights(model), optimized=False)
    expected = np.array([theirs(x) for x in samples])
    differences = np.abs(np.array(ours(path, samples, numerics)) - expected)
    apart = differences.max() / (one or np.abs(expected).max())
    sys.stdout.write(
        f"; {np.count_nonzero(differences)} of {differences.size} results differ from onnxruntime's, "
        + (f"by at most {apart:.0f} steps\n" if one else f"by at most {apart:.3f} of the largest\n")
    )
    if form.startswith("qop") and numerics == "onnxruntime-vnni" and one:
        assert not differences.any(), "integers, rounded the same way"
    elif one:
        assert round(apart) <= STEPS[name]
    else:
        assert apart < PART[name]
