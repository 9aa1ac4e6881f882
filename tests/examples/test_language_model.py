"""The examples of generation: Python, C, node and a page give the same tokens as single calls of the reference."""

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import qmlir
from tests.cli.small import run
from tests.frontends.gguf.files import tiny
from tests.reports.conftest import Browser, chromium

ROWS, PLACES, VOCABULARY, COUNT = 4, 12, 20, 5
PROMPT = [3, 19, 7, 7, 0, 11]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "tiny.gguf").write_bytes(tiny(tied=True))  # the last layer is the embedding
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
    "x86-64-v3": ("cc", ["--cpu", "x86-64-v3"], []),
    "AArch64": ("aarch64-linux-gnu-gcc", ["--cpu", "cortex-a72"], ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
}
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I."]
DYNAMIC = ["--bundle", "--prefix", "net", "--api", "dynamic", "--weights-in", "file", "--memory", "fast"]


def require(*tools: str) -> None:
    """Skips the test where a program is missing."""
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"there is no {missing[0]}")


def built(folder: Path, root: Path, compiler: str, *options: str) -> Path:
    """The C program, beside the files of a network."""
    source = root / "examples" / "language_model" / "generate.c"
    command = [compiler, *STRICT, *options, source, "net.o", "-o", "generate", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def printed(folder: Path, *words: object) -> str:
    """What a program prints."""
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("bundle", [False, True])
@pytest.mark.parametrize("processor", COMPILERS)
def test_c(model: Path, root: Path, tmp_path: Path, processor: str, *, bundle: bool) -> None:
    compiler, options, runner = COMPILERS[processor]
    require(compiler, *runner[:1])
    target = ["-o", tmp_path / "net.o"]
    sizes = [f"-DROWS={ROWS}", f"-DVOCABULARY={VOCABULARY}"]
    if bundle:
        target, sizes = [*DYNAMIC, "-o", tmp_path], []
    assert run("compile", model, *options, *target) == 0
    folder = built(tmp_path, root, compiler, *sizes)
    found = printed(folder, *runner, "./generate", COUNT, *PROMPT)
    assert [int(word) for word in found.split()] == one_by_one(model)


@pytest.mark.slow
def test_c_prints_words(model: Path, root: Path, tmp_path: Path) -> None:
    require("cc")
    assert run("compile", model, *DYNAMIC, "-o", tmp_path) == 0
    folder = built(tmp_path, root, "cc")
    (folder / "own.words").write_bytes(words_file())
    text = "".join(WORDS[token] for token in one_by_one(model))
    assert printed(folder, "./generate", "-w", "own.words", COUNT, *PROMPT) == f"{text}\n"
    (folder / "own.words").write_bytes(words_file()[:-1])
    for wrong in (["-w", "own.words", "1", "0"], ["-w", "none", "1", "0"], ["1", str(VOCABULARY)], ["1"]):
        done = subprocess.run(["./generate", *wrong], cwd=folder, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1


WORDS = [f" é{i}" if i % 2 else f"<{i}>" for i in range(VOCABULARY)]


def words_file() -> bytes:
    return b"".join(bytes([len(word.encode())]) + word.encode() for word in WORDS)


def test_words_of_a_tokenizer(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("words", root / "examples" / "language_model" / "words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(module.spelled()) == len(set(module.spelled().values())) == 256
    assert module.bytes_of("Ġl\u00c3\u00a9", "gpt2") == " l\u00e9".encode()
    assert module.bytes_of("\u010a", "gpt2") == b"\n"
    assert [module.bytes_of(word, "llama") for word in ("▁a", "<0x0A>", "é")] == [b" a", b"\n", "é".encode()]


# -- WebAssembly ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wasm(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for wasm32, linked."""
    require("wasm-ld")
    folder = tmp_path_factory.mktemp("wasm")
    options = ["--bundle", "--cpu", "wasm32", "--weights-in", "file", "--prefix", "net"]
    assert run("compile", model, *options, "-o", folder) == 0
    linking = ["wasm-ld", "--no-entry", "--export-dynamic", "net.o", "-o", "net.wasm"]
    subprocess.run(linking, cwd=folder, check=True)
    return folder


@pytest.mark.slow
def test_node(model: Path, root: Path, wasm: Path) -> None:
    require("node")
    program = root / "examples" / "language_model" / "browser" / "generate.js"
    found = printed(wasm, "node", program, ".", COUNT, *PROMPT)
    assert [int(word) for word in found.split()] == one_by_one(model)
    for words, message in (
        ([".", COUNT, VOCABULARY], f"tokens must be numbers below {VOCABULARY}, not {VOCABULARY}"),
        ([".", COUNT, "x"], f"tokens must be numbers below {VOCABULARY}, not NaN"),
        ([".", PLACES, *PROMPT], f"the context has {PLACES} places, and 0 are left"),
        ([".", 0, 1], "usage: node generate.js FOLDER COUNT TOKEN…"),
    ):
        command = ["node", program, *map(str, words)]
        done = subprocess.run(command, cwd=wasm, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, f"{message}\n")


GO_ON = """
const fs = require("fs");
const { Decoder } = require(process.argv[2]);
(async () => {
  const manifest = JSON.parse(fs.readFileSync("manifest.json"));
  const load = () => Decoder.load(manifest, fs.readFileSync("net.wasm"), [fs.readFileSync("net.weights.bin")]);
  const one = await load(), other = await load();
  const [at, first, second] = [JSON.parse(process.argv[3]), ...JSON.parse(process.argv[4])];
  one.importState({ at, bytes: new Uint8Array(fs.readFileSync("state.bin")) });
  const found = [await one.read([first])];
  other.importState(one.exportState());
  found.push(await one.read([second]), await other.read([second]));
  fs.writeFileSync("after.bin", other.exportState().bytes);
  try { one.importState({ at, bytes: new Uint8Array(3) }); } catch (error) { found.push(error.message); }
  try { await Decoder.load(manifest, fs.readFileSync("net.wasm"), [new Uint8Array(3)]); }
  catch (error) { found.push(error.message); }
  process.stdout.write(JSON.stringify(found));
})();
"""


@pytest.mark.slow
def test_states_go_from_one_processor_to_another(model: Path, root: Path, wasm: Path, tmp_path: Path) -> None:
    """The states that machine code of this processor leaves behind a prompt are those with which wasm32 goes on."""
    require("node")
    exe = qmlir.compile(model)
    manifest = json.loads((wasm / "manifest.json").read_text())

    def kept() -> bytes:
        held = exe.state
        return b"".join(held[state["name"]].tobytes() for state in manifest["states"])

    exe["prefill"]({"token": np.array(PROMPT[:ROWS]), "pos": np.arange(ROWS)})
    for file in ("manifest.json", "net.wasm", "net.weights.bin"):
        (tmp_path / file).write_bytes((wasm / file).read_bytes())
    (tmp_path / "state.bin").write_bytes(kept())
    wanted = [
        int(exe["decode"]({"token": np.array([token]), "pos": np.array([at])}).argmax())
        for at, token in enumerate(PROMPT[ROWS:], ROWS)
    ]
    (tmp_path / "go_on.js").write_text(GO_ON)
    decoder = root / "examples" / "language_model" / "browser" / "decoder.js"
    found = json.loads(printed(tmp_path, "node", "go_on.js", decoder, ROWS, json.dumps(PROMPT[ROWS:])))
    sizes = manifest["sizes"]
    assert found == [
        *wanted, wanted[-1],
        f"the states must have {sizes['state_bytes']} bytes, not 3",
        f"the weights must have {sizes['constants']} bytes, not 3",
    ]  # fmt: skip
    assert (tmp_path / "after.bin").read_bytes() == kept()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require("chromium", "chromedriver")
    with chromium() as opened:
        yield opened


def chosen(browser: Browser, root: Path, files: Sequence[Path]) -> None:
    """Opens the page and chooses files."""
    browser.open(root / "examples" / "language_model" / "browser" / "index.html")
    browser.type("#files", "\n".join(map(str, files)))
    browser.wait("return document.getElementById('state').textContent !== 'Choose the files.'")
    answered(browser)


def answered(browser: Browser) -> None:
    browser.wait("return document.documentElement.dataset.ready === 'true'")


def asked(browser: Browser, prompt: str, count: int) -> str:
    """Asks for tokens as a user does; returns what the page shows."""
    browser.run(f"document.getElementById('prompt').value = '{prompt}'")
    browser.run(f"document.getElementById('count').value = '{count}'")
    browser.click("#write")
    answered(browser)
    return browser.text("#answer")


@pytest.mark.slow
def test_page(model: Path, root: Path, wasm: Path, tmp_path: Path, browser: Browser) -> None:
    files = [wasm / name for name in ("manifest.json", "net.wasm", "net.weights.bin")]
    wanted, prompt = one_by_one(model), " ".join(map(str, PROMPT))
    chosen(browser, root, files)
    assert browser.text("#state") == f"net: {VOCABULARY} tokens, {PLACES} places"
    assert asked(browser, prompt, COUNT).split() == [str(token) for token in wanted]
    assert asked(browser, prompt, COUNT).split() == [str(token) for token in wanted]  # from the first states again
    assert browser.text("#message") == ""
    asked(browser, "3, 77", 1)
    assert browser.text("#message") == f"tokens must be numbers below {VOCABULARY}, not 77"
    asked(browser, prompt, PLACES)
    assert browser.text("#message") == f"the context has {PLACES} places, and 0 are left"
    (tmp_path / "own.words").write_bytes(words_file())
    chosen(browser, root, [*files, tmp_path / "own.words"])
    assert asked(browser, prompt, COUNT) == "".join(WORDS[token] for token in wanted)
    assert browser.complaints() == []


@pytest.mark.slow
def test_page_says_which_files_it_needs(root: Path, wasm: Path, tmp_path: Path, browser: Browser) -> None:
    manifest = json.loads((wasm / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "api": "dynamic"}))
    (tmp_path / "net.weights.bin").write_bytes(b"abc")
    own = {name: wasm / name for name in ("manifest.json", "net.wasm", "net.weights.bin")}
    for files, message in (
        ([own["manifest.json"]], "choose the .wasm file, too"),
        ([own["net.wasm"], own["net.weights.bin"]], "choose manifest.json, too"),
        ([*own.values()][:2], "choose the .weights.bin file, too"),
        ([tmp_path / "manifest.json", *[*own.values()][1:]], "must be made with --api static, not dynamic"),
        ([*[*own.values()][:2], tmp_path / "net.weights.bin"], "bytes, not 3"),
    ):
        browser.open(root / "examples" / "language_model" / "browser" / "index.html")
        browser.type("#files", "\n".join(map(str, files)))
        browser.wait("return document.getElementById('message').textContent !== ''")
        assert message in browser.text("#message")
        assert browser.run("return document.getElementById('write').disabled")
