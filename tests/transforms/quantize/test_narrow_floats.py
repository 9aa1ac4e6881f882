"""Operations that a policy computes in float16 or bfloat16: among integers, and whole networks."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import SSAValue

import qmlir
from qmlir.compiler import Pipeline, compile, load, profile, quantize, reference
from qmlir.dialects.nn import CastOp, ConstantOp, FullyConnectedOp, ReluOp, SqrtOp
from qmlir.dialects.nn.base import NNOp, is_half, is_quantized
from qmlir.errors import OptionError, PipelineError, QmlirWarning, UnsupportedError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import element_of
from qmlir.numerics.halves import HALVES, HalfPrecision
from qmlir.policies.ledger import Entry, decisions
from qmlir.profiles.profile import Profile
from qmlir.settings.policy import Policy, PolicyError, Rule, rule_of
from tests.conftest import ROOT
from tests.lowering.both import network
from tests.transforms.quantize.calibrated import Array, parsed

DIGITS = ROOT / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
IMAGES: dict[str, Array] = dict(np.load(DIGITS / "digits.npz"))
SAMPLES = list(IMAGES["calibration_images"][:20, None])
TESTS = list(IMAGES["test_images"][:20, None])


@cache
def learned() -> Profile:
    return profile(MODEL, SAMPLES)


def digits(*rules: str, **options: Any) -> ModuleOp:
    return quantize(MODEL, policy=Policy(rules=[rule_of(text) for text in rules]), **options)


def entry(module: ModuleOp, node: str) -> Entry:
    (found,) = [e for e in decisions(module) if node in e.node.split("+")]
    return found


def elements(module: ModuleOp) -> set[str]:
    """The element types that operations compute on, casts and data movement left out."""
    computing = [o for o in module.walk() if isinstance(o, NNOp)]
    return {str(element_of(v)) for o in computing for v in (*o.operands, *o.results)}


def casts(module: ModuleOp) -> list[str]:
    return [f"{element_of(o.x)} to {element_of(o.y)}" for o in module.walk() if isinstance(o, CastOp)]


def assert_same_bits(module: ModuleOp, samples: list[Array]) -> None:
    want, got = reference(module), compile(module)
    for x in samples:
        np.testing.assert_array_equal(got(x), want(x))


@pytest.mark.slow
@pytest.mark.parametrize("precision", [*HALVES])
def test_a_network_needs_no_ranges(precision: HalfPrecision, tmp_path: Path) -> None:
    module = digits(precision=precision)
    name = {"float16": "f16", "bfloat16": "bf16"}[precision]
    assert elements(module) == {name}
    assert casts(module) == [f"f32 to {name}", f"{name} to f32"]
    computing = [e for e in decisions(module) if e.operation != "nn.reshape"]
    assert {(e.outcome, e.code) for e in computing} == {("float", "half")}
    assert entry(module, "conv1").reason == f"the policy computes it in {precision}, rounded once"
    assert_same_bits(module, TESTS)
    own, float_network, share = reference(module), reference(MODEL), {"float16": 2e-3, "bfloat16": 2e-2}[precision]
    qmlir.save(module, tmp_path / "net.mlir")
    again = reference(tmp_path / "net.mlir")  # simplified when it is read
    for x in TESTS:
        want = float_network(x)
        assert 0 < np.abs(own(x) - want).max() < share * np.abs(want).max()
        np.testing.assert_array_equal(again(x), own(x))


def test_weights_are_stored_in_16_bits(tmp_path: Path) -> None:
    sizes = {}
    for precision, module in (("float32", load(MODEL)), ("float16", digits(precision="float16"))):
        qmlir.save(module, tmp_path / f"{precision}.mlir")
        sizes[precision] = (tmp_path / f"{precision}.safetensors").stat().st_size
    assert sizes["float16"] < 0.6 * sizes["float32"]


def test_each_result_is_rounded_once() -> None:
    """Against the arithmetic itself, with sums of integers, which have one value in any order."""
    rng = np.random.default_rng(1)
    w, b, x = (rng.integers(-90, 90, shape).astype(np.float32) for shape in ((9, 24), (9,), (1, 24)))

    def graph(data: SSAValue) -> SSAValue:
        sums = FullyConnectedOp.make([data, ConstantOp(w).y, [ConstantOp(b).y]])
        return SqrtOp.make([ReluOp.make([sums.y]).y]).y

    def rounded(array: Array) -> Array:
        return array.astype(np.float16).astype(np.float32)

    module = quantize(network(graph, TensorType(f32, x.shape)), precision="float16")
    sums = np.maximum(x @ w.T + b, 0)
    assert (rounded(sums) != sums).any()
    want = rounded(np.sqrt(rounded(sums).astype(np.float64)).astype(np.float32))
    np.testing.assert_array_equal(reference(module)(x), want)
    np.testing.assert_array_equal(compile(module)(x), want)


MIXED = ("name=conv1 precision=float16", "layer=last precision=bfloat16")


@pytest.fixture(scope="module")
def mixed() -> ModuleOp:
    return digits(*MIXED, profile=learned())


@pytest.mark.slow
def test_single_layers_among_integers(mixed: ModuleOp) -> None:
    found = {node: (entry(mixed, node).outcome, entry(mixed, node).code) for node in ("conv1", "conv2", "dense2")}
    assert found == {"conv1": ("float", "half"), "conv2": ("quantized", "integer"), "dense2": ("float", "half")}
    assert casts(mixed) == ["f32 to f16", "f16 to f32", "f32 to bf16", "bf16 to f32"]
    assert_same_bits(mixed, TESTS)


def test_the_boundary_to_integers_is_explicit(mixed: ModuleOp) -> None:
    """integers → quant.dcast → nn.cast → operations in 16 bits → nn.cast → quant.qcast → integers"""
    kinds = [o.name for o in mixed.walk() if o.results and not isinstance(o, ConstantOp)]
    at = kinds.index("nn.cast")
    assert kinds[at : at + 4] == ["nn.cast", "nn.conv2d", "nn.cast", "quant.qcast"]
    assert kinds[-4:] == ["quant.dcast", "nn.cast", "nn.fully_connected", "nn.cast"]


@pytest.mark.slow
def test_a_layer_of_integers_in_a_network_of_halves() -> None:
    module = digits("name=conv1 precision=int8", precision="float16", profile=learned())
    assert is_quantized(next(o for o in module.walk() if o.name == "nn.conv2d").results[0])
    assert [e.code for e in decisions(module)].count("integer") == 1
    assert_same_bits(module, TESTS)


@pytest.mark.slow
def test_data_movement_follows_the_layers_beside_it() -> None:
    module = digits("between=[relu3_out,scores] precision=float16", profile=learned())
    (reshape,) = [o for o in module.walk() if o.name == "nn.reshape" and is_half(o.results[0])]
    assert casts(module) == ["f32 to f16", "f16 to f32"]
    (decided,) = [e for e in decisions(module) if e.code == "half" and e.operation == "nn.reshape"]
    assert decided.reason == "the policy computes it in float16, rounded once"
    assert reshape.results[0].type != module
    assert_same_bits(module, TESTS)


@pytest.mark.slow
def test_two_formats_meet_in_f32() -> None:
    module = digits("name=dense1 precision=float16", "name=dense2 precision=bfloat16", profile=learned())
    assert casts(module) == ["f32 to f16", "f16 to f32", "f32 to bf16", "bf16 to f32"]
    assert_same_bits(module, TESTS)


def test_a_network_in_f16_stays_what_it_is(tmp_path: Path) -> None:
    """What came as float16 and is to be float16 has no casts, and a file of it has none."""
    w = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in (("x", (1, 4)), ("y", (1, 6)))]
    graph = helper.make_graph(nodes, "g", tensors[:1], tensors[1:], [numpy_helper.from_array(w, "w")])
    path = tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    module = quantize(path, precision="float16")
    assert not casts(module)
    assert_same_bits(module, [np.random.default_rng(2).normal(size=(1, 4)).astype(np.float16)])
    qmlir.export(module, tmp_path / "again.onnx")
    model = onnx.load(tmp_path / "again.onnx")
    assert "Cast" not in {n.op_type for n in model.graph.node}
    assert {t.data_type for t in model.graph.initializer} == {TensorProto.FLOAT16}


# ---------------------------------------------------------------------------------------------------------------
# Refusals and warnings


def test_fail_on_float_counts_halves_as_floats() -> None:
    with pytest.raises(
        PipelineError, match=r"conv1.*the policy computes it in float16.*choose a precision of integers"
    ):
        digits("name=conv1 precision=float16", profile=learned(), fail_on_float=True)


REFUSED = {
    "name=conv1 precision=float16 weight-precision=int4": "what computes in float16 has no weight-precision",
    "name=conv1 precision=bfloat16 range=[0,1]": "what computes in bfloat16 has no range",
    "name=conv1 precision=float16 keep-float=true": "what stays float has no precision",
    "name=image precision=float16": "it is an input of the network, which has no precision",
    "kind=reshape precision=float16": "it only moves values, in the type of the operations beside it",
    "name=conv1 precision=float8": "must be one of int8, uint8, int16, float16, bfloat16",
}


@pytest.mark.parametrize(("rule", "why"), REFUSED.items())
def test_rules_that_cannot_be(rule: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        digits(rule, profile=learned())


def test_a_pattern_takes_what_computes_and_leaves_what_moves() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = digits('glob="*" precision=float16'.replace('"', ""), profile=learned())
    assert elements(module) == {"f16"}


def test_the_last_rule_wins() -> None:
    module = digits("glob=conv* precision=float16", "name=conv2 precision=int8", profile=learned())
    assert [entry(module, f"conv{i}").code for i in (1, 2, 3)] == ["half", "integer", "half"]
    module = digits("name=conv2 precision=int16", "name=conv2 precision=bfloat16", profile=learned())
    assert entry(module, "conv2").reason.endswith("bfloat16, rounded once")


OVERFLOW = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nn.constant <tensor<4xf32>, [1.0, -7.0e4, 3.0, 1.0e5]> {qmlir.name = #qmlir.name<tensors ["c"]>} : tensor<4xf32>
  %0 = nn.add %x, %c {qmlir.name = #qmlir.name<nodes ["sum"], tensors ["s"]>}
       : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


def test_constants_beyond_float16_are_named() -> None:
    with pytest.warns(
        QmlirWarning, match=r'nn.add "sum": "c" has numbers up to 100000, which become infinite in float16; bfloat16'
    ):
        module = quantize(parsed(OVERFLOW), precision="float16")
    x = np.zeros(4, np.float32)
    np.testing.assert_array_equal(reference(module)(x), [1, -np.inf, 3, np.inf])
    np.testing.assert_array_equal(compile(module)(x), [1, -np.inf, 3, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantize(parsed(OVERFLOW), precision="bfloat16")


# ---------------------------------------------------------------------------------------------------------------
# Files and devices


def test_onnx_files_hold_tensors_of_16_bits(mixed: ModuleOp, tmp_path: Path) -> None:
    qmlir.export(mixed, tmp_path / "mixed.onnx", activations="kept")
    model = onnx.load(tmp_path / "mixed.onnx")
    onnx.checker.check_model(model, full_check=True)
    types = {t.name: t.data_type for t in model.graph.initializer}
    assert types["conv1.weight"] == TensorProto.FLOAT16
    assert types["dense2.weight"] == TensorProto.BFLOAT16
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    known = {v.name: v.type.tensor_type.elem_type for v in inferred.graph.value_info}
    (conv,) = [n for n in model.graph.node if n.op_type == "Conv" and "conv1.weight" in n.input]
    assert known[conv.input[0]] == known[conv.output[0]] == TensorProto.FLOAT16


@pytest.mark.slow
def test_onnxruntime_runs_files_in_float16(tmp_path: Path) -> None:
    module = digits(precision="float16")
    qmlir.export(module, tmp_path / "half.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "half.onnx", providers=["CPUExecutionProvider"])
    own = reference(module)
    for x in TESTS:
        got: Any = session.run(None, {"image": x})[0]
        want = own(x)
        assert np.abs(got - want).max() <= 2**-10 * np.abs(want).max()  # it need not round between layers


def test_an_opset_without_bfloat16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"needs .* as X of ONNX's Conv in opset 21, got tensor\(bfloat16\); export with a later"
    ):
        qmlir.export(digits(precision="bfloat16"), tmp_path / "net.onnx", opset=21)


@pytest.mark.parametrize("precision", [*HALVES])
def test_tflite_is_refused(precision: HalfPrecision, tmp_path: Path) -> None:
    module = digits(f"name=conv2 precision={precision}", profile=learned())
    with pytest.raises(UnsupportedError, match=f"TFLite's C.*, got {precision}"):
        qmlir.export(module, tmp_path / "net.tflite")


@pytest.mark.parametrize("pass_name", ["qint-to-tosa", "qint-to-linalg"])
def test_other_compilers_are_refused(mixed: ModuleOp, pass_name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"only integers, data movement and casts leave"):
        Pipeline("nn-to-qint", pass_name).apply(mixed.clone(), make_context())


@pytest.mark.slow
def test_the_host_of_a_device_computes_them(tmp_path: Path) -> None:
    module = digits(
        "name=conv2 precision=float16", "name=dense2 precision=bfloat16", profile=learned(), target="nvdla-small"
    )
    simulated = compile(module, target="nvdla-small")
    where = {e.node: (e.outcome, e.code) for e in simulated.ledger}
    assert where["conv2+norm2+relu2"] == where["dense2"] == ("float", "half")
    assert where["conv3+relu3"] == ("quantized", "device")
    simulated.save(tmp_path / "net.npu")
    again, want = qmlir.load_program(tmp_path / "net.npu", "nvdla-small"), reference(module)
    for x in TESTS[:4]:
        np.testing.assert_array_equal(simulated(x), want(x))
        np.testing.assert_array_equal(again(x), want(x))


def test_a_device_is_not_made_for_floats() -> None:
    with pytest.raises(OptionError, match=r"must be one of int8, int16 for nmp, got float16"):
        digits(precision="float16", target="nmp", profile=learned())


def test_rules_are_written_as_any_other() -> None:
    rule = Rule({"precision": "bfloat16"}, name="conv1")
    assert rule_of("name=conv1 precision=bfloat16") == Rule(
        rule.settings, name="conv1", place=rule_of("name=conv1 precision=bfloat16").place
    )
    policy = Policy(default={"precision": "float16"}, rules=[rule])
    assert Policy.of(policy.as_dict()).as_dict() == policy.as_dict()
    module = quantize(MODEL, policy=policy)
    assert entry(module, "conv1").reason.endswith("bfloat16, rounded once")
    assert entry(module, "conv2").reason.endswith("float16, rounded once")
