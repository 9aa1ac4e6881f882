"""Weights with an integer multiplier for each group of a sum's terms: what is chosen, stored and computed."""

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
from qmlir.dialects.qmlir import GROUPS, ConstantBufferOp, GroupsAttr
from qmlir.numerics import groups
from qmlir.numerics.schemas import QuantizationError
from qmlir.settings.policy import PolicyError
from tests.conftest import ROOT
from tests.lowering.both import to_loops

DIGITS = ROOT / "examples" / "digits"


def images() -> list[Any]:
    return list(np.load(DIGITS / "digits.npz")["calibration_images"][:, None])


def quantized(**options: Any) -> ModuleOp:
    arguments: dict[str, Any] = {"weight_precision": "int4", **options}
    return qmlir.quantize(DIGITS / "digits.onnx", data=images(), **arguments)


@pytest.fixture(scope="module")
def digits() -> ModuleOp:
    return quantized(granularity="group-32")


def grouped(module: ModuleOp) -> list[tuple[ConstantOp, GroupsAttr]]:
    """The constants that have groups."""
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    return [(op, held) for op in constants if isinstance(held := op.attributes.get(GROUPS), GroupsAttr)]


@pytest.mark.parametrize("limits", [(-1, 1), (-7, 7), (-8, 7), (-31, 31)])
def test_no_multiplier_has_a_smaller_error(limits: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    rows, size = rng.normal(0, 1, (3, 70)) * rng.uniform(0.05, 1, (3, 70)), 32
    rows[1] = 0
    scales = groups.finest_scales(rows, limits)
    chosen = groups.choose_multipliers(rows, scales, size, limits)
    got = groups.nearest(rows, scales, chosen, size, limits)
    assert chosen.shape == (3, 3)
    for channel, group in product(range(3), range(3)):
        own = rows[channel, group * size : (group + 1) * size]
        stored = got[channel, group * size : (group + 1) * size].astype(int)
        assert not (stored % chosen[channel, group]).any()
        assert limits[0] <= (stored // chosen[channel, group]).min()
        assert (stored // chosen[channel, group]).max() <= limits[1]
        error = ((stored * scales[channel] - own) ** 2).sum()
        for m in range(1, 127 // max(-limits[0], limits[1]) + 1):
            other = np.clip(np.rint(own / scales[channel] / m), *limits) * m * scales[channel]
            assert error <= ((other - own) ** 2).sum() * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["auto", "nearest", "gptq", "adaround"])
def test_stored_integers_are_multiples_of_those_of_their_groups(rounding: str) -> None:
    found = grouped(quantized(granularity="group-32", rounding=rounding))
    assert len(found) == 4  # all layers but the first, whose sums have nine terms
    for op, held in found:
        w = op.value.array.reshape(len(op.value.array), -1).astype(int)
        for channel, group in np.ndindex(*held.multipliers.array.shape):
            own = w[channel, group * 32 : (group + 1) * 32]
            quotients, rest = np.divmod(own, held.multipliers.array[channel, group])
            assert not rest.any()
            assert np.abs(quotients).max(initial=0) <= 7


@pytest.mark.slow
def test_groups_lose_less_than_channels(digits: ModuleOp) -> None:
    data = images()
    float_network = qmlir.reference(qmlir.load(DIGITS / "digits.onnx"))

    def error(module: ModuleOp) -> float:
        network = qmlir.compile(module)
        return float(np.mean([((network(x) - float_network(x)) ** 2).mean() for x in data]))

    assert error(digits) < 0.85 * error(quantized())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "precision", "size"),
    [
        *((None, "int8", size) for size in (32, 64, 128)),
        *((features, precision, 32) for features in ("+avx2,+fma", "+sse4.2") for precision in ("int8", "int16")),
    ],
)
def test_machine_code_has_the_bits_of_the_reference(features: str | None, precision: str, size: int) -> None:
    module = quantized(granularity=f"group-{size}", precision=precision)
    network, reference = qmlir.compile(module, features=features), qmlir.reference(module)
    for image in images()[:8]:
        np.testing.assert_array_equal(network(image), reference(image))


@pytest.mark.slow
def test_little_memory(digits: ModuleOp) -> None:
    network, reference = qmlir.compile(digits, memory="small"), qmlir.reference(digits)
    for image in images()[:8]:
        np.testing.assert_array_equal(network(image), reference(image))


def test_bytes_are_counted_as_they_are_stored(digits: ModuleOp) -> None:
    """The code holds a buffer of quotients and one of multipliers, of the bytes that `analyze` and `tune` count."""
    integers = digits.clone()
    qmlir.compiler.Pipeline(*qmlir.stages.TO_INTEGERS).apply(integers, qmlir.compiler.make_context())
    sizes = [op.value.array.nbytes for op in to_loops(integers).walk() if isinstance(op, ConstantBufferOp)]
    counted = [tensor for each in decided(digits) for tensor in each.figures.get("operands", ()) if tensor["constant"]]
    weights = {tuple(t["shape"]): t["bytes"] for t in counted if len(t["shape"]) > 1}
    for op, held in grouped(digits):
        shape = op.value.array.shape
        if shape[0] % 16:
            continue  # the last layer has 10 channels, and its block is padded to 16
        assert weights[shape] == op.value.array.size // 2 + held.multipliers.array.size
        assert op.value.array.size // 2 in sizes
        assert held.multipliers.array.size in sizes


@pytest.mark.slow
def test_text_keeps_groups(digits: ModuleOp, tmp_path: Path) -> None:
    qmlir.save(digits, tmp_path / "net.mlir")
    read = qmlir.load(tmp_path / "net.mlir")
    assert read.is_structurally_equivalent(digits)
    assert qmlir.compile(read).sizes == qmlir.compile(digits).sizes


def test_a_certificate_holds(digits: ModuleOp, tmp_path: Path) -> None:
    integers, stated = certificate_of(digits)
    assert stated["verdict"] == "integer-only"
    assert len(grouped(integers)) == 4
    sums = [each["accumulators"]["bits"] for each in stated["operations"] if "accumulators" in each]
    assert set(sums) == {32}


def test_the_ledger_says_so(digits: ModuleOp) -> None:
    reasons = [each.entry.reason for each in decided(digits)]
    assert sum("i4 weights in groups of 32" in reason for reason in reasons) == 4


@pytest.mark.slow
def test_powers_of_two() -> None:
    module = quantized(granularity="group-32", schema="symmetric_with_power2_scale")
    assert len(grouped(module)) == 4
    np.testing.assert_array_equal(qmlir.compile(module)(images()[0]), qmlir.reference(module)(images()[0]))


@pytest.mark.slow
def test_a_rule_for_a_layer() -> None:
    rules = [qmlir.Rule({"granularity": "group-32", "weight_precision": "int4"}, name="conv2")]
    module = qmlir.quantize(DIGITS / "digits.onnx", data=images(), policy=qmlir.Policy(rules=rules))
    ((op, held),) = grouped(module)
    assert (op.y.name_hint, held.size.data, held.bits.data) == ("conv2.weight", 32, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight_precision": "int8"}, "granularity=group-32 needs weights of 2 to 6 bits, got weight-precision=int8"),
        ({"per_channel": False}, "granularity=group-32 needs a scale for each channel, got per-channel=false"),
        ({"glow_exact": True, "calibration": "minmax"}, "granularity=group-32 has no form in Glow"),
    ],
)
def test_options_that_leave_groups_no_room(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QuantizationError, match=said):
        quantized(granularity="group-32", **options)


def test_a_rule_that_its_layer_cannot_honour() -> None:
    rules = [qmlir.Rule({"granularity": "group-32", "weight_precision": "int4"}, name="conv1")]
    with pytest.raises(PolicyError, match="its sums have 9 terms, which are no more than a group"):
        qmlir.quantize(DIGITS / "digits.onnx", data=images(), policy=qmlir.Policy(rules=rules))
