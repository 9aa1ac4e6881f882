"""Names from a model in what is generated and printed: only as text, whatever they hold."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import StringAttr

from qmlir.backends.cpu import Machine
from qmlir.cli import main as driver
from qmlir.cli.bundle import FUNCTIONS, KEYWORDS, MACROS, comment, entry_name, header
from qmlir.errors import QmlirError, printable
from qmlir.ir.context import make_context
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.ir.source import parse_text
from qmlir.ir.weights import WeightsMode, module_text
from tests.cli.small import write_small

HOSTILE = {
    "end of the comment": '*/\n#error "injected"\n/*',
    "spliced end of the comment": '*\\\n/\n#error "injected"\n/*',
    "trigraph": '*??/\n/\n#error "injected"\n/*',
    "carriage return": '*/\r#error "injected"\r/*',
    "line separator": '\u2028*/ #error "injected" /*',
    "terminal": "\x1b[2J\x1b]0;title\x07\x9b31merror: all is lost",
    "direction": "\u202egnihton\u202c",
    "markup": "[bold red]x[/] <script>alert(1)</script>",
    "long": "x" * 100_000,
    "quotes": "\"'`$(touch injected)",
}
STEMS = ["int", "class", "memset", "main", "NULL", "linux", "uint8_t", "operator", "read", "expf", "8-bit net", "true"]


def compilers() -> list[list[str]]:
    known = (["cc", "-x", "c", "-std=c11"], ["cc", "-x", "c", "-std=gnu89", "-trigraphs"], ["c++", "-x", "c++"])
    found = [command for command in known if shutil.which(command[0])]
    if not found:
        pytest.skip("there is no C compiler called cc")
    return found


def checked(headers: list[Path]) -> None:
    """Compiles headers in C and C++, behind everything that they could clash with."""
    source = "#include <stdio.h>\n#include <string.h>\n#include <math.h>\n#include <unistd.h>\n"
    source += "".join(f'#include "{header.name}"\n' for header in headers)
    for command in compilers():
        full = [*command, "-fsyntax-only", "-Wall", "-Werror", "-Wno-comment", f"-I{headers[0].parent}", "-"]
        done = subprocess.run(full, input=source, text=True, capture_output=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"


def run(*words: object) -> int:
    return driver.main([str(word) for word in words])


def headers(folder: Path, names: dict[str, str]) -> list[Path]:
    """The headers of a network whose output has a name, by the stems of the files."""
    written: list[Path] = []
    for stem, name in names.items():
        specs = (TensorSpec(name, (1, 3), np.dtype(np.float32)),)
        sizes = SimpleNamespace(weights=1, arena=1)
        machine = Machine("", "")
        compiled = SimpleNamespace(
            entry=entry_name(stem),
            sizes=sizes,
            signature=Signature(specs, specs),
            uses_pool=False,
            machine=machine,
            native_symbols=[],
            entries={},
        )
        written.append(folder / f"{stem}.h")
        written[-1].write_text(header(cast(Any, compiled), stem))
    return written


def test_headers_with_any_names_compile(tmp_path: Path) -> None:
    made = headers(tmp_path, {f"net{i}": name for i, name in enumerate(HOSTILE.values())})
    for each in made:
        text = each.read_text()
        assert text.isascii()
        assert len(text) < 4000
        assert "\n#error" not in text
    checked(made)


def test_files_may_be_called_as_one_likes(tmp_path: Path) -> None:
    checked(headers(tmp_path, dict.fromkeys(STEMS, "x")))
    assert all(entry_name(stem) not in KEYWORDS | MACROS | FUNCTIONS for stem in STEMS)


def test_an_object_does_not_replace_libcs_functions(tmp_path: Path) -> None:
    small = write_small(tmp_path)
    assert run("compile", small.onnx, "-o", small / "memset.o") == 0
    if shutil.which("nm") is None:
        pytest.skip("there is no nm")
    symbols = subprocess.run(["nm", "-g", "--defined-only", small / "memset.o"], capture_output=True, text=True)
    assert symbols.stdout.split()[2::3] == ["memset_net"]


@pytest.mark.slow
def test_a_terminal_and_files_show_only_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = write_small(tmp_path, scores="".join(HOSTILE.values()))
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    command = ("--profile", small / "p.yaml", "--ledger", small / "ledger.json", "-o", small / "q.mlir")
    assert run("quantize", small.onnx, *command) == 0
    assert run("run", small / "q.mlir", "--data", small.data, "--reference") == 0
    assert run("analyze", small.onnx, small / "q.mlir", "--data", small.data) == 0
    assert run("device", "check", "vector-dsp", small / "q.mlir") in (0, 1)
    captured = capsys.readouterr()
    for text in (captured.out, captured.err, (small / "q.mlir").read_text(), (small / "p.yaml").read_text()):
        assert all(line.isprintable() for line in text.split("\n"))
    json.loads((small / "ledger.json").read_text())


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_module_keeps_any_name(name: str) -> None:
    module = parse_text(make_context(), "func.func @main() { func.return }", "f.mlir")
    module.attributes["test.name"] = StringAttr(name)
    text = module_text(module, WeightsMode.ELIDED)
    assert all(line.isprintable() for line in text.split("\n"))
    assert parse_text(make_context(), text, "f.mlir").attributes["test.name"] == StringAttr(name)


def test_names_that_mean_nothing_to_c_stay() -> None:
    assert [entry_name(stem) for stem in ("net", "mnist-8", "resnet50")] == ["net", "mnist_8", "resnet50"]
    assert comment("layer.1/Conv[0]:out") == "layer.1/Conv[0]:out"


def test_an_input_of_halves_is_declared(tmp_path: Path) -> None:
    infos = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT16, [4]) for n in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), tmp_path / "net.onnx")
    assert run("compile", tmp_path / "net.onnx", "-o", tmp_path / "net.o") == 0
    assert "float16 in uint16_t [4]  x" in (tmp_path / "net.h").read_text()
    checked([tmp_path / "net.h"])


def test_errors_show_text_only() -> None:
    error = QmlirError("must be\na b", where="\x1b[2J", got="x" * 100_000, remedy="\u202e")
    assert str(error).isprintable()
    assert len(str(error)) < 2000
    assert error.got == "x" * 100_000
    assert printable("grüße ∂") == "grüße ∂"
    assert np.all([printable(chr(c)).isprintable() for c in range(0x3000)])
