"""Bad input, through the real drivers: one paragraph on standard error, exit status 1, and no file that was not there.

Each row is a command line, the files it finds, and what the paragraph must say.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from qmlir.cli import main as qmlir_driver
from qmlir.cli import opt
from tests.cli.small import Small, is_one_paragraph, write_small

Break = Callable[[Small], object]


@dataclass(frozen=True)
class Case:
    """A command that must fail.

    command  as typed; {d} is the folder, which is not the working directory
    says     what the error must contain, in order
    change   what is done to the files first
    """

    command: str
    says: tuple[str, ...]
    change: Break = field(default=lambda small: None)


def write(name: str, content: bytes | str) -> Break:
    def change(small: Small) -> None:
        (small / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def cut(name: str, keep: float) -> Break:
    """Keeps the first part of a file."""

    def change(small: Small) -> None:
        data = (small / name).read_bytes()
        (small / name).write_bytes(data[: int(len(data) * keep)])

    return change


def in_folder(small: Small, files: dict[str, bytes]) -> None:
    """Writes a folder of samples."""
    (small / "folder").mkdir()
    for name, content in files.items():
        (small / "folder" / name).write_bytes(content)


def npy(array: np.ndarray) -> bytes:
    """The content of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def save(name: str, **arrays: object) -> Break:
    return lambda small: np.savez(small / name, **arrays)  # pyright: ignore[reportArgumentType]


def with_nan(small: Small) -> None:
    samples = small.samples.copy()
    samples[3, 1, 4, 4] = np.nan
    np.savez(small / "bad.npz", image=samples)


def other_profile(small: Small) -> None:
    text = (small / "p.yaml").read_text()
    (small / "other.yaml").write_text(text.replace("image:", "picture:"))


def edited_profile(small: Small) -> None:
    """A whole profile, but of tensors that this network does not have."""
    from qmlir.profiles.profile import Profile

    found = Profile.empty({"picture": (3, 4, 4), "tail": (2,)})
    found.update({"picture": np.ones((3, 4, 4)), "tail": np.ones(2)})
    found.save(small / "other.yaml")


def empty_profile(small: Small) -> None:
    from qmlir.profiles.profile import Profile

    Profile.empty({"image": (2, 8, 8)}).save(small / "other.yaml")


IMPORT = "qmlir import {d}/small.onnx -o {d}/out.mlir"
PROFILE = "qmlir profile {d}/small.onnx --data {d}/bad.npz -o {d}/out.yaml"
QUANTIZE = "qmlir quantize {d}/small.onnx --profile {d}/p.yaml -o {d}/out.mlir"
RUN = "qmlir run {d}/small.onnx --reference --data {d}/bad.npz -o {d}/out.npz"
OPT = "qmlir-opt {d}/s.mlir -o {d}/out.mlir "

ELSEWHERE = "{d}/other.yaml"

