"""Functions with a range of their own: what the quantizer chooses loses neither range nor precision."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType, f32, i64

from qmlir.compiler import compile, quantize
from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.rules import FixedScale
from qmlir.policies.ledger import decisions
from qmlir.settings.policy import Policy, rule_of
from tests.conftest import crossed
from tests.transforms.quantize.calibrated import Array, calibrated, operation, run, sqnr, uniform

RNG = np.random.default_rng(6)
KINDS = [op for op in nn.NN.operations if issubclass(op, NNOp) and op.get_trait(FixedScale) is not None]
PROPERTIES: dict[type[Any], dict[str, Any]] = {
    nn.SoftmaxOp: {"axis": IntegerAttr(1, i64)},
    nn.LogSoftmaxOp: {"axis": IntegerAttr(1, i64)},
    nn.HardSigmoidOp: {"alpha": FloatAttr(0.2, f32), "beta": FloatAttr(0.5, f32)},
}
SMALL: dict[type[Any], tuple[int, float, float]] = {
    nn.SoftmaxOp: (1000, -0.1, 0.1),
    nn.LogSoftmaxOp: (2, -0.1, 0.1),
    nn.SigmoidOp: (16, -9.0, -6.0),
    nn.HardSigmoidOp: (16, -3.0, -2.3),
    nn.TanhOp: (16, -1e-3, 1e-3),
    nn.SoftsignOp: (16, -1e-3, 1e-3),
    nn.ErfOp: (16, -1e-3, 1e-3),
    nn.SinOp: (16, -1e-3, 1e-3),
}
"""Functions with results near 0: how many elements, and between which limits these results come of them."""


def network(kind: type[NNOp], elements: int) -> ModuleOp:
    """A network of one operation."""
    type = TensorType(f32, (1, elements))
    function = func.FuncOp("main", ([type], [type]))
    op = kind.make([function.body.block.args[0]], PROPERTIES.get(kind, {}))
    function.body.block.add_ops([op, func.ReturnOp(op.results[0])])
    return ModuleOp([function])


def drawn(elements: int, low: float, high: float) -> list[Array]:
    return [RNG.uniform(low, high, (1, elements)).astype(np.float32) for _ in range(12)]


def quality(kind: type[NNOp], samples: list[Array], precision: str, **options: Any) -> float:
    """Signal to noise of the result alone: against the float function of the integers that it reads."""
    module = network(kind, samples[0].shape[1])
    policy = Policy(rules=[rule_of(f"kind={kind.name.removeprefix('nn.')} precision={precision}")])  # at any cost
    ranged = calibrated(module, samples[:8])
    result = quantize(ranged, precision=precision, policy=policy, fail_on_float=True, **options)
    (cast,) = [op for op in result.walk() if isinstance(op, QuantizeCastOp)]
    element, noise = uniform(cast.result), []
    for x in samples[8:]:
        (stored,) = cast.evaluate(x)
        read = ((stored.astype(np.float64) - element.zero_point) * element.scale).astype(np.float32)
        noise.append((run(module, read), run(result, x)))
    truth, got = (np.concatenate(parts) for parts in zip(*noise, strict=True))
    return sqnr(truth, got)


@crossed({"kind": KINDS, "precision": ["int8", "uint8", "int16"]})
def test_wide_inputs_leave_all_but_two_bits(kind: type[NNOp], precision: str) -> None:
    if kind is nn.DivideRowsOp and precision == "uint8":
        return  # its quotients are signed, as `divide-rows` asks for them
    bits = int(precision.removeprefix("u").removeprefix("int"))
    assert quality(kind, drawn(12, -40, 40), precision) > 6.02 * (bits - 2)


@crossed({"kind": SMALL, "precision": ["int8", "uint8", "int16"]})
def test_results_near_zero_leave_half_of_the_bits(kind: type[NNOp], precision: str) -> None:
    bits = int(precision.removeprefix("u").removeprefix("int"))
    assert quality(kind, drawn(*SMALL[kind]), precision) > 6.02 * bits / 2


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize(("kind", "range"), [(nn.LogSoftmaxOp, (-40, 40)), (nn.SoftmaxOp, (-0.1, 0.1))])
def test_compiled_it_has_the_same_bits(kind: type[NNOp], range: tuple[float, float], precision: str) -> None:
    samples = drawn(1000 if kind is nn.SoftmaxOp else 12, *range)
    result = quantize(calibrated(network(kind, samples[0].shape[1]), samples), precision=precision)
    np.testing.assert_array_equal(compile(result)(samples[0]), run(result, samples[0]))


@pytest.mark.parametrize("schema", ["symmetric", "symmetric_with_power2_scale"])
def test_log_softmax_follows_its_observation_under_symmetric_schemas(schema: str) -> None:
    assert quality(nn.LogSoftmaxOp, drawn(12, -40, 40), "int8", schema=schema) > 30


def test_a_function_keeps_its_own_range_where_results_fill_some_of_it() -> None:
    module = quantize(calibrated(network(nn.SoftmaxOp, 8), drawn(8, -1, 1)))
    element = uniform(operation(module, "nn.softmax").results[0])
    assert (element.scale, element.zero_point) == (1 / 256, -128)


def test_without_an_observation_a_log_softmax_reaches_as_far_as_litert_has_it() -> None:
    module = network(nn.LogSoftmaxOp, 8)
    observed = calibrated(module, drawn(8, -1, 1))
    *_, last = [op for op in observed.walk() if op.name == "calib.observe"]
    last.detach()
    element = uniform(operation(quantize(observed), "nn.log_softmax").results[0])
    assert (element.scale, element.zero_point) == (16 / 256, 127)


def test_a_rule_gives_a_log_softmax_the_parameters_of_litert() -> None:
    rule = rule_of("kind=log_softmax parameters=0.0625,127")
    result = quantize(calibrated(network(nn.LogSoftmaxOp, 8), drawn(8, -40, 40)), policy=Policy(rules=[rule]))
    element = uniform(operation(result, "nn.log_softmax").results[0])
    assert (element.scale, element.zero_point) == (16 / 256, 127)
    assert [e.outcome for e in decisions(result)] == ["quantized"]
