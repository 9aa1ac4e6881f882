"""A TFLite operator as its converter sees it: a frontend node that also knows the types of its outputs.

TFLite states the storage of each tensor. A converter therefore reads the output's type and passes quantized operands
to the nn operation itself. The call

    node.pointwise(AddOp, [a, b], {...})

adds the operation on floats or on quantized types. If nn does not have the operation on quantized types, the call
adds the nominal meaning: dequantize → operation on f32 → quantize.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from qmlir.dialects.nn.base import Clamped, Elements, NNOp
from qmlir.dialects.nn.functions import ClampOp, ReluOp, RequantizeOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ACTIVATIONS
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.reader import Tensor
from qmlir.ir.interfaces import TensorOp, element_of


@dataclass
class TFLiteNode(Node):
    """A node whose outputs have the types that the file states.

    tensors   the file's entry of each output tensor
    call      imports another subgraph in the place of the node
    """

    tensors: Sequence[Tensor] = field(default_factory=list[Tensor])
    call: Callable[[int, Sequence[Value], str], list[Value]] | None = None

    # Facts from the file

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

    # Quantized operands

    def type_of(self, x: Value) -> UniformType | None:
        """Returns the quantized type of a value; None for plain numbers."""
        if isinstance(x, Dequantized):
            return x.type
        if isinstance(x, Constant) or not isinstance(x.type, TensorType):
            return None
        element = element_of(x)
        return element if isinstance(element, UniformType) else None

    def is_quantized(self, x: Value) -> bool:
        """Whether a value is stored as integers that represent real numbers."""
        return self.type_of(x) is not None

    def quantized(self, x: Value) -> SSAValue:
        """Returns a value under its quantized type; a stored constant without its dequantize, floats unchanged."""
        value = self.builder.ssa(x)
        if isinstance(x, Dequantized) and isinstance(value, OpResult) and isinstance(value.op, DequantizeCastOp):
            return value.op.input
        return value

    def movable(self, x: Value) -> Value:
        """Returns the operand of an operation that moves elements: a constant as it is, else as `quantized` does."""
        return x if isinstance(x, Constant) else self.quantized(x)

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

    def floats(self, x: Value) -> Value:
        """Returns the real numbers that a value represents: dequantizes a quantized value."""
        type = self.type_of(x)
        if type is None or isinstance(x, Constant):
            return x
        return self.cast(DequantizeCastOp, x, type.expressed)

    def retyped(self, x: SSAValue, type: UniformType | None) -> SSAValue:
        """Returns the same stored integers under another quantized type, as TFLite's data-movement kernels do.

        Raises:
            NodeError: The types differ in their storage.
        """
        element = element_of(x)
        if type is None or element == type:
            return x
        if not isinstance(element, UniformType) or element.storage != type.storage:
            raise self.error(f"its output must be stored as {element}", str(type))
        return self.cast(StorageCastOp, self.cast(StorageCastOp, x, type.storage_type), type)

    def finished(self, y: Value, output: int = 0) -> Value:
        """Quantizes a float result if the output is quantized."""
        type = self.output_type(output)
        if type is None:
            return y
        value = self.builder.ssa(y)
        if element_of(value) != type.expressed:
            raise UnsupportedError(f"it quantizes {element_of(value)}")
        return self.cast(QuantizeCastOp, value, type)

    # Adding operations

    def pointwise(
        self,
        op_type: type[TensorOp],
        inputs: Sequence[Value],
        properties: Properties | None = None,
        *,
        activation: int = 0,
    ) -> Value:
        """Adds an operation on the node's inputs with the node's output type, and the fused activation behind it."""
        low, high = self.activation(activation)
        bounds = {"min": low, "max": high}
        out = self.output_type()
        fuses = issubclass(op_type, Clamped) and (low, high) != (None, None) and self.is_real(inputs)
        given = {**(properties or {}), **(bounds if fuses else {})}
        if any(self.is_quantized(x) for x in inputs) and out is not None and takes_quantized(op_type):
            if not all(self.is_quantized(x) for x in inputs):
                raise self.error("its inputs must be all quantized or all plain", "some of each")
            y = self.compute(op_type, [self.quantized(x) for x in inputs], given, element=out)
            if op_type.has_trait(SameScale, value_if_unregistered=False):
                y = self.retyped(y, out)
            return y if fuses or (low, high) == (None, None) else self.insert(ClampOp, [y], bounds, element=out)
        y = self.compute(op_type, [self.floats(x) for x in inputs], given)
        if not fuses and (low, high) != (None, None):
            y = self._activated(y, low, high)
        return self.finished(y)

    def activated(self, y: SSAValue, code: int) -> SSAValue:
        """Applies a fused activation to a computed result."""
        low, high = self.activation(code)
        return y if (low, high) == (None, None) else self._activated(y, low, high)

    def is_real(self, inputs: Sequence[Value]) -> bool:
        """Whether all values represent real numbers: floats or quantized values."""
        return all(self.is_quantized(x) or self.element(x).startswith(("f", "bf")) for x in inputs)

    def _activated(self, y: SSAValue, low: float | None, high: float | None) -> SSAValue:
        if self.is_real([y]):
            return self.insert(ClampOp, [y], {"min": low, "max": high})
        if (low, high) == (0.0, None):
            return self.insert(ReluOp, [y])
        raise UnsupportedError("its fused activation clamps integers")

    def moved_elements(
        self, op_type: type[MovementOp], inputs: Sequence[Value], properties: Properties | None = None, output: int = 0
    ) -> Value:
        """Adds an operation that only moves the elements of its first input, whose stored integers do not change."""
        x, *others = inputs
        y = self.compute(op_type, [self.quantized(x), *others], properties, output=output)
        return self.retyped(y, self.output_type(output))

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


def takes_quantized(op_type: type[TensorOp]) -> bool:
    """Whether nn has an operation on quantized types."""
    return issubclass(op_type, MovementOp) or (issubclass(op_type, NNOp) and Elements.QUANTIZED in op_type.ELEMENTS)