CASES = {
    # Models
    "truncated model": Case(IMPORT, ("small.onnx:",), cut("small.onnx", 0.5)),
    "almost whole model": Case(IMPORT, ("small.onnx:",), cut("small.onnx", 0.999)),
    "bytes that are no ONNX": Case(IMPORT, ("small.onnx:", "ONNX"), write("small.onnx", b"\x89PNG\r\n\x1a\n" * 9)),
    "text that is no ONNX": Case(IMPORT, ("small.onnx:", "ONNX"), write("small.onnx", "hello, world\n" * 9)),
    "empty model": Case(IMPORT, ("small.onnx:", "empty"), write("small.onnx", "")),
    "no model": Case("qmlir import {d}/none.onnx -o {d}/out.mlir", ("none.onnx:", "no such file")),
    "a folder for a model": Case(
        "qmlir import {d} -o {d}/out.mlir", ("must be an .onnx, a .tflite, a .gguf or an .mlir file",)
    ),
    "a folder called as a model": Case(
        "qmlir import {d}/f.onnx -o {d}/out.mlir", ("f.onnx:", "a folder"), lambda s: (s / "f.onnx").mkdir()
    ),
    "another kind of file": Case(
        "qmlir import {d}/data.npz -o {d}/out.mlir", ("data.npz: must be an .onnx, a .tflite, a .gguf or",)
    ),
    "no TFLite": Case(
        "qmlir import {d}/n.tflite -o {d}/out.mlir",
        ("n.tflite:", "must be a TFLite file"),
        write("n.tflite", "hello, world"),
    ),
    "half a TFLite file": Case(
        "qmlir-opt {d}/n.tflite",
        ("n.tflite:", "must be a whole flatbuffer"),
        write("n.tflite", b"\x40\0\0\0TFL3" + bytes(20)),
    ),
    "text that is no MLIR": Case(
        "qmlir import {d}/s.mlir -o {d}/out.mlir", ("s.mlir:1:1:",), write("s.mlir", "% what")
    ),
    "an IR that does not verify": Case(
        "qmlir run {d}/s.mlir --data {d}/data.npz",
        ("s.mlir:2:", "nn.relu"),
        write(
            "s.mlir",
            "func.func @main(%x: tensor<4xf32>) -> tensor<3xf32> {\n  %0 = nn.relu %x : tensor<4xf32> -> "
            "tensor<3xf32>\n  func.return %0 : tensor<3xf32>\n}\n",
        ),
    ),
    "an IR without a network": Case(
        "qmlir run {d}/s.mlir --data {d}/data.npz", ("must have one public function",), write("s.mlir", "")
    ),
    "an unknown operation in the IR": Case(
        "qmlir quantize {d}/s.mlir -o {d}/out.mlir",
        (
            "s.mlir:2:",
            "nn.rellu is not registered; did you mean nn.relu",
        ),
        write("s.mlir", "func.func @main(%x: tensor<4xf32>) {\n  nn.rellu %x\n}\n"),
    ),
    "an unknown dimension": Case(IMPORT + " --bind batch=4", ("batch",)),
    "a constant of no input": Case(
        IMPORT + " --constant imgae={d}/data.npz:image", ("constant imgae: must be bound to an input", "image")
    ),
    "a constant that does not fit": Case(
        IMPORT + " --constant image={d}/data.npz:image",
        ("constant image: must be float32 [1, 2, 8, 8], got float32 [6, 2, 8, 8]",),
    ),
    "a constant of no file": Case(IMPORT + " --constant image={d}/none.npy", ("none.npy:", "no such file")),
    "a constant of several arrays": Case(
        IMPORT + " --constant image={d}/bad.npz",
        ("bad.npz: must hold one array, got 2", "bad.npz:ARRAY"),
        save("bad.npz", a=np.zeros(1), b=np.zeros(1)),
    ),
    "bad constant": Case(IMPORT + " --constant image", ("--constant: must be NAME=FILE, got image",)),
    # Side files
    "no side file": Case(
        "qmlir run {d}/q.mlir --data {d}/data.npz",
        ("q.safetensors: needs to be there",),
        lambda s: (s / "q.safetensors").unlink(),
    ),
    "truncated side file": Case(
        "qmlir run {d}/q.mlir --data {d}/data.npz",
        ("q.safetensors: must be a safetensors file",),
        cut("q.safetensors", 0.6),
    ),
    "side file of another module": Case(
        OPT.replace("s.mlir", "q.mlir"),
        ("q.safetensors: must hold the tensor",),
        lambda s: (s / "q.safetensors").write_bytes((s / "other.safetensors").read_bytes()),
    ),
    # Samples
    "wrong shape": Case(
        RUN,
        ('input "image": needs samples of float32[1, 2, 8, 8]', "got an array float64[6, 2, 8, 9]"),
        save("bad.npz", image=np.zeros((6, 2, 8, 9))),
    ),
    "channels last": Case(RUN, ('input "image": needs samples',), save("bad.npz", image=np.zeros((6, 8, 8, 2)))),
    "wrong dtype": Case(
        RUN, ('input "image": needs samples', "complex128"), save("bad.npz", image=np.zeros((6, 2, 8, 8), complex))
    ),
    "wrong name": Case(
        RUN,
        ('must hold an array for input "image" float32[1, 2, 8, 8]', '"imgae"', '"label"'),
        save("bad.npz", imgae=np.zeros((6, 2, 8, 8)), label=np.zeros((6, 2, 8, 8))),
    ),
    "no arrays": Case(RUN, ('must hold an array for input "image"', "got no arrays"), save("bad.npz")),
    "no samples": Case(
        PROFILE, ("bad.npz: must hold at least one sample, got none",), save("bad.npz", image=np.zeros((0, 2, 8, 8)))
    ),
    "no samples to run": Case(
        RUN, ("bad.npz: must hold at least one sample, got none",), save("bad.npz", image=np.zeros((0, 2, 8, 8)))
    ),
    "NaN in calibration data": Case(PROFILE, ('tensor "image": must stay finite', "got NaN on sample 3"), with_nan),
    "objects": Case(
        RUN,
        ("bad.npz: must be an .npy or .npz file of plain arrays",),
        save("bad.npz", image=np.array([{}, []], object)),
    ),
    "truncated samples": Case(RUN.replace("bad", "data"), ("data.npz: must be an .npy or .npz",), cut("data.npz", 0.5)),
    "text for samples": Case(RUN, ("bad.npz: must be an .npy or .npz",), write("bad.npz", "1, 2, 3\n")),
    "empty file for samples": Case(RUN, ("bad.npz: must be an .npy or .npz",), write("bad.npz", "")),
    "no file of samples": Case(RUN, ("bad.npz:", "no such file")),
    "a folder for samples": Case(
        RUN,
        ("bad.npz: must be a folder of samples of one kind, got an empty folder",),
        lambda s: (s / "bad.npz").mkdir(),
    ),
    "a folder of several kinds": Case(
        RUN.replace("bad.npz", "folder"),
        ("folder: must be a folder of samples of one kind, got a.bin, b.npy",),
        lambda s: in_folder(s, {"a.bin": b"", "b.npy": b""}),
    ),
    "a folder of texts": Case(
        RUN.replace("bad.npz", "folder"),
        ("folder: must be a folder of samples of one kind, got a.txt",),
        lambda s: in_folder(s, {"a.txt": b"1 2 3"}),
    ),
    "a file of a folder that does not fit": Case(
        RUN.replace("bad.npz", "folder"),
        ('input "image": needs samples of float32[1, 2, 8, 8]', "b.npy"),
        lambda s: in_folder(s, {"a.npy": npy(np.zeros((2, 8, 8))), "b.npy": npy(np.zeros((2, 8, 9)))}),
    ),
    "raw samples of another size": Case(
        RUN.replace("bad.npz", "bad.bin"),
        ("bad.bin: must hold samples of 512 bytes: float32[1, 2, 8, 8], got 500 bytes",),
        write("bad.bin", bytes(500)),
    ),
    "raw samples of another type": Case(
        RUN.replace("bad.npz", "bad.bin") + " --dtype complex64",
        ('--dtype: must fit input "image" float32[1, 2, 8, 8], got complex64',),
        write("bad.bin", bytes(512)),
    ),
    "raw samples of no type": Case(
        RUN + " --dtype unit8", ("--dtype: must be a numpy type, such as uint8, got unit8",)
    ),
    "no raw samples": Case(RUN.replace("bad.npz", "none.bin"), ("none.bin: must be readable, got no such file",)),
    "a picture without preprocessing": Case(
        RUN.replace("bad.npz", "a.png"), ("a.png: needs to be told how pixels become numbers", "--preprocess")
    ),
    "a picture for an input of two channels": Case(
        RUN.replace("bad.npz", "a.png") + " --preprocess scale=1",
        ('input "image": float32[1, 2, 8, 8] must have 1 or 3 channels in one place, got no place',),
        write("a.png", b"no picture"),
    ),
    "an unknown preprocessing": Case(
        RUN.replace("bad.npz", "a.png") + " --preprocess reszie=8",
        ('--preprocess: has no option "reszie"; did you mean resize?',),
    ),
    # Profiles
    "no profile": Case(QUANTIZE.replace("p.yaml", "none.yaml"), ("none.yaml: must be a readable profile",)),
    "profile of another model": Case(
        QUANTIZE.replace("p.yaml", "other.yaml"),
        ("must be of this network, whose tensors", '"picture", "tail"', "profile this model"),
        edited_profile,
    ),
    "edited profile": Case(
        QUANTIZE.replace("p.yaml", "other.yaml"),
        ("other.yaml:2:12: must be a whole profile", "its tensors are not those"),
        other_profile,
    ),
    "a profile whose minimum is above its maximum": Case(
        QUANTIZE.replace("p.yaml", "other.yaml"),
        ("other.yaml:4:19: must be a whole profile, got", 'tensor "image": range [2.0, 1.0] is not two finite'),
        write(
            "other.yaml",
            "format: qmlir-profile-1\ntensors:\n  image:\n    range: [2.0, 1.0]\n".replace("    r", "           r"),
        ),
    ),
    "a profile of other shapes": Case(
        QUANTIZE.replace("p.yaml", "other.yaml"),
        ("must be of this network, whose tensors", '"image" is of shape [2, 9] there, [2, 8, 8] here'),
        write("other.yaml", "format: qmlir-profile-1\ntensors:\n  image: {shape: [2, 9], range: [1.0, 2.0]}\n"),
    ),
    "profiles of two models to merge": Case(
        "qmlir profile merge {d}/p.yaml {d}/other.yaml -o {d}/out.yaml",
        ("other.yaml: must be of the same network, with at most 2000 bins, got one of 2 tensors",),
        edited_profile,
    ),
    "nothing to merge": Case("qmlir profile merge -o {d}/out.yaml", ("required: PROFILE",)),
    "empty profile": Case(QUANTIZE.replace("p.yaml", "other.yaml"), ("must hold at least one sample",), empty_profile),
    "truncated profile": Case(QUANTIZE, ("p.yaml:", "must be a"), cut("p.yaml", 0.7)),
    "corrupt profile": Case(QUANTIZE, ("p.yaml:2:3: must be a profile in YAML",), write("p.yaml", "a: [1\n b: }\n")),
    "binary profile": Case(QUANTIZE, ("p.yaml: must be a profile in YAML",), write("p.yaml", b"\xff\xfe\x00\x01")),
    "a model for a profile": Case(QUANTIZE.replace("p.yaml", "small.onnx"), ("small.onnx: must be a profile",)),
    "no ranges in the IR": Case(
        "qmlir quantize {d}/small.onnx -o {d}/out.mlir", ("--data: must give samples", "--profile")
    ),
    "no ranges in the IR of qmlir-opt": Case(
        "qmlir-opt --quantize {d}/small.onnx -o {d}/out.mlir", ("quantize: needs ranges",)
    ),
    "float that must not be": Case(
        QUANTIZE + " --policy {d}/float.yaml --fail-on-float",
        ("quantize: must leave no operation float", 'nn.fully_connected "dense1"'),
        write("float.yaml", "rules:\n  - {name: dense1, keep-float: true}\n"),
    ),
    # Policies and ledgers; what a policy can say wrong is in test_policy.py
    "no policy": Case(
        QUANTIZE + " --policy {d}/none.yaml", ("none.yaml: must be a readable policy, got no such file",)
    ),
    "malformed policy": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:2:3: must be a policy in YAML, got a mistake",),
        write("bad.yaml", "rules: [\n  - {name: x}\n"),
    ),
    "a policy that says what there is not": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:3:5: there is no such setting, got precison; did you mean precision",),
        write("bad.yaml", "rules:\n  - name: conv1\n    precison: int8\n"),
    ),
    "a policy for another network": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:1:9: must match an operation or a tensor by name, got conv7; did you mean conv1?",),
        write("bad.yaml", "rules: [{name: conv7, precision: int8}]\n"),
    ),
    "a policy that cannot be honoured": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:1:9:", 'nn.max_pool2d "pool1+flatten1" cannot have bias int32: it has no weights'),
        write("bad.yaml", "rules: [{kind: '*pool*', bias: int32}]\n"),
    ),
    "fixed parameters out of range": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:1:9:", 'input "image" cannot have parameters (0.5, 200): zero point 200 is no int8'),
        write("bad.yaml", "rules: [{name: image, parameters: [0.5, 200]}]\n"),
    ),
    "a rule that contradicts another": Case(
        QUANTIZE + " --policy {d}/bad.yaml",
        ("bad.yaml:3:3:", "it has a fixed range and fixed parameters, of which one has to go"),
        write("bad.yaml", "rules:\n- {name: image, parameters: [0.5, 0]}\n- {name: image, range: [0, 1]}\n"),
    ),
    "an option that contradicts the policy": Case(
        QUANTIZE + " --schema symmetric_with_uint8 --policy {d}/bad.yaml",
        ("schema: must not contradict the policy's default, symmetric, got symmetric_with_uint8",),
        write("bad.yaml", "default: {schema: symmetric}\n"),
    ),
    "a rule of one word": Case(QUANTIZE + " --rule conv1", ('rule "conv1": is written key=value',)),
    "no ledger": Case("qmlir ledger {d}/none.json", ("none.json: must be a ledger, got no such file",)),
    "a ledger that is no JSON": Case(
        "qmlir ledger {d}/bad.json", ("bad.json:1:2: must be a ledger, got a mistake",), write("bad.json", "{'a': 1}")
    ),
    "a ledger of other rows": Case(
        "qmlir ledger diff {d}/q.mlir {d}/bad.json",
        ("bad.json: must be a ledger: a list of rows with node, operation", "got another row 0"),
        write("bad.json", '[{"node": "a"}]'),
    ),
    "an analysis of another network": Case(
        "qmlir analyze {d}/small.onnx {d}/s.mlir --data {d}/data.npz",
        ("the networks must have tensors of the same names",),
    ),
    # Options
    "no command": Case("qmlir --quiet", ("required: COMMAND",)),
    "unknown command": Case("qmlir quantise x", ("quantise: there is no such command; did you mean quantize?",)),
    "unknown option": Case(
        QUANTIZE + " --shema symmetric", ("--shema: qmlir quantize has no such option; did you mean --schema?",)
    ),
    "bad value": Case(
        QUANTIZE + " --schema symetric",
        (
            "--schema: must be one of",
            "did you mean symmetric",
        ),
    ),
    "bad precision": Case(
        QUANTIZE + " --precision int4",
        (
            "--precision: must be one of",
            "did you mean int8",
        ),
    ),
    "bad number": Case(PROFILE + " --samples many", ("--samples: must be a positive number, got many",)),
    "no bins": Case(PROFILE.replace("bad", "data") + " --bins 1", ("bins: must be at least 2, got 1",)),
    "bad binding": Case(IMPORT + " --bind N", ("--bind: must be NAME=N with a positive number, got N",)),
    "two models": Case(IMPORT + " {d}/small.onnx", ("there can be one model only",)),
    "no output": Case("qmlir import {d}/small.onnx", ("required: -o/--output",)),
    "output of another kind": Case("qmlir import {d}/small.onnx -o {d}/out.txt", ("ends in .mlir, got",)),
    "code of another kind": Case(
        "qmlir compile {d}/q.mlir -o {d}/out.h", ("--output: must end in .o with --emit obj",)
    ),
    "bad kind of code": Case("qmlir compile {d}/q.mlir --emit elf -o {d}/out.o", ("--emit: must be one of", "obj")),
    "unknown pass": Case(OPT + "--quantise", ("--quantise: there is no such pass or flag; did you mean --quantize",)),
    "unknown pass in a pipeline": Case(
        OPT + "--pass-pipeline=builtin.module(chose-scales)", ("chose-scales", "choose-scales")
    ),
    "unknown option of a pass": Case(OPT + "--quantize=shema=symmetric", ("shema", "schema")),
    "bad value of a pass option": Case(OPT + "--quantize=schema=symetric", ("symetric", "symmetric")),
    "bad truth of a pass option": Case(OPT + "--quantize=per-channel=maybe", ("per-channel", "maybe")),
    # Outputs
    "import to nowhere": Case("qmlir import {d}/small.onnx -o {d}/none/out.mlir", ("none/out.mlir: must be writable",)),
    "profile to nowhere": Case(
        "qmlir profile {d}/small.onnx --data {d}/data.npz -o {d}/none/p", ("none/p: must be writable",)
    ),
    "quantize to nowhere": Case(QUANTIZE.replace("out.mlir", "none/out.mlir"), ("none/out.mlir: must be writable",)),
    "quantize with a ledger to nowhere": Case(
        QUANTIZE + " --ledger {d}/none/l.json", ("none/l.json: must be writable",)
    ),
    "quantize to nowhere with a ledger": Case(
        QUANTIZE.replace("out.mlir", "none/out.mlir") + " --ledger {d}/l.json", ("none/out.mlir: must be writable",)
    ),
    "compile to nowhere": Case("qmlir compile {d}/q.mlir -o {d}/none/q.o", ("none/", "must be writable")),
    "export to nowhere": Case(
        "qmlir export {d}/q.mlir --format=tflite -o {d}/none/q.tflite", ("none/q.tflite: must be writable",)
    ),
    "export under another format's name": Case(
        "qmlir export {d}/q.mlir --format=tflite -o {d}/q.onnx", ("q.onnx: must be the name of a .tflite file",)
    ),
    "export to TFLite with an opset": Case(
        "qmlir export {d}/q.mlir --format=tflite --opset=17 -o {d}/q.tflite",
        ("--opset: is for .onnx files, got -o", "leave it out"),
    ),
    "export to TFLite what it lacks": Case(
        "qmlir export {d}/s.mlir --format=tflite -o {d}/s.tflite",
        ('nn.erf "nn.erf": must be a function that TFLite has', "quantize it to bytes, or rewrite the model"),
        write(
            "s.mlir",
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %y = nn.erf %x : tensor<4xf32> -> tensor<4xf32>\n  func.return %y : tensor<4xf32>\n}\n",
        ),
    ),
    "run to nowhere": Case(
        RUN.replace("bad", "data").replace("out.npz", "none/y.npz"), ("none/y.npz: must be writable",)
    ),
    "a folder for an output": Case(
        "qmlir import {d}/small.onnx -o {d}/f.mlir",
        ("f.mlir: must be writable, got a folder",),
        lambda s: (s / "f.mlir").mkdir(),
    ),
    "print large weights": Case("qmlir-opt {d}/small.onnx", ("cannot be printed by itself", "write it with -o FILE")),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its data, its profile, and the quantized model."""
    folder = tmp_path_factory.mktemp("prepared")
    small = write_small(folder)
    for command in (
        "qmlir profile {d}/small.onnx --data {d}/data.npz -o {d}/p.yaml",
        "qmlir quantize {d}/small.onnx --profile {d}/p.yaml -o {d}/q.mlir",
        "qmlir import {d}/small.onnx -o {d}/other.mlir",
    ):
        assert run(command, small.folder) == 0
    (folder / "s.mlir").write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n"
    )
    return folder


def run(command: str, folder: Path) -> int:
    program, *arguments = (word.replace("{d}", str(folder)) for word in command.split())
    return {"qmlir": qmlir_driver.main, "qmlir-opt": opt.main}[program](arguments)


@pytest.mark.parametrize("name", CASES)
def test_bad_input(
    name: str, prepared: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    small = Small(tmp_path, tmp_path / "small.onnx", tmp_path / "data.npz", np.load(prepared / "data.npz")["image"])
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    case.change(small)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = listing(tmp_path)
    capfd.readouterr()
    assert run(case.command, tmp_path) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: "), err
    assert err.endswith("\n")
    assert is_one_paragraph(err)
    assert "Traceback" not in err
    assert "bug" not in err
    rest = err
    for words in case.says:
        assert words in rest, f"{words!r} in {err!r}"
        rest = rest.partition(words)[2]
    assert listing(tmp_path) == before


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its contents, and every folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


def test_a_sample_that_does_not_fit_at_run_time() -> None:
    """The Python API says the same as the drivers; see tests/ir/test_signature.py for all of it."""
    import qmlir
    from qmlir.errors import InputError
    from tests.transforms.quantize.calibrated import parsed

    executable = qmlir.compile(
        parsed("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n")
    )
    with pytest.raises(InputError, match=r'input "input0": must be float32\[4\], got float32\[5\]'):
        executable(np.zeros(5, np.float32))
