"""Remedies about files: models, modules and their side files, profiles, programs, samples."""

import struct
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.onnx import load_onnx
from qmlir.samples import arrays
from tests.frontends.caffe2.nets import made, weights
from tests.frontends.gguf.files import tiny
from tests.frontends.onnx.agreement import floats, model, node
from tests.remedies.case import Action, Case, both, check, command, write


def load(name: str, **options: object) -> Action:
    return lambda folder: qmlir.load(folder / name, **options)  # type: ignore[arg-type]


def truncated(name: str, size: int = -7) -> Action:
    """Cuts a file off."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def patched(name: str, at: int, data: bytes) -> Action:
    def run(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[at : at + len(data)] = data
        (folder / name).write_bytes(content)

    return run


def with_few_packed(action: Action) -> Action:
    """An action where an array of 8 packed bytes is too large."""

    def run(folder: Path) -> None:
        with patch.object(arrays, "MOST_PACKED", 8):
            action(folder)

    return run


def save(name: str, proto: onnx.ModelProto) -> Action:
    return lambda folder: onnx.save(proto, folder / name)


def external(folder: Path) -> onnx.ModelProto:
    """Saves ext.onnx with its weights in ext.data; the model whose weights are there."""
    proto = model(node("MatMul", "x w"), {"x": [1, 8]}, {"w": floats(8, 300)})
    onnx.save(proto, folder / "ext.onnx", save_as_external_data=True, location="ext.data")
    return onnx.load(folder / "ext.onnx", load_external_data=False)


def changed(change: str) -> onnx.ModelProto:
    """A small model with something wrong."""
    proto = model(node("Relu", "x"), {"x": [1, 8]})
    match change:
        case "no shape":
            proto.graph.input[0].type.tensor_type.ClearField("shape")
        case "too large":
            proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 45
        case "no opset":
            del proto.opset_import[:]
        case "text":
            proto.graph.output.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
            proto.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [1], [b"a"]))  # type: ignore[arg-type]
        case _:
            pass
    return proto


WHOLE = changed("nothing")
SYMBOLIC = model(node("Relu", "x"), {"x": [1, "S"]})
WRONG_AXIS = model(node("Softmax", "x", axis=7), {"x": [1, 8]})
UNKNOWN = model(helper.make_node("Own", ["x"], ["y"], domain="own"), {"x": [1, 8]})
UNKNOWN.opset_import.append(helper.make_opsetid("own", 1))
SCALED = both(save("m.onnx", WHOLE), load("m.onnx"))

ONNX = {
    "check the path": Case(load("nat.onnx"), load("net.onnx")),
    "name the file in it": Case(
        lambda folder: qmlir.load((folder / "f.onnx").mkdir() or folder / "f.onnx"),
        lambda folder: qmlir.load((folder / "net.onnx").rename(folder / "f.onnx" / "net.onnx")),
    ),
    "save or download the model again": Case(both(save("m.onnx", WHOLE), truncated("m.onnx"), load("m.onnx")), SCALED),
    "load the model by its path": Case(lambda f: load_onnx(external(f)), load("ext.onnx")),
    "copy the side file into the model's folder": Case(
        lambda f: (external(f), (f / "ext.data").rename(f / "kept"), qmlir.load(f / "ext.onnx")),
        lambda f: ((f / "kept").rename(f / "ext.data"), qmlir.load(f / "ext.onnx")),
    ),
    "export the model again": Case(both(save("m.onnx", WRONG_AXIS), load("m.onnx")), SCALED),
    "export the model with input shapes": Case(both(save("m.onnx", changed("no shape")), load("m.onnx")), SCALED),
    "export the model with other input shapes": Case(
        both(save("m.onnx", changed("too large")), load("m.onnx")), SCALED
    ),
    "remove it from the model": Case(both(save("m.onnx", changed("text")), load("m.onnx")), SCALED),
    "it has none": Case(load("net.onnx", bind={"N": 1}), load("net.onnx")),
    "give …, or in Python bind={…}": Case(
        both(save("m.onnx", SYMBOLIC), load("m.onnx")),
        both(load("m.onnx", bind={"S": 4}), command("import m.onnx --bind S=4 -o m.mlir")),
    ),
    "replace them in the model, or cut the model before them": Case(
        both(save("m.onnx", UNKNOWN), lambda f: qmlir.compile(f / "m.onnx")),
        both(save("m.onnx", WHOLE), lambda f: qmlir.compile(f / "m.onnx")),
    ),
    "it is made for one runtime: give the .onnx or .tflite file that it was made from": Case(
        both(write("net.engine", b"ftrt"), load("net.engine")), load("net.onnx")
    ),
    "it holds weights without a network: export the model that reads them to .onnx": Case(
        load("big.safetensors"), load("big.onnx")
    ),
    "rename it if it is one of these": Case(
        lambda f: qmlir.load((f / "net.onnx").rename(f / "net.model")),
        lambda f: qmlir.load((f / "net.model").rename(f / "net.onnx")),
    ),
}

LANGUAGE = tiny(layers=1)
NARROW = tiny(kind="Q4_0", layers=1)
IN_LANGUAGE = both(write("m.gguf", LANGUAGE), load("m.gguf"))

GGUF = {
    "download or write the file again": Case(
        both(write("m.gguf", LANGUAGE), truncated("m.gguf"), load("m.gguf")), IN_LANGUAGE
    ),
    "convert the model again by the newest release of its converter": Case(
        both(write("m.gguf", LANGUAGE), patched("m.gguf", 4, b"\1"), load("m.gguf")), IN_LANGUAGE
    ),
    "quantize the model to one of these types": Case(
        both(write("m.gguf", NARROW.replace(struct.pack("<IQ", 2, 0), struct.pack("<IQ", 10, 0), 1)), load("m.gguf")),
        both(write("m.gguf", NARROW), load("m.gguf")),
    ),
    "export the model to .onnx, with a cache of fixed size": Case(
        both(write("m.gguf", tiny("gemma2", layers=1)), load("m.gguf")), both(save("m.onnx", WHOLE), load("m.onnx"))
    ),
}

TFLITE = {
    "copy or export it again": Case(
        both(
            command("export q.mlir --format tflite -o q.tflite"), patched("q.tflite", 0, b"\xff" * 4), load("q.tflite")
        ),
        both(command("export q.mlir --format tflite -o q.tflite"), load("q.tflite")),
    ),
    "leave it out for the first subgraph": Case(
        both(command("export q.mlir --format tflite -o q.tflite"), load("q.tflite", signature="zzzzz")),
        load("q.tflite"),
    ),
}

NET = made(("Mul", "data w", "y"), outputs="y", inputs="data w")
INIT = made(*weights(w=np.ones(2, np.float32)))


def nets(folder: Path) -> None:
    """Writes a Caffe2 net and its init net."""
    (folder / "net.pb").write_bytes(NET)
    (folder / "init.pb").write_bytes(INIT)


READ = both(nets, lambda f: qmlir.load(f / "net.pb", weights=f / "init.pb", shapes={"data": (1, 2)}))
READ_BY_COMMAND = both(READ, command("import net.pb --weights init.pb --shape data=1x2 -o m.mlir"))
FLOATS = made(("Int8Relu", "x", "y", {"Y_scale": 0.5, "Y_zero_point": 128}), inputs="x")
BETWEEN = made(("Relu", "x", "a"), ("Int8Relu", "a", "y", {"Y_scale": 0.5, "Y_zero_point": 128}), inputs="x")
QUANTIZED = made(
    ("Relu", "x", "a"),
    ("Int8Quantize", "a", "q", {"Y_scale": 0.5, "Y_zero_point": 128}),
    ("Int8Relu", "q", "y", {"Y_scale": 0.5, "Y_zero_point": 128}),
    inputs="x",
)


def read(net: bytes, shape: str) -> Action:
    return lambda folder: load_caffe2(net, shapes={"x": shape})


CAFFE2 = {
    "state its scale and zero point with its shape: --shape '…'": Case(
        read(FLOATS, "1x4"), read(FLOATS, "1x4x!quant.uniform<u8:f32, 0.5:128>")
    ),
    "put an Int8Quantize in front of it": Case(read(BETWEEN, "1x4"), read(QUANTIZED, "1x4")),
    "give the shapes of its inputs by --shape, or shapes in Python": Case(
        both(nets, load("net.pb", bind={"N": 1})), READ_BY_COMMAND
    ),
    "give --weights with the net's init net, and …; in Python weights=… and …": Case(
        both(nets, load("net.pb")), READ_BY_COMMAND
    ),
    "give …, or in Python …": Case(
        both(nets, lambda f: qmlir.load(f / "net.pb", weights=f / "init.pb")), READ_BY_COMMAND
    ),
    "save the net again": Case(both(nets, truncated("net.pb", -1), load("net.pb")), READ),
}

MODULES = {
    "copy it beside the .mlir file": Case(
        lambda f: ((f / "big.safetensors").rename(f / "kept"), qmlir.load(f / "big.mlir")),
        lambda f: ((f / "kept").rename(f / "big.safetensors"), qmlir.load(f / "big.mlir")),
    ),
    "write the module again": Case(
        both(truncated("big.safetensors"), load("big.mlir")),
        both(command("import big.onnx -o big.mlir"), load("big.mlir")),
    ),
    "write the module and its side file again": Case(
        both(lambda f: patch_text(f / "big.mlir", ".safetensors#w", ".safetensors#v"), load("big.mlir")),
        both(command("import big.onnx -o big.mlir"), load("big.mlir")),
    ),
    "print the module again without eliding its resources": Case(
        both(
            write(
                "r.mlir",
                "func.func @main() {\n  %0 = arith.constant dense_resource<w> : tensor<2xf32>\n  func.return\n}",
            ),
            load("r.mlir"),
        ),
        lambda f: qmlir.save(qmlir.load(f / "big.onnx"), f / "r.mlir", weights="resource") or qmlir.load(f / "r.mlir"),
    ),
    "write it with -o FILE, or use --weights=inline, --weights=resource or --weights=elide": Case(
        command("big.mlir", opt=True),
        both(
            command("big.mlir -o o.mlir", opt=True),
            *(command(f"big.mlir --weights={mode}", opt=True) for mode in ("inline", "resource", "elide")),
        ),
    ),
    "model files are told by their suffix: …": Case(
        both(lambda f: (f / "net.onnx").rename(f / "net.bin"), write("n.bin", b"\xff\xfe"), command("n.bin", opt=True)),
        both(lambda f: (f / "net.bin").rename(f / "net.onnx"), command("net.onnx --weights=elide", opt=True)),
    ),
}


def patch_text(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


QUANTIZE = "quantize net.onnx --profile net.yaml -o o.mlir"
PROFILES = {
    "write one with `qmlir profile`": Case(
        both(truncated("net.yaml", 90), command(QUANTIZE)),
        both(command("profile net.onnx --data samples.npy -o net.yaml"), command(QUANTIZE)),
    ),
    "write one with Glow's -dump-profile, or with `qmlir profile --format glow`": Case(
        both(write("glow.yaml", "---\nGlowToolsVersion: ''\n...\n"), lambda f: qmlir.Profile.load(f / "glow.yaml")),
        both(
            command("profile net.onnx --data samples.npy --format glow -o glow.yaml"),
            lambda f: qmlir.Profile.load(f / "glow.yaml"),
        ),
    ),
    "profile on data": Case(
        both(write("net.yaml", "format: qmlir-profile-1\ntensors: {}\n"), command(QUANTIZE)),
        both(command("profile net.onnx --data samples.npy -o net.yaml"), command(QUANTIZE)),
    ),
    "profile …, or accept what fits with …": Case(
        command("quantize net.onnx --profile part.yaml -o o.mlir"),
        both(command(QUANTIZE), command("quantize net.onnx --profile part.yaml --partial-profile -o o.mlir")),
    ),
    "profile each part of the data with the same model and options": Case(
        lambda f: qmlir.Profile.load(f / "net.yaml").merge(qmlir.Profile.load(f / "part.yaml")),
        lambda f: qmlir.Profile.load(f / "net.yaml").merge(qmlir.profile(f / "net.onnx", [np.load("samples.npy")[0]])),
    ),
    "remove that sample, or look at the operation that produces the tensor": Case(
        lambda f: qmlir.profile(f / "net.onnx", [np.full((1, 8), np.nan, np.float32), *np.load("samples.npy")]),
        lambda f: qmlir.profile(f / "net.onnx", [*np.load("samples.npy")]),
    ),
}


def side_file_above(folder: Path) -> None:
    """Makes a module whose side file lies in the folder above."""
    (folder / "inner").mkdir()
    (folder / "inner/big.mlir").write_text((folder / "big.mlir").read_text().replace('"big.safe', '"../big.safe'))


def side_file_beside(folder: Path) -> None:
    module = folder / "inner/big.mlir"
    (folder / "big.safetensors").rename(folder / "inner/big.safetensors")
    module.write_text(module.read_text().replace('"../big.safe', '"big.safe'))


def as_of_old(folder: Path) -> None:
    """Writes the levels of a module's weights as version 0.4 did."""
    patch_text(folder / "o.mlir", "qmlir.levels = #qmlir.levels", "qmlir.codebook = #qmlir.codebook")


