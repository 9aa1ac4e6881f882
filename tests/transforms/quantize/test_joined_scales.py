"""Branches of a concatenation: what rules of the policy do to their scales, and which rules have no effect."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.settings.policy import Policy, PolicyError, Rule
from tests.transforms.quantize.calibrated import Array, calibrated, entry, operation, parsed, sqnr, uniform
from tests.transforms.quantize.test_channel_joins import weights

TAIL = """%y = nn.reshape %c {shape = array<i64: 1, 320>} : tensor<32x10xf32> -> tensor<1x320xf32>
  func.return %y : tensor<1x320xf32>"""


def head(tail: str = TAIL, result: str = "tensor<1x320xf32>") -> str:
    """A detector's head: boxes that reach 60 beside scores below 1, joined, and what reads them."""
    rng = np.random.default_rng(0)
    return f"""
func.func @main(%x: tensor<32x3xf32>) -> {result} {{
  %w0 = nn.constant {weights(rng, 4, 3, heights=np.full(4, 10.0))}
  %r = nn.fully_connected %x, %w0 {{qmlir.name = #qmlir.name<tensors ["boxes"]>}}
    : tensor<32x3xf32>, tensor<4x3xf32> -> tensor<32x4xf32>
  %w1 = nn.constant {weights(rng, 6, 3)}
  %b1 = nn.constant <tensor<6xf32>, [-4.0, -4.0, -4.0, -4.0, -4.0, -4.0]> : tensor<6xf32>
  %k = nn.fully_connected %x, %w1, %b1 {{qmlir.name = #qmlir.name<tensors ["logits"]>}}
    : tensor<32x3xf32>, tensor<6x3xf32>, tensor<6xf32> -> tensor<32x6xf32>
  %s = nn.sigmoid %k {{qmlir.name = #qmlir.name<tensors ["scores"]>}} : tensor<32x6xf32> -> tensor<32x6xf32>
  %c = nn.concat %r, %s {{axis = 1 : i64, qmlir.name = #qmlir.name<tensors ["joined"]>}}
    : tensor<32x4xf32>, tensor<32x6xf32> -> tensor<32x10xf32>
  {tail}
}}"""


@cache
def samples() -> list[Array]:
    rng = np.random.default_rng(4)
    return [rng.uniform(-2, 2, (32, 3)).astype(np.float32) for _ in range(16)]


def ruled(module: ModuleOp, name: str, settings: dict[str, Any], **options: Any) -> ModuleOp:
    return qmlir.quantize(module, policy=Policy(rules=[Rule(settings, name=name)]), **options)


def parts(module: ModuleOp) -> tuple[Array, Array]:
    """The boxes and the scores of all samples."""
    network = qmlir.reference(module)
    found = np.concatenate([np.reshape(network(x), (32, 10)) for x in samples()])
    return found[:, :4], found[:, 4:]


def test_operands_of_a_float_concat_keep_their_scales() -> None:
    module = calibrated(parsed(head()), samples())
    freed = ruled(module, "joined", {"keep_float": True})
    assert entry(freed, "joined").code == "policy"
    assert uniform(operation(freed, "nn.sigmoid").results[0]).scale == 1 / 256
    assert sqnr(parts(module)[1], parts(freed)[1]) > 35


@pytest.mark.parametrize("settings", [{"range": [-100.0, 100.0]}, {"parameters": [0.5, 3]}, {"calibration": "kl"}])
def test_a_rule_for_a_concat_is_a_rule_for_the_tensors_of_its_scale(settings: dict[str, Any]) -> None:
    module = calibrated(parsed(head()), samples())
    minmax, with_rule = ruled(module, "joined", {"calibration": "minmax"}), ruled(module, "joined", settings)
    changed = [uniform(operation(m, "nn.concat").results[0]) for m in (minmax, with_rule)]
    assert changed[0] != changed[1]


def test_branches_of_a_result_keep_their_scales() -> None:
    module = calibrated(parsed(head()), samples())
    quantized = qmlir.quantize(module, fail_on_float=True)
    assert entry(quantized, "joined").code == "delivered"
    (boxes, scores), found = parts(module), parts(quantized)
    assert sqnr(scores, found[1]) > 35
    assert sqnr(boxes, found[0]) > 35
    x = samples()[0]
    np.testing.assert_array_equal(qmlir.compile(quantized)(x), qmlir.reference(quantized)(x))
    assert entry(qmlir.quantize(quantized), "joined").code == "delivered"


@pytest.mark.parametrize(("io", "steps"), [("int8", "3 of its 256"), ("uint8", "3 of its 256"), ("int16", "")])
def test_a_result_in_integers_has_one_scale_and_the_ledger_says_what_it_costs(io: str, steps: str) -> None:
    quantized = qmlir.quantize(calibrated(parsed(head()), samples()), io=io)
    joined = entry(quantized, "joined")
    assert joined.code == "moved"
    assert (steps in joined.reason) if steps else ("steps" not in joined.reason)
    assert all(e.outcome == "quantized" for e in qmlir.decisions(quantized))


def test_the_remedy_of_coarse_branches_gives_them_steps() -> None:
    module = calibrated(parsed(head()), samples())
    device = qmlir.quantize(module, target="nmp")
    assert "scores" in entry(device, "joined").remark
    wide = ruled(module, "joined", {"precision": "int16"})
    assert sqnr(parts(module)[1], parts(wide)[1]) > 35


FLOATS = """%y = nn.ceil %c {qmlir.name = #qmlir.name<tensors ["rounded"]>} : tensor<32x10xf32> -> tensor<32x10xf32>
  func.return %y : tensor<32x10xf32>"""


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("scores", {"calibration": "kl"}), ("joined", {"keep_float": True})], "has a scale of its own"),
        ([("rounded", {"range": [0.0, 1.0]}), ("rounded", {"keep_float": True})], "no integer operation reads it"),
        (
            [("x", {"precision": "int16"}), ("boxes", {"keep_float": True}), ("logits", {"keep_float": True})],
            'input "x"',
        ),
    ],
)
def test_a_rule_without_effect_is_refused(rules: list[tuple[str, dict[str, Any]]], message: str) -> None:
    module = calibrated(parsed(head(FLOATS, "tensor<32x10xf32>")), samples())
    policy = Policy(rules=[Rule(settings, name=name) for name, settings in rules])
    with pytest.raises(PolicyError, match=message):
        qmlir.quantize(module, policy=policy)
