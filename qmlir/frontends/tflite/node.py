"""A TFLite operator as its converter sees it: a frontend node that also knows the types of its outputs.

TFLite states the storage of each tensor. A converter therefore reads the output's type and passes quantized operands
to the nn operation itself (quantized.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from qmlir.dialects.nn.functions import RequantizeOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ACTIVATIONS
from qmlir.frontends.builder import Properties
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.quantized import QuantizedNode
from qmlir.frontends.tflite.reader import CUSTOM, Tensor
from qmlir.frontends.tflite.variables import Variables
from qmlir.ir.interfaces import TensorOp, element_of

UNIMPORTANT = frozenset({"asymmetric_quantize_inputs", "quantized_bias_type", "pot_scale_int16", "values_count", "num"})
"""Options that the importer ignores: they choose how to compute, or repeat what shapes and types state."""


@dataclass
class TFLiteNode(QuantizedNode):
    """A node whose outputs have the types that the file states.

    tensors    the file's entry of each output tensor
    inner      the file's entry of each intermediate tensor; None for one that is left out
    call       imports another subgraph in the place of the node
    variables  the model's variables
    updates    the next values of variable tensors, by the number of the input
    """

    ATTRIBUTE: ClassVar[str] = "option"
    MISFITS: ClassVar[tuple[type[Exception], ...]] = ()

    tensors: Sequence[Tensor] = field(default_factory=list[Tensor])
    inner: Sequence[Tensor | None] = field(default_factory=list[Tensor | None])
    call: Callable[[int, Sequence[Value], str], list[Value]] | None = None
    variables: Variables | None = None
    updates: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    # Facts from the file

    def attribute(self, name: str, value: Any) -> str:
        return f"option {name} = {value}"

    def ignores(self, name: str, value: Any) -> bool:
        if self.kind.startswith(CUSTOM):
            return name.startswith("_")
        return name in UNIMPORTANT or not value

    def output_type(self, output: int = 0) -> UniformType | None:
        """Returns the quantized type of an output; None for plain numbers."""
        return self.tensors[output].type if output < len(self.tensors) else None

    def activation(self, code: int) -> tuple[float | None, float | None]:
        """Returns the bounds (low, high) of a fused activation; None means unbounded.

        Raises:
            UnsupportedError: The activation is not a clamp.
        """
        if code not in ACTIVATIONS:
            raise UnsupportedError(f"its fused activation {code} is no clamp")
        return ACTIVATIONS[code]

    def called_subgraph(self, index: int, arguments: Sequence[Value], step: str = "") -> list[Value]:
        """Imports another subgraph on these arguments and returns its outputs; `step` makes a run's names unique."""
        assert self.call is not None
        return self.call(index, arguments, step)

    # Variables

    def update(self, input: int, value: Value) -> None:
        """Gives the variable tensor that is an input of the node its value behind the node."""
        self.updates[input] = self.quantized(value)

    def resources(self) -> Variables:
        """Returns the model's variables, for the operators that read and write them by handles."""
        assert self.variables is not None
        return self.variables

    # Stored integers

    def stored(self, x: Value) -> SSAValue:
        """Returns the stored integers of a value as signed integers, in the same order; plain numbers unchanged."""
        type = self.type_of(x)
        if type is None:
            return self.builder.ssa(x)
        value = self.quantized(x)
        if not type.is_signed:
            moved = 1 << (type.storage_width - 1)
            signed = UniformType.per_tensor(type.storage_type, type.scale, type.zero_point - moved)
            value = self._append(RequantizeOp, [value], None, signed)
            return self.cast(StorageCastOp, value, type.storage_type)
        return self.cast(StorageCastOp, value, type.storage_type)

    # Fused activations

    def operation(
        self, op_type: type[TensorOp], inputs: Sequence[Value], properties: Properties | None = None, *,
        activation: int = 0,
    ) -> Value:  # fmt: skip
        """Adds an operation as `pointwise` does, and the fused activation behind it."""
        return self.pointwise(op_type, inputs, properties, bounds=self.activation(activation))

    def activated(self, y: SSAValue, code: int) -> SSAValue:
        """Applies a fused activation to a computed result."""
        return self.clamped(y, self.activation(code))

    # Movement

    def reshape(self, x: Value, shape: Sequence[int], output: int = 0) -> Value:
        """Reshapes a value and gives it the element type of an output.

        An output without a scale holds the stored integers of a quantized value; an output with a scale reads plain
        integers as its own: the bits stay.
        """
        y = self.reshaped(self.movable(x), shape)
        if isinstance(y, Constant):
            return y
        element, type = element_of(y), self.output_type(output)
        if type is None and isinstance(element, UniformType) and self.tensors[output].dtype == element.numpy_dtype:
            return self.cast(StorageCastOp, y, element.storage_type)
        if type is not None and element == type.storage_type:
            return self.cast(StorageCastOp, y, type)
        return self.retyped(y, type)
