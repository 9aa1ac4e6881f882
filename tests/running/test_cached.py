"""Compiled networks on disk: what is found again, what is not, damaged entries, several processes, the bound."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.rewriter import Rewriter

import qmlir
from qmlir import compiler
from qmlir.backends.cpu.jit import Executable
from qmlir.backends.cpu.llvm import Machine
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.quant.rules import FreeScale
from qmlir.errors import FileError, OptionError, QmlirWarning, UnsupportedError
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.numerics.elementary.lanes import N
from qmlir.plugins import DIALECTS
from qmlir.running import cached
from tests.cli.small import Small, run, write_small
from tests.packages import install
from tests.packages import site as site

X = np.random.default_rng(0).standard_normal((1, 2, 8, 8)).astype(np.float32)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return write_small(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The networks that were really compiled."""
    found: list[object] = []
    compile = compiler.compile

    def counted(module: Any, *arguments: Any, **options: Any) -> Any:
        found.append(module)
        return compile(module, *arguments, **options)

    monkeypatch.setattr(compiler, "compile", counted)
    return found


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.qmlir"))


def test_the_second_time_is_the_same_network(small: Small, folder: Path, made: list[object]) -> None:
    first, second = qmlir.compile(small.onnx), qmlir.compile(small.onnx)
    assert made == [small.onnx]
    assert second(X).tobytes() == first(X).tobytes()
    assert second.signature == first.signature
    assert second.object == first.object
    assert second.llvm_ir == first.llvm_ir
    assert second.assembly() == first.assembly()
    assert (second.sizes, second.entry, second.machine) == (first.sizes, first.entry, first.machine)
    assert second.weights.tobytes() == first.weights.tobytes()
    assert not second.weights.flags.owndata
    assert second.weights.ctypes.data % cached.ALIGNMENT == 0
    (entry,) = entries(folder)
    entry.unlink()  # as another process may do: what is mapped stays
    assert second(X).tobytes() == first(X).tobytes()
    assert second.llvm_ir == first.llvm_ir


