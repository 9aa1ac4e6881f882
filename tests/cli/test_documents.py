"""Every document that a command writes has the fields of the schema, no others, and the figures that text shows."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import qmlir
from qmlir.cli.documents import document, schema, with_targets
from tests.cli.small import Small, run, write_small

DEVICE = "ethos-u55-like"


def strict() -> dict[str, Any]:
    """The schema without tolerance: a field that it does not name is an error."""
    whole = schema()
    envelope = {name: True for name in whole["properties"]}
    for name, each in whole["$defs"].items():
        each["additionalProperties"] = False
        if name.endswith("_document"):
            each["properties"] |= envelope
    return whole


VALIDATOR = Draft202012Validator(strict())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A folder with a quantized network, of which one operation stays float."""
    small = write_small(tmp_path_factory.mktemp("documents"))
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml", "--json", small / "p.json") == 0
    command = ("quantize", small.onnx, "--profile", small / "p.yaml", "--schema", "symmetric", "--json")
    assert run(*command, small / "n.json", "--bias", "int16", "-o", small / "n.mlir") == 0
    (small / "labels.txt").write_text("0\n1\n2\n0\n1\n2\n")
    rule = ("--rule", "name=dense1 keep-float=true")
    assert run(*command, small / "q.json", "--ledger", small / "l.json", "-o", small / "q.mlir") == 0
    assert run(*command, small / "m.json", *rule, "-o", small / "m.mlir") == 0
    return small


COMMANDS: dict[str, str] = {
    "import": "import {d}/small.onnx -o {d}/i.mlir",
    "profile merge": "profile merge {d}/p.yaml {d}/p.yaml -o {d}/pp.yaml",
    "profile diff": "profile diff {d}/p.yaml {d}/p.yaml",
    "ledger": "ledger {d}/m.mlir",
    "ledger diff": "ledger diff {d}/l.json {d}/m.mlir",
    "analyze": "analyze {d}/small.onnx {d}/q.mlir --data {d}/data.npz",
    "analyze channels": "analyze {d}/small.onnx {d}/q.mlir --data {d}/data.npz --channels",
    "analyze causes": "analyze {d}/small.onnx {d}/q.mlir --data {d}/data.npz --budget",
    "analyze effects": "analyze {d}/small.onnx {d}/q.mlir --data {d}/data.npz --effect",
    "tune": "tune {d}/small.onnx --data {d}/data.npz --floor sqnr=int8-20 --most 6 --results {d}/results "
    "--front {d}/f.csv -o {d}/t.yaml",
    "explore": f"explore {DEVICE} {{d}}/small.onnx --data {{d}}/data.npz --sweep array.lanes.n=8,0 --csv {{d}}/r.csv "
    "--plot {d}/front.svg",
    "compare": "compare {d}/q.mlir --data {d}/data.npz",
    "compare two networks": "compare {d}/q.mlir {d}/n.mlir --data {d}/data.npz",
    "crosscheck": "crosscheck {d}/small.onnx@cpu {d}/q.mlir --data {d}/data.npz",
    "certify": "certify {d}/q.mlir -o {d}/certificate.json",
    "certify by checking": "certify --check {d}/certificate.json",
    "graph": "graph {d}/q.mlir -o {d}/q.dot",
    "compile": "compile {d}/q.mlir -o {d}/q.o",
    "compile for a device": f"compile {{d}}/q.mlir --target {DEVICE} -o {{d}}/q.npu",
    "bench": "bench {d}/q.mlir --runs 2",
    "export": "export {d}/q.mlir -o {d}/q.onnx",
    "run": "run {d}/q.mlir --data {d}/data.npz -o {d}/o.npz",
    "run on a device": f"run {{d}}/q.mlir --data {{d}}/data.npz --target {DEVICE}",
    "run with labels": "run {d}/q.mlir --data {d}/data.npz --labels {d}/labels.txt",
    "quantize with labels": "quantize {d}/small.onnx --data {d}/data.npz --labels {d}/labels.txt -o {d}/s.mlir "
    "--save-profile {d}/s.yaml",
    "quantize to machine code": "quantize {d}/small.onnx --data {d}/data.npz -o {d}/s.o",
    "quantize to a program": f"quantize {{d}}/small.onnx --data {{d}}/data.npz --target {DEVICE} -o {{d}}/s.npu",
    "report": "report {d}/small.onnx {d}/q.mlir --seconds 0 -o {d}/r.html",
    "device list": "device list",
    "device show": f"device show {DEVICE}",
    "run with a trace": f"run {{d}}/q.mlir --data {{d}}/data.npz --target {DEVICE} --trace {{d}}/t.json",
    "run on a changed device": f"run {{d}}/q.mlir --data {{d}}/data.npz --target {DEVICE} --set array.lanes.k=8",
    "device check": f"device check {DEVICE}",
    "device check of a network": f"device check {DEVICE} {{d}}/q.mlir",
}


