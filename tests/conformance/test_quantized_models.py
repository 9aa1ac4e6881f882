"""Published quantized networks: our bits are onnxruntime's.

`make conformance` runs 500 inputs of each and prints the figures, `make test` a few. onnxruntime computes a network in
floats between casts as floats where its optimizations are off, in integers where they are on; its sums of u8 by s8 are
exact only on processors with VNNI, so signed weights beside unsigned data become unsigned first, which means the same.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from PIL import Image

import qmlir
from qmlir.backends.cpu import Executable
from tests.conftest import THOROUGH, unpack

Array = npt.NDArray[Any]
Find = Callable[[str], Path]

INPUTS = 500 if THOROUGH else 20

NETWORKS = {
    "mnist_qdq_u8s8": "mnist",
    "mnist_qop_u8u8": "mnist",
    "cifar_imageclassifier_qdq_u8s8": "cifar",
    "cifar_imageclassifier_qdq_s8s8_perchan": "cifar",
}

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def inputs(shared: Find, data: str) -> Array:
    """Inputs of a network, [n, 1, channels, rows, columns]."""
    if data == "mnist":
        images = np.load(shared("data/mnist_t10k_first5000.npz"))["X"][:INPUTS]
        return images.astype(np.float32)[:, None, None]
    images = np.load(shared("data/cifar10_jpeg_2000.npz"))["X"][:INPUTS].astype(np.float32)
    return np.ascontiguousarray(((images / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2))[:, None]


def with_unsigned_weights(model: onnx.ModelProto, *, of_signed_data: bool = False) -> onnx.ModelProto:
    """The same network with u8 weights beside u8 data: 128 more, and so are their zero points.

    With `of_signed_data`, signed data become unsigned as well: onnxruntime's optimizations do that too, but leave the
    weights signed, and then saturate.
    """
    types = {t.name: t.data_type for t in model.graph.initializer}
    data = {n.input[2] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    if not of_signed_data and any(types[zero_point] != onnx.TensorProto.UINT8 for zero_point in data):
        return model
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            array = numpy_helper.to_array(tensor).astype(np.int16) + 128
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.uint8), tensor.name))
    return model


def session(model: onnx.ModelProto, *, optimized: bool) -> Callable[[Array], Array]:
    """The network by onnxruntime."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (name,) = [i.name for i in made.get_inputs()]
    return lambda x: np.asarray(made.run(None, {name: x})[0])


def step(model: onnx.ModelProto) -> float:
    """The scale of the network's output, which a DequantizeLinear gives."""
    (last,) = [n for n in model.graph.node if model.graph.output[0].name in n.output]
    (scale,) = [t for t in model.graph.initializer if t.name == last.input[1]]
    return float(numpy_helper.to_array(scale).reshape(()))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_bits_are_onnxruntimes(name: str, shared: Find) -> None:
    path = shared(f"models/onnx/{name}.onnx")
    samples = inputs(shared, NETWORKS[name])
    model = onnx.load(path)
    integers = session(with_unsigned_weights(onnx.load(path), of_signed_data=True), optimized=True)
    floats = session(model, optimized=False)
    theirs = {"integers": [integers(x) for x in samples], "floats": [floats(x) for x in samples]}
    for numerics in ("onnxruntime", "default"):
        module = qmlir.load(path, numerics=numerics)
        executable = qmlir.compile(module)
        ours = [np.asarray(executable(x)) for x in samples]
        reference = qmlir.reference(module)
        for x, y in zip(samples[:3], ours, strict=False):
            np.testing.assert_array_equal(reference(x), y)
        for kind, expected in theirs.items():
            steps = np.abs(np.array(ours) - np.array(expected)) / step(model)
            sys.stderr.write(
                f"{name}, numerics={numerics}, onnxruntime in {kind}: {(steps > 0).sum()} of {steps.size} differ, "
                f"by at most {steps.max():.0f} steps\n"
            )
            assert steps.max() < 1.01
            if numerics == "onnxruntime" and (kind == "integers" or name.startswith("mnist")):
                assert not steps.any()


@pytest.fixture(scope="module")
def shufflenet(shared: Find, tmp_path_factory: pytest.TempPathFactory) -> tuple[Executable, Path]:
    """The network of the model zoo, rounded as onnxruntime did where its test data were made; and its folder."""
    folder = tmp_path_factory.mktemp("shufflenet")
    unpack(shared("models/onnx/shufflenet-v2-12-int8.tar.gz"), folder)
    (path,) = folder.glob("**/*.onnx")
    return qmlir.compile(qmlir.load(path, numerics="onnxruntime")), path.parent


def test_shufflenet_gives_the_vector_in_its_archive(shufflenet: tuple[Executable, Path]) -> None:
    executable, folder = shufflenet
    given, expected = (
        numpy_helper.to_array(onnx.TensorProto.FromString((folder / "test_data_set_0" / f"{name}_0.pb").read_bytes()))
        for name in ("input", "output")
    )
    np.testing.assert_array_equal(executable(given), expected)


@pytest.mark.skipif(not THOROUGH, reason="minutes; `make conformance` runs it")
def test_shufflenet_scores_what_onnxruntime_scores(shufflenet: tuple[Executable, Path], shared: Find) -> None:
    """0.756 on a processor whose sums saturate, as onnxruntime's did; 0.876 where they are exact."""
    pictures = sorted(shared("data/imagenet1k-sample").glob("*.JPEG"))
    right = [int(shufflenet[0](pixels(p)).argmax()) == int(p.name.split("_")[0]) for p in pictures]
    sys.stderr.write(f"shufflenet-v2-12-int8: top-1 {np.mean(right):.4f} of {len(right)}\n")
    assert (len(right), sum(right)) == (250, 189)


def pixels(path: Path) -> Array:
    """A picture as the network wants it: 256 on its short side, the middle 224, normalized; [1, 3, 224, 224]."""
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    scale = 256 / min(width, height)
    picture = picture.resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    left, top = ((n - 224) // 2 for n in picture.size)
    image = np.asarray(picture.crop((left, top, left + 224, top + 224))).astype(np.float32) / 255
    normal = (image - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return np.ascontiguousarray(normal.astype(np.float32).transpose(2, 0, 1)[None])