@pytest.mark.slow
def test_whatever_the_code_depends_on_makes_another_entry(
    small: Small, folder: Path, made: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    qmlir.compile(small.onnx)
    qmlir.compile(small.onnx, features="-fma" if "fma" in cached_features() else "-crc32")
    qmlir.compile(small.onnx, cpu=cached_baseline())
    (other := small / "other").mkdir()
    qmlir.compile(write_small(other, scores="points").onnx)
    monkeypatch.setattr(cached, "sources_hash", lambda: "other sources")
    qmlir.compile(small.onnx)
    monkeypatch.setattr(cached, "library_versions", lambda: ["other libraries"])
    qmlir.compile(small.onnx)
    for cpu in ("generic", "cortex-a53"):
        qmlir.compile(small.onnx, cpu=cpu, triple="aarch64-linux-gnu")
    assert len(made) == len(entries(folder)) == 8
    qmlir.compile(small.onnx)
    assert len(made) == 8
    found = qmlir.compile(small.onnx, triple="aarch64-linux-gnu")
    assert len(made) == 8
    with pytest.raises(UnsupportedError, match="runs on aarch64-unknown-linux-gnu only"):
        found(X)


def cached_features() -> frozenset[str]:
    from qmlir.backends.cpu.llvm import enabled

    return enabled(Machine.host())


def cached_baseline() -> str:
    from qmlir.backends.cpu.llvm import baseline

    return baseline().cpu


def test_a_model_under_another_name_is_found(small: Small, folder: Path, made: list[object]) -> None:
    qmlir.compile(small.onnx)
    copy = small / "copy.onnx"
    copy.write_bytes(small.onnx.read_bytes())
    qmlir.compile(str(copy))
    assert len(made) == 1


def test_files_that_a_model_refers_to(small: Small, folder: Path, made: list[object]) -> None:
    """Weights in a side file, of which the model's text does not tell when they change."""
    path = small / "net.mlir"
    qmlir.save(qmlir.Pipeline("simplify")(qmlir.load(small.onnx)), path)
    before = qmlir.compile(path)(X)
    assert qmlir.compile(path)(X).tobytes() == before.tobytes()
    assert len(made) == 1
    side = small / "net.safetensors"
    data = bytearray(side.read_bytes())
    data[-4:] = np.float32(3.5).tobytes()
    side.write_bytes(data)
    after = qmlir.compile(path)(X)
    assert len(made) == 2
    assert after.tobytes() != before.tobytes()
    assert after.tobytes() == qmlir.compile(path, cache=False)(X).tobytes()
    side.unlink()
    with pytest.raises(FileError, match="needs to be there"):
        qmlir.compile(path)


@pytest.mark.slow
def test_damaged_entries_are_replaced(small: Small, folder: Path, made: list[object]) -> None:
    expected = qmlir.compile(small.onnx)(X)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [b"", whole[:7], whole[:60], whole[:-1], whole + b"\0", bytes(len(whole))]
    for place in (0, 20, 50, 60, *rng.integers(0, len(whole), 6).tolist(), len(whole) - 1):
        data = bytearray(whole)
        data[place] ^= 0x10
        damaged.append(bytes(data))
    for number, data in enumerate(damaged, 2):
        entry.write_bytes(data)
        assert qmlir.compile(small.onnx)(X).tobytes() == expected.tobytes()
        assert len(made) == number
        assert entry.read_bytes() == whole


def test_facts_that_are_no_facts_are_replaced(small: Small, folder: Path, made: list[object]) -> None:
    """A sound checksum over nonsense, such as another version might leave."""
    import hashlib

    qmlir.compile(small.onnx)
    (entry,) = entries(folder)
    for facts in (b"[]", b"{}", b'{"files": {}, "sections": {"object": [0, 1]}}', b"\xff", b'{"files": 1}'):
        body = len(facts).to_bytes(8, "little") + facts
        entry.write_bytes(cached.MAGIC + hashlib.sha256(body).digest() + body)
        made.clear()
        qmlir.compile(small.onnx)
        assert len(made) == 1


def test_nothing_is_kept_where_nobody_wants_it(
    small: Small, folder: Path, made: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    qmlir.compile(small.onnx, cache=False)
    for value in ("off", "0", ""):
        monkeypatch.setenv("QMLIR_CACHE", value)
        qmlir.compile(small.onnx)
    assert not folder.exists()
    (small / "file").write_text("no folder")
    monkeypatch.setenv("QMLIR_CACHE", str(small / "file"))
    qmlir.compile(small.onnx)
    assert len(made) == 5
    with pytest.raises(OptionError, match="cache: must be True or False, got 'no'"):
        qmlir.compile(small.onnx, cache="no")  # pyright: ignore[reportArgumentType]


def test_the_default_place_is_that_of_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QMLIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cached.place() == tmp_path / "xdg" / "qmlir"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cached.place() == tmp_path / "home" / ".cache" / "qmlir"
    if os.name == "posix":
        assert (tmp_path / "home" / ".cache" / "qmlir").stat().st_mode & 0o077 == 0


def test_the_least_recently_used_is_removed(
    small: Small, folder: Path, made: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: list[Path] = []
    for name in ("a", "b", "c"):
        (small / name).mkdir()
        networks.append(write_small(small / name, scores=name).onnx)
    a, b, c = networks
    qmlir.compile(a)
    (first,) = entries(folder)
    qmlir.compile(b)
    (second,) = set(entries(folder)) - {first}
    os.utime(first, (1000, 1000))
    os.utime(second, (2000, 2000))
    qmlir.compile(a)  # which is now the last one used
    monkeypatch.setenv("QMLIR_CACHE_BYTES", str(first.stat().st_size + second.stat().st_size + 1000))
    (folder / ".abandoned").write_text("by a process that ended")
    os.utime(folder / ".abandoned", (1000, 1000))
    qmlir.compile(c)
    assert first in entries(folder)
    assert second not in entries(folder)
    assert len(entries(folder)) == 2
    assert not (folder / ".abandoned").exists()
    monkeypatch.setenv("QMLIR_CACHE_BYTES", "10")
    qmlir.compile(b)
    assert len(entries(folder)) == 2
    monkeypatch.setenv("QMLIR_CACHE_BYTES", "1 GB")
    with pytest.raises(OptionError, match="QMLIR_CACHE_BYTES: must be a number of bytes, got 1 GB"):
        qmlir.compile(b)


def test_modules_are_told_by_text_and_weights(folder: Path, made: list[object]) -> None:
    def network(last: float) -> Any:
        values = ", ".join(["0.5"] * 199 + [str(last)])
        text = f"""func.func @main(%x: tensor<200xf32>) -> tensor<200xf32> {{
          %w = nn.constant <tensor<200xf32>, [{values}]> : tensor<200xf32>
          %y = nn.mul %x, %w : tensor<200xf32>, tensor<200xf32> -> tensor<200xf32>
          func.return %y : tensor<200xf32>
        }}"""
        return parse_text(make_context(), text, "test")

    x = np.ones(200, np.float32)
    assert [qmlir.compile(network(last))(x)[-1] for last in (1.5, 1.5, 2.5, 1.5)] == [1.5, 1.5, 2.5, 1.5]
    assert len(made) == 2


def test_warnings_are_given_each_time(folder: Path, small: Small) -> None:
    def make() -> Executable:
        warnings.warn("is odd", QmlirWarning, stacklevel=1)
        return compiler.compile(small.onnx)

    for _ in range(2):
        with pytest.warns(QmlirWarning, match="is odd"):
            cached.kept(small.onnx, {}, Machine.host(), make)
    assert len(entries(folder)) == 1


SCRIPT = """
import json, sys
import qmlir
executable = qmlir.compile(sys.argv[1])
import numpy as np
x = np.load(sys.argv[2])
loaded = [name for name in ("xdsl", "onnx", "pydantic", "qmlir.compiler") if name in sys.modules]
json.dump([executable(x).tolist(), loaded], sys.stdout)
"""


@pytest.mark.slow
def test_processes_side_by_side_and_what_they_import(small: Small, folder: Path) -> None:
    np.save(small / "x.npy", X)
    command = [sys.executable, "-c", SCRIPT, str(small.onnx), str(small / "x.npy")]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    results = [json.loads(process.communicate()[0]) for process in together]
    assert len(entries(folder)) == 1
    assert list(folder.iterdir()) == entries(folder)
    outputs, loaded = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert loaded == []
    assert all(found == outputs for found, _ in results)


@pytest.mark.slow
def test_commands(small: Small, folder: Path, made: list[object]) -> None:
    assert run("run", small.onnx, "--data", small.data, "--no-cache", "-o", small / "a.npz") == 0
    assert not folder.exists()
    for name in ("b", "c"):
        assert run("run", small.onnx, "--data", small.data, "-o", small / f"{name}.npz") == 0
    assert len(made) == 2
    a, b, c = (np.load(small / f"{name}.npz")["scores"] for name in "abc")
    assert a.tobytes() == b.tobytes() == c.tobytes()
    assert run("run", small.onnx, "--data", small.data, "--fold-budget", 1000000) == 0
    assert len(made) == 3
    for _ in range(2):
        assert run("compile", small.onnx, "-o", small / "net.o") == 0
        assert run("compile", small.onnx, "--emit", "asm", "-o", small / "net.s") == 0
    assert len(made) == 4
    kept = [(small / f"net{suffix}").read_bytes() for suffix in (".o", ".h", ".weights.bin", ".s")]
    assert run("compile", small.onnx, "--no-cache", "-o", small / "net.o") == 0
    assert run("compile", small.onnx, "--no-cache", "--emit", "asm", "-o", small / "net.s") == 0
    assert [(small / f"net{suffix}").read_bytes() for suffix in (".o", ".h", ".weights.bin", ".s")] == kept
    assert run("compile", small.onnx, "-o", small / "other.o") == 0
    assert b"other(" in (small / "other.h").read_bytes()


def test_constants_of_a_command(small: Small, folder: Path, made: list[object]) -> None:
    for scale, count in ((1.0, 1), (2.0, 2), (1.0, 2)):
        np.save(small / "image.npy", scale * X)
        command = ("compile", small.onnx, "--constant", f"image={small / 'image.npy'}", "-o", small / "net.o")
        assert run(*command) == 0
        assert len(made) == count


DIALECT = """
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.quant.rules import FreeScale
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, traits_def

@irdl_op_definition
class MoreOp(FunctionOp):
    name = "mine.more"
    traits = traits_def(FreeScale())

    def function(self, x):
        return x + 1.0

MINE = Dialect("mine", [MoreOp])
"""
MORE = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = mine.more %x : tensor<2xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""


@pytest.mark.slow
def test_the_code_of_a_plugins_dialect_counts(site: Path, folder: Path, made: list[object]) -> None:
    """What its operations mean decides about the machine code; the module's text does not say it."""
    install(site, "mine", {DIALECTS: {"mine": "mine_dialect:MINE"}}, {"mine_dialect": DIALECT})
    path = site / "more.mlir"
    path.write_text(MORE, encoding="utf-8")
    program = "import sys, numpy, qmlir; n = qmlir.compile(sys.argv[1]); print(n(numpy.zeros(2, numpy.float32)))"

    def answer() -> str:
        command = [sys.executable, "-c", program, str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert [answer(), answer()] == ["[1. 1.]", "[1. 1.]"]
    assert len(entries(folder)) == 1
    # Of another length: Python itself takes its old bytecode for a file of the same size and the same second.
    (site / "mine_dialect.py").write_text(DIALECT.replace("1.0", "22.0"), encoding="utf-8")
    assert answer() == "[22. 22.]"
    assert len(entries(folder)) == 2
    module = qmlir.load(path)
    qmlir.compile(module)
    assert len(entries(folder)) == 3


def test_operations_that_a_program_defines_are_not_kept(folder: Path, made: list[object]) -> None:
    @irdl_op_definition
    class LessOp(FunctionOp):
        name = "mine.less"
        traits = traits_def(FreeScale())

        def function(self, x: N) -> N:
            return x - 1.0

    module = parse_text(make_context(), MORE.replace("mine.more", "nn.relu"), "x.mlir")
    (relu,) = [op for op in module.walk() if op.name == "nn.relu"]
    Rewriter.replace_op(relu, LessOp.make([relu.operands[0]]))
    for _ in range(2):
        assert qmlir.compile(module)(np.zeros(2, np.float32)).tolist() == [-1, -1]
    assert len(made) == 2
    assert not entries(folder)