@pytest.mark.parametrize("case", COMMANDS)
def test_documents_are_of_the_schema(
    folder: Small, case: str, kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(kept))
    command = COMMANDS[case].format(d=folder.folder).split()
    assert run(*command, "--json") == 0
    printed = capsys.readouterr().out
    VALIDATOR.validate(json.loads(printed))  # nothing but the document is printed
    assert case.startswith(json.loads(printed)["document"])
    assert run(*command, "--json", folder / "d.json") == 0
    assert f"{folder / 'd.json'}: written" in capsys.readouterr().out
    written = json.loads((folder / "d.json").read_text())
    VALIDATOR.validate(written)
    assert written.keys() == json.loads(printed).keys()
    for file in written.get("files", ()):
        assert Path(file).exists()


@pytest.mark.parametrize("name", ["p.json", "q.json", "m.json", "l.json"])
def test_documents_of_profile_and_quantize(folder: Small, name: str) -> None:
    VALIDATOR.validate(json.loads((folder / name).read_text()))


def test_the_schema_is_one_and_its_examples_are_of_it() -> None:
    Draft202012Validator.check_schema(schema())
    kinds = {name: each for name, each in schema()["$defs"].items() if name.endswith("_document")}
    assert {name.removesuffix("_document").replace("_", " ") for name in kinds} == set(
        schema()["properties"]["document"]["enum"]
    )
    for kind in kinds.values():
        (example,) = kind["examples"]
        VALIDATOR.validate(example)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d | {"format": "qmlir-2"},
        lambda d: d | {"new": 1},
        lambda d: d | {"totals": d["totals"] | {"macs": "4800"}},
        lambda d: {k: v for k, v in d.items() if k != "decisions"},
        lambda d: d | {"document": "quantise"},
    ],
)
def test_the_schema_refuses_other_documents(
    folder: Small, change: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    found = json.loads((folder / "q.json").read_text())
    assert VALIDATOR.is_valid(found)
    assert not VALIDATOR.is_valid(change(found))


def test_the_ledger_in_numbers(folder: Small) -> None:
    found = json.loads((folder / "m.json").read_text())
    decisions = {d["node"]: d for d in found["decisions"]}
    conv, dense = decisions["conv1+relu1"], decisions["dense1"]
    assert (conv["macs"], conv["weight_bytes"]) == (8 * 8 * 4 * 2 * 9, 4 * 2 * 9 + 4 * 4)
    assert conv["activation_bytes"] == 8 * 8 * 2 + 8 * 8 * 4
    data, weights, bias = conv["operands"]
    assert (data["type"], data["zero_points"], data["axis"], len(data["scales"])) == ("i8", [0], None, 1)
    assert (weights["name"], weights["axis"], len(weights["scales"])) == ("kernel", 0, 4)
    assert bias["scales"] == pytest.approx([data["scales"][0] * s for s in weights["scales"]])
    assert (dense["outcome"], dense["operands"][1]["type"], dense["operands"][1]["scales"]) == ("float", "f32", None)
    assert dense["weight_bytes"] == 4 * (3 * 64 + 3)
    assert found["totals"] == {
        "operations": 5, "quantized": 4, "float": 1, "data_free": 0, "macs": 4608 + 192, "quantized_macs": 4608,
        "weight_bytes": sum(d["weight_bytes"] for d in decisions.values()),
    }  # fmt: skip
    kinds = {each["operation"]: (each["quantized"], each["float"]) for each in found["kinds"]}
    assert kinds["nn.conv2d"] == ({"int8": 1}, 0)
    assert kinds["nn.fully_connected"] == ({}, 1)
    assert sum(sum(quantized.values()) + left for quantized, left in kinds.values()) == found["totals"]["operations"]


def test_kinds_are_the_same_on_the_terminal_and_in_python(folder: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ledger", folder / "m.mlir") == 0
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    shown = [" ".join(line.split()) for line in repr(qmlir.summary(folder / "m.mlir")).splitlines()[1:]]
    assert shown[0] == "operation count int8 float"
    assert "nn.conv2d 1 1" in shown
    start = printed.index(shown[0])
    assert sorted(printed[start : start + len(shown)]) == sorted(shown)


def test_a_ledger_is_the_same_from_the_network_and_from_its_file(
    folder: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    written = json.loads((folder / "l.json").read_text())
    for source in ("l.json", "q.mlir", "q.json"):
        assert run("ledger", folder / source, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["decisions"] == written["decisions"]
        assert found["totals"] == written["totals"]


def test_ledgers_of_older_versions_are_read(folder: Small, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads((folder / "l.json").read_text())["decisions"]
    known = ("node", "operation", "outcome", "code", "reason", "scale", "remedy")
    (folder / "old.json").write_text(json.dumps([{name: row[name] for name in known} for row in rows]))
    assert run("ledger", "diff", folder / "old.json", folder / "q.mlir") == 0
    assert capsys.readouterr().out == "no operation changed\n"
    assert run("ledger", folder / "old.json", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(found)
    assert found["totals"]["macs"] is None
    (folder / "other.json").write_text(json.dumps({"format": "qmlir-9", "document": "ledger", "decisions": []}))
    assert run("ledger", folder / "other.json") == 1
    assert "must be a ledger of format qmlir-1, got ledger of format qmlir-9" in capsys.readouterr().err


@pytest.mark.parametrize("figures", [{"macs": "many"}, {"operands": [1]}, {"results": {"type": "i8"}}])
def test_figures_that_are_none(folder: Small, figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads((folder / "l.json").read_text())
    found["decisions"][1] |= figures
    (folder / "bad.json").write_text(json.dumps(found))
    assert run("ledger", folder / "bad.json") == 1
    assert "got another row 1" in capsys.readouterr().err


def test_an_error_leaves_no_document(folder: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", folder / "nowhere.mlir", "--data", folder.data, "--json", folder / "none.json") == 1
    assert run("run", folder / "nowhere.mlir", "--data", folder.data, "--json") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("nowhere.mlir") == 2
    assert not (folder / "none.json").exists()


def test_a_model_behind_json_is_no_target() -> None:
    assert with_targets(["bench", "--json", "net.mlir"]) == ["bench", "--json", "-", "net.mlir"]
    for unchanged in (["bench", "--json", "f.json"], ["bench", "--json", "-"], ["bench", "--json=f.json", "n.mlir"]):
        assert with_targets(unchanged) == unchanged


def test_text_of_documents() -> None:
    text = document("run", {"a": [1, 2.5], "b": ["[", "x"], "c": float("inf"), "d": [[1], [{"e": float("nan")}]]})
    assert json.loads(text)["c"] is None
    assert json.loads(text)["d"] == [[1], [{"e": None}]]
    assert '"a": [1, 2.5],' in text
