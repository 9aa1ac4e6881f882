"""A quantized network as a file of a format, in the runtime that the format is for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from ai_edge_litert.interpreter import Interpreter
from xdsl.dialects.builtin import ModuleOp

import qmlir

Array = npt.NDArray[Any]


def results_of_file(module: ModuleOp, format: str, samples: Sequence[Array], folder: Path) -> Array:
    """The only output of the exported file for each sample: of LiteRT for `tflite`, else of onnxruntime."""
    path = folder / ("net.tflite" if format == "tflite" else "net.onnx")
    qmlir.export(module, path, format=format)
    if format == "tflite":
        network = Interpreter(str(path))
        network.allocate_tensors()
        return np.stack([_invoked(network, x) for x in samples])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.stack([np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0]) for x in samples])


def _invoked(network: Any, x: Array) -> Array:
    (entry,), (result,) = network.get_input_details(), network.get_output_details()
    network.set_tensor(entry["index"], x.reshape(entry["shape"]))
    network.invoke()
    return network.get_tensor(result["index"])
