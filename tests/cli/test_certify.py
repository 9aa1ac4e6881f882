"""`qmlir certify` and `qmlir certify --check`."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from qmlir.cli.documents import schema
from qmlir.cli.main import main
from tests.checker.certificates import CERTIFICATES
from tests.cli.small import Small, is_one_paragraph, run, write_small

VALIDATOR = Draft202012Validator(schema())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A folder with a quantized network, and one of which a layer stays float."""
    small = write_small(tmp_path_factory.mktemp("certify"))
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir") == 0
    rule = ("--rule", "name=dense1 keep-float=true")
    assert run("quantize", small.onnx, "--data", small.data, *rule, "-o", small / "m.mlir") == 0
    return small


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert run("certify", *arguments) == 1
    error = capsys.readouterr().err
    assert is_one_paragraph(error)
    return error


@pytest.mark.slow
def test_a_certificate_is_written_and_holds(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("certify", small / "q.mlir", "-o", small / "c.json") == 0
    said = capsys.readouterr().out
    assert "c.json: integer-only: " in said
    assert "float at the entry: quant.qcast" in said
    assert "LLVM IR: " in said
    certificate = json.loads((small / "c.json").read_text())
    assert [each["file"] for each in certificate["artefact"]] == ["c.integers.mlir", "c.integers.safetensors"]
    assert certificate["source"]["file"] == "q.mlir"
    assert run("certify", "--check", small / "c.json") == 0
    assert "c.json: holds: " in capsys.readouterr().out


@pytest.mark.slow
def test_entries_have_one_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = CERTIFICATES["entries"](tmp_path)
    capsys.readouterr()
    assert run("certify", tmp_path / "q.mlir", "-o", path) == 0
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("entry ")] == ['entry "prefill"', 'entry "decode"']
    certificate = json.loads(path.read_text())
    assert [each["name"] for each in certificate["entries"]] == ["prefill", "decode"]
    assert [each["file"] for each in certificate["artefact"]] == ["net.integers.mlir", "net.integers.safetensors"]
    assert run("certify", "--check", path) == 0
    both = capsys.readouterr().out
    assert run("certify", tmp_path / "q.mlir", "--entry", "decode", "-o", tmp_path / "decode.json") == 0
    assert json.loads((tmp_path / "decode.json").read_text())["about"] == "network"
    counts = [len(each["operations"]) for each in certificate["entries"]]
    assert f"holds: {sum(counts)} operations" in both
    assert f"integer-only: {counts[1]} operations" in capsys.readouterr().out


def test_an_entry_that_the_artefact_has_more_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = CERTIFICATES["entries"](tmp_path)
    certificate = json.loads(path.read_text())
    del certificate["entries"][1]
    path.write_text(json.dumps(certificate))
    assert "entries of 1 elements, where 2 follow" in error_of(capsys, "--check", path)


