"""One resolution of the quantizer's settings: an argument is explicit by its origin, whatever its value is."""

from pathlib import Path

import pytest

import qmlir
from qmlir.errors import OptionError
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import QuantConfig
from qmlir.settings.resolve import Setting, resolve
from tests.cli.small import run, write_small


def test_each_origin() -> None:
    found = resolve(Policy({"schema": "symmetric", "bias": "auto"}), {"rounding": "nearest"}, runtime="onnxruntime")
    assert found.settings["granularity"] == Setting("channel", "standard")
    assert found.settings["weight_precision"] == Setting("int7", "runtime")
    assert found.settings["schema"] == Setting("symmetric", "policy")
    assert found.settings["rounding"] == Setting("nearest", "argument")
    assert found.config() == QuantConfig("symmetric", "uint8", "int7", rounding="nearest", attention="stored")


def test_what_a_policy_leaves_open_is_the_devices() -> None:
    found = resolve(Policy({"weight_precision": "same", "precision": "int16"}), {}, target="ethos-u55-like")
    assert found.settings["weight_precision"] == Setting("int8", "device")
    assert found.settings["precision"] == Setting("int16", "policy")
    with pytest.raises(OptionError, match="schema: must be asymmetric for ethos-u55-like, got symmetric"):
        resolve(Policy({"schema": "symmetric"}), {}, target="ethos-u55-like")


def test_what_a_module_states_is_the_base() -> None:
    found = resolve(Policy({"bias": "int16"}), {}, base=QuantConfig("symmetric", bias="int32"))
    assert found.settings["schema"] == Setting("symmetric", "module")
    assert found.settings["bias"] == Setting("int16", "policy")


def test_a_policy_wins_over_what_a_runtime_prefers() -> None:
    found = resolve(Policy({"precision": "int16"}), {}, runtime="onnxruntime")
    assert found.config() == QuantConfig(precision="int16", weight_precision="int7", attention="stored")


@pytest.mark.parametrize("value", ["asymmetric", "symmetric_with_uint8"])
def test_an_argument_may_not_contradict_a_policy(value: str) -> None:
    resolve(Policy({"schema": value}), {"schema": value, "precision": "int8"})
    with pytest.raises(OptionError, match=f"schema: must not contradict the policy's default, symmetric, got {value}"):
        resolve(Policy({"schema": "symmetric"}), {"schema": value})


def test_an_argument_of_the_standard_value_is_an_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command, Python and qmlir-opt refuse it alike; none of them drops it in silence."""
    small = write_small(tmp_path)
    (tmp_path / "net.yaml").write_text("default: {precision: int16, per-channel: false}\n")
    command = (
        "quantize",
        small.onnx,
        "--data",
        small.data,
        "--policy",
        tmp_path / "net.yaml",
        "-o",
        tmp_path / "q.mlir",
    )
    samples = list(small.samples[:, None])
    wrong = "precision: must not contradict the policy's default, int16, got int8; drop one of the two"
    assert run(*command, "--precision", "int8") == 1
    assert wrong in capsys.readouterr().err
    with pytest.raises(OptionError, match=wrong):
        qmlir.quantize(small.onnx, data=samples, policy=tmp_path / "net.yaml", precision="int8")
    network = qmlir.Pipeline("simplify", "insert-observers")(qmlir.load(small.onnx))
    given = {"policy": str(tmp_path / "net.yaml"), "precision": "int8"}
    with pytest.raises(OptionError, match=wrong):
        qmlir.Pipeline(("quantize", given))(network)
    assert "quantize{precision=int8 policy=" in repr(qmlir.Pipeline(("quantize", given)))
    with pytest.raises(OptionError, match="per-channel: must not contradict the policy's default, False, got true"):
        qmlir.quantize(small.onnx, data=samples, policy=tmp_path / "net.yaml", per_channel=True)
    assert run(*command, "--precision", "int16") == 0
