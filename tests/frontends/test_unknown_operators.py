"""Operators that qmlir does not know: what it proposes in their place, which the formats' runtimes take."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from qmlir.dialects.qmlir import OpaqueOp
from qmlir.formats.unknown import EXPRESSED, EXPRESSED_DOMAINS, expressed, hint
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.walk import CONVERTERS
from qmlir.frontends.tflite import load_tflite
from tests.frontends.caffe2.nets import made
from tests.frontends.onnx.agreement import FLOAT, kinds
from tests.frontends.tflite.files import Op, T, model

KNOWN = [(domain, name) for domain, name, _ in CONVERTERS.versions()]


def reason_of(kind: str, domain: str = "") -> str:
    """Why a node of an ONNX file is not imported."""
    node = helper.make_node(kind, ["x"], ["y"], domain=domain)
    ends = [helper.make_tensor_value_info(n, FLOAT, [1, 4]) for n in "xy"]
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    module = load_onnx(helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=opsets))
    (op,) = (o for o in module.walk() if isinstance(o, OpaqueOp))
    return op.reason.data


@pytest.mark.parametrize(
    ("kind", "domain", "proposed"),
    [
        ("Sigmiod", "", "did you mean Sigmoid"),
        ("relu", "", "did you mean Relu of ONNX itself?"),
        ("Gelu", "my.domain", "did you mean Gelu of ONNX itself?"),
        ("FastGelu", "", "did you mean FastGelu of the domain com.microsoft?"),
        ("MatMulNBit", "com.microsoft", "if onnxruntime's optimizer wrote it"),
        ("SQUARED_DIFFERENCE", "", "it is an operator of TFLite"),
        ("EfficientNMS_TRT", "TRT", "export without TensorRT's plugin"),
        ("grid_sampler", "mmcv", "ONNX's GridSample"),
        ("ATen", "org.pytorch.aten", "dynamo=True"),
        ("Conv", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED"),
        ("SentencepieceTokenizer", "ai.onnx.contrib", "onnxruntime-extensions"),
    ],
)
def test_names_in_onnx_files(kind: str, domain: str, proposed: str) -> None:
    reason = reason_of(kind, domain)
    assert reason.startswith(f"qmlir knows no {domain}.{kind}; " if domain else f"qmlir knows no {kind}; ")
    assert proposed in reason


@pytest.mark.parametrize(("kind", "domain"), [("StringConcat", ""), ("Zzyzx", ""), ("Foo", "my.domain")])
def test_nothing_is_proposed_where_nothing_is_like_it(kind: str, domain: str) -> None:
    assert reason_of(kind, domain) == f"qmlir knows no {f'{domain}.' if domain else ''}{kind}"


@pytest.mark.parametrize(
    ("kind", "proposed"),
    [
        ("FlexRFFT", "it is TensorFlow's RFFT: convert with supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS] only"),
        ("Gelu", "did you mean GELU of TFLite itself?"),
        ("TFLite_Detection_PostProces", "did you mean TFLite_Detection_PostProcess?"),
        ("edgetpu-custom-op", "give the file that went into the Edge TPU compiler"),
        ("Mish", "it is an operator of ONNX"),
    ],
)
def test_custom_operators_of_tflite_files(kind: str, proposed: str, tmp_path: Path) -> None:
    custom = Op(f"CUSTOM.{kind}", [0], [1])
    (tmp_path / "net.tflite").write_bytes(model([T("x", (1, 4)), T("y", (1, 4))], [custom], [0], [1]))
    (op,) = (o for o in load_tflite(tmp_path / "net.tflite").walk() if isinstance(o, OpaqueOp))
    assert proposed in op.reason.data


def test_names_in_caffe2_nets() -> None:
    module = load_caffe2(made(("Sigmoidd", "x", "y"), outputs="y"), shapes={"x": "1x4"})
    (op,) = (o for o in module.walk() if isinstance(o, OpaqueOp))
    assert op.reason.data == "qmlir knows no Sigmoidd; did you mean Sigmoid?"


def test_the_operators_that_remedies_name_are_known() -> None:
    """What an exporter is told to write instead is an operator that qmlir reads."""
    for name in ("GridSample", "DeformConv", "RoiAlign", "NonMaxSuppression", "InstanceNormalization",
                 "GroupNormalization", "QuantizeLinear", "DequantizeLinear"):  # fmt: skip
        assert ("", name) in KNOWN
        assert any(name in text for text in EXPRESSED.values()), name


def test_every_entry_is_found_whatever_its_domain_is() -> None:
    for name, text in EXPRESSED.items():
        assert hint("ONNX", name, KNOWN, "anything") == f"; {text}"
    for domain, text in EXPRESSED_DOMAINS.items():
        assert expressed("Anything", domain) == text


def test_the_blocked_layout_goes_with_the_level_that_is_named(tmp_path: Path) -> None:
    """onnxruntime writes its blocked convolutions at the level above the one that the remedy names."""
    weights = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w")
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", [1, 16, 8, 8]), ("y", [1, 16, 6, 6]))]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    level = onnxruntime.GraphOptimizationLevel
    for chosen, unknown in ((level.ORT_ENABLE_ALL, True), (level.ORT_ENABLE_EXTENDED, False)):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = chosen, 4
        options.optimized_model_filepath = str(tmp_path / "net.onnx")
        onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        module = load_onnx(tmp_path / "net.onnx")
        found = [o.reason.data for o in module.walk() if isinstance(o, OpaqueOp)]
        if unknown and found:  # processors without AVX have no blocked layout
            assert all("ORT_ENABLE_EXTENDED" in each for each in found)
        if not unknown:
            assert kinds(module) == ["nn.conv2d"]
