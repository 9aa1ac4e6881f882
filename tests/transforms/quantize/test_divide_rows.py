"""`activations=dynamic`: each row that a layer reads has a scale of its own, in integers."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import ConstantOp, FullyConnectedOp, GatherOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import shape_of
from qmlir.numerics.schemas import QuantizationError

Array = npt.NDArray[Any]

ROWS, WIDTH, HIDDEN = 12, 48, 64


def sample(seed: int) -> Array:
    """Rows of magnitudes from 0.03 to 30."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(ROWS, WIDTH)) * 10.0 ** rng.uniform(-1.5, 1.5, (ROWS, 1))).astype(np.float32)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, the first with a bias and a clamp."""
    rng = np.random.default_rng(7)

    def constant(*shape: int) -> str:
        numbers = ", ".join(str(float(n)) for n in rng.normal(size=int(np.prod(shape))) / 8)
        return f"nn.constant <tensor<{'x'.join(map(str, shape))}xf32>, [{numbers}]>"

    path = tmp_path_factory.mktemp("rows") / "float.mlir"
    x, h, y = (f"tensor<{ROWS}x{n}xf32>" for n in (WIDTH, HIDDEN, 8))
    w, b, v = f"tensor<{HIDDEN}x{WIDTH}xf32>", f"tensor<{HIDDEN}xf32>", f"tensor<8x{HIDDEN}xf32>"
    path.write_text(f"""
    func.func @main(%x: {x} {{qmlir.name = #qmlir.name<tensors ["x"]>}}) -> {y} {{
      %w = {constant(HIDDEN, WIDTH)} : {w}
      %b = {constant(HIDDEN)} : {b}
      %v = {constant(8, HIDDEN)} : {v}
      %h = nn.fully_connected %x, %w, %b {{min = 0.0 : f32, qmlir.name = #qmlir.name<nodes ["first"], tensors ["h"]>}}
        : {x}, {w}, {b} -> {h}
      %y = nn.fully_connected %h, %v {{qmlir.name = #qmlir.name<nodes ["last"], tensors ["y"]>}} : {h}, {v} -> {y}
      func.return %y : {y}
    }}
    """)
    return path


def quantized(network: Path, **options: Any) -> ModuleOp:
    return qmlir.quantize(network, data=[sample(s) for s in range(8)], measure=False, **options)


def decibels_of_rows(network: Path, module: ModuleOp) -> Array:
    x = sample(99)
    exact, found = (np.asarray(qmlir.compile(m)(x), np.float64) for m in (network, module))
    return 10 * np.log10((exact**2).sum(1) / ((found - exact) ** 2).sum(1))


def test_small_rows_keep_their_digits(network: Path) -> None:
    module = quantized(network, activations="dynamic")
    assert str(module).count("nn.divide_rows") == 2
    dynamic, static = (decibels_of_rows(network, quantized(network, activations=a)) for a in ("dynamic", "static"))
    assert dynamic.min() > 28
    assert dynamic.mean() > 34
    assert static.min() < 5


def test_weights_are_rounded_together_for_quotients(network: Path) -> None:
    """Rows whose elements vary together leave errors of weights that cancel in the sums, whatever their magnitudes."""
    mixed = np.random.default_rng(4).normal(size=(6, WIDTH)).astype(np.float32)

    def correlated(seed: int) -> Array:
        rng = np.random.default_rng(seed)
        return (rng.normal(size=(ROWS, 6)) @ mixed * 10.0 ** rng.uniform(-1, 1, (ROWS, 1))).astype(np.float32)

    x, found = correlated(99), dict[str, Any]()
    exact = np.asarray(qmlir.compile(network)(x), np.float64)
    data = [correlated(s) for s in range(8)]
    for rounding in ("nearest", "auto"):
        options: dict[str, Any] = {"activations": "dynamic", "weight_precision": "int4", "rounding": rounding}
        got = np.asarray(qmlir.compile(qmlir.quantize(network, data=data, measure=False, **options))(x), np.float64)
        found[rounding] = 10 * np.log10((exact**2).sum() / ((got - exact) ** 2).sum())
    assert found["auto"] > found["nearest"] + 3


