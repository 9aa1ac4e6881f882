"""Networks whose weights are levels that are fitted to them: what is chosen, stored, computed, stated and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.analysis.counts import decided
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.levels import levels_of
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.numerics.levels import Levels
from qmlir.numerics.schemas import QuantizationError
from qmlir.settings.policy import PolicyError
from tests.conftest import ROOT
from tests.lowering.both import to_loops

DIGITS = ROOT / "examples" / "digits"

FORMS: dict[str, tuple[dict[str, Any], int, str]] = {
    "groups": ({"granularity": "group-32"}, 4, "i4 weights in groups of 32"),
    "codebook": ({"weight_levels": "codebook"}, 5, "weights per channel from a codebook of 16 entries"),
}
"""A form → the options that ask for it, the layers that have it, and what the ledger says.

The sums of the first of five layers have nine terms, less than a group.
"""


def images() -> list[Any]:
    return list(np.load(DIGITS / "digits.npz")["calibration_images"][:, None])


def quantized(**options: Any) -> ModuleOp:
    arguments: dict[str, Any] = {"weight_precision": "int4", **options}
    return qmlir.quantize(DIGITS / "digits.onnx", data=images(), **arguments)


def levels_in(module: ModuleOp) -> list[tuple[ConstantOp, Levels]]:
    """The constants that state groups or a codebook."""
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    return [(op, held) for op in constants if isinstance(held := levels_of(op), Groups | Codebook)]


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def digits(form: str) -> ModuleOp:
    return quantized(**FORMS[form][0])


ROUNDINGS = [
    *(("groups", {"rounding": rounding}) for rounding in ("auto", "nearest", "gptq", "adaround")),
    *(
        ("codebook", {"rounding": rounding, "per_channel": per_channel})
        for rounding in ("auto", "nearest", "gptq")
        for per_channel in (True, False)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("own", "options"), ROUNDINGS)
def test_stored_integers_are_levels(own: str, options: dict[str, Any]) -> None:
    asked, layers, _ = FORMS[own]
    found = levels_in(quantized(**asked, **options))
    assert len(found) == layers
    for op, held in found:
        assert held.bits == 4
        if isinstance(held, Codebook):
            assert held.holds(op.value.array)
        else:
            assert isinstance(held, Groups)
            quotients = held.quotients(op.value.array)
            assert quotients is not None
            assert np.abs(quotients).max(initial=0) <= 7


@pytest.mark.slow
@pytest.mark.parametrize(("rounding", "share"), [("nearest", 0.85), ("auto", 1.0)])
def test_they_lose_less_than_even_levels_of_channels(form: str, rounding: str, share: float) -> None:
    """On images that the network was not quantized with: what a rounding learns from its own says nothing of others.

    Rounding to nearest shows the levels themselves; a fitted rounding takes back most of what channels lose.
    """
    images = np.load(DIGITS / "digits.npz")["test_images"][:, None]
    float_network = qmlir.reference(qmlir.load(DIGITS / "digits.onnx"))

    def error(**options: Any) -> float:
        network = qmlir.compile(quantized(rounding=rounding, **options))
        return float(np.mean([((network(x) - float_network(x)) ** 2).mean() for x in images]))

    assert error(**FORMS[form][0]) < share * error()


SIZES = [("groups", {"granularity": f"group-{size}"}, None) for size in (32, 64, 128)]
NARROW = [
    ("groups", {"granularity": "group-32", "precision": precision}, features)
    for features in ("+avx2,+fma", "+sse4.2")
    for precision in ("int8", "int16")
]
TABLES = [
    ("codebook", {"weight_levels": "codebook", "weight_precision": f"int{bits}", "precision": precision}, None)
    for bits in Codebook.BITS
    for precision in ("int8", "int16")
]


@pytest.mark.slow
@pytest.mark.parametrize(("own", "options", "features"), [*SIZES, *NARROW, *TABLES])
def test_machine_code_has_the_bits_of_the_reference(own: str, options: dict[str, Any], features: str | None) -> None:
    module = quantized(**options)
    assert own == "groups" or len(levels_in(module)) == FORMS[own][1]
    network, reference = qmlir.compile(module, features=features), qmlir.reference(module)
    for image in images()[:4]:
        np.testing.assert_array_equal(network(image), reference(image))


@pytest.mark.slow
def test_little_memory(digits: ModuleOp) -> None:
    network, reference = qmlir.compile(digits, memory="small"), qmlir.reference(digits)
    for image in images()[:8]:
        np.testing.assert_array_equal(network(image), reference(image))


def test_the_ledger_and_the_bytes(form: str, digits: ModuleOp) -> None:
    """The bytes that `analyze` and `tune` count are those of packed integers, and of multipliers or a table."""
    _, layers, said = FORMS[form]
    entries = decided(digits)
    assert sum(said in each.entry.reason for each in entries) == layers
    counted = [tensor for each in entries for tensor in each.figures.get("operands", ()) if tensor["constant"]]
    weights = {tuple(t["shape"]): t["bytes"] for t in counted if len(t["shape"]) > 1}
    for op, held in levels_in(digits):
        beside = held.multipliers if isinstance(held, Groups) else held.table if isinstance(held, Codebook) else None
        assert beside is not None
        assert weights[op.value.array.shape] == op.value.array.size // 2 + beside.size


def test_code_stores_the_bytes_that_are_counted() -> None:
    """The code holds a buffer of quotients and one of multipliers."""
    integers = qmlir.compiler.to_integers(quantized(granularity="group-32"))
    sizes = [op.value.array.nbytes for op in to_loops(integers.clone()).walk() if isinstance(op, ConstantBufferOp)]
    for op, held in levels_in(integers):
        if len(op.value.array) % 16 == 0:  # the last layer has 10 channels, and its block is padded to 16
            assert isinstance(held, Groups)
            assert {op.value.array.size // 2, held.multipliers.size} <= {*sizes}


@pytest.mark.slow
def test_text_keeps_levels(digits: ModuleOp, tmp_path: Path) -> None:
    qmlir.save(digits, tmp_path / "net.mlir")
    read = qmlir.load(tmp_path / "net.mlir")
    assert read.is_structurally_equivalent(digits)
    assert qmlir.compile(read).sizes == qmlir.compile(digits).sizes


def test_a_certificate_holds(form: str, digits: ModuleOp) -> None:
    integers, stated = certificate_of(digits)
    assert stated["verdict"] == "integer-only"
    assert len(levels_in(integers)) == FORMS[form][1]
    assert {each["accumulators"]["bits"] for each in stated["operations"] if "accumulators" in each} == {32}


@pytest.mark.slow
def test_powers_of_two(form: str) -> None:
    options, layers, _ = FORMS[form]
    module = quantized(**options, schema="symmetric_with_power2_scale")
    assert len(levels_in(module)) == layers
    np.testing.assert_array_equal(qmlir.compile(module)(images()[0]), qmlir.reference(module)(images()[0]))


@pytest.mark.slow
def test_a_rule_for_a_layer(form: str) -> None:
    rules = [qmlir.Rule({**FORMS[form][0], "weight_precision": "int5"}, name="conv2")]
    module = qmlir.quantize(DIGITS / "digits.onnx", data=images(), policy=qmlir.Policy(rules=rules))
    ((op, held),) = levels_in(module)
    assert (op.y.name_hint, held.bits) == ("conv2.weight", 5)


GROUPS, CODEBOOK = "granularity=group-32", "weight-levels=codebook"
FEW = "needs weights of 2 to 6 bits, got weight-precision"


@pytest.mark.parametrize(
    ("own", "options", "said"),
    [
        ("groups", {"weight_precision": "int8"}, f"{GROUPS} {FEW}=int8"),
        ("groups", {"per_channel": False}, f"{GROUPS} needs a scale for each channel, got per-channel=false"),
        ("groups", {"glow_exact": True, "calibration": "minmax"}, f"{GROUPS} has no form in Glow"),
        ("codebook", {"weight_precision": "int8"}, f"{CODEBOOK} {FEW}=int8"),
        ("codebook", {"weight_precision": "int7"}, f"{CODEBOOK} {FEW}=int7"),
        ("codebook", {"granularity": "group-32"}, f"{CODEBOOK} has no multipliers of groups, got {GROUPS}"),
        ("codebook", {"glow_exact": True, "calibration": "minmax"}, f"{CODEBOOK} has no form in Glow"),
        ("codebook", {"rounding": "adaround"}, "rounding=adaround knows no codebook, whose entries are not at even"),
    ],
)
def test_options_that_do_not_go_together(own: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(QuantizationError, match=said):
        quantized(**{**FORMS[own][0], **options})


def test_a_rule_that_its_layer_cannot_honour() -> None:
    rules = [qmlir.Rule({"granularity": "group-32", "weight_precision": "int4"}, name="conv1")]
    with pytest.raises(PolicyError, match="its sums have 9 terms, which are no more than a group"):
        qmlir.quantize(DIGITS / "digits.onnx", data=images(), policy=qmlir.Policy(rules=rules))


@pytest.mark.slow
def test_layers_in_floats_need_no_codebook() -> None:
    rule = qmlir.Rule({"keep_float": True}, name="conv2")
    assert len(levels_in(quantized(weight_levels="codebook", policy=qmlir.Policy(rules=[rule])))) == 4
