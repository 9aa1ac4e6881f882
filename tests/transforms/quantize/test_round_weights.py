"""Weights rounded together: sums err less, on other samples too, and never more on those at hand."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.errors import OptionError
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.quantize.adjust import weight_scales
from qmlir.transforms.quantize.adjust.correct_bias import correct
from qmlir.transforms.quantize.adjust.matrix_terms import Terms
from qmlir.transforms.quantize.adjust.round_weights import WeightRounding
from qmlir.transforms.quantize.adjust.side_by_side import Layer, SideBySide
from tests.transforms.quantize.calibrated import calibrated, learnt, parsed, sqnr, text_of, uniform
from tests.transforms.quantize.test_correct_bias import DEEP
from tests.transforms.quantize.test_schemas import values

Array = npt.NDArray[Any]


def pictures(count: int, seed: int) -> list[Array]:
    """Whose neighbours and channels are alike."""
    draw = np.random.default_rng(seed)
    coarse = draw.standard_normal((count, 1, 2, 2, 1)).repeat(4, axis=2).repeat(4, axis=3)
    return list((coarse + 0.3 * draw.standard_normal((count, 1, 8, 8, 6)) + 0.7).astype(np.float32))


def noise(
    module: ModuleOp,
    options: dict[str, Any],
    learning: list[Array],
    scoring: list[Array],
    roundings: tuple[str, str] = ("nearest", "auto"),
) -> tuple[float, float]:
    """SQNR in dB with two roundings, by default with the nearest weights, and with weights rounded together."""
    profile = learnt(module, learning)
    found: list[float] = []
    for rounding in roundings:
        quantized = qmlir.quantize(module, profile, data=learning, rounding=rounding, **options)
        reference, truth = qmlir.reference(quantized), qmlir.reference(module)
        pairs = [(truth(x), reference(x)) for x in scoring]
        found.append(sqnr(np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"weight_precision": "int4"}, {"weight_precision": "int4", "per_channel": False}, {"weight_precision": "int6"}],
    ids=str,
)
def test_sums_err_less_on_other_samples(options: dict[str, Any]) -> None:
    """16 bits for activations, so that the error is that of the weights."""
    chosen = {"schema": "symmetric", "precision": "int16", **options}
    before, after = noise(parsed(DEEP), chosen, pictures(40, 1), pictures(20, 2))
    assert after > before + 3


def test_sums_err_less_beside_the_error_of_activations() -> None:
    before, after = noise(parsed(DEEP), {"weight_precision": "int4"}, pictures(40, 1), pictures(20, 2))
    assert after > before + 2


def errors(module: ModuleOp, samples: list[Array]) -> list[tuple[float, float]]:
    """The squared error of each contraction's sums with the nearest weights, and with those rounded together."""
    found: list[tuple[float, float]] = []

    def error(layer: Layer) -> float:
        apart = np.concatenate([a - b for a, b in zip(layer.exact_sums(), layer.sums(), strict=True)])
        return float(apart.reshape(-1, apart.shape[-1]).astype(np.float64).var(axis=0).sum())

    def measured(layer: Layer) -> bool:
        before = error(layer)
        changed = WeightRounding()(layer)
        found.append((before, error(layer)))
        return changed

    SideBySide(main_function(module).body.block, [[x] for x in samples]).run(measured, correct)
    return found


def test_no_layer_errs_more_on_what_it_was_rounded_on() -> None:
    ranged = calibrated(parsed(DEEP), samples := pictures(40, 3))
    chosen = qmlir.Pipeline(("apply-policy", {"settings": "weight-precision=int4"}), "choose-scales")(ranged)
    found = errors(chosen, samples)
    assert len(found) == 3
    assert all(after <= before for before, after in found)
    assert sum(after for _, after in found) < 0.7 * sum(before for before, _ in found)


def weights(module: ModuleOp) -> list[tuple[Array, Operation]]:
    """The stored weights of each contraction."""
    found = [op for op in module.walk() if isinstance(op, WeightedOp)]
    return [(op.w.owner.value.array, op) for op in found if isinstance(op.w.owner, ConstantOp)]