@pytest.mark.parametrize("options", [
    {}, {"schema": "symmetric"}, {"weight_precision": "int4"}, {"precision": "int16"}, {"per_channel": False},
    {"weight_precision": "int4", "granularity": "group-32"},
], ids=str)  # fmt: skip
def test_machine_code_has_the_bits_of_the_reference(network: Path, options: dict[str, Any]) -> None:
    module = quantized(network, activations="dynamic", **options)
    assert [d.outcome for d in qmlir.decisions(module)].count("float") == 0
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    for seed in range(50, 54):
        assert (np.asarray(reference(sample(seed))) == np.asarray(executable(sample(seed)))).all()
    zeros = np.zeros((ROWS, WIDTH), np.float32)
    assert (np.asarray(reference(zeros)) == np.asarray(executable(zeros))).all()


def test_onnxruntime_computes_its_integers(network: Path, tmp_path: Path) -> None:
    module = quantized(network, activations="dynamic")
    qmlir.export(module, tmp_path / "q.onnx", format="onnx-integer")
    session = ort.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
    found = np.asarray(session.run(None, {"x": sample(98)})[0])
    assert (found == np.asarray(qmlir.compile(module)(sample(98)))).all()


def test_casts_have_no_sums_of_32_bits(network: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match='fully_connected "first": must store 16 bits or less'):
        qmlir.export(quantized(network, activations="dynamic"), tmp_path / "q.onnx", format="onnx-qdq")


def test_a_rule_leaves_a_layer_static(network: Path) -> None:
    policy = {"rules": [{"layer": "last", "activations": "static"}]}
    module = quantized(network, activations="dynamic", policy=policy)
    assert str(module).count("nn.divide_rows") == 1
    reasons = {d.node: d.reason for d in qmlir.decisions(module)}
    assert reasons["last"].startswith("i16 activations, i8 weights per channel")
    assert reasons["first"].startswith("i8 activations, i32 results, i8 weights per channel")


@pytest.mark.parametrize(("options", "got"), [
    ({"target": "nmp"}, "target nmp"),
    ({"schema": "symmetric_with_power2_scale"}, "schema symmetric_with_power2_scale"),
])  # fmt: skip
def test_what_has_no_scales_of_rows_refuses_them(network: Path, options: dict[str, Any], got: str) -> None:
    with pytest.raises(QuantizationError, match=f'fully_connected "first".*magnitudes of rows.*got {got}'):
        quantized(network, activations="dynamic", **options)


