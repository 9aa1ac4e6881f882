"""Along which axis the scales of a tensor count, where a file says it wrongly."""

import warnings

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError, QmlirWarning
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import Op, T, constant, litert, model

SCALES = [0.01, 0.02, 0.03]


def depthwise(axis: int, shape: tuple[int, ...] = (3,), weights_axis: int = 3) -> bytes:
    """A depthwise convolution whose bias has a scale for each element, along `axis` as the file says."""
    random = np.random.default_rng(0)
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DepthMultiplier": 1, "DilationWFactor": 1,
               "DilationHFactor": 1}  # fmt: skip
    weights = random.integers(-127, 128, (1, 2, 2, 3)).astype(np.int8)
    bias = random.integers(-900, 900, 3).astype(np.int32).reshape(shape)
    tensors = [
        T("x", (1, 4, 4, 3), np.int8, None, [0.05], [3]),
        constant("w", weights, scale=SCALES, axis=weights_axis),
        constant("b", bias, scale=[s * 0.05 for s in SCALES], axis=axis),
        T("y", (1, 3, 3, 3), np.int8, None, [0.1], [-5]),
    ]
    op = Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], "DepthwiseConv2DOptions", options, 3)
    return model(tensors, [op], [0], [3])


@pytest.mark.parametrize("axis", [3, 1, -1])
def test_a_vector_with_a_scale_for_each_element_has_one_axis(axis: int) -> None:
    """Old converters give a bias the axis of its weights. TFLite Micro ignores it; LiteRT runs the file that says 0."""
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 3)).astype(np.int8)
    with pytest.warns(QmlirWarning, match=r'the model: the scales of tensor "b" are said to count along an axis'):
        module = load_tflite(depthwise(axis))
    follow(module, "litert-reference")
    np.testing.assert_array_equal(qmlir.reference(module)(x), litert(depthwise(0), [x])[0])


def test_a_note_names_one_tensor_and_counts_the_others() -> None:
    tensors = [T("x", (1, 4))]
    for name in ("a", "b", "c"):
        tensors.append(constant(name, np.zeros(3, np.int32), scale=SCALES, axis=3))
    with pytest.warns(QmlirWarning, match=r'tensor "a" and 2 more are said'):
        load_tflite(model([*tensors, T("y", (1, 4))], [Op("ABS", [0], [4])], [0], [4]))


def test_what_the_file_says_well_is_taken_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_tflite(depthwise(0))


@pytest.mark.parametrize("axis", [0, 1, 4])
def test_weights_must_name_the_axis_of_their_scales(axis: int) -> None:
    with pytest.raises(FileError, match=rf'tensor "w" of shape .* must have a scale .* got 3 along axis {axis}'):
        load_tflite(depthwise(0, weights_axis=axis))