@pytest.mark.parametrize("precision", ["int2", "int4", "int8"])
def test_scales_stay_near_and_weights_keep_within_their_range(precision: str) -> None:
    """Scales of 8 bits stay as they are; with fewer bits each is one of a few multiples."""
    module = parsed(DEEP)
    profile = learnt(module, samples := pictures(20, 4))
    made = [
        weights(qmlir.quantize(module, profile, data=samples, weight_precision=precision, rounding=rounding))
        for rounding in ("nearest", "auto")
    ]
    for (_, a), (together, b) in zip(*made, strict=True):
        assert isinstance(a, WeightedOp)
        assert isinstance(b, WeightedOp)
        factors = np.array(uniform(b.w).scales) / np.array(uniform(a.w).scales)
        allowed = (1.0,) if precision == "int8" else weight_scales.FACTORS
        np.testing.assert_allclose(np.abs(factors[:, None] - allowed).min(axis=1), 0, atol=1e-6)
        assert uniform(b.w).storage_min <= together.min() <= together.max() <= uniform(b.w).storage_max
    assert any((nearest != together).any() for (nearest, _), (together, _) in zip(*made, strict=True))


@pytest.mark.slow
def test_scales_searched_on_data_err_less_on_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"schema": "symmetric", "precision": "int16", "weight_precision": "int3"}
    module, learning, scoring = parsed(DEEP), pictures(40, 1), pictures(20, 2)
    searched = noise(module, options, learning, scoring)[1]
    monkeypatch.setattr(weight_scales, "FACTORS", (1.0,))
    assert searched > noise(module, options, learning, scoring)[1] + 0.5


def test_gptq_errs_less_than_the_nearest_weights() -> None:
    options = {"schema": "symmetric", "precision": "int16", "weight_precision": "int4"}
    module, learning, scoring = parsed(DEEP), pictures(40, 1), pictures(20, 2)
    nearest, gptq = noise(module, options, learning, scoring, ("nearest", "gptq"))
    assert gptq > nearest + 1


def test_gptq_is_refused_without_samples() -> None:
    module = parsed(DEEP)
    with pytest.raises(OptionError, match="rounding gptq: needs samples, got none"):
        qmlir.quantize(module, learnt(module, pictures(4, 1)), rounding="gptq")


def test_a_rule_leaves_one_layer_alone() -> None:
    module = parsed(DEEP)
    profile = learnt(module, samples := pictures(20, 4))
    rule = qmlir.Rule({"rounding": "nearest"}, kind="depthwise_conv2d")
    options: dict[str, Any] = {"weight_precision": "int4", "data": samples}
    variants: list[dict[str, Any]] = [{"rounding": "nearest"}, {}, {"policy": qmlir.Policy(rules=[rule])}]
    nearest, auto, mixed = (weights(qmlir.quantize(module, profile, **options, **more)) for more in variants)
    assert (mixed[0][0] == nearest[0][0]).all()
    assert (auto[0][0] != nearest[0][0]).any()
    assert (mixed[1][0] != nearest[1][0]).any()


def test_glows_weights_are_the_nearest() -> None:
    module = parsed(DEEP)
    profile = learnt(module, samples := pictures(20, 4))
    options: dict[str, Any] = {"glow_exact": True, "calibration": "minmax", "data": samples}
    made = [weights(qmlir.quantize(module, profile, rounding=r, **options)) for r in ("nearest", "auto")]
    assert all((a == b).all() for (a, _), (b, _) in zip(*made, strict=True))


