"""What an error tells a user to do works: each remedy that names an option, a key or a flag is carried out."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qmlir
import qmlir.errors
from qmlir.cli import main as qmlir_main
from qmlir.policies.ledger import REMEDIES, Entry
from qmlir.settings.policy import Policy, PolicyError, Rule, rule_of
from qmlir.transforms.quantize.adjust import side_by_side

RNG = np.random.default_rng(3)
SAMPLES = [RNG.standard_normal((1, 8)).astype(np.float32) for _ in range(12)]


def network(*nodes: tuple[str, str, str, dict[str, Any]], **constants: Any) -> onnx.ModelProto:
    """x [1, 8] → what the last node makes; nodes are (operator, inputs, output, attributes)."""
    made = [helper.make_node(kind, ins.split(), [out], name=out, **attributes) for kind, ins, out, attributes in nodes]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])
    y = helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, None)
    graph = helper.make_graph(made, "net", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WEIGHTS = RNG.standard_normal((8, 8)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network of two layers, its samples, its profile, and a profile that lacks a tensor."""
    monkeypatch.chdir(tmp_path)
    layers = [("MatMul", "x w", "l", {}), ("Relu", "l", "r", {}), ("MatMul", "r w", "y", {})]
    onnx.save(network(*layers[:2], w=WEIGHTS), "partial.onnx")
    onnx.save(network(*layers, w=WEIGHTS), "net.onnx")
    np.save("samples.npy", np.stack(SAMPLES))
    qmlir.profile("partial.onnx", SAMPLES).save("partial.yaml")
    qmlir.profile("net.onnx", SAMPLES).save("net.yaml")
    qmlir.save(qmlir.quantize("net.onnx", "net.yaml", target="nmp"), "q.mlir")
    return tmp_path


