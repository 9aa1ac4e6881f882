"""How each value of a function is stored as a tensor, and the casts between storages."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import constant, fused_bounds
from qmlir.backends.tflite.clamps import Bounds, activation, fuses, stored_bounds
from qmlir.backends.tflite.graph import BOOL, FLOAT, Form, Graph, Options, Parameters, Tensor
from qmlir.backends.tflite.kernels import KERNELS, takes, takes_scales
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import INTEGER_OPERATOR, ON_FLOATS
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.types import dtype_of
from qmlir.policies.runtime_kernels import has_sum

# ---------------------------------------------------------------------------------------------------------------
# The values of a module as tensors of a TFLite graph: the storage of each value, and the casts between storages.
#
# A quantized value is stored as its integers. A float operator reads it behind a DEQUANTIZE, and the result of a float
# operator is stored behind a QUANTIZE. If the network does not mix unsigned bytes with signed types, unsigned bytes are
# stored unchanged; LiteRT has kernels for such networks, since older files contain them. In a mixed network unsigned
# bytes are stored as signed bytes (`moves`): every integer and zero point is 128 less, and only inputs and outputs keep
# their declared type. Sums of 32 bits are stored as plain integers, and outputs have their scale.


INT8, UINT8, INT16, INT32 = (np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.int32))
MOVED = 128
"""The amount subtracted from unsigned bytes to store them as signed bytes."""

BY_AXIS = 5
"""The first version of DEQUANTIZE with scales along an axis."""


class Values:
    """The tensors that hold the values of a function.

    graph   the graph to which operators are added
    moves   whether unsigned bytes are stored as signed bytes
    """

    def __init__(self, graph: Graph, moves: bool):
        self.graph, self.moves = graph, moves
        self._stored: dict[SSAValue, Tensor] = {}
        self._real: dict[SSAValue, Tensor] = {}

    # -----------------------------------------------------------------------------------------------------------
    # Storage

    def form(self, value: SSAValue) -> Form:
        """Returns how a value is stored in the graph.

        Raises:
            UnsupportedError: TFLite cannot express the value's type.
        """
        form = declared(value)
        if form.dtype == INT32 and form.parameters is not None:
            return Form(form.shape, INT32)
        if form.parameters is None or not self.is_moved(form):
            return form
        points = tuple(z - MOVED for z in form.parameters.zero_points)
        return Form(form.shape, INT8, replace(form.parameters, zero_points=points))

    def is_moved(self, form: Form) -> bool:
        """Whether integers of a declared form are stored as signed bytes, 128 less."""
        return self.moves and form.parameters is not None and form.dtype == UINT8

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def stored(self, value: SSAValue) -> Tensor:
        """Returns the tensor that stores a value: the integers of a quantized value, else the elements."""
        if value not in self._stored:
            array = constant(value)
            assert array is not None, f"{value} is used before it is written"
            form = self.form(value)
            if self.is_moved(declared(value)):
                array = (array.astype(np.int16) - MOVED).astype(INT8)
            self._stored[value] = self.graph.constant(array, form.parameters, tensor_name(value))
        return self._stored[value]

    def real(self, value: SSAValue) -> Tensor:
        """Returns the tensor of a value's real numbers, dequantized if the value is quantized."""
        element = element_of(value)
        if not isinstance(element, UniformType):
            return self.stored(value)
        if value not in self._real:
            array = constant(value)
            if array is None and element.storage_width == 32:
                whole = self.graph.converted(self.stored(value), np.dtype(FLOAT))
                scales, _ = element.parameters_along(len(whole.shape))
                steps = self.graph.constant(scales.astype(FLOAT))
                self._real[value] = self.graph.operator("MUL", [whole, steps], whole.form)
            elif array is not None and element.storage_width > 8:
                scales, points = element.parameters_along(array.ndim)
                self._real[value] = self.graph.constant(((array - points) * scales).astype(FLOAT), None,
                                                        tensor_name(value))  # fmt: skip
            else:
                x = self.stored(value)
                version = 1 if element.axis is None else BY_AXIS
                self._real[value] = self.graph.operator("DEQUANTIZE", [x], x.form.typed(FLOAT), None, version)
                self._real[value].wanted = tensor_name(value) and f"{tensor_name(value)}_real"
        return self._real[value]

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def hold(self, value: SSAValue, tensor: Tensor) -> None:
        """Records the tensor that stores a value."""
        self._stored[value] = tensor
        if name := tensor_name(value):
            tensor.wanted = name

    def same(self, value: SSAValue, source: SSAValue) -> None:
        """Records that what stores one value stores another one too."""
        self.hold(value, self.stored(source))

    def compute(
        self,
        op: Operation,
        kind: str,
        operands: Sequence[SSAValue],
        options: Options | None = None,
        extra: Sequence[Tensor] = (),
    ) -> None:
        """Writes an operation with one result as one operator, on stored integers if LiteRT has a kernel for them.

        Args:
            op: The operation; its fused clamp becomes a fused activation if the two are equal.
            kind: The schema's name of the operator.
            operands: The values that the operator computes on.
            options: The options that are not at their defaults, without the fused activation.
            extra: The operator's inputs behind the operands.
        """
        read = self.stored if self.has_integers(kind, op, operands) else self.real
        self.finish(op, kind, [*map(read, operands), *extra], options)

    def has_integers(self, kind: str, op: Operation, operands: Sequence[SSAValue]) -> bool:
        """Whether LiteRT has a kernel that computes the operation's result from the stored elements of the operands."""
        form, kernel = self.form(op.results[0]), KERNELS[kind]
        if (
            form.parameters is None
        ):  # what LiteRT compares by rounded steps is marked, all else is exact on real numbers
            return INTEGER_OPERATOR.on(op) or all(self.form(o).parameters is None for o in operands)
        if ON_FLOATS.on(op) or not has_sum(op):
            return False
        forms = [f for o in operands if (f := self.form(o)).dtype != BOOL]
        if any(f.parameters is None or f.dtype != form.dtype or f.parameters.axis is not None for f in forms):
            return False
        if not takes(kind, form.dtype, quantized=True):
            return False
        if kernel.keeps and len({f.parameters for f in forms}) > 1:
            return False
        if not takes_scales(
            kind, form.dtype, [f.parameters.scale for f in forms if f.parameters], form.parameters.scale
        ):
            return False
        own = form.parameters.scale, form.parameters.zero_point
        return kernel.result.get(form.dtype.name, own) == own

    def finish(
        self, op: Operation, kind: str, inputs: Sequence[Tensor], options: Options | None = None, version: int = 1
    ) -> None:
        """Writes an operation with one result as an operator on tensors, followed by its fused clamp and casts.

        Args:
            op: The operation.
            kind: The schema's name of the operator.
            inputs: The operator's inputs.
            options: The options that are not at their defaults, without the fused activation.
            version: The least version of the operator.
        """
        value = op.results[0]
        form, kernel = self.form(value), KERNELS[kind]
        data = inputs[kernel.data]
        plain = data.form.parameters is None
        target = Form(form.shape, FLOAT) if plain and form.parameters is not None else form
        if kernel.keeps and not plain:
            target = replace(form, parameters=data.form.parameters)
        bounds, given = fused_bounds(op), dict(options or {})
        if target.parameters not in (None, form.parameters):  # clamped after the requantization to its own scale
            self.define(value, self.graph.operator(kind, inputs, target, given, version), bounds)
            return
        wanted = stored_bounds(element_of(value), target, bounds)
        if fuses(kind):
            given["FusedActivationFunction"], wanted = activation(target, bounds, wanted)
        y = self.bounded(self.graph.operator(kind, inputs, target, given, version), wanted)
        if target == form:
            self.hold(value, y)
        else:
            self.define(value, y)

    def define(self, value: SSAValue, y: Tensor, bounds: Bounds = (None, None)) -> None:
        """Records the tensor of a result, after the QUANTIZE and the clamp that it needs.

        Args:
            value: The result.
            y: The result as real numbers, or as integers of any scale.
            bounds: The real bounds to which the result is still to be clamped.
        """
        form = self.form(value)
        if form != y.form and form.parameters is not None:
            if name := tensor_name(value):
                y.wanted = f"{name}_real" if y.form.parameters is None else f"{name}_rescaled"
            y = self.graph.operator("QUANTIZE", [y], form)
        self.hold(value, self.bounded(y, stored_bounds(element_of(value), y.form, bounds)))

    def bounded(self, x: Tensor, bounds: Bounds) -> Tensor:
        """Clamps a tensor to bounds, which are stored integers if the tensor is quantized."""
        for kind, limit in zip(("MAXIMUM", "MINIMUM"), bounds, strict=True):
            if limit is not None:
                least = self.graph.constant(np.array(limit, x.dtype), x.form.parameters)
                x = self.graph.operator(kind, [x, least], x.form)
        return x


