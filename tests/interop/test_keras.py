"""What TensorFlow's converter writes of a Keras network is read, equals the exporter's results, and compiles.

Float files equal Keras. Files on integers, which the converter quantizes on samples, equal LiteRT's reference kernels
bit for bit.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from tests.frontends.tflite.files import litert

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the converter's own
    pytest.mark.skipif(
        find_spec("tensorflow") is None, reason="TensorFlow is not installed: pip install 'qmlir[keras]'"
    ),
]

IMAGES = np.random.default_rng(0).standard_normal((16, 1, 16, 16, 3)).astype(np.float32)


def keras() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return import_module("tensorflow").keras


def small() -> Any:
    """Convolutions, one of them depthwise, batch normalization, a sum, pools and a dense layer with softmax."""
    layers = keras().layers
    keras().utils.set_random_seed(0)
    image = layers.Input((16, 16, 3), batch_size=1)
    x = layers.Conv2D(8, 3, 2, "same", use_bias=False)(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization(gamma_initializer="random_uniform")(x))
    y = layers.DepthwiseConv2D(3, padding="same", activation="relu")(x)
    y = layers.Add()([layers.Conv2D(8, 1)(y), x])
    y = layers.MaxPooling2D()(y)
    y = layers.Conv2DTranspose(4, 3, 2, "same", activation="tanh")(y)
    y = layers.GlobalAveragePooling2D()(y)
    return keras().Model(image, layers.Dense(10, activation="softmax")(y))


def converted(network: Any, precision: str) -> bytes:
    """The file of a network: floats, or integers of int8 or int16 data with weights of 8 bits, inputs included."""
    lite = import_module("tensorflow").lite
    converter = lite.TFLiteConverter.from_keras_model(network)
    if precision != "float32":
        kinds = lite.OpsSet
        wide = kinds.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.optimizations = [lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [kinds.TFLITE_BUILTINS_INT8 if precision == "int8" else wide]
        dtype = getattr(import_module("tensorflow"), precision)
        converter.inference_input_type = converter.inference_output_type = dtype
    return converter.convert()


def samples() -> Iterator[list[Any]]:
    for image in IMAGES:
        yield [image]


def test_floats(tmp_path: Path) -> None:
    network = small()
    path = tmp_path / "net.tflite"
    path.write_bytes(converted(network, "float32"))
    expected = np.array([network(x, training=False).numpy() for x in IMAGES])
    module = qmlir.load(path)
    exact = qmlir.reference(module)
    assert np.abs(np.array([exact(x) for x in IMAGES]) - expected).max() <= 1e-5 * np.abs(expected).max()

    quantized = qmlir.quantize(module, data=list(IMAGES), fail_on_float=True)
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    found = [reference(x) for x in IMAGES]
    for x, y in zip(IMAGES, found, strict=True):
        np.testing.assert_array_equal(compiled(x), y)
    assert np.abs(np.array(found) - expected).max() < 0.02


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_integers(precision: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(content := converted(small(), precision))
    module = qmlir.load(path, numerics="litert-reference")
    compiled, reference = qmlir.compile(module), qmlir.reference(module)
    rng = np.random.default_rng(1)
    for number in range(8):
        x = rng.integers(np.iinfo(precision).min, np.iinfo(precision).max, (1, 16, 16, 3)).astype(precision)
        (expected,) = litert(content, [x])
        np.testing.assert_array_equal(compiled.run(x)[0], expected)
        if number == 0:
            np.testing.assert_array_equal(reference.run(x)[0], expected)