@pytest.mark.parametrize(("loud", "decibels"), [(1.0, 38), (40.0, 20)])
def test_a_table_of_embeddings_is_the_last_layer_too(loud: float, decibels: float, tmp_path: Path) -> None:
    """A tied table: each row has 8 bits and a scale of its own, and the layer the same integers.

    So it is behind channels that are far larger than others, which other layers have divided.
    """
    rng = np.random.default_rng(3)
    table = (rng.normal(size=(40, 16)) * 10.0 ** rng.uniform(-1, 1, (40, 1))).astype(np.float32)
    numbers = ", ".join(str(float(n)) for n in table.reshape(-1))
    gain = ", ".join(str(n) for n in [loud, loud, *[1.0] * 14])
    (tmp_path / "tied.mlir").write_text(f"""
    func.func @main(%token: tensor<5xi64> {{qmlir.name = #qmlir.name<tensors ["token"]>}}) -> tensor<5x40xf32> {{
      %t = nn.constant <tensor<40x16xf32>, [{numbers}]> : tensor<40x16xf32>
      %x = nn.gather %t, %token {{axis = 0 : i64}} : tensor<40x16xf32>, tensor<5xi64> -> tensor<5x16xf32>
      %g = nn.constant <tensor<16xf32>, [{gain}]> : tensor<16xf32>
      %n = nn.mul %x, %g : tensor<5x16xf32>, tensor<16xf32> -> tensor<5x16xf32>
      %y = nn.fully_connected %n, %t : tensor<5x16xf32>, tensor<40x16xf32> -> tensor<5x40xf32>
      func.return %y : tensor<5x40xf32>
    }}
    """)
    tokens = [rng.integers(0, 40, 5) for _ in range(8)]
    module = qmlir.quantize(tmp_path / "tied.mlir", data=tokens, activations="dynamic", measure=False)
    (lookup,) = [o for o in module.walk() if isinstance(o, GatherOp) and shape_of(o.y) == (5, 16)]
    (layer,) = [o for o in module.walk() if isinstance(o, FullyConnectedOp)]
    stored = [v.owner.value.array for v in (lookup.x, layer.w) if isinstance(v.owner, ConstantOp)]
    assert stored[0].dtype == np.int8
    assert (stored[0] == stored[1]).all()
    exact, own = np.asarray(qmlir.compile(tmp_path / "tied.mlir")(tokens[0])), qmlir.compile(module)(tokens[0])
    assert (np.asarray(own) == np.asarray(qmlir.reference(module)(tokens[0]))).all()
    assert 10 * np.log10((exact**2).sum() / ((own - exact) ** 2).sum()) > decibels


def test_a_layer_with_a_computed_bias_keeps_static_rows(tmp_path: Path) -> None:
    """What the sums without such a bias reach is not known; the layers around it have rows with scales all the same."""
    rng = np.random.default_rng(5)
    w, v = (", ".join(str(float(n)) for n in rng.normal(size=k) / 4) for k in (8 * 16, 16 * 16))
    (tmp_path / "biased.mlir").write_text(f"""
    func.func @main(%x: tensor<4x16xf32> {{qmlir.name = #qmlir.name<tensors ["x"]>}},
                    %c: tensor<16xf32> {{qmlir.name = #qmlir.name<tensors ["c"]>}}) -> tensor<4x8xf32> {{
      %w = nn.constant <tensor<8x16xf32>, [{w}]> : tensor<8x16xf32>
      %v = nn.constant <tensor<16x16xf32>, [{v}]> : tensor<16x16xf32>
      %b = nn.tanh %c : tensor<16xf32> -> tensor<16xf32>
      %h = nn.fully_connected %x, %v, %b {{qmlir.name = #qmlir.name<nodes ["biased"], tensors ["h"]>}}
        : tensor<4x16xf32>, tensor<16x16xf32>, tensor<16xf32> -> tensor<4x16xf32>
      %y = nn.fully_connected %h, %w {{qmlir.name = #qmlir.name<nodes ["plain"], tensors ["y"]>}}
        : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
      func.return %y : tensor<4x8xf32>
    }}
    """)
    samples = [{k: rng.normal(size=n).astype(np.float32) for k, n in (("x", (4, 16)), ("c", 16))} for _ in range(9)]
    module = qmlir.quantize(tmp_path / "biased.mlir", data=samples[:8], activations="dynamic", measure=False)
    assert str(module).count("nn.divide_rows") == 1
    reasons = {d.node: d.reason for d in qmlir.decisions(module)}
    assert reasons["plain"].startswith("i8 activations, i32 results")
    assert "i32 results" not in reasons["biased"]
    exact, own, wanted = (
        np.asarray(f(samples[8])) for f in (qmlir.compile(tmp_path / "biased.mlir"), qmlir.compile(module),
                                            qmlir.reference(module))
    )  # fmt: skip
    assert (own == wanted).all()
    assert 10 * np.log10((exact**2).sum() / ((own - exact) ** 2).sum()) > 30
