"""A model whose weights lie in a file beside it, as PyTorch exports it, through every command.

Of each command both networks, with the weights outside and inside, must give the same.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.cli.small import Small, run

ELEMENTS = ["bfloat16", "bool", "double", "float", "float16", "int32", "int64", "int8", "uint8"]
"""Types of constants that the network casts to f32 and adds to its input."""


def with_constants(small: Small) -> onnx.ModelProto:
    """The small network with a constant of each type added to its input."""
    model = onnx.load(small.onnx)
    nodes, tensor = list[onnx.NodeProto](), "image"
    for index, element in enumerate(ELEMENTS):
        code = onnx.TensorProto.DataType.Value(element.upper())
        values = (np.arange(128) % 2).astype(helper.tensor_dtype_to_np_dtype(code)).reshape(1, 2, 8, 8)
        model.graph.initializer.append(numpy_helper.from_array(values, element))
        nodes.append(helper.make_node("Cast", [element], [f"{element}_f32"], to=onnx.TensorProto.FLOAT))
        nodes.append(helper.make_node("Add", [tensor, f"{element}_f32"], [f"sum{index}"]))
        tensor = f"sum{index}"
    convolution = next(n for n in model.graph.node if n.op_type == "Conv")
    convolution.input[0] = tensor
    nodes.extend(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.fixture
def pair(small: Small) -> tuple[Path, Path]:
    """The same network with its weights inside and beside it."""
    inside, outside = small / "inside.onnx", small / "outside.onnx"
    onnx.save(with_constants(small), inside)
    onnx.save(with_constants(small), outside, save_as_external_data=True, location="outside.onnx.data",
              size_threshold=0)  # fmt: skip
    assert (small / "outside.onnx.data").exists()
    return inside, outside


@pytest.mark.slow
def test_every_command_takes_weights_beside_the_model(small: Small, pair: tuple[Path, Path]) -> None:
    written: list[dict[str, bytes]] = []
    for model in pair:
        name = model.stem
        made = {key: small / f"{name}.{key}" for key in ("mlir", "yaml", "npz", "o", "tflite")}
        assert run("import", model, "-o", made["mlir"]) == 0
        assert run("profile", model, "--data", small.data, "-o", made["yaml"]) == 0
        assert run("run", made["mlir"], "--data", small.data, "-o", made["npz"]) == 0
        quantized = small / f"{name}_int8.mlir"
        assert run("quantize", model, "--profile", made["yaml"], "--data", small.data, "-o", quantized) == 0
        assert run("run", quantized, "--data", small.data, "-o", small / f"{name}_int8.npz") == 0
        assert run("analyze", model, quantized, "--data", small.data) == 0
        assert run("compile", model, "-o", made["o"]) == 0
        assert run("export", model, "--format=tflite", "-o", made["tflite"]) == 0
        assert run("export", quantized, "-o", small / f"{name}_int8.onnx") == 0
        outputs = [small / f"{name}{end}" for end in (".npz", "_int8.npz")]
        arrays = {path.name.removeprefix(name): np.load(path)["scores"].tobytes() for path in outputs}
        files = {key: made[key].read_bytes() for key in ("yaml", "tflite")}
        written.append(arrays | files)
    inside, outside = written
    assert inside == outside
