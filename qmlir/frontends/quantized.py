"""A node of a format that stores tensors as integers: quantized operands, and results of the types that it states.

The call

    node.pointwise(AddOp, [a, b], {...})

adds the operation on floats or on quantized types. If nn does not have the operation on quantized types, the call
adds the nominal meaning: dequantize → operation on f32 → quantize.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from qmlir.dialects.nn.base import Clamped, Elements, NNOp
from qmlir.dialects.nn.functions import ClampOp, ReluOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Node, Properties
from qmlir.frontends.function import Constant, Dequantized, Value, computed
from qmlir.ir.interfaces import TensorOp, element_of

Bounds = tuple[float | None, float | None]
"""The least and the greatest value of a clamp; None means unbounded."""

UNBOUNDED: Bounds = (None, None)

SMALL = 1 << 16
"""The most elements, in operands and results together, of an operation that is computed at import."""


@dataclass
class QuantizedNode(Node):
    """A node whose outputs have the types that the file states."""

    def output_type(self, output: int = 0) -> UniformType | None:
        """Returns the quantized type of an output; None for plain numbers."""
        raise NotImplementedError

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
        self, op_type: type[TensorOp], inputs: Sequence[Value], properties: Properties | None = None, *,
        bounds: Bounds = UNBOUNDED,
    ) -> Value:  # fmt: skip
        """Adds an operation on the node's inputs with the node's output type, and a clamp to the bounds behind it."""
        low, high = bounds
        limits = {"min": low, "max": high}
        out = self.output_type()
        fuses = issubclass(op_type, Clamped) and bounds != UNBOUNDED and self.is_real(inputs)
        given = {**(properties or {}), **(limits if fuses else {})}
        if any(self.is_quantized(x) for x in inputs) and out is not None and takes_quantized(op_type):
            if not all(self.is_quantized(x) for x in inputs):
                raise self.error("its inputs must be all quantized or all plain", "some of each")
            y = self.compute(op_type, [self.quantized(x) for x in inputs], given, element=out)
            if op_type.has_trait(SameScale, value_if_unregistered=False):
                y = self.retyped(y, out)
            return y if fuses or bounds == UNBOUNDED else self.insert(ClampOp, [y], limits, element=out)
        y = self.compute(op_type, [self.floats(x) for x in inputs], given)
        if not fuses:
            y = self.clamped(y, bounds)
        return self.finished(y)

    def clamped(self, y: SSAValue, bounds: Bounds) -> SSAValue:
        """Clamps a computed result to the bounds.

        Raises:
            UnsupportedError: The result is plain integers and the clamp is not that of a ReLU.
        """
        if bounds == UNBOUNDED:
            return y
        if self.is_real([y]):
            return self.insert(ClampOp, [y], {"min": bounds[0], "max": bounds[1]})
        if bounds == (0.0, None):
            return self.insert(ReluOp, [y])
        raise UnsupportedError("its fused activation clamps integers")

    def is_real(self, inputs: Sequence[Value]) -> bool:
        """Whether all values represent real numbers: floats or quantized values."""
        return all(self.is_quantized(x) or self.element(x).startswith(("f", "bf")) for x in inputs)

    def moved_elements(
        self, op_type: type[MovementOp], inputs: Sequence[Value], properties: Properties | None = None, output: int = 0
    ) -> Value:
        """Adds an operation that only moves the elements of its first input, whose stored integers do not change."""
        x, *others = inputs
        y = self.compute(op_type, [self.quantized(x), *others], properties, output=output)
        return self.retyped(y, self.output_type(output))


def takes_quantized(op_type: type[TensorOp]) -> bool:
    """Whether nn has an operation on quantized types."""
    return issubclass(op_type, MovementOp) or (issubclass(op_type, NNOp) and Elements.QUANTIZED in op_type.ELEMENTS)


def folded(node: Node, inputs: Sequence[Value | None], results: list[Value]) -> list[Value]:
    """Computes the results as constants if all inputs are small constants that are not quantized."""
    plain = all(x is None or (isinstance(x, Constant) and not isinstance(x, Dequantized)) for x in inputs)
    made = [r for r in results if isinstance(r, SSAValue)]
    if not plain or not made or not node.pending or len(made) != len(results):
        return results
    if any(_elements(op) > SMALL for op in node.pending) or (known := computed(node.pending)) is None:
        return results
    constants: list[Value] = [Constant(known[r], n) for r, n in zip(made, node.outputs, strict=False)]
    node.discard()
    return constants


def _elements(op: Operation) -> float:
    types = [v.type for v in (*op.operands, *op.results)]
    return sum(float(np.prod([float(d) for d in t.get_shape()])) for t in types if isinstance(t, TensorType))
