"""Files that lie: a typed error of one line that says what has to be; and operators that are not known: opaque."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError, NodeError, OptionError, QmlirError
from qmlir.frontends.opaque import opaque_report, refuse_opaque
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Op, T, constant, interpreter, model

ACT = "FusedActivationFunction"
QUANTIZED = {"dtype": np.int8, "scale": [0.5], "zero": [0]}


def good() -> tuple[list[T], list[Op], list[int], list[int]]:
    tensors = [T("x", (2, 3)), constant("w", np.ones((4, 3), np.float32)), T("y", (2, 4))]
    return tensors, [Op("FULLY_CONNECTED", [0, 1], [2], "FullyConnectedOptions", {ACT: 0})], [0], [2]


def refused(source: bytes | Path, message: str, kind: type[QmlirError] = FileError) -> None:
    with pytest.raises(kind, match=message) as caught:
        load_tflite(source)
    assert "\n" not in str(caught.value)


def test_the_good_one_is_good() -> None:
    module = load_tflite(model(*good()))
    module.verify()
    refuse_opaque(module, "the model")


# ---------------------------------------------------------------------------------------------------------------
# Files


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.tflite", "no such file")
    refused(tmp_path, "a folder")


@pytest.mark.parametrize("data", [b"", b"hello, world", bytes(100), b"\x08\x00\x00\x00TFL2" + bytes(40)])
def test_other_formats(data: bytes) -> None:
    refused(data, "must be a TFLite file: bytes 4 to 8 are TFL3")


def test_every_truncation_is_refused_or_whole() -> None:
    data = model(*good())
    for size in range(8, len(data) - 8, 4):
        with pytest.raises(QmlirError):
            load_tflite(data[:size])


@pytest.mark.parametrize("word", [-1, 1 << 20, -(1 << 31), 7])
def test_any_word_of_a_file_with_notes_may_be_wrong(word: int) -> None:
    data = model(*good(), metadata={"qmlir.image.scale": b"0.5", "min_runtime_version": b"1.5.0"})
    assert load_tflite(data)
    for at in range(8, len(data) - 4):
        changed = data[:at] + word.to_bytes(4, "little", signed=True) + data[at + 4 :]
        with suppress(QmlirError):
            load_tflite(changed)


def test_version() -> None:
    refused(model(*good(), version=2), "schema version 3")


# ---------------------------------------------------------------------------------------------------------------
# Tensors, each beside the good model's

TENSORS: dict[str, tuple[dict[str, Any], str]] = {
    "negative dimension": ({"shape": (2, -3)}, "must be static"),
    "too many elements": ({"shape": (1 << 20, 1 << 20)}, "must be static"),
    "buffer": ({"buffer": 77}, "must be one of 2, got 77"),
    "size of the buffer": ({"data": np.ones(5, np.float32)}, r"must have 24 bytes, got 20"),
    "zero points": ({**QUANTIZED, "zero": [0, 1]}, "a zero point for each of 1 scales"),
    "zero point outside the type": ({**QUANTIZED, "zero": [200]}, "must be numbers of int8"),
    "scale 0": ({**QUANTIZED, "scale": [0.0]}, "must make a quantized type"),
    "negative scale": ({**QUANTIZED, "scale": [-1.0]}, "must make a quantized type"),
    "scale that is no number": ({**QUANTIZED, "scale": [float("nan")]}, "must make a quantized type"),
    "number of scales": ({**QUANTIZED, "scale": [1.0, 2.0], "zero": [0, 0], "axis": 1}, "a scale for each index"),
    "axis": ({**QUANTIZED, "scale": [1.0, 2.0], "zero": [0, 0], "axis": 2}, "2 along axis 2"),
    "negative axis": ({**QUANTIZED, "scale": [1.0, 2.0], "zero": [0, 0], "axis": -2}, "2 along axis -2"),
}


@pytest.mark.parametrize("lie", TENSORS)
def test_tensor(lie: str) -> None:
    changes, message = TENSORS[lie]
    tensors, operators, inputs, outputs = good()
    extra = T(**{"name": "lie", "shape": (2, 3), **changes})
    refused(model([*tensors, extra], operators, inputs, outputs), message)


INDICES: dict[str, tuple[dict[str, list[int]], str]] = {
    "input of an operator": ({"operator": [0, 3]}, "an input of FULLY_CONNECTED must be one of 3 tensors, got 3"),
    "negative input of an operator": ({"operator": [0, -2]}, "must be one of 3 tensors, got -2"),
    "input of the subgraph": ({"inputs": [9]}, "an input of a subgraph must be one of 3 tensors, got 9"),
    "output of the subgraph": ({"outputs": [-1]}, "an output of a subgraph must be one of 3 tensors, got -1"),
    "input twice": ({"inputs": [0, 0]}, "must differ"),
    "nothing computes it": ({"inputs": []}, 'tensor "x" must be constant or computed'),
}


@pytest.mark.parametrize("lie", INDICES)
def test_index(lie: str) -> None:
    changes, message = INDICES[lie]
    tensors, (op,), inputs, outputs = good()
    operator = Op(op.kind, changes.get("operator", op.inputs), op.outputs, op.options_kind, op.options)
    refused(model(tensors, [operator], changes.get("inputs", inputs), changes.get("outputs", outputs)), message)


def test_signature_of_a_tensor_that_is_not_there() -> None:
    refused(model(*good(), signature=({"a": 5}, {})), "a signature must name one of 3 tensors, got 5")


# ---------------------------------------------------------------------------------------------------------------
# Operators


def test_result_of_another_shape() -> None:
    tensors, operators, inputs, outputs = good()
    tensors[2] = T("y", (2, 5))
    refused(model(tensors, operators, inputs, outputs), r"must have shape \[2, 4\], got \[2, 5\]", NodeError)


def test_a_shape_that_is_left_open_may_be_any() -> None:
    tensors, operators, inputs, outputs = good()
    tensors[2] = T("y", (1, 4), signature=(-1, 4))
    load_tflite(model(tensors, operators, inputs, outputs)).verify()


def test_options_of_another_operator() -> None:
    tensors, (op,), inputs, outputs = good()
    operator = Op(op.kind, op.inputs, op.outputs, "SoftmaxOptions", {"Beta": 1.0})
    refused(model(tensors, [operator], inputs, outputs), "options must be FullyConnectedOptions", NodeError)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_window_beyond_an_input_that_is_not_padded(kind: str) -> None:
    """Of a window over 5 of 4, LiteRT's reference makes a result without elements, which no network is for."""
    valid = {"Padding": 1, "StrideH": 1, "StrideW": 1}
    tensors = [T("x", (1, 6, 4, 1)), T("y", (1, 2, 0, 1))]
    if "CONV" in kind:
        options = {**valid, "DilationHFactor": 2, "DilationWFactor": 2}
        weights = [constant("w", np.ones((1, 3, 3, 1), np.float32)), constant("b", np.zeros(1, np.float32))]
        named = "Conv2DOptions" if kind == "CONV_2D" else "DepthwiseConv2DOptions"
        options |= {} if kind == "CONV_2D" else {"DepthMultiplier": 1}
        op = Op(kind, [0, 2, 3], [1], named, options)
    else:
        weights, op = [], Op(kind, [0], [1], "Pool2DOptions", {**valid, "FilterHeight": 5, "FilterWidth": 5})
    data = model([*tensors, *weights], [op], [0], [1])
    refused(data, r"must fit into its input.*without elements, got a window over 5 of 4", NodeError)
    (result,) = interpreter(data, "litert-reference").get_output_details()
    assert list(result["shape"]) == [1, 2, 0, 1]


