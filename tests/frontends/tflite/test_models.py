"""Trained models from real converters: they import whole and compute what LiteRT computes."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import refuse_opaque
from qmlir.signature import TensorSpec
from tests.frontends.tflite.files import litert

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

FLOAT = ("ad_fcae_f32", "hello_world_float", "mobilenet_v1_0.25_224_f32", "resnet8_cifar_f32", "vww_mbv1_f32")
EPSILON = 1e-5

STEPS = {
    "ad_fcae_i8": 1,
    "hello_world_int8": 1,
    "micro_speech_quantized": 1,
    "str_ww_i8": 1,
    "kws_dscnn_i8": 4,
    "vww_mbv1_i8": 4,
    "mobilenet_v1_0.25_224_u8": 8,
    "mobilenet_v2_1.0_224_u8": 8,
}
"""How far an output of random data may lie from LiteRT's reference kernels, which round twice in each layer."""


def inputs(spec: TensorSpec, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    if spec.dtype == np.float32:
        return [random.standard_normal(spec.shape).astype(np.float32) for _ in range(count)]
    limits = np.iinfo(spec.dtype)
    return [random.integers(limits.min, limits.max + 1, spec.shape).astype(spec.dtype) for _ in range(count)]


@pytest.mark.parametrize("name", FLOAT)
def test_float_networks(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/tflite/{name}.tflite")
    module = qmlir.load(path)
    refuse_opaque(module, name)
    machine, meaning = qmlir.compile(module), qmlir.reference(module)
    for index, x in enumerate(inputs(machine.signature.inputs[0], 3)):
        (want,), (got,) = litert(str(path), [x]), machine.run(x)
        assert np.abs(want - got).max() <= EPSILON * np.abs(want).max()
        if index == 0:
            assert np.array_equal(got, meaning.run(x)[0])


@pytest.mark.parametrize("name", STEPS)
def test_quantized_networks(name: str, shared: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = shared(f"models/tflite/{name}.tflite")
    module = qmlir.load(path)
    refuse_opaque(module, name)
    machine, meaning = qmlir.compile(module), qmlir.reference(module)
    differ, total, most = 0, 0, 0
    for index, x in enumerate(inputs(machine.signature.inputs[0], 3 if "mobilenet" in name else 20)):
        (want,), (got,) = litert(str(path), [x]), machine.run(x)
        apart = np.abs(want.astype(int) - got.astype(int))
        differ, total, most = differ + np.count_nonzero(apart), total + apart.size, max(most, int(apart.max()))
        if index == 0:
            assert np.array_equal(got, meaning.run(x)[0])
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {differ} of {total} outputs differ from LiteRT's reference, by {most} at most\n")
    assert most <= STEPS[name]


@pytest.mark.parametrize("name", ["kws_dscnn_f32", "resnet8_cifar_i8", "deeplabv3_mnv2_dm05_pascal_quant"])
def test_other_networks_import(name: str, shared: Callable[[str], Path]) -> None:
    """Not compared here: kws_dscnn_f32 has int8 weights, beside which LiteRT quantizes activations at run time."""
    module = qmlir.load(shared(f"models/tflite/{name}.tflite"))
    module.verify()
    refuse_opaque(module, name)
