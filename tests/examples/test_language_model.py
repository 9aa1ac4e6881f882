"""The examples of generation: Python and C give the same tokens as single calls of the reference."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import qmlir
from tests.cli.small import run
from tests.frontends.gguf.files import tiny

ROWS, PLACES, VOCABULARY, COUNT = 4, 12, 20, 5
PROMPT = [3, 19, 7, 7, 0, 11]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "tiny.gguf").write_bytes(tiny())
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (9, ROWS))
    places = np.arange(9 * ROWS).reshape(9, ROWS) % PLACES
    np.savez(folder / "texts.npz", token=tokens, pos=places)
    words = ["--bind", f"context={PLACES}", "--entries", f"prefill:rows={ROWS},decode:rows=1", "--no-measure"]
    words += ["--data", folder / "texts.npz", "--sequence", PLACES // ROWS]
    assert run("quantize", folder / "tiny.gguf", *words, "-o", folder / "model.mlir") == 0
    return folder / "model.mlir"


@pytest.fixture
def example(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", root / "examples" / "language_model" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_by_one(model: Path) -> list[int]:
    """The tokens that the reference finds, each token a call."""
    decode, tokens = qmlir.reference(model)["decode"], list(PROMPT)
    for at in range(len(PROMPT) + COUNT - 1):
        found = decode({"token": np.array(tokens[at : at + 1]), "pos": np.array([at])})
        if at >= len(PROMPT) - 1:
            tokens.append(int(found.argmax()))
    return tokens[len(PROMPT) :]


@pytest.mark.slow
def test_python(model: Path, example: ModuleType) -> None:
    wanted = one_by_one(model)
    assert list(example.generate(qmlir.compile(model), PROMPT, COUNT)) == wanted
    assert list(example.generate(qmlir.reference(model), PROMPT, COUNT)) == wanted


COMPILERS = {
    "x86-64": ("cc", [], []),
    "AArch64": ("aarch64-linux-gnu-gcc", ["--cpu", "cortex-a72"], ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("processor", COMPILERS)
def test_c(model: Path, root: Path, tmp_path: Path, processor: str) -> None:
    compiler, options, runner = COMPILERS[processor]
    if missing := [tool for tool in (compiler, *runner[:1]) if shutil.which(tool) is None]:
        pytest.skip(f"there is no {missing[0]}")
    assert run("compile", model, *options, "-o", tmp_path / "net.o") == 0
    source = root / "examples" / "language_model" / "generate.c"
    sizes = [f"-DROWS={ROWS}", f"-DVOCABULARY={VOCABULARY}"]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", *sizes, source, "net.o", "-o", "generate", "-lm"]
    subprocess.run([compiler, *strict], cwd=tmp_path, check=True)
    words = [*runner, "./generate", str(COUNT), *map(str, PROMPT)]
    printed = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert [int(word) for word in printed.split()] == one_by_one(model)