def test_weights_that_came_rounded_stay() -> None:
    """A cast of weights that the model came with says what they are."""
    text = f"""
func.func @main(%x: tensor<1x8x8x6xf32>) -> tensor<1x8x8x4xf32> {{
  %xq = quant.qcast %x : tensor<1x8x8x6xf32> to tensor<1x8x8x6x!quant.uniform<i8:f32, 0.05>>
  %xd = quant.dcast %xq : tensor<1x8x8x6x!quant.uniform<i8:f32, 0.05>> to tensor<1x8x8x6xf32>
  %w = nn.constant {values(4, 1, 1, 6, draw=np.random.default_rng(6))}
  %wq = quant.qcast %w : tensor<4x1x1x6xf32> to tensor<4x1x1x6x!quant.uniform<i8<-127:127>:f32, 0.25>>
  %wd = quant.dcast %wq : tensor<4x1x1x6x!quant.uniform<i8<-127:127>:f32, 0.25>> to tensor<4x1x1x6xf32>
  %y = nn.conv2d %xd, %wd : tensor<1x8x8x6xf32>, tensor<4x1x1x6xf32> -> tensor<1x8x8x4xf32>
  func.return %y : tensor<1x8x8x4xf32>
}}
"""
    module, samples = parsed(text), pictures(20, 5)
    profile = learnt(module, samples)
    made = [weights(qmlir.quantize(module, profile, rounding=r, data=samples)) for r in ("nearest", "auto")]
    assert made[0]
    assert all((a == b).all() for (a, _), (b, _) in zip(*made, strict=True))


def test_sums_of_very_many_terms_are_rounded_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.transforms.quantize.adjust.matrix_terms.MOST", 20)
    options = {"schema": "symmetric", "precision": "int16", "weight_precision": "int4"}
    before, after = noise(parsed(DEEP), options, pictures(40, 1), pictures(20, 2))
    assert after > before + 2


def test_rows_are_rounded_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    module, samples = parsed(DEEP), pictures(20, 1)
    profile, made = learnt(module, samples), list[list[Array]]()
    for rows in (4096, 3):
        monkeypatch.setattr("qmlir.numerics.blocks.ROWS", rows)
        quantized = qmlir.quantize(module, profile, data=samples, weight_precision="int4", measure=False)
        made.append([w for w, _ in weights(quantized)])
    assert all((a == b).all() for a, b in zip(*made, strict=True))


@pytest.mark.parametrize("most", [1024, 5])
def test_terms_are_those_of_the_contraction(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.transforms.quantize.adjust.matrix_terms.MOST", most)
    draw = np.random.default_rng(8)
    for op in [o for o in parsed(DEEP).walk() if isinstance(o, WeightedOp)]:
        shapes = [shape_of(v) for v in (op.x, op.w)]
        x, w = (draw.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
        terms = Terms.of(op)
        assert terms is not None
        sums = terms.data(x, np.arange(terms.positions)) @ terms.weights(w).swapaxes(1, 2)  # [g · blocks, p, m]
        whole = sums.reshape(-1, terms.blocks, *sums.shape[1:]).sum(axis=1)
        bare = op.clone()
        for bound in ("min", "max"):
            bare.properties.pop(bound, None)
        y = bare.evaluate(x, w, *[np.zeros(op.output_channels(), np.float32)] * (op.b is not None))[0]
        assert (whole.transpose(1, 0, 2).reshape(y.shape) == y).all()
        assert (terms.as_stored(terms.weights(w)) == w).all()
        joined = terms.joined(terms.data(x, np.arange(terms.positions))), terms.joined(terms.weights(w))
        assert (joined[0] @ joined[1].swapaxes(1, 2) == whole).all()
        assert (terms.divided(joined[1]) == terms.weights(w)).all()


SCRIPT = """
import sys
from tests.transforms.quantize.test_round_weights import rounded_text
sys.stdout.write(rounded_text())
"""


def rounded_text() -> str:
    """A quantized network, to the last bit."""
    module, samples = parsed(DEEP), pictures(40, 1)
    return text_of(qmlir.quantize(module, learnt(module, samples), data=samples, weight_precision="int4"))


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit() -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            check=True,
            capture_output=True,
            env=os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert b"nn.depthwise_conv2d" in texts[0]