def test_weights_quantized_along_another_axis() -> None:
    x, y = T("x", (2, 3), **QUANTIZED), T("y", (2, 4), **QUANTIZED)
    w = constant("w", np.ones((4, 3), np.int8), scale=[0.5, 1.0, 2.0], zero=[0, 0, 0], axis=1)
    op = Op("FULLY_CONNECTED", [0, 1], [2], "FullyConnectedOptions", {ACT: 0})
    refused(model([x, w, y], [op], [0], [2]), "along axis 0, got axis 1", NodeError)


@pytest.mark.parametrize(("data", "bias"), [(np.int8, np.int32), (np.int16, np.int64)])
@pytest.mark.parametrize("scale", [[0.75], [0.25, 0.25, 0.25, 0.75]], ids=["one", "per channel"])
def test_bias_on_another_scale(data: type, bias: type, scale: list[float]) -> None:
    stored = {"dtype": data, "scale": [0.5], "zero": [0]}
    x, y = T("x", (2, 3), **stored), T("y", (2, 4), **stored)
    w = constant("w", np.ones((4, 3), np.int8), scale=[0.5] * len(scale), zero=[0] * len(scale))
    b = constant("b", np.ones(4, bias), scale=scale, zero=[0] * len(scale))
    op = Op("FULLY_CONNECTED", [0, 1, 2], [3], "FullyConnectedOptions", {ACT: 0})
    file = model([x, w, b, y], [op], [0], [3])
    wanted = rf"its bias \"b\" must count .* weights', 0.25 in channel {len(scale) - 1}, got a scale of 0.75"
    with pytest.raises(NodeError, match=wanted):
        load_tflite(file)
    tensors = [x, w, constant("b", np.zeros(4, bias), scale=scale, zero=[0] * len(scale)), y]
    nothing = qmlir.reference(load_tflite(model(tensors, [op], [0], [3])))(np.ones((2, 3), data))
    np.testing.assert_array_equal(nothing, np.full((2, 4), 3 * 0.25 / 0.5 + 0.5, data))  # a bias of 0 has one meaning


