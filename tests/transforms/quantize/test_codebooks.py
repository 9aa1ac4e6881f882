"""Weights from codebooks: what is fitted, chosen, stated and computed."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.analysis.counts import decided
from qmlir.dialects.nn import ConstantOp
from qmlir.ir.levels import levels_of
from qmlir.numerics import Array, codebooks
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.levels import Entries
from qmlir.numerics.schemas import QuantizationError
from qmlir.transforms.quantize.near_integers import cost, near_integers
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


def images() -> list[Any]:
    return list(np.load(DIGITS / "digits.npz")["calibration_images"][:, None])


def quantized(**options: Any) -> ModuleOp:
    arguments: dict[str, Any] = {"weight_precision": "int4", "weight_levels": "codebook", **options}
    return qmlir.quantize(DIGITS / "digits.onnx", data=images(), **arguments)


@pytest.fixture(scope="module")
def digits() -> ModuleOp:
    return quantized()


def with_codebooks(module: ModuleOp) -> list[tuple[ConstantOp, Codebook]]:
    """The constants that state a codebook."""
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    return [(op, held) for op in constants if isinstance(held := levels_of(op), Codebook)]


def normal(*shape: int) -> Array:
    """Weights whose channels differ in size."""
    rng = np.random.default_rng(1)
    return rng.normal(0, 1, shape) * rng.uniform(0.05, 1, (shape[0], 1))


def even_error(rows: Array, bits: int, *, powers: bool) -> float:
    """The least square error of integers at even distances, with the best of some scales for each channel."""
    most = (1 << bits - 1) - 1
    tried = np.abs(rows).max(axis=1, keepdims=True) / most * np.linspace(0.3, 1, 29)[:, None, None]
    if powers:
        tried = 2 ** (np.ceil(np.log2(tried[-1])) - np.arange(4)[:, None, None])
    errors = ((np.clip(np.rint(rows / tried), -most, most) * tried - rows) ** 2).sum(axis=2)
    return float(errors.min(axis=0).sum())


@pytest.mark.parametrize("bits", Codebook.BITS)
@pytest.mark.parametrize("powers", [False, True])
def test_a_table_that_is_fitted(bits: int, powers: bool) -> None:
    rows = normal(30, 200)
    scales, table = codebooks.fitted(rows, bits, powers_of_two=powers)
    assert (table.dtype, table.shape) == (np.dtype(np.int8), (1 << bits,))
    assert (np.diff(table.astype(int)) >= 0).all()
    assert np.abs(table.astype(int)).max() <= codebooks.LARGEST[bits]
    assert (scales > 0).all()
    assert (scales == scales.astype(np.float32)).all()
    assert not powers or (np.log2(scales) == np.rint(np.log2(scales))).all()
    error = ((Entries(table).nearest(rows / scales[:, None]) * scales[:, None] - rows) ** 2).sum()
    assert error < (0.95 if powers else 0.8) * even_error(rows, bits, powers=powers)


def test_the_best_of_all_tables() -> None:
    """One channel, three values that four entries hold exactly: with the largest at 63, nothing is lost."""
    rows = np.array([[0.5, -1.0, 0.25, 0.25, 0.5, -1.0, 0.5, 0.25]])
    scales, table = codebooks.fitted(rows, 2)
    np.testing.assert_allclose(Entries(table).nearest(rows / scales[:, None]) * scales[:, None], rows, atol=0.01)


def test_entries_are_near_the_best() -> None:
    """Beside all tables of four entries for a few weights of one channel, at the scale that was found."""
    rows = np.random.default_rng(2).normal(0, 1, (1, 12))
    scales, table = codebooks.fitted(rows, 2)
    real = (rows / scales[:, None]).ravel()
    errors = [
        ((Entries(np.array(each, np.int8)).nearest(real) - real) ** 2).sum()
        for each in product(range(-63, 64, 7), repeat=4)
        if list(each) == sorted(each)
    ]
    assert ((Entries(table).nearest(real) - real) ** 2).sum() < min(errors) * 1.05


@pytest.mark.parametrize("bits", Codebook.BITS)
def test_a_table_with_0(bits: int) -> None:
    rows = normal(30, 200) + 0.5
    errors: list[float] = []
    for zero in (False, True):
        scales, table = codebooks.fitted(rows, bits, zero=zero)
        assert not zero or (table == 0).any()
        errors.append(float(((Entries(table).nearest(rows / scales[:, None]) * scales[:, None] - rows) ** 2).sum()))
    assert errors[1] < 1.2 * errors[0]


def test_importance_decides() -> None:
    """Weights that count more are met better, and those that count as much in sum decide."""
    rows, counts = normal(4, 60), np.ones((4, 60))
    counts[:, :6] = 1000
    errors: list[float] = []
    for importance in (None, counts):
        scales, table = codebooks.fitted(rows, 2, importance)
        found = Entries(table).nearest(rows / scales[:, None]) * scales[:, None]
        errors.append(float((counts * (found - rows) ** 2).sum()))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("rows", [np.zeros((3, 5)), np.full((2, 4), 1e-40), np.full((1, 1), -3.0)])
def test_weights_without_spread(rows: Array) -> None:
    scales, table = codebooks.fitted(rows, 3)
    found = Entries(table).nearest(rows / scales[:, None]) * scales[:, None]
    np.testing.assert_allclose(found, rows, rtol=0.01, atol=1e-36)


def test_rounding_in_turn_takes_entries() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 90, 20)) + 2 * rng.standard_normal((1, 90, 1))
    h, t = x.swapaxes(1, 2) @ x / 90, rng.uniform(-30, 30, (1, 8, 20))
    levels = Entries(np.array([-30, -11, -3, 0, 2, 7, 19, 31], np.int8))
    found = near_integers(t, h, levels)
    assert set(np.unique(found)) <= set(levels.table.tolist())
    assert cost(found, t, h).sum() < 0.7 * cost(levels.nearest(t), t, h).sum()


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["auto", "nearest", "gptq"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_stored_integers_are_entries(rounding: str, per_channel: bool) -> None:
    found = with_codebooks(quantized(rounding=rounding, per_channel=per_channel))
    assert len(found) == 5
    for op, held in found:
        assert held.bits == 4
        assert held.holds(op.value.array)


@pytest.mark.slow
def test_a_codebook_loses_less_than_even_levels(digits: ModuleOp) -> None:
    data = images()
    float_network = qmlir.reference(qmlir.load(DIGITS / "digits.onnx"))

    def error(module: ModuleOp) -> float:
        network = qmlir.compile(module)
        return float(np.mean([((network(x) - float_network(x)) ** 2).mean() for x in data]))

    assert error(digits) < 0.85 * error(quantized(weight_levels="even"))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("bits", Codebook.BITS)
def test_machine_code_has_the_bits_of_the_reference(bits: int, precision: str) -> None:
    module = quantized(weight_precision=f"int{bits}", precision=precision)
    assert len(with_codebooks(module)) == 5
    network, reference = qmlir.compile(module), qmlir.reference(module)
    for image in images()[:4]:
        np.testing.assert_array_equal(network(image), reference(image))


@pytest.mark.slow
def test_text_keeps_codebooks(digits: ModuleOp, tmp_path: Path) -> None:
    qmlir.save(digits, tmp_path / "net.mlir")
    read = qmlir.load(tmp_path / "net.mlir")
    assert read.is_structurally_equivalent(digits)
    assert qmlir.compile(read).sizes == qmlir.compile(digits).sizes


def test_a_certificate_holds(digits: ModuleOp) -> None:
    integers, stated = certificate_of(digits)
    assert stated["verdict"] == "integer-only"
    assert len(with_codebooks(integers)) == 5


def test_the_ledger_and_the_bytes(digits: ModuleOp) -> None:
    entries = decided(digits)
    said = "weights per channel from a codebook of 16 entries"
    assert sum(said in each.entry.reason for each in entries) == 5
    counted = [t for each in entries for t in each.figures.get("operands", ()) if t["constant"] and len(t["shape"]) > 1]
    assert [t["bytes"] for t in counted] == [int(np.prod(t["shape"])) // 2 + 16 for t in counted]


@pytest.mark.slow
def test_powers_of_two() -> None:
    module = quantized(schema="symmetric_with_power2_scale")
    assert len(with_codebooks(module)) == 5
    np.testing.assert_array_equal(qmlir.compile(module)(images()[0]), qmlir.reference(module)(images()[0]))


@pytest.mark.slow
def test_a_rule_for_a_layer() -> None:
    rules = [qmlir.Rule({"weight_levels": "codebook", "weight_precision": "int5"}, name="conv2")]
    module = qmlir.quantize(DIGITS / "digits.onnx", data=images(), policy=qmlir.Policy(rules=rules))
    ((op, held),) = with_codebooks(module)
    assert (op.y.name_hint, len(held.table)) == ("conv2.weight", 32)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"weight_precision": "int8"},
            "weight-levels=codebook needs weights of 2 to 6 bits, got weight-precision=int8",
        ),
        (
            {"weight_precision": "int7"},
            "weight-levels=codebook needs weights of 2 to 6 bits, got weight-precision=int7",
        ),
        ({"granularity": "group-32"}, "weight-levels=codebook has no multipliers of groups, got granularity=group-32"),
        ({"glow_exact": True, "calibration": "minmax"}, "weight-levels=codebook has no form in Glow"),
        ({"rounding": "adaround"}, "rounding=adaround knows no codebook, whose entries are not at even distances"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QuantizationError, match=said):
        quantized(**options)


@pytest.mark.slow
def test_layers_in_floats_need_no_codebook() -> None:
    module = quantized(policy=qmlir.Policy(rules=[qmlir.Rule({"keep_float": True}, name="conv2")]))
    assert len(with_codebooks(module)) == 4
