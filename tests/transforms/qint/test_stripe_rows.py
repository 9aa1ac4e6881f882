"""stripe-rows: attention and feed-forward layers in stripes of rows have the same bits, and no tensor of all scores."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir import stages
from qmlir.errors import OptionError
from qmlir.ir.interfaces import shape_of
from qmlir.numerics import Array
from qmlir.transforms.qint.stripe_rows.regions import bytes_of, may_divide
from qmlir.transforms.qint.stripe_rows.stripe_rows import StripeRowsPass, rows_of_stripe
from tests.conftest import crossed
from tests.frontends.gguf.files import tiny
from tests.frontends.onnx.agreement import load

ROWS, HEADS, HEAD = 96, 4, 4
WIDTH = HEADS * HEAD

Numbers = dict[str, Array]

MASKS = {
    "causal": "seen = Identity(triangle)",
    "window": "seen = Identity(band)",
    "positions": "seen = LessOrEqual(columns, place)",
}


def attention(mask: str = "causal", *, operator: bool = False, shared: int = 1) -> tuple[onnx.ModelProto, Numbers]:
    """Attention between layers, with a mask; heads of keys are shared by so many heads of queries."""
    keys = HEADS // shared
    spelled = f"""
      {MASKS[mask]}
      repeated_k = Reshape(four_k, heads_of_q)
      repeated_v = Reshape(four_v, heads_of_q)
      columns_of_k = Transpose<perm = [0, 2, 1]>(repeated_k)
      products = MatMul(q, columns_of_k)
      scores = Mul(products, half)
      masked = Where(seen, scores, far)
      shares = Softmax<axis = -1>(masked)
      mixed = MatMul(shares, repeated_v)
    """
    whole = """
      q1 = Unsqueeze(q, zero)
      k1 = Unsqueeze(k, zero)
      v1 = Unsqueeze(v, zero)
      y1 = Attention<is_causal = 1>(q1, k1, v1)
      mixed = Squeeze(y1, zero)
    """
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
    net (float[{ROWS}, {WIDTH}] x, int64[1, {ROWS}, 1] place) => (float[{ROWS}, {WIDTH}] y) {{
      q_rows = MatMul(x, wq)
      k_rows = MatMul(x, wk)
      v_rows = MatMul(x, wv)
      q_split = Reshape(q_rows, split_q)
      k_split = Reshape(k_rows, split_k)
      v_split = Reshape(v_rows, split_k)
      q = Transpose<perm = [1, 0, 2]>(q_split)
      k = Transpose<perm = [1, 0, 2]>(k_split)
      v = Transpose<perm = [1, 0, 2]>(v_split)
      k_four = Unsqueeze(k, one)
      v_four = Unsqueeze(v, one)
      four_k = Expand(k_four, repeated)
      four_v = Expand(v_four, repeated)
      {whole if operator else spelled}
      back = Transpose<perm = [1, 0, 2]>(mixed)
      flat = Reshape(back, rows)
      out = MatMul(flat, wo)
      h = Add(x, out)
      inner = MatMul(h, w1)
      active = Relu(inner)
      outer = MatMul(active, w2)
      y = Add(h, outer)
    }}"""
    random, place = np.random.default_rng(0), np.arange(ROWS)
    numbers: Numbers = {
        name: random.normal(0, 0.5, size).astype(np.float32)
        for name, size in (
            ("wq", (WIDTH, WIDTH)), ("wk", (WIDTH, keys * HEAD)), ("wv", (WIDTH, keys * HEAD)),
            ("wo", (WIDTH, WIDTH)), ("w1", (WIDTH, 8 * WIDTH)), ("w2", (8 * WIDTH, WIDTH)),
        )
    }  # fmt: skip
    numbers |= {
        "half": np.array(0.5, np.float32),
        "far": np.array(-1e9, np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
    }
    numbers |= {"split_q": np.array([ROWS, HEADS, HEAD]), "split_k": np.array([ROWS, keys, HEAD])}
    numbers |= {"repeated": np.array([keys, shared, ROWS, HEAD]), "heads_of_q": np.array([HEADS, ROWS, HEAD])}
    numbers |= {"rows": np.array([ROWS, WIDTH]), "columns": place.reshape(1, 1, ROWS)}
    triangle = place <= place[:, None]
    numbers |= {"triangle": triangle[None], "band": (triangle & (place > place[:, None] - 20))[None]}
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in numbers.items())
    onnx.checker.check_model(proto)
    x = random.normal(0, 1, (ROWS, WIDTH)).astype(np.float32)
    return proto, {"x": x, "place": place.reshape(1, ROWS, 1)}


