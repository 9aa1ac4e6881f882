"""A small decoder of the Llama family with random weights, as ONNX, which tests rotate."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, SHARED, HEAD, INNER, WORDS, ROWS, PLACES = 24, 4, 2, 8, 32, 40, 4, 12
"""Channels of the residual stream, heads of queries and of keys, channels of a head, …, places of the caches."""

LARGE = 5
"""A channel of the stream that is far larger than the others, while layers weigh it as the others."""

STATES = {f"{name}0": f"{name}0_out" for name in "kv"}

Array = npt.NDArray[Any]


class _Writer:
    def __init__(self, seed: int):
        self.nodes, self.constants = list[Any](), list[Any]()
        self.rng = np.random.default_rng(seed)

    def constant(self, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape: int) -> Array:
        return self.rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    def node(self, kind: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        given = [i if isinstance(i, str) else self.constant(np.asarray(i)) for i in inputs]
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, given, [name], name=name, **attributes))
        return name

    def norm(self, x: str) -> str:
        gain = self.rng.uniform(0.5, 2, WIDTH).astype(np.float32)
        gain[LARGE] /= 40
        return self.node("RMSNormalization", x, gain, epsilon=1e-5)


def llama(*, layers: int = 1, tied: bool = True, seed: int = 0) -> onnx.ModelProto:
    """A decoder for four rows a call: residual stream, rotary embedding, shared keys, gated layers and caches."""
    w = _Writer(seed)
    table = w.weights(WORDS, WIDTH)
    table[:, LARGE] *= 40
    embedding = w.constant(table)
    x = w.node("Gather", embedding, "token")
    angle = np.arange(PLACES)[:, None] / 100.0 ** (np.arange(0, HEAD, 2) / HEAD)
    cos, sin = (w.node("Gather", f(angle).astype(np.float32), "place") for f in (np.cos, np.sin))
    row = w.node("Reshape", "place", np.array([1, ROWS, 1]))
    seen = w.node("LessOrEqual", np.arange(PLACES)[None, None], row)

    def heads(v: str, count: int) -> str:
        v = w.node("Reshape", v, np.array([ROWS, count, HEAD]))
        return w.node("Transpose", v, perm=[1, 0, 2])

    def rope(v: str) -> str:
        a, b = (w.node("Slice", v, *(np.array([n]) for n in (i, i + HEAD // 2, 2))) for i in (0, HEAD // 2))
        first = w.node("Sub", w.node("Mul", a, cos), w.node("Mul", b, sin))
        return w.node("Concat", first, w.node("Add", w.node("Mul", a, sin), w.node("Mul", b, cos)), axis=-1)

    for layer in range(layers):
        y = w.norm(x)
        q, k, v = (w.node("MatMul", y, w.weights(WIDTH, n * HEAD)) for n in (HEADS, SHARED, SHARED))
        q, caches = rope(heads(q, HEADS)), dict[str, str]()
        for name, new in (("k", rope(heads(k, SHARED))), ("v", heads(v, SHARED))):
            old, new = (w.node("Transpose", t, perm=[1, 0, 2]) for t in (f"{name}{layer}", new))
            stored = w.node("ScatterND", old, w.node("Reshape", "place", np.array([ROWS, 1])), new)
            caches[name] = w.node("Transpose", stored, perm=[1, 0, 2], name=f"{name}{layer}_out")
        q = w.node("Reshape", q, np.array([SHARED, HEADS // SHARED * ROWS, HEAD]))
        s = w.node("MatMul", q, w.node("Transpose", caches["k"], perm=[0, 2, 1]))
        s = w.node("Reshape", w.node("Mul", s, np.float32(HEAD**-0.5)), np.array([HEADS, ROWS, PLACES]))
        s = w.node("Softmax", w.node("Where", seen, s, np.float32(-1e9)), axis=-1)
        s = w.node("Reshape", s, np.array([SHARED, HEADS // SHARED * ROWS, PLACES]))
        a = w.node("Reshape", w.node("MatMul", s, caches["v"]), np.array([HEADS, ROWS, HEAD]))
        a = w.node("Reshape", w.node("Transpose", a, perm=[1, 0, 2]), np.array([ROWS, HEADS * HEAD]))
        x = w.node("Add", x, w.node("MatMul", a, w.weights(HEADS * HEAD, WIDTH)))
        y = w.norm(x)
        gate = w.node("MatMul", y, w.weights(WIDTH, INNER))
        gate = w.node("Mul", w.node("Mul", gate, w.node("Sigmoid", gate)), w.node("MatMul", y, w.weights(WIDTH, INNER)))
        x = w.node("Add", x, w.node("MatMul", gate, w.weights(INNER, WIDTH)))
    head = w.node("Transpose", embedding, perm=[1, 0]) if tied else w.weights(WIDTH, WORDS)
    w.node("MatMul", w.norm(x), head, name="logits")
    caches = [f"{name}{layer}" for layer in range(layers) for name in "kv"]
    shape, info = [SHARED, PLACES, HEAD], helper.make_tensor_value_info
    graph = helper.make_graph(
        w.nodes,
        "llama",
        [
            *(info(n, TensorProto.INT64, [ROWS]) for n in ("token", "place")),
            *(info(n, TensorProto.FLOAT, shape) for n in caches),
        ],
        [
            info("logits", TensorProto.FLOAT, [ROWS, WORDS]),
            *(info(f"{n}_out", TensorProto.FLOAT, shape) for n in caches),
        ],
        w.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def sequence(seed: int = 0) -> list[dict[str, Array]]:
    """The calls of a sequence that fills the caches."""
    rng = np.random.default_rng(seed)
    return [
        {"token": rng.integers(0, WORDS, ROWS), "place": np.arange(start, start + ROWS)}
        for start in range(0, PLACES, ROWS)
    ]
