"""SmolLM2-135M-Instruct on integers: bundles for other processors write the same tokens as the reference.

`QMLIR_LLM` names the .gguf file; without it the tests are skipped. Long forms take all 30 layers, others the first 2.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.cli.small import run
from tests.conftest import THOROUGH
from tests.frontends.gguf.test_real_model import first_layers

LAYERS = 30 if THOROUGH else 2
PLACES, ROWS = 64, 16
PROMPT = [1, 1041, 761, 260, 6330, 282, 253, 4649]
"""Any tokens: what is compared are bits."""

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I."]
PROCESSORS = {
    "x86-64-v3": ("cc", [], 16),
    "cortex-a72": ("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"], 4),
}
"""Processor → its C compiler, what runs its programs, and how many tokens it writes: an emulator is slow."""

MOST = max(count for *_, count in PROCESSORS.values())


@pytest.fixture(scope="module", params=["int8", "int4"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layers of the model with weights of a precision, for prompts and for single tokens."""
    given = os.environ.get("QMLIR_LLM")
    if given is None:
        pytest.skip("QMLIR_LLM names no .gguf file")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "model.gguf").write_bytes(first_layers(Path(given), LAYERS))
    tokens = np.random.default_rng(0).integers(0, 49152, (2 * PLACES // ROWS, ROWS))
    np.savez(folder / "texts.npz", token=tokens, pos=np.arange(tokens.size).reshape(tokens.shape) % PLACES)
    words = ["--bind", f"context={PLACES}", "--entries", f"prefill:rows={ROWS},decode:rows=1", "--no-measure"]
    words += ["--data", folder / "texts.npz", "--sequence", PLACES // ROWS, "--weight-precision", request.param]
    assert run("quantize", folder / "model.gguf", *words, "-o", folder / "model.mlir") == 0
    return folder / "model.mlir"


@pytest.fixture(scope="module")
def wanted(model: Path) -> list[int]:
    """The tokens that the reference writes behind the prompt, token by token."""
    decode, tokens = qmlir.reference(model)["decode"], list(PROMPT)
    for at in range(len(PROMPT) + MOST - 1):
        found = decode({"token": np.array(tokens[at : at + 1]), "pos": np.array([at])})
        if at >= len(PROMPT) - 1:
            tokens.append(int(found.argmax()))
    return tokens[len(PROMPT) :]


def require(*tools: str) -> None:
    """Skips the test where a program is missing."""
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"there is no {missing[0]}")


def written(folder: Path, *command: object) -> list[int]:
    """The tokens that a program prints."""
    words = [str(word) for word in command]
    found = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
    return [int(word) for word in found.split()]


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("processor", PROCESSORS)
def test_programs_write_the_tokens_of_the_reference(
    processor: str, model: Path, wanted: list[int], root: Path, tmp_path: Path
) -> None:
    """The prompt is read in a call of many rows."""
    compiler, runner, count = PROCESSORS[processor]
    require(compiler, *runner[:1])
    options = ["--bundle", "--prefix", "net", "--memory", "fast", "--weights-in", "file", "--api", "dynamic"]
    assert run("compile", model, *options, "--cpu", processor, "-o", tmp_path) == 0
    source = root / "examples" / "language_model" / "generate.c"
    subprocess.run([compiler, *STRICT, source, "net.o", "-o", "generate", "-lm"], cwd=tmp_path, check=True)
    assert written(tmp_path, *runner, "./generate", count, *PROMPT) == wanted[:count]


@pytest.mark.slow
@pytest.mark.models
def test_web_assembly_writes_the_tokens_of_the_reference(
    model: Path, wanted: list[int], root: Path, tmp_path: Path
) -> None:
    require("node", "wasm-ld")
    options = ["--bundle", "--prefix", "net", "--memory", "fast", "--weights-in", "file"]
    assert run("compile", model, *options, "--cpu", "wasm32", "-o", tmp_path) == 0
    linking = ["wasm-ld", "--no-entry", "--export-dynamic", "net.o", "-o", "net.wasm"]
    subprocess.run(linking, cwd=tmp_path, check=True)
    program = root / "examples" / "language_model" / "browser" / "generate.js"
    assert written(tmp_path, "node", program, ".", MOST, *PROMPT) == wanted