def striped(module: ModuleOp, **given: int) -> ModuleOp:
    """A copy of an integer network in stripes."""
    copy = module.clone()
    StripeRowsPass(**given).apply(Context(), copy)
    copy.verify()
    return copy


def most(module: ModuleOp) -> int:
    """The bytes of the largest computed tensor."""
    return max(bytes_of(op.results[0]) for op in module.walk() if may_divide(op))


def values(network: Any, samples: list[Numbers]) -> list[Array]:
    """The results of calls, and the states behind them."""
    found = [np.asarray(network(sample)) for sample in samples]
    return [*found, *(np.asarray(a) for a in network.state.values())]


def assert_same(module: ModuleOp, parts: ModuleOp, samples: list[Numbers]) -> None:
    """The reference and the machine code of the stripes give the bits of the whole network."""
    expected = values(qmlir.reference(module), samples)
    for network in (qmlir.reference(parts), qmlir.compile(parts)):
        for a, b in zip(values(network, samples), expected, strict=True):
            assert a.dtype == b.dtype
            assert (a == b).all()


FORMS: dict[str, dict[str, Any]] = {
    "causal": {}, "window": {"mask": "window"}, "positions": {"mask": "positions", "shared": 2},
    "shared": {"shared": 4}, "operator": {"operator": True}, "shared operator": {"operator": True, "shared": 2},
}  # fmt: skip


@crossed({"form": FORMS, "precision": ["int8", "int16"]})
def test_attention_in_stripes(form: str, precision: str) -> None:
    proto, sample = attention(**FORMS[form])
    module = qmlir.to_integers(qmlir.quantize(load(proto), data=[sample], precision=precision))
    small, stripe = 4 * ROWS * WIDTH, 6 * 32 * HEADS * ROWS
    parts = striped(module, small=small, stripe=stripe)
    assert most(module) >= 2 * HEADS * ROWS * ROWS
    assert most(parts) <= stripe
    assert_same(module, parts, [sample])


@pytest.mark.parametrize("window", [None, 9])
def test_a_decoder_with_a_cache(window: int | None, tmp_path: Path) -> None:
    """Rows of queries that share a head of keys lie in one axis with those of their neighbours."""
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny(attention__sliding_window=window or 0))
    net = qmlir.load(path, bind={"rows": 32, "context": 64})
    tokens = np.random.default_rng(1).integers(0, 20, (2, 32))
    calls = [{"token": t, "pos": np.arange(32) + 32 * n} for n, t in enumerate(tokens)]
    module = qmlir.to_integers(qmlir.quantize(net, data=[calls]))
    parts = striped(module, small=4 << 10, stripe=12 << 10)
    whole, divided = (
        {shape_of(op.results[0]) for op in net.walk() if op.name == "qint.exponentials"} for net in (module, parts)
    )
    assert whole == {(2, 2 * 32, 64)}
    assert divided == {(2, 2 * 16, 64)}
    assert_same(module, parts, calls)


def test_small_networks_stay_as_they_are() -> None:
    proto, sample = attention()
    module = qmlir.to_integers(qmlir.quantize(load(proto), data=[sample]))
    assert str(striped(module)) == str(module)


def test_stripes_are_part_of_compilation() -> None:
    assert "stripe-rows" in stages.to_loops()


@pytest.mark.parametrize(
    ("rows", "bytes_of_row", "most", "expected"),
    [
        (2048, 1000.0, 1 << 20, 1024),
        (2048, 100_000.0, 4 << 20, 32),
        (2048, 1e9, 4 << 20, 16),
        (100, 100.0, 1000, 16),
        (8, 100.0, 10, 8),
        (96, 10.0, 480, 48),
    ],
)
def test_rows_of_a_stripe(rows: int, bytes_of_row: float, most: int, expected: int) -> None:
    assert rows_of_stripe(rows, bytes_of_row, most) == expected


@pytest.mark.parametrize("name", ["stripe", "small"])
def test_sizes_are_positive(name: str) -> None:
    given: dict[str, Any] = {name: 0}
    with pytest.raises(OptionError, match=f"{name}.*must be positive.*got 0"):
        StripeRowsPass(**given).apply(Context(), ModuleOp([]))


def test_floats_stay_whole() -> None:
    module = load(attention()[0])
    assert str(striped(module, small=1024, stripe=2048)) == str(module)
