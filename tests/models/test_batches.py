"""Code of trained networks on batches: the bits of a call for each sample."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.analysis.timing import random_inputs

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

NETWORKS = ("onnx/mnist-8.onnx", "tflite/kws_dscnn_i8.tflite", "tflite/resnet8_cifar_i8.tflite")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_batch_has_the_bits_of_its_samples(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/{name}")
    alone, network = qmlir.compile(path), qmlir.compile(path, threads=2, batch=3)
    (spec,) = alone.signature.inputs
    samples = [random_inputs(alone.signature, seed)[spec.name] for seed in range(3)]
    expected = [alone.run(sample) for sample in samples]
    for count in (1, 2, 3):
        found = network.run(np.concatenate(samples[:count]))
        for i, array in enumerate(found):
            np.testing.assert_array_equal(array, np.concatenate([each[i] for each in expected[:count]]), strict=True)