def declared(value: SSAValue) -> Form:
    """Returns the storage that a value's type declares.

    Raises:
        UnsupportedError: TFLite cannot express the type.
    """
    element = element_of(value)
    if not isinstance(element, UniformType):
        try:
            return Form(shape_of(value), dtype_of(element))
        except KeyError:
            raise UnsupportedError(
                "must have elements that TFLite has", str(element), "cast them to a type that it has"
            ) from None
    text = str(element)[:160]
    if element.expressed != f32:
        raise UnsupportedError("must stand for f32", text, "quantize the model again from its f32 form")
    dtype = element.numpy_dtype
    sums = isinstance(value.owner, StorageCastOp) and dtype == INT32 and not any(element.zero_points)
    if dtype not in (INT8, UINT8, INT16) and not sums:
        raise UnsupportedError("must be stored in signed or unsigned bytes, or in signed numbers of 16 bits", text,
                     "quantize it with precision int8 or int16")  # fmt: skip
    if element.axis is not None and constant(value) is None and not sums:
        raise UnsupportedError(
            "must have one scale for the whole tensor, unless it is constant", text, "quantize it per tensor"
        )
    limits = np.iinfo(dtype)
    if not all(limits.min <= z <= limits.max for z in element.zero_points):
        raise UnsupportedError(
            f"must have zero points that {dtype.name} holds", text, "choose parameters within the storage"
        )
    if dtype == INT16 and any(element.zero_points):
        raise UnsupportedError("must have the zero point 0 in 16 bits", text, "quantize it with a symmetric schema")
    return Form(shape_of(value), dtype, parameters_of(element))


def parameters_of(element: UniformType) -> Parameters:
    """Returns the parameters of a quantized type, with the scales rounded to float32 as the file stores them."""
    scales = np.array(element.scales, np.float32).astype(np.float64)
    return Parameters(tuple(scales.tolist()), element.zero_points, element.axis)