FEW_BITS = command(f"{QUANTIZE} --weight-precision int2 --weight-levels codebook")
INNER = command("run inner/big.mlir --data samples.npy -o o.npz")
BOUNDS = {
    "copy it beside the .mlir file and name it there": Case(
        both(side_file_above, INNER), both(side_file_beside, INNER)
    ),
    "quantize the model again from its own file, and save the module anew": Case(
        both(FEW_BITS, as_of_old, load("o.mlir")), both(FEW_BITS, load("o.mlir"))
    ),
    "save it without packing it (numpy.savez or numpy.save)": Case(
        both(
            lambda f: np.savez_compressed(f / "b.npz", b=np.zeros((1, 8), np.float32)),
            with_few_packed(command("import two.onnx --constant b=b.npz -o o.mlir")),
        ),
        both(
            lambda f: np.savez(f / "b.npz", b=np.zeros((1, 8), np.float32)),
            with_few_packed(command("import two.onnx --constant b=b.npz -o o.mlir")),
            lambda f: np.save(f / "b.npy", np.zeros((1, 8), np.float32)),
            with_few_packed(command("import two.onnx --constant b=b.npy -o o.mlir")),
        ),
    ),
}

SIMULATE = "run q.npu --target nmp --data samples.npy -o o.npz"
PROGRAMS = {
    "is it a program that qmlir compiled?": Case(
        both(patched("q.npu", 0, b"NOT"), command(SIMULATE)),
        both(command("compile q.mlir --target nmp -o q.npu"), command(SIMULATE)),
    ),
    "compile the network again": Case(
        both(patched("q.npu", 8, b"\x7f"), command(SIMULATE)),
        both(command("compile q.mlir --target nmp -o q.npu"), command(SIMULATE)),
    ),
    "copy the file again": Case(
        both(truncated("q.npu"), command(SIMULATE)),
        both(command("compile q.mlir --target nmp -o q.npu"), command(SIMULATE)),
    ),
    "write one with `qmlir quantize --ledger`": Case(
        both(write("l.json", "{}"), command("ledger l.json")),
        both(command(QUANTIZE.replace("-o", "--ledger l.json -o")), command("ledger l.json")),
    ),
}

