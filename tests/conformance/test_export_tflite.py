"""Real networks out to TFLite: LiteRT's reference kernels on our files against our own integers, bit for bit.

`make conformance` runs 200 inputs of each network, 20 of deeplab, and prints the counts, `make test` a few of the
small ones.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.policies.runtimes import follow
from qmlir.profiles.profile import Profile
from qmlir.stages import IMPORTED
from tests.backends.tflite.runtime import LiteRT
from tests.conftest import THOROUGH
from tests.frontends.tflite.trained import FEWER, FLOAT, LARGE, QUANTIZED, inputs
from tests.models.networks import NETWORKS, Array
from tests.models.tflite_networks import LABELLED

INPUTS = 200 if THOROUGH else 3
PROFILED = 100 if THOROUGH else 20

EPSILON = 1e-5

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Shared = Callable[[str], Path]


def say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")


def imported(path: Path) -> ModuleOp:
    return Pipeline(*IMPORTED)(qmlir.load(path))


def exported(module: ModuleOp, folder: Path) -> LiteRT:
    qmlir.export(module, folder / "exported.tflite", format="tflite")
    return LiteRT(folder / "exported.tflite")


def differing(ours: Callable[[Array], Sequence[Array]], theirs: LiteRT, samples: Sequence[Array]) -> int:
    """On how many samples some element of some output differs."""
    count = 0
    for x in samples:
        found, expected = theirs.run([x]), ours(x)
        assert [(y.shape, y.dtype) for y in found] == [(y.shape, y.dtype) for y in expected]
        count += any(not np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    return count


@pytest.mark.parametrize("name", QUANTIZED if THOROUGH else [n for n in QUANTIZED if n not in LARGE])
def test_quantized_files_come_back(name: str, shared: Shared, tmp_path: Path) -> None:
    """LiteRT computes the same of the file and of ours, and so do we."""
    path = shared(f"models/tflite/{name}.tflite")
    theirs, original = exported(imported(path), tmp_path), LiteRT(path)
    ours = qmlir.compile(qmlir.load(path, numerics="litert-reference"))
    samples = inputs(ours.signature.inputs[0], FEWER.get(name, INPUTS))
    found = differing(lambda x: original.run([x]), theirs, samples), differing(ours.run, theirs, samples)
    say(f"{name:34s} {len(samples)} inputs: {found[0]} differ from the original in LiteRT, {found[1]} from ours")
    assert found == (0, 0)


@pytest.mark.parametrize("name", FLOAT)
def test_float_files_come_back(name: str, shared: Shared, tmp_path: Path) -> None:
    path = shared(f"models/tflite/{name}.tflite")
    theirs, original = exported(imported(path), tmp_path), LiteRT(path)
    for x in inputs(qmlir.compile(path).signature.inputs[0], INPUTS):
        for a, b in zip(theirs.run([x]), original.run([x]), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=EPSILON * np.abs(b).max())


@dataclass(frozen=True)
class Prepared:
    """A float network with its profile, and samples that it was not profiled on."""

    name: str
    module: ModuleOp
    profile: Profile
    samples: list[Array]


@pytest.fixture(scope="module", params=["kws_dscnn", "resnet8_cifar", "vww_mbv1"])
def prepared(request: pytest.FixtureRequest, shared: Shared) -> Prepared:
    module = qmlir.load(shared(f"models/tflite/{request.param}_f32.tflite"))
    real, _ = LABELLED[f"{request.param}_i8"].load(shared)
    order = np.random.default_rng(0).permutation(len(real))
    samples = [np.ascontiguousarray(real[i][None], np.float32) for i in order]
    # A set of 128 pictures is too small: they are mirrored too.
    mirrored = [np.ascontiguousarray(x) for axis in (1, 2) for x in map(partial(np.flip, axis=axis), samples)]
    scored = [*samples[PROFILED:], *mirrored][:INPUTS]
    return Prepared(request.param, module, qmlir.profile(module, samples[:PROFILED]), scored)


OP_CONFIGS: dict[str, dict[str, Any]] = {
    "asymmetric": {},
    "symmetric": {"schema": "symmetric"},
    "unsigned": {"precision": "uint8"},
    "unsigned beside signed weights": {"precision": "uint8", "weight_precision": "int8"},
    "int16x8": {"schema": "symmetric", "precision": "int16", "weight_precision": "int8"},
}
"""Name → options of `quantize`."""


@pytest.mark.parametrize("op_config", OP_CONFIGS)
def test_our_own_integers(prepared: Prepared, op_config: str, tmp_path: Path) -> None:
    """A float network, profiled and quantized by us."""
    quantized = qmlir.quantize(prepared.module, prepared.profile, fail_on_float=True, **OP_CONFIGS[op_config])
    theirs = exported(quantized, tmp_path)
    follow(quantized, "litert-reference")
    ours = qmlir.compile(quantized)
    found = differing(ours.run, theirs, prepared.samples)
    say(f"{prepared.name:34s} {op_config}: {found} of {len(prepared.samples)} inputs differ")
    assert found == 0
    x = prepared.samples[0]
    assert np.array_equal(qmlir.reference(quantized).run(x)[0], ours.run(x)[0])


@pytest.mark.parametrize("schema", ["", "asymmetric", "symmetric"])
@pytest.mark.parametrize("name", ["mnist-8", "cifar"])
def test_onnx_networks(name: str, schema: str, shared: Shared, tmp_path: Path) -> None:
    """Float and quantized, out of ONNX files."""
    network = NETWORKS[name]
    module, (samples, _) = imported(shared(network.file)), network.load(shared)
    if schema:
        module = qmlir.quantize(module, qmlir.profile(module, samples[:PROFILED]), schema=schema)
        follow(module, "litert-reference")
    theirs, ours = exported(module, tmp_path), qmlir.compile(module)
    scored = [np.ascontiguousarray(x) for x in samples[PROFILED : PROFILED + INPUTS]]
    if schema:
        found = differing(ours.run, theirs, scored)
        say(f"{name:34s} {schema}: {found} of {len(scored)} inputs differ")
        assert found == 0
        return
    for x in scored:
        (a,), (b,) = theirs.run([x]), ours.run(x)
        np.testing.assert_allclose(a, b, rtol=0, atol=EPSILON * np.abs(b).max())


WITHOUT_FORM = {"quantize0", "quantize1"}
"""Files with values of 32 bits that stand for real numbers, which LiteRT has no kernels for but these."""


@pytest.mark.skipif(not THOROUGH, reason="a minute; `make conformance` runs it")
def test_sixteen_bits_come_back(shared: Shared, tmp_path: Path) -> None:
    """TFLM's 127 models of one operator with data of 16 bits and weights of 8."""
    files = sorted(shared("conformance/tflm-seanet-int16x8").rglob("*.tflite"))
    differ: list[str] = []
    for path in files:
        if path.stem not in WITHOUT_FORM:
            theirs, original = exported(imported(path), tmp_path), LiteRT(path)
            specs = qmlir.reference(qmlir.load(path)).signature.inputs
            # What counts in 32 bits is the shape that a transposed convolution shall make.
            shape = np.array(original.outputs[0]["shape"], np.int32)
            fed = ([shape] * 5 if spec.dtype == np.int32 else inputs(spec, 5) for spec in specs)
            for arrays in zip(*fed, strict=True):
                found = zip(theirs.run(arrays), original.run(arrays), strict=True)
                differ += [path.stem for a, b in found if not np.array_equal(a, b)]
    say(f"{len(files) - len(WITHOUT_FORM)} models of 16 bits: {len(set(differ))} differ")
    assert not differ