@pytest.mark.parametrize("bias", [np.int8, np.int16])
def test_a_narrow_bias_is_named(bias: type) -> None:
    stored = {"dtype": np.int8, "scale": [0.5], "zero": [0]}
    x, y = T("x", (2, 3), **stored), T("y", (2, 4), **stored)
    w = constant("w", np.ones((4, 3), np.int8), scale=[0.5], zero=[0])
    op = Op("FULLY_CONNECTED", [0, 1, 2], [3], "FullyConnectedOptions", {ACT: 0})
    b = constant("b", np.ones(4, bias), scale=[0.5], zero=[0])
    with pytest.raises(NodeError, match=r'its bias "b" must be int32'):
        load_tflite(model([x, w, b, y], [op], [0], [3]))


def test_a_wide_bias_without_a_scale_counts_in_the_accumulators() -> None:
    stored = {"dtype": np.int16, "scale": [0.5], "zero": [0]}
    x, y = T("x", (2, 3), **stored), T("y", (2, 4), **stored)
    w = constant("w", np.ones((4, 3), np.int8), scale=[0.5], zero=[0])
    op = Op("FULLY_CONNECTED", [0, 1, 2], [3], "FullyConnectedOptions", {ACT: 0})
    found = []
    for given in ({}, {"scale": [0.25], "zero": [0]}, {"scale": [0.0], "zero": [0]}):
        b = constant("b", np.arange(4, dtype=np.int64), **given)
        found.append(qmlir.reference(load_tflite(model([x, w, b, y], [op], [0], [3])))(np.ones((2, 3), np.int16)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_what_is_not_known_is_listed_at_once(tmp_path: Path) -> None:
    tensors = [T(n, (2, 3)) for n in "xabcy"]
    operators = [
        Op("CUSTOM.Mine", [0], [1]),
        Op("DENSIFY", [1], [2]),
        Op("ADD", [2, 2], [3], "AddOptions", {ACT: 4}),
        Op("CUSTOM.Mine", [3], [4]),
    ]
    module = load_tflite(model(tensors, operators, [0], [4]))
    module.verify()
    found = {k.kind: (k.count, k.reason) for k in opaque_report(module)}
    assert found == {
        "tflite.CUSTOM.Mine": (2, "qmlir has no converter for it"),
        "tflite.DENSIFY": (1, "its input is computed, and only constants can be sparse"),
        "tflite.ADD": (1, "its fused activation 4 is no clamp"),
    }
    with pytest.raises(QmlirError, match=r"2 x tflite\.CUSTOM\.Mine"):
        qmlir.compile(module)


def test_options_of_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(model(*good()))
    with pytest.raises(OptionError, match="has no symbolic dimensions"):
        qmlir.load(path, bind={"n": 1})