RUN = "run net.onnx -o o.npz --data "
SAMPLES = {
    "write .npz files with an array for each input": Case(
        command("run two.onnx -o o.npz --data samples.bin"), command("run two.onnx -o o.npz --data two.npz")
    ),
    'give --preprocess, such as "scale=0.00392157" for values from 0 to 1': Case(
        both(lambda f: picture(f), command("run gray.onnx -o o.npz --data p.png")),
        command("run gray.onnx -o o.npz --data p.png --preprocess scale=0.00392157"),
    ),
    "files that are read: …": Case(
        both(lambda f: (f / "d").mkdir(), write("d/a.txt", "1"), command(RUN + "d")),
        both(
            lambda f: ((f / "d" / "a.txt").unlink(), np.save(f / "d" / "a.npy", np.load("samples.npy"))),
            command(RUN + "d"),
        ),
    ),
    "bring each sample to the input's shape, layout and type before saving": Case(
        both(lambda f: np.save(f / "s.npy", np.zeros((3, 9), np.float32)), command(RUN + "s.npy")),
        both(lambda f: np.save(f / "s.npy", np.zeros((3, 8), np.float32)), command(RUN + "s.npy")),
    ),
    "give the stored type as --dtype": Case(command(RUN + "bytes.bin"), command(RUN + "bytes.bin --dtype uint8")),
    "bind numpy.ascontiguousarray of it": Case(
        lambda f: qmlir.compile(f / "net.onnx").bind(np.zeros((1, 16), np.float32)[:, ::2]),
        lambda f: qmlir.compile(f / "net.onnx").bind(np.ascontiguousarray(np.zeros((1, 16), np.float32)[:, ::2])),
    ),
    "pass a dict of arrays": Case(
        lambda f: qmlir.compile(f / "two.onnx")(np.zeros((1, 8), np.float32)),
        lambda f: qmlir.compile(f / "two.onnx")({n: np.zeros((1, 8), np.float32) for n in "ab"}),
    ),
    "give a list of them": Case(
        lambda f: qmlir.profile(f / "net.onnx", "samples.npy"),  # type: ignore[arg-type]
        lambda f: qmlir.profile(f / "net.onnx", list(np.load("samples.npy"))),
    ),
    "say which, as in …:…": Case(
        both(
            lambda f: np.savez(f / "several.npz", c=floats(3, 1, 8), d=floats(4, 1, 8), labels=np.arange(3)),
            command("profile net.onnx --data several.npz -o p.yaml"),
        ),
        command("profile net.onnx --data several.npz:c -o p.yaml"),
    ),
    "name one: …:ARRAY": Case(
        both(
            lambda f: np.savez(f / "one.npz", b=floats(1, 8), c=floats(3)),
            command("import two.onnx --constant b=one.npz -o o.mlir"),
        ),
        command("import two.onnx --constant b=one.npz:b -o o.mlir"),
    ),
    "give layout=nchw or layout=nhwc": Case(
        both(lambda f: picture(f, [1, 1, 4, 3]), command("run gray.onnx -o o.npz --data p.png --preprocess scale=1")),
        command('run gray.onnx -o o.npz --data p.png --preprocess "scale=1 layout=nchw"'),
    ),
    "save the inputs as .npy files": Case(
        both(lambda f: picture(f, [1, 2, 4, 4]), command("run gray.onnx -o o.npz --data p.png --preprocess scale=1")),
        both(
            lambda f: np.save(f / "p.npy", np.zeros((1, 2, 4, 4), np.float32)),
            command("run gray.onnx -o o.npz --data p.npy"),
        ),
    ),
}


def picture(folder: Path, shape: list[int] | None = None) -> None:
    """Writes p.png, and a network of pictures."""
    from PIL import Image

    Image.fromarray(np.zeros((4, 3), np.uint8)).save(folder / "p.png")
    onnx.save(model(node("Relu", "x"), {"x": shape or [1, 1, 4, 4]}), folder / "gray.onnx")


CASES = {**ONNX, **GGUF, **TFLITE, **CAFFE2, **MODULES, **PROFILES, **PROGRAMS, **SAMPLES, **BOUNDS}


@pytest.mark.parametrize("text", CASES)
def test_what_is_told_about_files_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
