"""Two real nets: ResNet-50, whose integer form runs with equal bits, and Mask R-CNN, whose operators are known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import qmlir
from qmlir.compiler import Pipeline
from qmlir.errors import FileError
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.reader import read_net
from qmlir.frontends.caffe2.schema import NET
from qmlir.frontends.caffe2.walk import CONVERTERS, unconverted
from qmlir.frontends.opaque import opaque_report
from qmlir.policies.ledger import decisions
from qmlir.stages import IMPORTED
from tests.frontends.caffe2.int8_resnet import int8_resnet
from tests.frontends.caffe2.mask_rcnn import RPN, init_net
from tests.frontends.caffe2.nets import results_of

RESNET = "conformance/caffe2/resnet50_predict_net.pbtxt"
MASK_RCNN = "conformance/caffe2/mask_rcnn_2go_int8.pbtxt"

DETECTION = {"BBoxTransform", "BoxWithNMSLimit", "GenerateProposals", "If", "RoIAlign"}
"""Operators of Mask R-CNN on as many boxes as a picture has."""


@pytest.mark.slow
def test_an_integer_resnet_has_equal_bits_in_the_reference_on_the_cpu_and_on_a_device(
    shared: Callable[[str], Path],
) -> None:
    """On images of 64 by 64, whose last map is the window of the last pool."""
    net, init = int8_resnet(shared(RESNET), whole_image=True)
    module = load_caffe2(net, init, shapes={"gpu_0/data": "1x3x64x64"})
    assert not opaque_report(module)
    module = Pipeline(*IMPORTED)(module)
    assert {entry.outcome for entry in decisions(module)} == {"quantized"}
    x = np.random.default_rng(0).uniform(-3, 3, (1, 3, 64, 64)).astype(np.float32)
    y = np.asarray(qmlir.compile(module)(x))
    assert len(np.unique(y)) > 3
    np.testing.assert_array_equal(qmlir.reference(module)(x), y)
    np.testing.assert_array_equal(qmlir.compile(module, target="ethos-u55-like")(x), y)


@pytest.mark.models
def test_an_integer_resnet_on_whole_images(shared: Callable[[str], Path]) -> None:
    """The topology as it is, on images of 224 by 224."""
    net, init = int8_resnet(shared(RESNET))
    module = Pipeline(*IMPORTED)(load_caffe2(net, init, shapes={"gpu_0/data": "1x3x224x224"}))
    x = np.random.default_rng(0).uniform(-3, 3, (1, 3, 224, 224)).astype(np.float32)
    y = np.asarray(qmlir.compile(module)(x))
    np.testing.assert_array_equal(qmlir.reference(module)(x), y)
    np.testing.assert_array_equal(qmlir.compile(module, target="ethos-u55-like")(x), y)


def test_every_operator_of_resnet_has_a_converter(shared: Callable[[str], Path]) -> None:
    assert not unconverted(op.kind for op in read_net(shared(RESNET)).operators)


def test_the_operators_of_mask_rcnn_without_a_converter_are_those_on_boxes(shared: Callable[[str], Path]) -> None:
    path = shared(MASK_RCNN)
    operators = read_net(path).operators
    assert {op.kind for op in operators if CONVERTERS.get(op.kind) is None} == DETECTION
    assert {op.kind for op in operators if op.kind.startswith("Int8")} <= {*CONVERTERS.operators()}
    with pytest.raises(FileError) as caught:
        qmlir.load(path, shapes={"data": (1, 3, 320, 320)})
    assert all(f"{kind} (" in str(caught.value) for kind in DETECTION - {"If"})


@pytest.mark.slow
def test_mask_rcnn_runs_up_to_the_operators_on_boxes(shared: Callable[[str], Path]) -> None:
    """With random weights, on a picture of 64 by 64: the integers of backbone and proposals are those of the CPU."""
    path = shared(MASK_RCNN)
    whole = read_net(path)
    proto = text_format.Parse(path.read_text(), NET(), allow_unknown_field=True)
    del proto.external_output[:]
    proto.external_output.extend(RPN)
    module = load_caffe2(proto.SerializeToString(), init_net(whole), shapes={"data": "1x3x64x64"})
    picture = np.random.default_rng(0).uniform(0, 255, (1, 3, 64, 64)).astype(np.float32)
    for result in results_of(module, {"data": picture}):
        assert np.isfinite(result).all()
        assert len(np.unique(result)) > 1
