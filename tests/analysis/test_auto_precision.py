"""`precision=auto` gives digits to the operations that need them, says so, and makes a policy of it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from qmlir.analysis.auto_precision import FORBIDDING, Widened, without_auto
from qmlir.analysis.quality import OutputQuality, Quality
from qmlir.analysis.target import TARGET, reached
from qmlir.compiler import main_function
from qmlir.compiler import quantize as plain
from qmlir.errors import OptionError, QualityWarning
from qmlir.numerics.schemas import QuantizationError
from qmlir.settings.policy import Policy, PolicyError
from qmlir.settings.recorded import recorded_quantizer
from tests.cli.small import Small, run, write_small

SAMPLES = [np.random.default_rng(i).standard_normal((1, 32)).astype(np.float32) for i in range(20)]


@pytest.fixture(scope="module")
def cancelling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = ((x · w + tanh(x)) − x · w) · v, where the digits of tanh(x) are lost beside those of x · w in 8 bits."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((32, 32)).astype(np.float32) * 4,
        "v": rng.standard_normal((32, 16)).astype(np.float32) / 8,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["large"]),
        helper.make_node("Tanh", ["x"], ["small"]),
        helper.make_node("Add", ["large", "small"], ["sum"]),
        helper.make_node("Sub", ["sum", "large"], ["rest"]),
        helper.make_node("MatMul", ["rest", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "cancelling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    folder = tmp_path_factory.mktemp("auto")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(folder / "cancelling.onnx"))
    np.savez(folder / "samples.npz", x=np.concatenate(SAMPLES))
    return folder / "cancelling.onnx"


def test_a_network_that_int8_ruins_is_repaired(cancelling: Path) -> None:
    before = qmlir.quality(qmlir.quantize(cancelling, data=SAMPLES))
    q = qmlir.quantize(cancelling, data=SAMPLES, precision="auto")
    after = qmlir.quality(q)
    assert before.sqnr is not None
    assert after.sqnr is not None
    assert before.sqnr < TARGET
    assert after.sqnr >= TARGET
    assert after.held_out
    entries = qmlir.decisions(q)
    told = [entry for entry in entries if "auto: " in entry.reason]
    assert told
    assert all("alone leave" in entry.reason for entry in told)
    assert not any(entry.outcome == "float" and "fully_connected" in entry.operation for entry in entries)
    np.testing.assert_array_equal(qmlir.compile(q)(SAMPLES[0]), qmlir.reference(q)(SAMPLES[0]))


def test_the_cost_is_told_in_bytes_and_time_and_how_to_forbid_it(
    cancelling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", cancelling.parent / "samples.npz", "--precision", "auto")
    assert run("quantize", cancelling, *data, "-o", tmp_path / "q.mlir") == 0
    out = capsys.readouterr().out
    told = " ".join(out.split())
    assert re.search(
        r"constants of [\d.,]+ \w+ \([\d.,]+ \w+ in int8\), [\d.e-]+ ms a call on this CPU \([\d.e-]+ ms\)", told
    )
    changed = re.findall(r"^  (\w+): int16", out, re.MULTILINE)
    assert changed
    assert f"auto: {FORBIDDING}" in told
    rules = [part for name in changed for part in ("--rule", f"name={name} precision=int8")]  # as the line says
    assert run("quantize", cancelling, *data, *rules, "-o", tmp_path / "q.mlir") == 0
    assert not re.findall(r"^  \w+: int16", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
def test_the_policy_makes_the_same_network(cancelling: Path, tmp_path: Path) -> None:
    data = ("--data", cancelling.parent / "samples.npz")
    written = ("-o", tmp_path / "a.mlir", "--save-policy", tmp_path / "a.yaml", "--json", tmp_path / "a.json")
    assert run("quantize", cancelling, *data, "--precision", "auto", *written) == 0
    policy = yaml.safe_load((tmp_path / "a.yaml").read_text())
    assert policy["rules"]
    assert "precision" not in policy["default"]
    assert run("quantize", cancelling, *data, "--policy", tmp_path / "a.yaml", "-o", tmp_path / "b.mlir") == 0
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    python = qmlir.quantize(cancelling, data=SAMPLES, policy={"default": {"precision": "auto"}})
    assert (recorded_quantizer(python) or {})["rules"] == policy["rules"]
    assert qmlir.quality(python) == qmlir.quality(tmp_path / "b.mlir")


def test_a_network_that_int8_serves_is_int8s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = write_small(tmp_path)
    data = [each[None] for each in small.samples]
    q, plain_int8 = (qmlir.quantize(small.onnx, data=data, precision=p) for p in ("auto", "int8"))
    assert str(main_function(q)) == str(main_function(plain_int8))
    assert run("quantize", small.onnx, "--data", small.data, "--precision", "auto", "-o", tmp_path / "q.mlir") == 0
    assert "auto: int8 reaches the target, 30 dB or 99 % of float's classes\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_rule_of_the_users_holds(cancelling: Path) -> None:
    policy = {"rules": [{"name": "large", "precision": "int8"}, {"name": "rest", "precision": "int8"}]}
    q = qmlir.quantize(cancelling, data=SAMPLES, precision="auto", policy=policy)
    pinned = {entry.node: entry for entry in qmlir.decisions(q) if entry.node in ("large", "rest")}
    assert all("i8 activations" in entry.reason and "auto" not in entry.reason for entry in pinned.values())
    assert len(pinned) == 2


def amplifying(folder: Path, height: float) -> Path:
    """y = x · w, where the first of 32 channels of x is as much higher than the others, and w does not read it."""
    w = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
    w[0] = 0
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "amplifying",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(folder / "amplifying.onnx"))
    np.savez(folder / "samples.npz", x=np.concatenate(SAMPLES) * np.where(np.arange(32) == 0, height, 1).astype("f"))
    return folder / "amplifying.onnx"


@pytest.mark.parametrize("height", [1e4, 1e6])
def test_a_layer_of_many_products_is_named_and_never_becomes_float(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, height: float
) -> None:
    """Where 16 bits gain something and where they gain nothing; the rule that the line tells works."""
    network = amplifying(tmp_path, height)
    options = ("--data", tmp_path / "samples.npz", "--precision", "auto", "-o", tmp_path / "q.mlir")
    assert run("quantize", network, *options, "--json", tmp_path / "q.json") == 0
    (rule,) = re.findall(r'^  y: alone errs too much, but has 100 % of the MACs; --rule "(.*)" makes it float$',
                         capsys.readouterr().out, re.MULTILINE)  # fmt: skip
    assert yaml.safe_load((tmp_path / "q.json").read_text())["auto"]["too_large"] == {"y": 1}
    q = qmlir.load(tmp_path / "q.mlir")
    assert {entry.outcome for entry in qmlir.decisions(q)} == {"quantized"}
    assert not reached(qmlir.quality(q))
    assert run("quantize", network, *options, "--rule", rule) == 0
    assert reached(qmlir.quality(tmp_path / "q.mlir"))
    assert "errs too much" not in capsys.readouterr().out
    if height == 1e4:
        monkeypatch.setattr("qmlir.analysis.auto_precision.FLOAT_SHARE", 1.0)
        assert run("quantize", network, *options) == 0
        assert reached(qmlir.quality(tmp_path / "q.mlir"))


@pytest.mark.parametrize(
    ("sqnr", "agreement", "samples", "enough"),
    [
        (30.0, None, 8, True),
        (29.9, None, 8, False),
        (12.0, 1.0, 8, False),
        (12.0, 0.99, 100, True),
        (None, None, 1, True),
    ],
)
def test_what_is_enough(sqnr: float | None, agreement: float | None, samples: int, enough: bool) -> None:
    assert reached(Quality(samples, True, (OutputQuality("y", sqnr, agreement, 45.0),))) == enough


def test_auto_is_of_a_whole_network_and_measured(
    cancelling: Path, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        OptionError, match="auto measures the network on samples, got no data; give data, and leave measure out"
    ):
        qmlir.quantize(cancelling, precision="auto")
    with pytest.raises(OptionError, match="got measure=False; give data, and"):
        qmlir.quantize(cancelling, data=SAMPLES, precision="auto", measure=False)
    with pytest.raises(QuantizationError, match="precision=auto must be measured on samples"):
        plain(cancelling, data=SAMPLES, precision="auto")
    plain(cancelling, data=SAMPLES, precision="int8")  # as the error advises
    with pytest.raises(PolicyError, match="is for the whole network, got auto; put it under default"):
        Policy.of({"rules": [{"name": "y", "precision": "auto"}]})
    assert without_auto(Policy({"precision": "auto"}), {})[2]
    assert not without_auto(Policy({"precision": "int8"}), {"precision": "int8"})[2]
    command = ("quantize", small.onnx, "-o", small / "q.mlir")
    for given, said in (
        (("--data", small.data, "--no-measure", "--precision", "auto"), "got --no-measure; give --data"),
        (("--profile", small / "p.yaml", "--precision", "auto"), "got no --data; give --data, and leave out"),
        (("--data", small.data, "--save-policy", small / "p.yaml"), "leave it out, or give --precision auto"),
    ):
        assert run(*command, *given) == 1
        assert said in " ".join(capsys.readouterr().err.split())
    assert run(*command, "--data", small.data, "--save-policy", small / "s.yaml", "--precision", "auto") == 0
    assert (small / "s.yaml").exists()


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return write_small(tmp_path)


def test_all_data_get_16_bits_where_no_few_operations_are_to_blame(
    cancelling: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmlir.analysis.auto_precision.STEPS", 0)
    q = qmlir.quantize(cancelling, data=SAMPLES, precision="auto")
    found = qmlir.quality(q).sqnr
    assert found is not None
    assert found >= TARGET
    assert all("int16 like the whole network" in e.reason for e in qmlir.decisions(q) if e.outcome == "quantized")
    kept = qmlir.quantize(cancelling, data=SAMPLES, precision="auto", weight_precision="int4")
    assert not any("int16 like the whole network" in e.reason for e in qmlir.decisions(kept))  # the weights are given


def test_the_search_ends_in_time(cancelling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Clock:
        """A clock on which every look takes ten seconds."""

        now = 0.0

        def process_time(self) -> float:
            self.now += 10
            return self.now

    data = ("--data", cancelling.parent / "samples.npz", "--precision", "auto", "-o", tmp_path / "q.mlir")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qmlir.analysis.auto_precision.time.process_time", Clock().process_time)
        assert run("quantize", cancelling, *data, "--auto-seconds", 30, "--json", tmp_path / "q.json") == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "auto: the search was ended after 30 s; --auto-seconds gives it more" in told
        assert yaml.safe_load((tmp_path / "q.json").read_text())["auto"]["ended"] == 30
        assert not any("auto: " in entry.reason for entry in qmlir.decisions(tmp_path / "q.mlir"))
    assert run("quantize", cancelling, *data, "--auto-seconds", 3000) == 0
    assert "the search was ended" not in capsys.readouterr().out
    with pytest.raises(OptionError, match="auto_seconds: must be a positive number, got 0"):
        qmlir.quantize(cancelling, data=SAMPLES, precision="auto", auto_seconds=0)


def test_the_warning_does_not_advise_what_was_done(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `auto` it names it; behind a search it says why the search went no further."""
    data = [each[None] for each in small.samples]
    policy = {"rules": [{"name": "scores", "range": [-0.01, 0.01]}]}
    with pytest.warns(QualityWarning, match="; --precision auto repairs what it can$"):
        qmlir.quantize(small.onnx, data=data, policy=policy)
    helpless = "; nothing that --precision auto is allowed to change helps further$"
    with pytest.warns(QualityWarning, match=helpless):
        q = qmlir.quantize(small.onnx, data=data, policy=policy, precision="auto")
    rule = ("--rule", "name=scores range=-0.01,0.01")
    auto = ("--precision", "auto", *rule, "-o", small / "q.mlir")
    capsys.readouterr()
    assert run("quantize", small.onnx, "--data", small.data, *auto) == 0
    assert helpless.removesuffix("$") in " ".join(capsys.readouterr().err.split())
    bad = Quality(1, False, (OutputQuality("y", 3.0, None, 40.0),))
    good = Quality(1, False, (OutputQuality("y", TARGET + 1, None, 90.0),))
    texts = [
        Widened(q, each, bad, Policy(), {}, "", ended).repair for each, ended in ((bad, 7), (bad, None), (good, None))
    ]
    assert texts[0] == "--precision auto was ended after 7 s, and --auto-seconds gives it more"
    assert texts[1] in helpless
    assert texts[2].startswith(f"--precision auto goes no further than {TARGET:g} dB")


def test_few_quantizations_are_enough(cancelling: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for int8, one for 16 bits of residual sums, one that raises all that errs, and one that takes half back."""
    made: list[str] = []

    def counted(*given: Any, **options: Any) -> Any:
        made.append(str(options["policy"]))
        return plain(*given, **options)

    monkeypatch.setattr("qmlir.analysis.measured.quantized_by", counted)
    q = qmlir.quantize(cancelling, data=SAMPLES, precision="auto")
    assert (qmlir.quality(q).sqnr or 0) >= TARGET
    assert len(made) <= 5
    assert len({*made}) == len(made)