def said(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `qmlir` says to arguments that it refuses."""
    assert qmlir_main.main(shlex.split(arguments)) == 1, arguments
    return capsys.readouterr().err


COMMANDS = {
    "quantize net.onnx --profile partial.yaml -o o.mlir": (r"accept what fits with (--partial-profile)", " {}"),
    "export net.onnx --format onnx-qdq -o o.tflite": (r"leave out the (format)", "export net.onnx -o o.tflite"),
    "export net.onnx --format tflite -o o.onnx": (
        r"let it end in (\.tflite)",
        "export net.onnx --format tflite -o o{}",
    ),
    "export net.onnx --format onnx-integer -o o.tflite": (r"leave out the (format)", "export net.onnx -o o.tflite"),
    "compile q.mlir --target cortex-m4 -o o.o": (r"must be one of .*(nmp)", "compile q.mlir --target {} -o o.npu"),
    "compile q.mlir --target nmp -o o.o": (r"must end in (\.npu)", "compile q.mlir --target nmp -o o{}"),
    "compile net.onnx -o o.npu": (r"must end in (\.o)", "compile net.onnx -o o{}"),
    "quantize net.onnx --profile net.yaml --schema symmetric --precision uint8 -o o.mlir": (
        r"use (int8)",
        "quantize net.onnx --profile net.yaml --schema symmetric --precision {} -o o.mlir",
    ),
    "quantize net.onnx --profile net.yaml --calibration kl --precision int16 -o o.mlir": (
        r"or use (minmax)",
        "quantize net.onnx --profile net.yaml --calibration {} --precision int16 -o o.mlir",
    ),
    "quantize net.onnx --profile net.yaml --rule 'nam=l precision=int16' -o o.mlir": (
        r"needs one of (name)",
        "quantize net.onnx --profile net.yaml --rule '{}=l precision=int16' -o o.mlir",
    ),
    "quantize net.onnx --profile net.yaml --rule 'name=l precison=int16' -o o.mlir": (
        r"did you mean (precision)",
        "quantize net.onnx --profile net.yaml --rule 'name=l {}=int16' -o o.mlir",
    ),
    "quantize net.onnx --profile net.yaml --rule 'name=ll precision=int16' -o o.mlir": (
        r"did you mean (\w+)",
        "quantize net.onnx --profile net.yaml --rule 'name={} precision=int16' -o o.mlir",
    ),
    "quantize net.onnx --profile net.yaml --wieght-precision int4 -o o.mlir": (
        r"did you mean (--weight-precision)",
        "quantize net.onnx --profile net.yaml {} int4 -o o.mlir",
    ),
    "quantize net.onnx -o o.mlir": (r"or give (--profile)", " {} net.yaml"),
}
"""Refused arguments → the remedy in the message, and what to say instead, or besides."""


@pytest.mark.parametrize("arguments", COMMANDS)
def test_remedies_of_commands(arguments: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern, instead = COMMANDS[arguments]
    message = said(arguments, capsys)
    found = re.search(pattern, message)
    assert found is not None, message
    better = instead.format(found.group(1))
    better = arguments + better if better.startswith(" ") else better
    assert qmlir_main.main(shlex.split(better)) == 0, capsys.readouterr().err


def test_the_remedy_for_a_partial_profile_in_python(folder: Path) -> None:
    remedy = 'accept what fits with Pipeline(("apply-profile", {"file": …, "partial": True}))'
    with pytest.raises(qmlir.QmlirError, match=re.escape(remedy)):
        qmlir.quantize("net.onnx", "partial.yaml")
    module = qmlir.Pipeline(("apply-profile", {"file": "partial.yaml", "partial": True}))(qmlir.load("net.onnx"))
    assert qmlir.decisions(qmlir.quantize(module))


def entries(model: onnx.ModelProto, folder: Path, **options: Any) -> list[Entry]:
    """The decisions about a network."""
    onnx.save(model, folder / "other.onnx")
    profile = qmlir.profile(folder / "other.onnx", SAMPLES)
    return qmlir.decisions(qmlir.quantize(folder / "other.onnx", profile, **options))


NO_FORM = {
    "products of elements": (("ReduceProd", "x", "y", {"axes": [1]}),),
    "division by a computed tensor": (("Sigmoid", "x", "a", {}), ("Div", "x a", "y", {})),
    "places between pixels": (("Reshape", "x s", "i", {}), ("GridSample", "i g", "y", {})),
}
CONSTANTS: dict[str, Any] = {"s": np.array([1, 1, 2, 4]), "g": np.full((1, 2, 2, 2), 0.3, np.float32)}


@pytest.mark.parametrize("case", NO_FORM)
def test_no_setting_is_advised_where_none_helps(case: str, folder: Path) -> None:
    """What has no integer form at all stays float under every precision, and the ledger does not say otherwise."""
    model = network(*NO_FORM[case], **CONSTANTS)
    for precision in ("int8", "uint8", "int16"):
        floats = [e for e in entries(model, folder, precision=precision) if e.code == "target"]
        assert floats, case
        assert all("precision" not in entry.remedy for entry in floats)


def test_another_precision_is_advised_where_it_helps(folder: Path) -> None:
    model = network(("Sigmoid", "x", "a", {}), ("Mod", "x a", "y", {"fmod": 1}))
    (entry,) = (e for e in entries(model, folder, precision="int16") if e.outcome == "float")
    assert (entry.code, entry.remedy) == ("precision", "choose another precision for it in the policy")
    rules = [{"name": n, "precision": "int8"} for n in ("x", "a", entry.node)]
    assert all(e.outcome != "float" for e in entries(model, folder, precision="int16", policy={"rules": rules}))


def test_the_policys_rule_can_be_dropped(folder: Path) -> None:
    model = network(("MatMul", "x w", "y", {}), w=WEIGHTS)
    (entry,) = entries(model, folder, policy={"rules": [{"name": "y", "keep_float": True}]})
    assert entry.remedy == REMEDIES["policy"] == "drop the policy's rule"
    assert [e.outcome for e in entries(model, folder)] == ["quantized"]


def test_a_layer_in_float16_can_have_integers(folder: Path) -> None:
    model = network(("MatMul", "x w", "y", {}), w=WEIGHTS)
    (entry,) = entries(model, folder, precision="float16")
    assert entry.remedy == REMEDIES["half"] == "choose a precision of integers for it"
    policy = {"rules": [{"name": "y", "precision": "int8"}]}
    assert [e.outcome for e in entries(model, folder, precision="float16", policy=policy)] == ["quantized"]


def test_a_range_in_the_policy_is_one(folder: Path) -> None:
    assert REMEDIES["no-range"] == "profile the network, or fix a range in the policy"
    module = qmlir.Pipeline(("apply-profile", {"file": "partial.yaml", "partial": True}))(qmlir.load("net.onnx"))
    (entry,) = (e for e in qmlir.decisions(qmlir.quantize(module)) if e.outcome == "float")
    assert entry.code == "no-range"
    fixed = qmlir.quantize(module, policy={"rules": [{"name": "y", "range": [-20.0, 20.0]}]})
    assert all(e.outcome == "quantized" for e in qmlir.decisions(fixed))


ROW = helper.make_tensor_value_info("b", TensorProto.FLOAT, [8])


def test_a_computed_bias_can_be_made_a_constant(folder: Path) -> None:
    model = network(("Gemm", "x w b", "y", {}), w=WEIGHTS)
    model.graph.input.append(ROW)
    onnx.save(model, "bias.onnx")
    profile = qmlir.profile("bias.onnx", [{"x": x, "b": WEIGHTS[0]} for x in SAMPLES])
    (entry,) = qmlir.decisions(qmlir.quantize("bias.onnx", profile))
    assert (entry.outcome, entry.code) == ("float", "bias")
    bound = qmlir.Pipeline("simplify")(qmlir.load("bias.onnx", constants={"b": WEIGHTS[0]}))
    fitting = qmlir.profile(bound, SAMPLES)
    assert {e.outcome for e in qmlir.decisions(qmlir.quantize(bound, fitting))} == {"quantized"}


BIASED = """
!x = !quant.uniform<i8:f32, {scale}>
!w = !quant.uniform<i8<-127:127>:f32, 0.001>
!y = !quant.uniform<i8:f32, 1.0e6>
func.func @main({arguments}) -> tensor<1x2x!y> {{
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  {constant}
  %0 = nn.fully_connected %x, %w, %a : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}}
"""


def bias_decision(folder: Path, *, scale: float, constant: bool) -> Entry | None:
    """What `quantize-bias` decides about an operation; None where its bias becomes integers."""
    arguments = "%x: tensor<1x2x!x>" + ("" if constant else ", %a: tensor<2xf32>")
    made = "%a = nn.constant <tensor<2xf32>, [1.0, 3.0e12]> : tensor<2xf32>" if constant else ""
    (folder / "biased.mlir").write_text(BIASED.format(scale=scale, arguments=arguments, constant=made))
    return next(iter(qmlir.decisions(qmlir.Pipeline("quantize-bias")(qmlir.load("biased.mlir")))), None)


def test_a_bias_fits_once_it_is_constant_and_its_input_wide(folder: Path) -> None:
    assert REMEDIES["bias"] == "make its bias a constant of the model, or give its input a wider range in the policy"
    for scale, constant in ((0.5, True), (500.0, False)):
        found = bias_decision(folder, scale=scale, constant=constant)
        assert found is not None
        assert (found.outcome, found.code) == ("float", "bias")
    assert bias_decision(folder, scale=500.0, constant=True) is None


def test_a_lower_precision_makes_sums_fit(folder: Path) -> None:
    assert REMEDIES["accumulator"] == "give it or its weights a lower precision in the policy"
    nodes = [("Expand", "x s", "e", {}), ("MeanVarianceNormalization", "e", "y", {"axes": [0, 1]})]
    model = network(*nodes, s=np.array([9000, 8]))
    (entry,) = (e for e in entries(model, folder, precision="int16") if e.outcome == "float")
    assert entry.code == "accumulator"
    lower = {"rules": [{"name": name, "precision": "int8"} for name in ("x", "e", "y")]}
    assert all(e.outcome != "float" for e in entries(model, folder, precision="int16", policy=lower))


@pytest.mark.parametrize("kind", ["MatMul", "Mul", "Add"])
def test_a_range_in_the_policy_brings_scales_together(kind: str, folder: Path) -> None:
    assert REMEDIES["factor"] == "fix the range of its tensors in the policy"
    model = network((kind, "x w", "y", {}), w=WEIGHTS)
    far = {"rules": [{"name": "y", "range": [-1e-25, 1e-25]}]}
    assert "factor" in {e.code for e in entries(model, folder, policy=far)}
    near = {"rules": [*far["rules"], {"name": "y", "range": [-20.0, 20.0]}]}
    assert all(e.outcome == "quantized" for e in entries(model, folder, policy=near))


@pytest.mark.parametrize("quantized", ["a", "y"])
def test_movement_is_quantized_with_either_neighbour(quantized: str, folder: Path) -> None:
    assert REMEDIES["neighbours"] == "quantize what it reads from or writes to"
    model = network(
        ("Sigmoid", "x", "a", {}), ("Unsqueeze", "a axes", "z", {}), ("Relu", "z", "y", {}), axes=np.array([0])
    )
    rules = [{"name": name, "keep_float": True} for name in ("a", "y")]
    codes = {e.node: e.code for e in entries(model, folder, policy={"rules": rules})}
    assert codes["z"] == "neighbours"
    rules = [r if r["name"] != quantized else {"name": quantized, "precision": "int8"} for r in rules]
    outcomes = {e.node: e.outcome for e in entries(model, folder, policy={"rules": rules})}
    assert outcomes["z"] == outcomes[quantized] == "quantized"


@pytest.mark.parametrize("text", ["-1e-3,1e-3", "[-1E-3, 1e-3]", "-.001,.001", "-0.001,0.001"])
def test_ranges_are_numbers_however_they_are_written(text: str, tmp_path: Path) -> None:
    assert rule_of(f"name=x range={text}").settings == {"range": (-0.001, 0.001)}
    (tmp_path / "net.yaml").write_text(f"rules: [{{name: x, range: [{text.strip('[]')}]}}]\n")
    assert Policy.load(tmp_path / "net.yaml").rules[0].settings == {"range": (-0.001, 0.001)}
    with pytest.raises(PolicyError, match=r"must be \[lowest, highest\]"):
        rule_of("name=x range=a,1e-3")


# Arguments of another type.

WRONG: dict[str, Callable[[], object]] = {
    "bins: must be an integer, got 'a' of type str": lambda: qmlir.profile(
        "net.onnx", SAMPLES[:1], bins=cast(Any, "a")
    ),
    "bins: must be an integer, got nan": lambda: qmlir.profile("net.onnx", SAMPLES[:1], bins=cast(Any, float("nan"))),
    "per_channel: must be True": lambda: qmlir.profile("net.onnx", SAMPLES[:1], per_channel=cast(Any, "no")),
    "opset: must be an integer, got 'a'": lambda: qmlir.export("q.mlir", "o.onnx", opset=cast(Any, "a")),
    "format: must be text, got 3": lambda: qmlir.export("q.mlir", "o.onnx", format=cast(Any, 3)),
    'bind: must be sizes by symbol, such as {"N": 1}, got 3': lambda: qmlir.load("net.onnx", bind=cast(Any, 3)),
    "bind N: must be an integer, got 'a'": lambda: qmlir.load("net.onnx", bind=cast(Any, {"N": "a"})),
    "constants: must be numpy arrays by": lambda: qmlir.load("net.onnx", constants=cast(Any, "a")),
    "constants x: must be a numpy array, got 'a'": lambda: qmlir.load("net.onnx", constants=cast(Any, {"x": "a"})),
    "numerics: must be text, got 3": lambda: qmlir.load("net.onnx", numerics=cast(Any, 3)),
    "signature: must be text, got 3": lambda: qmlir.load("net.onnx", signature=cast(Any, 3)),
    "fold_budget: must be an integer": lambda: qmlir.load("net.onnx", fold_budget=cast(Any, "a")),
    "weights: must be text, got []": lambda: qmlir.save(qmlir.load("q.mlir"), "o.mlir", weights=cast(Any, [])),
}
"""What the error says → a call that meets it."""


@pytest.mark.parametrize("message", WRONG)
def test_arguments_of_another_type_are_refused(message: str, folder: Path) -> None:
    with pytest.raises(qmlir.errors.OptionError, match=re.escape(message)):
        WRONG[message]()


def test_integers_of_numpy_are_integers(folder: Path) -> None:
    assert qmlir.profile("net.onnx", SAMPLES[:1], bins=cast(Any, np.int64(8))).bins == 8


def test_a_network_of_empty_tensors_is_told_so(folder: Path) -> None:
    model = network(("Relu", "x", "y", {}))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 0
    onnx.save(model, "empty.onnx")
    with pytest.raises(qmlir.QmlirError, match="float tensors with elements, got only empty tensors; export the model"):
        qmlir.profile("empty.onnx", [np.zeros((1, 0), np.float32)])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 8
    onnx.save(model, "full.onnx")
    assert qmlir.profile("full.onnx", SAMPLES[:1]).samples == 1


# Spellings.

LISTS = ("name=x range=0,600", "name=x range=[0,600]", "name=x range=[0, 600]", "name=x range=[0.0,6e2]")


def test_lists_stand_in_brackets_or_not() -> None:
    assert {rule_of(text).settings["range"] for text in LISTS} == {(0.0, 600.0)}
    for text in ("between=r,l precision=int16", "between=[r,l] precision=int16", "between=[r, l] precision=int16"):
        assert rule_of(text).between == ("r", "l")
    assert rule_of("regex=[a-z]+ precision=int16").regex == "[a-z]+"


@pytest.mark.parametrize("key", ["weight_precision", "weight-precision"])
def test_one_key_everywhere(key: str, folder: Path) -> None:
    """In files, words, data, objects, options of passes and flags."""
    expected = {"weight_precision": "int4"}
    (folder / "policy.yaml").write_text(f"default: {{{key}: int4}}\nrules: [{{name: l, {key}: int4}}]\n")
    file = Policy.load(folder / "policy.yaml")
    data = Policy.of({"default": {key: "int4"}, "rules": [{"name": "l", key: "int4"}]})
    made = Policy({key: "int4"}, [Rule({key: "int4"}, name="l")])
    for policy in (file, data, made):
        assert policy.default == policy.rules[0].settings == expected
    assert rule_of(f"name=l {key}=int4").settings == expected
    qmlir.Pipeline(("quantize", {key: "int4", "profile": "net.yaml"}))(qmlir.load("net.onnx"))
    assert qmlir_main.main(["quantize", "net.onnx", "--profile", "net.yaml", f"--{key}", "int4", "-o", "o.mlir"]) == 0
    assert qmlir_main.main(["quantize", "net.onnx", "--profile=net.yaml", f"--{key}=int4", "-o", "o.mlir"]) == 0


def test_unknown_keys_are_refused_at_once(folder: Path) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: Rule({"wieght-precision": "int4"}, name="l"),
        lambda: Policy({"wieght_precision": "int4"}),
        lambda: Policy.of({"default": {"wieght_precision": "int4"}}),
        lambda: rule_of("name=l wieght-precision=int4"),
    ]
    for attempt in attempts:
        with pytest.raises(PolicyError, match=r"there is no such setting.*did you mean weight-precision\?"):
            attempt()
    with pytest.raises(PolicyError, match="must be one of"):
        Rule({"weight_precision": "int9"}, name="l")


# Samples.


def test_who_asks_for_more_samples_than_fit_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "MEMORY", 2 * 4 * 2 * (8 + 8) * 5)  # the 64 weights are held once
    message = r"weights are rounded and biases corrected on 5 of {} samples: the values of one take 0.000244 MiB"
    with pytest.warns(qmlir.errors.QmlirWarning, match=message.format(12)):
        qmlir.quantize("net.onnx", "net.yaml", data=SAMPLES)
    with pytest.warns(qmlir.errors.QmlirWarning, match=message.format(12)):
        qmlir.quantize("net.onnx", "net.yaml", data=iter(SAMPLES))
    command = "quantize net.onnx --profile net.yaml --data samples.npy --samples {} -o o.mlir"
    assert qmlir_main.main(shlex.split(command.format(10))) == 0
    assert re.search(message.format(10), capsys.readouterr().err)
    assert qmlir_main.main(shlex.split(command.format(5))) == 0
    assert "samples:" not in capsys.readouterr().err