def test_what_is_on_trust_is_printed(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """In text and in the document: each field that the schema marks and the certificate states."""
    assert run("certify", small / "q.mlir", "-o", small / "t.json") == 0
    capsys.readouterr()
    assert run("certify", "--check", small / "t.json") == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("on trust: ")]
    assert run("certify", "--check", small / "t.json", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert said == [f"on trust: {each['field']}: {each['reason']}" for each in document["trusted"]]
    fields = [each["field"] for each in document["trusted"]]
    assert fields == ["qmlir", "source", "operations[].requantization.factors", "code"]


def test_a_side_file_that_is_not_read_is_no_part_of_the_artefact(small: Small, tmp_path: Path) -> None:
    """Beside a network of integers without large constants, another network's weights may lie."""
    text = """
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
  %y = nn.reshape %x {shape = array<i64: 1, 4>} : tensor<1x4xi8> -> tensor<1x4xi8>
  func.return %y : tensor<1x4xi8>
}
"""
    (tmp_path / "net.mlir").write_text(text)
    (tmp_path / "net.safetensors").write_bytes((small / "q.safetensors").read_bytes())
    assert run("certify", tmp_path / "net.mlir", "-o", tmp_path / "net.json") == 0
    assert [each["file"] for each in json.loads((tmp_path / "net.json").read_text())["artefact"]] == ["net.mlir"]
    assert run("certify", "--check", tmp_path / "net.json") == 0


def test_a_network_of_integers_is_its_own_artefact(small: Small) -> None:
    assert run("certify", small / "q.mlir", "-o", small / "c.json") == 0
    assert run("certify", small / "c.integers.mlir", "-o", small / "own.json") == 0
    certificate = json.loads((small / "own.json").read_text())
    assert [each["file"] for each in certificate["artefact"]] == ["c.integers.mlir", "c.integers.safetensors"]
    assert run("certify", "--check", small / "own.json") == 0


def test_the_artefact_may_lie_elsewhere(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("certify", small / "q.mlir", "-o", small / "c.json") == 0
    (tmp_path / "c.json").write_bytes((small / "c.json").read_bytes())
    assert "must be the artefact of the certificate" in error_of(capsys, "--check", tmp_path / "c.json")
    assert run("certify", small / "c.integers.mlir", "--check", tmp_path / "c.json") == 0


def test_a_stale_artefact(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("certify", small / "q.mlir", "-o", small / "s.json") == 0
    with (small / "s.integers.mlir").open("a") as file:
        file.write("// changed\n")
    error = error_of(capsys, "--check", small / "s.json")
    assert "must hold for its artefact, got another hash of s.integers.mlir; certify the network again" in error
    assert run("certify", small / "q.mlir", "-o", small / "s.json") == 0
    assert run("certify", "--check", small / "s.json") == 0


def test_floats(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, small / "m.mlir", "-o", small / "f.json")
    assert 'nn.fully_connected "dense1' in error
    assert "quantize it, or choose other numerics if a runtime's rounding asks for floats" in error
    assert not (small / "f.json").exists()
    assert run("certify", small / "q.mlir", "-o", small / "f.json") == 0


def test_a_network_in_floats(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, small.onnx, "-o", small / "n.json")
    assert "small.onnx: must be a quantized network, got a network in floats; quantize it first: " in error
    assert error.strip().endswith("small.onnx --data SAMPLES -o small_int8.mlir")


def test_a_network_in_floats_with_weights_in_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As TFLite's converter writes it with weights quantized alone."""
    stored, path = "tensor<2x2x!quant.uniform<i8:f32, 0.5>>", tmp_path / "weights.mlir"
    path.write_text(f"""
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {{
  %c = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2xi8>
  %q = quant.scast %c : tensor<2x2xi8> to {stored}
  %w = quant.dcast %q : {stored} to tensor<2x2xf32>
  %y = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}}
""")
    error = error_of(capsys, path, "-o", tmp_path / "c.json")
    assert "weights.mlir: must be a quantized network, got a network in floats; quantize it first: " in error


def test_what_does_not_come_from_the_quantizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain integers, whose sums wrap around, and an input of floats that becomes integers at once."""
    text = "func.func @main(%x: tensor<1x8x{0}>) -> tensor<1x8xi32> {{ {1} func.return %y : tensor<1x8xi32> }}"
    added = "%y = nn.add %x, %x : tensor<1x8xi32>, tensor<1x8xi32> -> tensor<1x8xi32>"
    cast = "%y = nn.cast %x {element = i32} : tensor<1x8xf32> -> tensor<1x8xi32>"
    for name, element, body in (("added", "i32", added), ("cast", "f32", cast)):
        (tmp_path / f"{name}.mlir").write_text(text.format(element, body))
    error = error_of(capsys, tmp_path / "added.mlir", "-o", tmp_path / "c.json")
    assert 'nn.add "nn.add": must be an operation on quantized numbers' in error
    assert "number of an operation" not in error
    error = error_of(capsys, tmp_path / "cast.mlir", "-o", tmp_path / "c.json")
    assert 'by way of input "x" → nn.cast "nn.cast"; --inputs nn.cast leaves the cast out' in error


def test_the_place_of_an_operation_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its line and its column in the text, although the checker that refuses it knows no text."""
    text = "func.func @main(%x: tensor<1x8xi32>) -> tensor<1x8xi32> {{\n  {}\n  func.return %y : tensor<1x8xi32>\n}}\n"
    line = "%y = nn.add %x, %x : tensor<1x8xi32>, tensor<1x8xi32> -> tensor<1x8xi32>"
    (tmp_path / "added.mlir").write_text(text.format(line))
    assert run("certify", tmp_path / "added.mlir", "-o", tmp_path / "c.json") == 1
    said, shown, caret = capsys.readouterr().err.splitlines()
    assert "added.mlir:2:8: nn.add " in said
    assert line[:40] in shown
    assert shown.index("nn.add") == caret.index("^")


def test_options_that_do_not_fit(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), (small / "q.mlir",), ("-o", small / "c.json")):
        error = error_of(capsys, *arguments)
        assert "is needed to certify a network; give a network and -o FILE.json, or --check FILE.json" in error
    assert run("certify", small / "q.mlir", "-o", small / "c.json") == 0
    error = error_of(capsys, "--check", small / "c.json", "-o", small / "d.json")
    assert "drop --check or --output" in error
    assert "must be a file name that ends in .json" in error_of(capsys, small / "q.mlir", "-o", small / "c.txt")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "qmlir-certificate-1"}', "\udcff"])
def test_what_is_no_certificate(content: str, small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.json").write_bytes(content.encode(errors="surrogateescape"))
    assert "must be a certificate" in error_of(capsys, "--check", tmp_path / "c.json")


def test_programs(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    program, certificate = small / "p.npu", small / "p.json"
    assert run("quantize", small.onnx, "--data", small.data, "--target", "nmp", "-o", program) == 0
    capsys.readouterr()
    assert run("certify", program, "-o", certificate) == 0
    said = capsys.readouterr().out
    assert "conv1+relu1" in said
    assert 'quant.qcast of input "image" at the entry' in said
    assert '" at the exit' in said
    assert "p.json: integer-only: " in said
    assert "2 calls of the host with " in said
    assert run("certify", "--check", certificate) == 0
    assert "p.json: holds: " in capsys.readouterr().out
    for arguments in ((program, "-o", certificate), ("--check", certificate)):
        assert run("certify", *arguments, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        VALIDATOR.validate(document)
        assert document["calls"] == 2
    (small / "p.host.mlir").rename(small / "moved.mlir")
    assert "p.host.mlir" in error_of(capsys, program, "-o", certificate)
    assert "p.host.mlir" in error_of(capsys, "--check", certificate)
    (small / "moved.mlir").rename(small / "p.host.mlir")
    program.write_bytes(program.read_bytes()[:-1])
    for arguments in ((program, "-o", certificate), ("--check", certificate)):
        assert "p.npu" in error_of(capsys, *arguments)


def test_quiet(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", str(small / "q.mlir"), "-o", str(small / "c.json"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
