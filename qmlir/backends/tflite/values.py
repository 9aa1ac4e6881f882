"""The values of a module as tensors of a TFLite graph: how each is stored, and the operators between two ways.

A quantized value is the integers that it stores; who computes on floats reads it behind a DEQUANTIZE, and what was
computed on floats is stored behind a QUANTIZE. Unsigned bytes stay as they are in a network that has nothing else, as
in older files, for which LiteRT has kernels of their own; beside signed ones they are stored as signed bytes, every
integer and zero point 128 less, and only inputs and outputs keep the type that the signature says.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.clamps import Bounds, activation, fuses, stored_bounds
from qmlir.backends.tflite.graph import FLOAT, Form, Graph, Options, Parameters, Tensor
from qmlir.backends.tflite.kernels import KERNELS, takes
from qmlir.dialects import nn
from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.interfaces import Array, element_of, shape_of
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.qmlir import ON_FLOATS
from qmlir.dialects.quant.types import UniformType
from qmlir.rewriting import tensor_name

INT8, UINT8, INT16 = (np.dtype(t) for t in (np.int8, np.uint8, np.int16))
MOVED = 128
"""What unsigned bytes lose when they are stored as signed ones."""

BY_AXIS = 5
"""The version of DEQUANTIZE that has scales along an axis."""


class Values:
    """The tensors that hold the values of a function.

    graph   where operators are added
    moves   whether unsigned bytes are stored as signed ones
    """

    def __init__(self, graph: Graph, moves: bool):
        self.graph, self.moves = graph, moves
        self._stored: dict[SSAValue, Tensor] = {}
        self._real: dict[SSAValue, Tensor] = {}

    # -----------------------------------------------------------------------------------------------------------
    # How a value is stored

    def form(self, value: SSAValue) -> Form:
        """How a value is stored.

        Raises:
            NoForm: TFLite has nothing like its type.
        """
        form = declared(value)
        if form.parameters is None or not self.is_moved(form):
            return form
        points = tuple(z - MOVED for z in form.parameters.zero_points)
        return Form(form.shape, INT8, replace(form.parameters, zero_points=points))

    def is_moved(self, form: Form) -> bool:
        """Whether integers declared so are stored 128 less."""
        return self.moves and form.parameters is not None and form.dtype == UINT8

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def stored(self, value: SSAValue) -> Tensor:
        """What stores a value: the integers of a quantized one, its elements of any other."""
        if value not in self._stored:
            array = constant(value)
            assert array is not None, f"{value} is used before it is written"
            form = self.form(value)
            if self.is_moved(declared(value)):
                array = (array.astype(np.int16) - MOVED).astype(INT8)
            self._stored[value] = self.graph.constant(array, form.parameters, tensor_name(value))
        return self._stored[value]

    def real(self, value: SSAValue) -> Tensor:
        """The real numbers that a value stands for; plain ones as they are."""
        element = element_of(value)
        if not isinstance(element, UniformType):
            return self.stored(value)
        if value not in self._real:
            array = constant(value)
            if array is not None and element.storage_width > 8:
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
        """Says which tensor stores a value."""
        self._stored[value] = tensor
        if name := tensor_name(value):
            tensor.wanted = name

    def compute(
        self,
        op: Operation,
        kind: str,
        operands: Sequence[SSAValue],
        options: Options | None = None,
        extra: Sequence[Tensor] = (),
    ) -> None:
        """The only result of an operation as one operator: on stored integers where LiteRT has a kernel for them.

        Args:
            op: Whose result it is; a fused clamp becomes a fused activation where that is the same.
            kind: The operator.
            operands: The values that it computes on.
            options: Those that are not left at their defaults, without the activation.
            extra: Inputs behind them.
        """
        read = self.stored if self.has_integers(kind, op, operands) else self.real
        self.finish(op, kind, [*map(read, operands), *extra], options)

    def has_integers(self, kind: str, op: Operation, operands: Sequence[SSAValue]) -> bool:
        """Whether there is a kernel on what these operands of an operation store that has its result."""
        form, kernel = self.form(op.results[0]), KERNELS[kind]
        if form.parameters is None:
            return True
        if ON_FLOATS in op.attributes:
            return False
        forms = [self.form(o) for o in operands]
        if any(f.parameters is None or f.dtype != form.dtype or f.parameters.axis is not None for f in forms):
            return False
        if not takes(kind, form.dtype, quantized=True):
            return False
        if kernel.keeps and len({f.parameters for f in forms}) > 1:
            return False
        own = form.parameters.scale, form.parameters.zero_point
        return kernel.result.get(form.dtype.name, own) == own

    def finish(
        self, op: Operation, kind: str, inputs: Sequence[Tensor], options: Options | None = None, version: int = 1
    ) -> None:
        """The only result of an operation as an operator on tensors, of some version at least, and what follows it."""
        value = op.results[0]
        form, kernel = self.form(value), KERNELS[kind]
        data = inputs[kernel.data]
        plain = data.form.parameters is None
        target = Form(form.shape, FLOAT) if plain and form.parameters is not None else form
        if kernel.keeps and not plain:
            target = replace(form, parameters=data.form.parameters)
        bounds, given = real_bounds(op), dict(options or {})
        if target.parameters not in (None, form.parameters):  # clamped once it is on its own scale
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
        """Says which tensor holds a result, as real numbers or as integers of some scale; bounds are still to come."""
        form = self.form(value)
        if form != y.form and form.parameters is not None:
            if name := tensor_name(value):
                y.wanted = f"{name}_real" if y.form.parameters is None else f"{name}_rescaled"
            y = self.graph.operator("QUANTIZE", [y], form)
        self.hold(value, self.bounded(y, stored_bounds(element_of(value), y.form, bounds)))

    def bounded(self, x: Tensor, bounds: Bounds) -> Tensor:
        """Elements between bounds, which are stored integers of a quantized tensor."""
        for kind, limit in zip(("MAXIMUM", "MINIMUM"), bounds, strict=True):
            if limit is not None:
                least = self.graph.constant(np.array(limit, x.dtype), x.form.parameters)
                x = self.graph.operator(kind, [x, least], x.form)
        return x


def declared(value: SSAValue) -> Form:
    """How a value's type says that it is stored.

    Raises:
        NoForm: TFLite has nothing like it.
    """
    element = element_of(value)
    if not isinstance(element, UniformType):
        try:
            return Form(shape_of(value), dtype_of(element))
        except KeyError:
            raise NoForm(
                "must have elements that TFLite has", str(element), "cast them to a type that it has"
            ) from None
    text = str(element)[:160]
    if element.expressed != f32:
        raise NoForm("must stand for f32", text, "quantize the model again from its f32 form")
    dtype = element.numpy_dtype
    if dtype not in (INT8, UINT8, INT16):
        raise NoForm("must be stored in signed or unsigned bytes, or in signed numbers of 16 bits", text,
                     "quantize it with precision int8 or int16")  # fmt: skip
    if element.axis is not None and constant(value) is None:
        raise NoForm("must have one scale for the whole tensor, unless it is constant", text, "quantize it per tensor")
    limits = np.iinfo(dtype)
    if not all(limits.min <= z <= limits.max for z in element.zero_points):
        raise NoForm(f"must have zero points that {dtype.name} holds", text, "choose parameters within the storage")
    if dtype == INT16 and any(element.zero_points):
        raise NoForm("must have the zero point 0 in 16 bits", text, "quantize it with a symmetric schema")
    return Form(shape_of(value), dtype, parameters_of(element))


def parameters_of(element: UniformType) -> Parameters:
    """Scales, as the float32 numbers that a file has, zero points and axis."""
    scales = np.array(element.scales, np.float32).astype(np.float64)
    return Parameters(tuple(scales.tolist()), element.zero_points, element.axis)


def constant(value: SSAValue) -> Array | None:
    """The array of a constant; None for what is computed."""
    return value.owner.value.array if isinstance(value.owner, nn.ConstantOp) else None


def real_bounds(op: Operation) -> Bounds:
    """The bounds of an operation's fused clamp."""
    return op.bounds() if isinstance(op, Clamped) else (None, None)
