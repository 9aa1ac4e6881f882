"""Trains a small convolutional network on scikit-learn's digits and writes what `demo.py` reads.

    python examples/digits/train.py

    digits.onnx   the network, channels first, with one BatchNormalization and a symbolic batch dimension
    digits.npz    calibration_images [100, 1, 8, 8] from the training half; test_images [N, 1, 8, 8], test_labels [N]

Both are committed: training is not part of the demonstration. The data are the 1,797 handwritten digits that come with
scikit-learn (UCI Optical Recognition of Handwritten Digits, CC BY 4.0), 8x8 pixels of 0 … 16, divided by 16 here.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from layers import Adam, Array, BatchNorm, Conv3x3, Dense, Flatten, Layer, MaxPool2x2, Relu
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

FOLDER = Path(__file__).resolve().parent
SEED = 0
TRAINING_IMAGES, CALIBRATION_IMAGES = 1200, 100
EPOCHS, BATCH, RATE = 40, 50, 3e-3

Labels = npt.NDArray[np.int64]


class Network:
    """conv 8 – relu – conv 16 – norm – relu – pool – conv 32 – relu – pool – 64 – relu – 10."""

    def __init__(self, rng: np.random.Generator):
        self.conv1, self.conv2, self.conv3 = (
            Conv3x3(rng, 1, 8), Conv3x3(rng, 8, 16, bias=False), Conv3x3(rng, 16, 32),
        )  # fmt: skip
        self.norm2 = BatchNorm(16)
        self.dense1, self.dense2 = Dense(rng, 2 * 2 * 32, 64), Dense(rng, 64, 10)
        self.layers: list[Layer] = [
            self.conv1, Relu(), self.conv2, self.norm2, Relu(), MaxPool2x2(), self.conv3, Relu(), MaxPool2x2(),
            Flatten(), self.dense1, Relu(), self.dense2,
        ]  # fmt: skip

    def forward(self, x: Array, *, training: bool = False) -> Array:
        """Scores [N, 10] of images [N, 8, 8, 1]."""
        for layer in self.layers:
            x = layer.forward(x, training=training)
        return x

    def backward(self, gradient: Array) -> None:
        """Sets every layer's gradients."""
        for layer in reversed(self.layers):
            gradient = layer.backward(gradient)


def cross_entropy_gradient(scores: Array, labels: Labels) -> Array:
    """The gradient of the mean cross entropy by the scores."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = e / e.sum(axis=1, keepdims=True)
    probabilities[np.arange(len(labels)), labels] -= 1
    return probabilities / np.float32(len(labels))


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Each image moved by up to one pixel: more digits from the same few."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    offsets = rng.integers(0, 3, (len(images), 2))
    return np.stack([p[i : i + 8, j : j + 8] for p, (i, j) in zip(padded, offsets, strict=True)])


def train(images: Array, labels: Labels, rng: np.random.Generator) -> Network:
    """A network trained on images [N, 8, 8, 1]."""
    network = Network(rng)
    adam = Adam(network.layers, RATE)
    for epoch in range(EPOCHS):
        adam.rate = RATE * (1 - epoch / EPOCHS)
        order = rng.permutation(len(images))
        for begin in range(0, len(images), BATCH):
            batch = order[begin : begin + BATCH]
            scores = network.forward(shifted(images[batch], rng), training=True)
            network.backward(cross_entropy_gradient(scores, labels[batch]))
            adam.update()
        print(f"epoch {epoch + 1:2}  training accuracy {accuracy(network, images, labels):.4f}")
    return network


def accuracy(network: Network, images: Array, labels: Labels) -> float:
    """The share of images whose largest score is their label's."""
    return float((network.forward(images).argmax(axis=1) == labels).mean())


def export(network: Network) -> onnx.ModelProto:
    """The network as ONNX: weights OIHW, images [batch, 1, 8, 8]."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def parameter(name: str, array: Array) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def node(kind: str, name: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name, **attributes))
        return output

    def convolution(name: str, layer: Conv3x3, x: str) -> str:
        inputs = [x, parameter(f"{name}.weight", layer.parameters["weight"].transpose(0, 3, 1, 2))]
        if "bias" in layer.parameters:
            inputs.append(parameter(f"{name}.bias", layer.parameters["bias"]))
        return node("Conv", name, inputs, f"{name}_out", kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def dense(name: str, layer: Dense, x: str, output: str) -> str:
        inputs = [x, *(parameter(f"{name}.{key}", layer.parameters[key]) for key in ("weight", "bias"))]
        return node("Gemm", name, inputs, output, transB=1)

    x = node("Relu", "relu1", [convolution("conv1", network.conv1, "image")], "relu1_out")
    norm = network.norm2
    statistics = {**norm.parameters, "mean": norm.mean, "variance": norm.variance}
    inputs = [convolution("conv2", network.conv2, x), *(parameter(f"norm2.{k}", v) for k, v in statistics.items())]
    x = node("BatchNormalization", "norm2", inputs, "norm2_out", epsilon=norm.EPSILON)
    x = node("Relu", "relu2", [x], "relu2_out")
    x = node("MaxPool", "pool2", [x], "pool2_out", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Relu", "relu3", [convolution("conv3", network.conv3, x)], "relu3_out")
    x = node("MaxPool", "pool3", [x], "pool3_out", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", "flatten", [x], "flatten_out")
    x = node("Relu", "relu4", [dense("dense1", network.dense1, x, "dense1_out")], "relu4_out")
    dense("dense2", network.dense2, x, "scores")

    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Trains, reports and writes both files."""
    pixels, digits = load_digits(return_X_y=True)
    images: Array = (np.asarray(pixels).reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    labels: Labels = np.asarray(digits, np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    training, test = order[:TRAINING_IMAGES], order[TRAINING_IMAGES:]

    network = train(images[training], labels[training], np.random.default_rng(SEED))
    print(f"test accuracy {accuracy(network, images[test], labels[test]):.4f} on {len(test)} images")

    onnx.save(export(network), FOLDER / "digits.onnx")
    channels_first = images.transpose(0, 3, 1, 2)
    np.savez_compressed(
        FOLDER / "digits.npz",
        calibration_images=channels_first[training[:CALIBRATION_IMAGES]],
        test_images=channels_first[test],
        test_labels=labels[test],
    )
    for name in ("digits.onnx", "digits.npz"):
        print(f"{name}: {(FOLDER / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
