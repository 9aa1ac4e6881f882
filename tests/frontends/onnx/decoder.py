"""A small decoder with a cache of keys and values, as ONNX: one token a call, or several."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, HEADS, PLACES = 11, 8, 2, 16
HEAD = WIDTH // HEADS

Sample = dict[str, np.ndarray]

STATES = {"past_keys": "present_keys", "past_values": "present_values"}
"""The caches [PLACES, HEADS, HEAD]: input → output."""

TAIL = (
    ("Transpose", ["present_keys"], "k_t", {"perm": [1, 2, 0]}),
    ("MatMul", ["q", "k_t"], "products", {}),
    ("Div", ["products", "root"], "scores", {}),
    ("Where", ["later", "far", "scores"], "masked", {}),
    ("Softmax", ["masked"], "shares", {"axis": -1}),
    ("Transpose", ["present_values"], "v_t", {"perm": [1, 0, 2]}),
    ("MatMul", ["shares", "v_t"], "mixed", {}),
    ("Reshape", ["mixed", "flat"], "mixed_flat", {}),
    ("MatMul", ["mixed_flat", "wo"], "attended", {}),
    ("Add", ["x", "attended"], "h", {}),
    ("MatMul", ["h", "w1"], "inner", {}),
    ("Relu", ["inner"], "active", {}),
    ("MatMul", ["active", "w2"], "outer", {}),
    ("Add", ["h", "outer"], "y", {}),
    ("MatMul", ["y", "readout"], "logits", {}),
)
"""The nodes behind the caches: operator, inputs, output, attributes."""


RING = (
    ("Mod", ["position", "length"], "slot", {}),
    ("Sub", ["position", "places"], "turns", {}),
    ("Mod", ["turns", "length"], "age", {}),
    ("Greater", ["age", "position"], "unwritten", {}),
    ("GreaterOrEqual", ["age", "window"], "too_old", {}),
    ("Or", ["unwritten", "too_old"], "later", {}),
)
"""The slot of a position in a ring, and the slots that it does not see."""


def decoder(
    *, grows: bool = False, rows: int | str | None = None, seed: int = 0, window: int | None = None
) -> onnx.ModelProto:
    """The network: token [1] and position [1, 1] to logits [1, TOKENS], past caches to present caches.

    Each call writes the token's key and value into the place of its position, and attends to the places up to it. With
    `grows`, the key and the value are put behind the caches instead. With `rows`, a number or the name of a size, a
    call takes so many tokens; all such networks have the same nodes. With a `window`, the caches are rings: a token
    takes the place of the one that is PLACES older, and attends to so many places.
    """
    count = 1 if rows is None else rows
    random = np.random.default_rng(seed)
    sizes = {
        "embedding": (TOKENS, WIDTH), "wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH),
        "wo": (WIDTH, WIDTH), "w1": (WIDTH, 2 * WIDTH), "w2": (2 * WIDTH, WIDTH), "readout": (WIDTH, TOKENS),
    }  # fmt: skip
    constants = {name: random.normal(0, 0.4, size).astype(np.float32) for name, size in sizes.items()}
    constants |= {"root": np.float32(HEAD**0.5), "far": np.float32(-16)}
    any_rows = 1 if rows is None else -1
    constants |= {"heads": np.array([HEADS, 1, HEAD]), "row": np.array([any_rows, HEADS, HEAD])}
    constants |= {"flat": np.array([any_rows, WIDTH])}
    constants |= {"places": np.arange(PLACES).reshape(1, 1, PLACES)}
    if window is not None:
        constants |= {"length": np.array(PLACES), "window": np.array(window)}
    nodes = [("Gather", ["embedding", "token"], "x", {})]
    for name, shape in (("q", "heads"), ("k", "row"), ("v", "row")):
        nodes += [("MatMul", ["x", f"w{name}"], f"{name}_flat", {}), ("Reshape", [f"{name}_flat", shape], name, {})]
    if rows is not None:
        nodes[2:3] = [("Reshape", ["q_flat", "row"], "q_rows", {}), ("Transpose", ["q_rows"], "q", {"perm": [1, 0, 2]})]
    for name, cache in (("k", "keys"), ("v", "values")):
        at = "position" if window is None else "slot"
        written = ("ScatterND", [f"past_{cache}", at, name], f"present_{cache}", {})
        appended = ("Concat", [f"past_{cache}", name], f"present_{cache}", {"axis": 0})
        nodes.append(appended if grows else written)
    tail = [("Identity", ["scores"], "masked", {}) if grows and node[0] == "Where" else node for node in TAIL]
    if rows is not None:
        i = next(i for i, node in enumerate(tail) if node[0] == "Reshape")
        tail[i : i + 1] = [
            ("Transpose", ["mixed"], "mixed_rows", {"perm": [1, 0, 2]}),
            ("Reshape", ["mixed_rows", "flat"], "mixed_flat", {}),
        ]
    if window is not None:
        nodes = [*RING, *nodes]
    else:
        nodes.append(("Greater", ["places", "position"], "later", {}))
    nodes += tail
    past, present = (("past", HEADS, HEAD), ("present", HEADS, HEAD)) if grows else [(PLACES, HEADS, HEAD)] * 2
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **attributes) for kind, inputs, output, attributes in nodes],
        "decoder",
        [
            value("token", TensorProto.INT64, (count,)),
            value("position", TensorProto.INT64, (count, 1)),
            *(value(name, TensorProto.FLOAT, past) for name in STATES),
        ],
        [
            value("logits", TensorProto.FLOAT, (count, TOKENS)),
            *(value(name, TensorProto.FLOAT, present) for name in STATES.values()),
        ],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def samples(count: int, seed: int = 1, rows: int = 1) -> list[Sample]:
    """Random tokens at the positions 0, 1, …, over and over; so many in a call."""
    tokens = np.random.default_rng(seed).integers(0, TOKENS, (count, rows))
    places = np.arange(count * rows).reshape(count, rows, 1) % PLACES
    return [{"token": t, "position": p} for t, p in zip(tokens, places, strict=True)]
