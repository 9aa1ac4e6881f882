"""Small transformers with seeded weights, as exporters write them: an encoder of text, one of pictures, and a decoder.

python -m tests.models.transformers FOLDER        write them as .onnx files

The weights are random, but distributed as in trained networks: the gains of the normalizations differ between channels,
and a few channels of the residual stream are an order of magnitude larger than the rest.

    bert      token ids, token types and a mask of int64; embeddings by Gather; an additive mask (1 − mask) · least f32;
              normalizations behind the sums; GELU by Erf; logits from the first token
    vit       patches by a convolution, a class token, positions; normalizations before the layers; GELU by Tanh
    decoder   ONNX's operators Attention, which is causal, RMSNormalization and Gelu
    minilm    an encoder on embeddings, of the widths of MiniLM, but with 2 layers
    tiny_vit  stages as in TinyViT: inverted bottlenecks of convolutions, then attention within windows, with a learned
              bias for each offset of two places, and a depthwise convolution behind it; GELU by Erf
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]

EPSILON = 1e-6


class _Graph:
    """An ONNX graph under construction, with a generator of its weights; tensors are named after their operators."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{name}_node", **attributes))
        return name

    def linear(self, x: str, inputs: int, outputs: int, gain: float = 0.7) -> str:
        weights = self.random.standard_normal((inputs, outputs)) * gain / np.sqrt(inputs)
        bias = self.random.standard_normal(outputs) * 0.05
        return self.op("Add", self.op("MatMul", x, self.constant(weights)), self.constant(bias))

    def gains(self, width: int) -> Array:
        """The gains of a normalization: about 1, and a few large."""
        found = self.random.lognormal(0.0, 0.3, width)
        found[self.random.choice(width, 3, replace=False)] *= 6.0
        return found

    def layer_norm(self, x: str, width: int) -> str:
        gain, shift = self.gains(width), self.random.standard_normal(width) * 0.1
        return self.op("LayerNormalization", x, self.constant(gain), self.constant(shift), axis=-1, epsilon=EPSILON)

    def rms_norm(self, x: str, width: int) -> str:
        return self.op("RMSNormalization", x, self.constant(self.gains(width)), axis=-1, epsilon=EPSILON)

    def heads(self, x: str, length: int, heads: int, width: int, order: tuple[int, ...]) -> str:
        shape = self.constant([1, length, heads, width // heads], np.int64)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=order)

    def conv(
        self, x: str, inputs: int, outputs: int, size: int = 1, stride: int = 1, *, depthwise: bool = False
    ) -> str:
        """A convolution that a batch normalization was folded into: channels differ in magnitude."""
        fan = size**2 * (1 if depthwise else inputs)
        weights = self.random.standard_normal((outputs, 1 if depthwise else inputs, size, size)) / np.sqrt(fan)
        weights *= self.random.lognormal(0.0, 0.4, (outputs, 1, 1, 1))
        bias, pad = self.constant(self.random.standard_normal(outputs) * 0.1), size // 2
        shape = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [pad] * 4}
        return self.op("Conv", x, self.constant(weights), bias, group=inputs if depthwise else 1, **shape)

    def attention(self, x: str, length: int, heads: int, width: int, mask: str | None = None) -> str:
        """Attention of several heads, spelled out; `mask` is added to the scores."""
        query = self.heads(self.linear(x, width, width), length, heads, width, (0, 2, 1, 3))
        key = self.heads(self.linear(x, width, width), length, heads, width, (0, 2, 3, 1))
        value = self.heads(self.linear(x, width, width), length, heads, width, (0, 2, 1, 3))
        scores = self.op("Div", self.op("MatMul", query, key), self.constant(np.sqrt(width // heads)))
        if mask is not None:
            scores = self.op("Add", scores, mask)
        weighted = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        together = self.op("Transpose", weighted, perm=(0, 2, 1, 3))
        shape = self.constant([1, length, width], np.int64)
        return self.linear(self.op("Reshape", together, shape), width, width)

    def gelu(self, x: str) -> str:
        """x · (1 + erf(x / √2)) / 2, as PyTorch's older exporter writes it."""
        erf = self.op("Erf", self.op("Div", x, self.constant(np.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.constant(1.0))), self.constant(0.5))

    def tanh_gelu(self, x: str) -> str:
        """x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2."""
        cube = self.op("Mul", self.op("Pow", x, self.constant(3.0)), self.constant(0.044715))
        inner = self.op("Mul", self.op("Add", x, cube), self.constant(np.sqrt(2 / np.pi)))
        gate = self.op("Add", self.op("Tanh", inner), self.constant(1.0))
        return self.op("Mul", self.op("Mul", x, self.constant(0.5)), gate)

    def model(self, inputs: Mapping[str, Array], result: str, opset: int) -> onnx.ModelProto:
        """The network whose inputs are those of a sample."""
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ]
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", given, [output], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        return model


# ---------------------------------------------------------------------------------------------------------------
# The networks


WIDTH, HEADS, LAYERS, TOKENS, WORDS = 128, 4, 3, 32, 400


def _text(random: np.random.Generator) -> dict[str, Array]:
    length = int(random.integers(TOKENS // 4, TOKENS + 1))
    ids = np.where(np.arange(TOKENS) < length, random.integers(1, WORDS, TOKENS), 0)
    second = np.arange(TOKENS) >= int(random.integers(2, length))
    return {
        "input_ids": ids[None].astype(np.int64),
        "token_type_ids": (second & (np.arange(TOKENS) < length))[None].astype(np.int64),
        "attention_mask": (np.arange(TOKENS) < length)[None].astype(np.int64),
    }


def _bert() -> onnx.ModelProto:
    g = _Graph(1)
    words, places, kinds = (g.constant(g.random.standard_normal((n, WIDTH)) * 0.5) for n in (WORDS, TOKENS, 2))
    mask = g.op("Unsqueeze", "attention_mask", g.constant([1, 2], np.int64))
    dropped = g.op("Sub", g.constant(1.0), g.op("Cast", mask, to=TensorProto.FLOAT))
    addend = g.op("Mul", dropped, g.constant(np.finfo(np.float32).min))
    embedded = g.op("Add", g.op("Gather", words, "input_ids"), g.op("Gather", kinds, "token_type_ids"))
    x = g.layer_norm(g.op("Add", embedded, places), WIDTH)
    for _ in range(LAYERS):
        x = g.layer_norm(g.op("Add", g.attention(x, TOKENS, HEADS, WIDTH, addend), x), WIDTH)
        inner = g.gelu(g.linear(x, WIDTH, 4 * WIDTH))
        x = g.layer_norm(g.op("Add", g.linear(inner, 4 * WIDTH, WIDTH), x), WIDTH)
    pooled = g.op("Tanh", g.linear(g.op("Gather", x, g.constant(0, np.int64), axis=1), WIDTH, WIDTH, 0.3))
    return g.model(_text(np.random.default_rng(0)), g.linear(pooled, WIDTH, 16), 17)


def _picture(random: np.random.Generator) -> dict[str, Array]:
    coarse = random.standard_normal((1, 3, 8, 8)).repeat(4, axis=2).repeat(4, axis=3)
    return {"pixel_values": (coarse + 0.3 * random.standard_normal((1, 3, 32, 32))).astype(np.float32)}


def _vit() -> onnx.ModelProto:
    g, size, patches = _Graph(2), 4, 64
    filters = g.random.standard_normal((WIDTH, 3, size, size)) / np.sqrt(3 * size**2)
    bias = g.constant(g.random.standard_normal(WIDTH) * 0.05)
    planes = g.op("Conv", "pixel_values", g.constant(filters), bias, strides=[size, size], kernel_shape=[size, size])
    rows = g.op("Reshape", planes, g.constant([1, WIDTH, patches], np.int64))
    token = g.constant(g.random.standard_normal((1, 1, WIDTH)))
    x = g.op("Concat", token, g.op("Transpose", rows, perm=(0, 2, 1)), axis=1)
    x = g.op("Add", x, g.constant(g.random.standard_normal((1, patches + 1, WIDTH)) * 0.2))
    for _ in range(LAYERS):
        x = g.op("Add", x, g.attention(g.layer_norm(x, WIDTH), patches + 1, HEADS, WIDTH))
        inner = g.tanh_gelu(g.linear(g.layer_norm(x, WIDTH), WIDTH, 4 * WIDTH))
        x = g.op("Add", x, g.linear(inner, 4 * WIDTH, WIDTH))
    first = g.op("Gather", g.layer_norm(x, WIDTH), g.constant(0, np.int64), axis=1)
    return g.model(_picture(np.random.default_rng(0)), g.linear(first, WIDTH, 16), 17)


def _embedded(random: np.random.Generator) -> dict[str, Array]:
    return {"embeddings": random.standard_normal((1, TOKENS, WIDTH)).astype(np.float32)}


def _decoder() -> onnx.ModelProto:
    g = _Graph(3)
    x = "embeddings"
    for _ in range(LAYERS):
        y = g.rms_norm(x, WIDTH)
        query, key, value = (g.linear(y, WIDTH, WIDTH) for _ in range(3))
        attended = g.op("Attention", query, key, value, is_causal=1, q_num_heads=HEADS, kv_num_heads=HEADS)
        x = g.op("Add", x, g.linear(attended, WIDTH, WIDTH))
        inner = g.op("Gelu", g.linear(g.rms_norm(x, WIDTH), WIDTH, 4 * WIDTH), approximate="tanh")
        x = g.op("Add", x, g.linear(inner, 4 * WIDTH, WIDTH))
    return g.model(_embedded(np.random.default_rng(0)), g.linear(g.rms_norm(x, WIDTH), WIDTH, 16), 23)


def _wide(random: np.random.Generator) -> dict[str, Array]:
    return {"embeddings": random.standard_normal((1, 64, 384)).astype(np.float32)}


def _minilm() -> onnx.ModelProto:
    g, width, length, heads = _Graph(4), 384, 64, 12
    x = "embeddings"
    for _ in range(2):
        x = g.layer_norm(g.op("Add", g.attention(x, length, heads, width), x), width)
        x = g.layer_norm(g.op("Add", g.linear(g.gelu(g.linear(x, width, 4 * width)), 4 * width, width), x), width)
    return g.model(_wide(np.random.default_rng(0)), x, 17)


def _large_picture(random: np.random.Generator) -> dict[str, Array]:
    coarse = random.standard_normal((1, 3, 8, 8)).repeat(8, axis=2).repeat(8, axis=3)
    return {"pixel_values": (coarse + 0.3 * random.standard_normal((1, 3, 64, 64))).astype(np.float32)}


def _bottleneck(g: _Graph, x: str, inputs: int, outputs: int, stride: int = 1) -> str:
    """Expands the channels, filters each, and projects them; with a skip and a GELU, or with a stride."""
    inner = 4 * inputs if stride == 1 else outputs
    y = g.gelu(g.conv(x, inputs, inner))
    y = g.conv(g.gelu(g.conv(y, inner, inner, 3, stride, depthwise=True)), inner, outputs)
    return y if stride > 1 else g.gelu(g.op("Add", x, y))


def _window_biases(g: _Graph, heads: int) -> str:
    """A learned bias for each head and each pair of places of a window, by the distances of their rows and columns."""
    places: Array = np.indices((WINDOW, WINDOW)).reshape(2, -1)
    down, across = np.abs(places[:, :, None] - places[:, None])
    learned = g.random.standard_normal((heads, WINDOW, WINDOW)) * 0.8
    return g.constant(learned[:, down, across][None])


def _windowed(g: _Graph, x: str, side: int, width: int, heads: int) -> str:
    """Attention within windows of an image [1, width, side, side]; its skip is added."""
    count, size = side // WINDOW, WINDOW**2
    split = g.op("Reshape", x, g.constant([width, count, WINDOW, count, WINDOW], np.int64))
    rows = g.op("Transpose", split, perm=(1, 3, 2, 4, 0))
    rows = g.op("Reshape", rows, g.constant([count**2, size, width], np.int64))
    packed = g.linear(g.layer_norm(rows, width), width, 3 * width)
    packed = g.op("Reshape", packed, g.constant([count**2, size, heads, 3 * width // heads], np.int64))
    lengths = g.constant([width // heads] * 3, np.int64)
    parts = [f"{name}_{len(g.nodes)}" for name in ("query", "key", "value")]
    g.nodes.append(helper.make_node("Split", [packed, lengths], parts, axis=3))
    query, key, value = (
        g.op("Transpose", p, perm=o) for p, o in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scores = g.op("Mul", g.op("MatMul", query, key), g.constant(np.sqrt(heads / width)))
    weighted = g.op("MatMul", g.op("Softmax", g.op("Add", scores, _window_biases(g, heads)), axis=-1), value)
    together = g.op("Transpose", weighted, perm=(0, 2, 1, 3))
    found = g.linear(g.op("Reshape", together, g.constant([count**2, size, width], np.int64)), width, width)
    back = g.op("Reshape", found, g.constant([count, count, WINDOW, WINDOW, width], np.int64))
    back = g.op("Transpose", back, perm=(4, 0, 2, 1, 3))
    return g.op("Add", x, g.op("Reshape", back, g.constant([1, width, side, side], np.int64)))


def _tiny_vit() -> onnx.ModelProto:
    g, width, side = _Graph(5), 32, 16
    x = g.conv(g.gelu(g.conv("pixel_values", 3, width // 2, 3, 2)), width // 2, width, 3, 2)
    for _ in range(2):
        x = _bottleneck(g, x, width, width)
    for _ in range(2):
        x, width, side = _bottleneck(g, x, width, 2 * width, 2), 2 * width, side // 2
        for _ in range(2):
            x = g.conv(_windowed(g, x, side, width, width // 32), width, width, 3, depthwise=True)
            places = g.op("Transpose", g.op("Reshape", x, g.constant([1, width, side**2], np.int64)), perm=(0, 2, 1))
            inner = g.gelu(g.linear(g.layer_norm(places, width), width, 4 * width))
            places = g.op("Add", places, g.linear(inner, 4 * width, width))
            x = g.op("Reshape", g.op("Transpose", places, perm=(0, 2, 1)), g.constant([1, width, side, side], np.int64))
    pooled = g.op("ReduceMean", x, g.constant([2, 3], np.int64), keepdims=0)
    return g.model(_large_picture(np.random.default_rng(0)), g.linear(g.layer_norm(pooled, width), width, 16), 18)


WINDOW = 4
"""The rows and the columns of a window."""


@dataclass(frozen=True)
class Transformer:
    """A network and its samples.

    model    makes the network
    sample   makes an input of each name from a generator
    """

    model: Callable[[], onnx.ModelProto]
    sample: Callable[[np.random.Generator], dict[str, Array]]

    def samples(self, number: int, seed: int) -> list[dict[str, Array]]:
        """Seeded inputs."""
        random = np.random.default_rng(seed)
        return [self.sample(random) for _ in range(number)]


TRANSFORMERS: Mapping[str, Transformer] = {
    "bert": Transformer(_bert, _text),
    "vit": Transformer(_vit, _picture),
    "decoder": Transformer(_decoder, _embedded),
    "minilm": Transformer(_minilm, _wide),
    "tiny_vit": Transformer(_tiny_vit, _large_picture),
}


def write(folder: Path) -> None:
    """Writes each network as an .onnx file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, network in TRANSFORMERS.items():
        onnx.save(network.model(), folder / f"{name}.onnx")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
