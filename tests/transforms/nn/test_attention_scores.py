"""Query, key and value have a layer each, and no factor of scores is left, whichever way a model writes attention."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.dialects.nn import AttendOp, SoftmaxOp
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.attention_scores import AttentionScoresPass
from qmlir.transforms.nn.simplify import simplify
from tests.conftest import crossed
from tests.frontends.onnx.agreement import Array, load, model, node, onnxruntime_run

LENGTH, WIDTH, HEADS = 6, 8, 2
DEPTH = WIDTH // HEADS
SHAPES = {"x": [1, LENGTH, WIDTH]}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def constants() -> dict[str, Array]:
    return {
        "w": normal(WIDTH, 3 * WIDTH, seed=1) / 3, "b": normal(3 * WIDTH, seed=2), "o": normal(WIDTH, WIDTH, seed=3),
        "c": np.array(DEPTH**-0.5, np.float32), "half": np.array(DEPTH**-0.25, np.float32),
        "root": np.array(DEPTH**0.5, np.float32), "last": np.array([-1]),
        "threes": np.array([1, LENGTH, HEADS, 3 * DEPTH]), "parts": np.array([1, LENGTH, HEADS, 3, DEPTH]),
        "inner": np.array([1, LENGTH, HEADS, DEPTH, 3]),
        "packed": np.array([1, LENGTH, 3, HEADS, DEPTH]), "heads": np.array([1, LENGTH, HEADS, DEPTH]),
        "rows": np.array([1, LENGTH, WIDTH]), "each": np.array([WIDTH] * 3), **{str(i): np.array(i) for i in range(3)},
    }  # fmt: skip


PACKINGS = {
    "gathered": [
        node("Reshape", "qkv packed", "five"), node("Transpose", "five", "turned", perm=[2, 0, 3, 1, 4]),
        *(node("Gather", f"turned {i}", name, axis=0) for i, name in enumerate("qkv")),
    ],
    "split": [
        node("Split", "qkv each", "q3 k3 v3", axis=2),
        *(node("Reshape", f"{n}3 heads", f"{n}4") for n in "qkv"),
        *(node("Transpose", f"{n}4", n, perm=[0, 2, 1, 3]) for n in "qkv"),
    ],
    "split heads": [
        node("Reshape", "qkv packed", "five"), node("Split", "five", "q5 k5 v5", axis=2, num_outputs=3),
        *(node("Reshape", f"{n}5 heads", f"{n}4") for n in "qkv"),
        *(node("Transpose", f"{n}4", n, perm=[0, 2, 1, 3]) for n in "qkv"),
    ],
    "parts of each head": [
        node("Reshape", "qkv threes", "four"), node("Split", "four", "q4 k4 v4", axis=3, num_outputs=3),
        *(node("Transpose", f"{n}4", n, perm=[0, 2, 1, 3]) for n in "qkv"),
    ],
    "parts of each head, gathered": [
        node("Reshape", "qkv parts", "five"), node("Transpose", "five", "turned", perm=[3, 0, 2, 1, 4]),
        *(node("Gather", f"turned {i}", name, axis=0) for i, name in enumerate("qkv")),
    ],
    "parts of each channel": [
        node("Reshape", "qkv inner", "five"), node("Split", "five", "q5 k5 v5", axis=4, num_outputs=3),
        *(node("Reshape", f"{n}5 heads", f"{n}4") for n in "qkv"),
        *(node("Transpose", f"{n}4", n, perm=[0, 2, 1, 3]) for n in "qkv"),
    ],
}  # fmt: skip


def turned(x: str, y: str) -> onnx.NodeProto:
    return node("Transpose", x, y, perm=[0, 1, 3, 2])


FACTORS = {
    "query": [node("Mul", "q c", "qc"), turned("k", "kt"), node("MatMul", "qc kt", "s")],
    "key": [turned("k", "kt"), node("Mul", "kt c", "kc"), node("MatMul", "q kc", "s")],
    "both": [
        node("Mul", "q half", "qc"), node("Mul", "k half", "kc"), turned("kc", "kt"), node("MatMul", "qc kt", "s"),
    ],
    "scores": [turned("k", "kt"), node("MatMul", "q kt", "sc"), node("Div", "sc root", "s")],
    "halves of scores": [
        node("Mul", "q half", "qc"), turned("k", "kt"), node("MatMul", "qc kt", "sc"), node("Mul", "half sc", "s"),
    ],
}  # fmt: skip
PRODUCTS = {
    "softmax": [node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y4")],
    "turned": [
        turned("s", "st"), node("Softmax", "st", "p", axis=-2), turned("v", "vt"), node("MatMul", "vt p", "yt"),
        turned("yt", "y4"),
    ],
    "late": [
        node("ReduceMax", "s last", "m"), node("Sub", "s m", "d"), node("Exp", "d", "e"),
        node("ReduceSum", "e last", "n"), node("MatMul", "e v", "ev"), node("Div", "ev n", "y4"),
    ],
}  # fmt: skip


def attention(packing: str, factor: str, product: str) -> onnx.ModelProto:
    nodes = [
        node("MatMul", "x w", "xw", name="qkv"), node("Add", "xw b", "qkv"),
        *PACKINGS[packing], *FACTORS[factor], *PRODUCTS[product],
        node("Transpose", "y4", "y3", perm=[0, 2, 1, 3]), node("Reshape", "y3 rows", "y2"), node("MatMul", "y2 o", "y"),
    ]  # fmt: skip
    return model(nodes, SHAPES, constants(), opset=18)


@crossed({"packing": list(PACKINGS), "factor": list(FACTORS), "product": list(PRODUCTS)})
def test_only_layers_products_and_a_softmax_are_left(packing: str, factor: str, product: str) -> None:
    proto = attention(packing, factor, product)
    module = load(proto)
    simplify(module)
    kinds = Counter(op.name for op in main_function(module).body.block.ops)
    computing = {
        k: n for k, n in kinds.items() if k.split(".")[1] not in ("constant", "reshape", "transpose", "return")
    }
    assert computing == {"nn.fully_connected": 4, "nn.matmul": 2, "nn.softmax": 1}
    x = normal(1, LENGTH, WIDTH, seed=9)
    (y,) = evaluate(main_function(module), [x])
    np.testing.assert_allclose(y, onnxruntime_run(proto, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_layers_keep_the_node_of_their_layer_for_rules() -> None:
    """A rule that names the node of the packed layer reaches the layers that stand for it."""
    samples = [normal(1, LENGTH, WIDTH, seed=s) for s in range(4)]
    policy = {"rules": [{"name": "qkv", "weight_range": "full"}]}
    network = qmlir.quantize(load(attention("split", "scores", "softmax")), data=samples, policy=policy)
    assert sum("qkv" in e.node.split("+") for e in qmlir.decisions(network) if e.operation == "nn.fully_connected") == 3


def test_a_factor_of_what_no_layer_computes_is_a_change_of_scale() -> None:
    """It multiplies the scores, whose 16 bits are kept: no integer changes."""
    nodes = [node("Mul", "q c", "qc"), turned("k", "kt"), node("MatMul", "qc kt", "s"), *PRODUCTS["softmax"]]
    nodes[-1:] = [node("MatMul", "p v", "y")]
    shapes = {n: [1, HEADS, LENGTH, DEPTH] for n in "qkv"}
    samples = [{n: normal(*s, seed=3 * i + j) for j, (n, s) in enumerate(shapes.items())} for i in range(4)]
    network = qmlir.quantize(load(model(nodes, shapes, constants())), data=samples)
    assert any(isinstance(op, AttendOp) for op in network.walk())
    integers = Counter(op.name for op in qmlir.to_integers(network).walk())
    assert integers["qint.mul"] == 0
    assert integers["qint.requantize"] == 1  # of the sums of products to scores


@pytest.mark.parametrize("why", ["no softmax", "read elsewhere", "computed before it is sliced"])
def test_what_stays(why: str) -> None:
    """A product that no softmax reads, factors that something else reads, and results that are not sliced first."""
    packing, factor, product = PACKINGS["split"], FACTORS["query"], PRODUCTS["softmax"]
    outputs = ["y4"]
    match why:
        case "no softmax":
            product = [node("Relu", "s", "p"), node("MatMul", "p v", "y4")]
        case "read elsewhere":
            outputs += ["qc", "k3", "qkv"]
        case _:
            packing = [node("Tanh", "qkv", "bent"), node("Split", "bent each", "q3 k3 v3", axis=2), *packing[1:]]
    nodes = [node("MatMul", "x w", "qkv"), *packing, *factor, *product]
    module = load(model(nodes, SHAPES, constants(), outputs=outputs, opset=18))
    simplify(module)
    kinds = Counter(op.name for op in module.walk())
    assert (kinds["nn.fully_connected"], kinds["nn.mul"]) == (1, 1)
    assert not AttentionScoresPass.run(module)


@crossed({"kept": ["choice", "sum"], "guard": ["number", "infinity"]})
def test_rows_that_a_mask_hides_entirely_are_zero(kept: str, guard: str, tmp_path: Path) -> None:
    """Exporters write a choice for them; in a quantized network no row of a softmax is no number."""
    keep = normal(LENGTH, LENGTH, seed=5) > -0.5
    keep[2] = False
    arrays = {
        "keep": keep, "none": np.array(-np.inf, np.float32), "zero": np.array(0, np.float32),
        "m": np.where(keep, 0, -np.inf).astype(np.float32), "last": np.array([-1]),
    }  # fmt: skip
    test = [node("IsNaN", "p", "t")]
    if guard == "infinity":
        test = [node("ReduceMax", "m last", "top"), node("Equal", "top none", "t")]
    nodes = [
        turned("k", "kt"), node("MatMul", "q kt", "s"),
        node("Where", "keep s none", "z") if kept == "choice" else node("Add", "s m", "z"),
        node("Softmax", "z", "p", axis=-1), *test, node("Where", "t zero p", "safe"), node("MatMul", "safe v", "y"),
    ]  # fmt: skip
    shapes = {n: [1, HEADS, LENGTH, DEPTH] for n in "qkv"}
    samples = [{n: normal(*s, seed=3 * i + j) for j, (n, s) in enumerate(shapes.items())} for i in range(8)]
    proto = model(nodes, shapes, arrays, opset=18)
    network = qmlir.quantize(load(proto), data=samples[:6])
    assert any(isinstance(op, AttendOp) for op in network.walk())
    assert not any(isinstance(op, SoftmaxOp) for op in network.walk())
    y, wanted = np.asarray(qmlir.reference(network)(samples[7])), onnxruntime_run(proto, samples[7])[0]
    assert not y[:, :, 2].any()
    assert np.array_equal(y, np.asarray(qmlir.compile(network)(samples[7])))
    assert 10 * np.log10((wanted**2).sum() / ((wanted - y) ** 2).sum()) > 30
