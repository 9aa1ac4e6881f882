"""Exported files in LiteRT, with its reference kernels or as it runs them by default."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = npt.NDArray[Any]
schema: Any = tflite


class LiteRT:
    """A file, ready to run."""

    def __init__(self, path: Path, *, reference: bool = True):
        resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
        self.interpreter = Interpreter(model_path=str(path), experimental_op_resolver_type=resolver)
        self.interpreter.allocate_tensors()
        self.inputs: list[dict[str, Any]] = self.interpreter.get_input_details()
        self.outputs: list[dict[str, Any]] = self.interpreter.get_output_details()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for inputs in order."""
        for detail, array in zip(self.inputs, inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], array)
        self.interpreter.invoke()
        return [self._output(detail) for detail in self.outputs]

    def _output(self, detail: dict[str, Any]) -> Array:
        """One output; the interpreter refuses to give an output without elements."""
        if not all(detail["shape"]):
            return np.empty(detail["shape"], detail["dtype"])
        return self.interpreter.get_tensor(detail["index"]).copy()


def kinds(path: Path) -> list[str]:
    """The operators of a file, in order."""
    model = schema.Model.GetRootAs(path.read_bytes())
    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    graph = model.Subgraphs(0)
    places = [graph.Operators(i).OpcodeIndex() for i in range(graph.OperatorsLength())]
    return [names[model.OperatorCodes(place).BuiltinCode()] for place in places]


def computes_in_floats(path: Path) -> bool:
    """Whether an operator of a file but its casts reads floats."""
    graph = schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0)
    for index, kind in enumerate(kinds(path)):
        read = graph.Operators(index).InputsAsNumpy() if kind not in ("QUANTIZE", "DEQUANTIZE") else []
        if any(i >= 0 and graph.Tensors(int(i)).Type() == schema.TensorType.FLOAT32 for i in read):
            return True
    return False


def parameters(path: Path) -> dict[str, tuple[Array, Array]]:
    """Scales and zero points of each tensor that has some, by name."""
    graph = schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0)
    found: dict[str, tuple[Array, Array]] = {}
    for i in range(graph.TensorsLength()):
        own = graph.Tensors(i).Quantization()
        if own is not None and own.ScaleLength():
            found[graph.Tensors(i).Name().decode()] = own.ScaleAsNumpy(), np.asarray(own.ZeroPointAsNumpy())
    return found
