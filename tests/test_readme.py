"""The commands README shows work as they stand there, in order."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

import qmlir
from qmlir.cli import main as qmlir_main
from qmlir.cli import opt

SHOWN = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_commands(text: str) -> list[list[str]]:
    """The commands of README's shell blocks, without comments, lines joined at a backslash."""
    lines = "".join(SHOWN.findall(text)).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def net() -> onnx.ModelProto:
    """The network that README's reader brings: of symbolic dimensions, its second input a shape."""
    sizes: dict[str, tuple[int, list[int | str]]] = {
        "x": (TensorProto.FLOAT, ["N", "length"]),
        "shape": (TensorProto.INT64, [3]),
        "y": (TensorProto.FLOAT, ["N", "pairs", 2]),
    }
    x, shape, y = (helper.make_tensor_value_info(name, *size) for name, size in sizes.items())
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x, shape], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_commands(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    onnx.save(net(), "net.onnx")
    np.save("shape.npy", np.array([1, 64, 2]))
    mains = {"qmlir": qmlir_main.main, "qmlir-opt": opt.main}
    ran = 0
    for tool, *arguments in shown_commands((root / "README.md").read_text(encoding="utf-8")):
        if tool not in ("make", "mlir-translate-19"):
            assert mains[tool](arguments) == 0, shlex.join([tool, *arguments])
            ran += 1
    assert ran >= 10
    outputs, labels = np.load("outputs.npz"), np.load("examples/digits/digits.npz")["test_labels"]
    (logits,) = (outputs[name] for name in outputs.files)
    assert (logits.reshape(len(labels), -1).argmax(1) == labels).mean() > 0.97
    assert {p.suffix for p in tmp_path.glob("digits.*")} >= {".yaml", ".o", ".h", ".mlir", ".safetensors"}


def test_python(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that README shows runs on a network and samples of the reader's."""
    text = (root / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (block,) = (b for b in blocks if "qmlir.load(" in b and "model.onnx" in b)
    pipeline = re.search(r"`(qmlir\.Pipeline\(.*?\)\(module\))`", text)
    assert pipeline is not None
    examples = root / "examples" / "digits"
    shutil.copy(examples / "digits.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    images = np.load(examples / "digits.npz")["calibration_images"]

    class MyPass(ModulePass):
        name = "mine"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            op.attributes["mine"] = UnitAttr()

    scope: dict[str, Any] = {"samples": list(images[:4, None]), "MyPass": MyPass}
    exec(block.replace("batch_size", "batch"), scope)  # as digits.onnx calls it
    scope["profile"].save("digits.yaml")
    composed = eval(pipeline.group(1).replace("\n", " "), scope)
    assert "mine" in composed.attributes
    assert {entry.outcome for entry in qmlir.decisions(composed)} == {"quantized"}
