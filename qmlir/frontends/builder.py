"""Adds nn operations on behalf of converters; a converter is the function that imports one source operator.

`Node` is the source node being imported; `Builder` (function.py) is the function that its operations are added to.

    conv = node.compute(Conv2DOp, [x, w, b], {...})       the operation that computes: carries node and tensor name
    return node.insert(TransposeOp, [conv], {...})        an operation that only moves data: carries no name

Properties are given as Python values; `attribute_of` makes attributes of them.

So the value that carries a source tensor's name always holds the elements of that tensor, possibly in another layout.
A node's operations enter the function when its converter returns, so a converter that refuses leaves nothing behind.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, cast
from zlib import crc32

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    Float16Type,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.custom import CustomOp, attribute_values
from qmlir.dialects.nn.base import ElementsError, NNOp, is_float
from qmlir.dialects.nn.casts import CastOp
from qmlir.dialects.nn.movement import ConstantOp, MovementOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.properties import attribute_of
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.ops import CastOp as QuantCastOp
from qmlir.errors import NodeError, QmlirWarning, UnsupportedError
from qmlir.frontends.counted import follow, unknown_size
from qmlir.frontends.function import Builder, Constant, Ints, Value, sized
from qmlir.frontends.opaque import UNKNOWN_SHAPE
from qmlir.ir.facts import NAME, POWER
from qmlir.ir.interfaces import Array, Shape, TensorOp, element_of, shape_of
from qmlir.ir.locations import locate, node_location
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.own_operators import OwnOperator
from qmlir.ir.rewriting import name_hint, names_of_value, set_names, tensor_name
from qmlir.ir.types import dtype_of, element_type_of

PLACE_BYTES = 32
"""Bytes charged for each entry of a table of indices: its i64, and the arrays that numpy makes to compute it."""

Properties = Mapping[str, Attribute | bool | int | float | str | Sequence[int] | None]
"""Properties of an operation by name, as attributes or as the values that `attribute_of` takes."""

Operand = Value | None | Sequence[Value]
"""An operand of an operation: None is an absent optional operand, a sequence is a variadic operand."""


def _named(value: SSAValue) -> str:
    """Returns the name of a value's tensor, quoted and behind a space; empty if it has no name.

    A reshape or transpose that is a part of its node has no name of its own; its operand is the same tensor.
    """
    while not (name := tensor_name(value) or value.name_hint) and isinstance(moved := value.owner, MovementOp):
        if not moved.operands:
            return ""
        value = moved.operands[0]
    return f' "{name}"' if name else ""


@dataclass
class Node:
    """A node of the source model, as its converter sees it.

    kind     the operator, with its domain unless that is the format's own
    name     the node's name; empty if the exporter gave no name
    outputs  names of the node's outputs; empty for an output that is left out
    builder  the function that the node's operations are added to
    file     the model's file, for errors
    position its number among the nodes of the model's graph, from 1 on; 0 if it is unknown
    """

    ATTRIBUTE: ClassVar[str] = "attribute"
    """The format's word for an attribute of a node."""

    NAMES_INPUTS: ClassVar[bool] = False
    """Whether the format gives names to the inputs of operators."""

    NAMES_ARGUMENTS: ClassVar[bool] = False
    """Whether an argument that a node returns as it is stands for the node, too."""

    MISFITS: ClassVar[tuple[type[Exception], ...]] = (VerifyException, ValueError, IndexError, ArithmeticError)
    """What numpy, and the operations that a converter adds, raise where inputs and attributes do not fit each other."""

    kind: str
    name: str
    outputs: Sequence[str]
    builder: Builder
    file: str
    position: int = 0
    _pending: list[Operation] = field(default_factory=list[Operation])
    _named: set[int] = field(default_factory=set[int])

    # ------------------------------------------------------------------------------------------------------------
    # Reading inputs

    def shape(self, x: Value) -> Shape:
        """The static shape of an input."""
        if isinstance(x, Constant):
            return x.shape
        if not isinstance(x.type, TensorType):
            raise UnsupportedError(f'{UNKNOWN_SHAPE} "{tensor_name(x)}" is not known')
        return shape_of(x)

    def rank(self, x: Value) -> int:
        """The number of dimensions of an input."""
        return len(self.shape(x))

    def element(self, x: Value) -> str:
        """The element type of an input, as MLIR writes it."""
        if isinstance(x, Constant):
            try:
                return str(element_type_of(x.array.dtype))
            except KeyError:
                return x.array.dtype.name
        return str(element_of(x)) if isinstance(x.type, TensorType) else str(x.type)

    def dtype(self, x: Value) -> np.dtype[Any]:
        """The element type of an input, as numpy has it."""
        return x.array.dtype if isinstance(x, Constant) else dtype_of(element_of(x))

    def room(self, shape: Sequence[int]) -> Shape:
        """Charges a table of indices to the budget of computed constants, and returns its shape.

        Raises:
            UnsupportedError: The rest of the budget is too small for the table.
        """
        if not self.builder.budget.take(shape, PLACE_BYTES):
            raise UnsupportedError(self.builder.budget.refusal(shape))
        return tuple(shape)

    def array(self, x: Value, what: str) -> Array:
        """The values of an input that must be known at import; `what` names the input in the refusal."""
        if isinstance(x, Constant):
            return x.array
        raise UnsupportedError(f"its {what}{_named(x)} is computed at run time and must be constant")

    def truth(self, x: Value, what: str) -> bool:
        """The value of an input that must be one truth value and known at import."""
        array = self.array(x, what)
        if array.size != 1:
            raise self.error(f"its {what} must be one value", f"{array.size} values")
        return bool(array.reshape(()))

    def ints(self, x: Value, what: str) -> Ints:
        """The values of an input of integers that must be known at import, as a flat tuple."""
        array = self.array(x, what)
        if array.dtype.kind not in "iu":
            raise self.error(f"its {what} must be integers", array.dtype)
        return tuple(int(v) for v in array.reshape(-1))

    def only(self, x: Value, what: str) -> int:
        """The value of an input that must be one integer and known at import."""
        values = self.ints(x, what)
        if len(values) != 1:
            raise self.error(f"its {what} must be one number", values)
        return values[0]

    def axis(self, axis: int, rank: int) -> int:
        """Returns an axis counted from the front; a negative `axis` counts from the end."""
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"its axis must lie in [{-rank}, {rank - 1}]", str(axis))
        return axis % max(rank, 1)

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Returns axes counted from the front, in ascending order; they must differ."""
        found = sorted(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            raise self.error("its axes must differ", axes)
        return found

    def attribute(self, name: str, value: Any) -> str:
        """Returns how an error names an attribute that qmlir does not know."""
        return f'{self.ATTRIBUTE} "{name}"'

    def ignores(self, name: str, value: Any) -> bool:
        """Whether an attribute that a converter does not take may be ignored, as it changes no result."""
        return False

    def error(self, need: str, got: object = None, remedy: str = "export the model again") -> NodeError:
        """Makes an error about this node, for a model that is wrong and not merely unsupported by qmlir.

        What was got may be a text or anything else; tuples, such as shapes, are written as lists.
        """
        shown = None if got is None else str(list(cast(tuple[object, ...], got)) if isinstance(got, tuple) else got)
        return NodeError(f"{self.file}: {self.kind}", self.called(), need, got=shown, remedy=remedy)

    def drawn(self, seed: float | None) -> np.random.RandomState:
        """Returns the source of the node's random numbers, and warns that they will not change from call to call.

        A network computes the same results from the same inputs, bit for bit; so random numbers are drawn once, at
        import, as in Glow. numpy never changes the streams of a `RandomState`, from which ONNX's own test cases are
        drawn. The seed is the node's own, if that is a whole number that numpy takes; else it follows from the seed
        and the name of the node's first output, so that nodes without seeds draw different numbers.
        """
        what = f'{self.file}: {self.kind} "{self.called()}"'
        warnings.warn(f"{what}: its random numbers are drawn once and are the same in every call", QmlirWarning, 2)
        if seed is not None and float(seed).is_integer() and 0 <= seed < 2**32:
            return np.random.RandomState(int(seed))
        return np.random.RandomState(crc32(f"{seed} {self.outputs[0]}".encode()))

    def remark(self, text: str, output: int = 0) -> None:
        """Records for the ledger that an output is something else than the source model says."""
        self.builder.remarks[self.outputs[output]] = text

    def called(self) -> str:
        """Returns the name of this node in messages: its own name, else the name of its first output."""
        return self.name or next(filter(None, self.outputs), "")

    # ------------------------------------------------------------------------------------------------------------
    # Writing operations

    def insert(
        self, op_type: type[TensorOp], operands: Sequence[Operand], properties: Properties | None = None, *,
        element: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        """Adds an operation without source names, which moves data around the operation that computes.

        An nn operation on f16 or bf16 operands is computed in f32, and a float result is cast back.

        Raises:
            UnsupportedError: The operation does not take an operand's type, or the result is too large.
            NodeError: The operands' shapes do not fit each other.
        """
        values = [self._operand(o) for o in operands]
        flat = [v for group in values for v in ([group] if isinstance(group, SSAValue) else group)]
        for value in flat:
            self.shape(value)
        half = next((element_of(v) for v in flat if _is_half(v)), None)
        if half is None or not issubclass(op_type, NNOp):
            return self._append(op_type, values, properties, element)
        # f16 and bf16 are storage types: the operation computes in f32 and rounds once.
        wide = [self._widened(v) if isinstance(v, SSAValue) else [self._widened(e) for e in v] for v in values]
        result = self._append(op_type, wide, properties)
        return self.converted(result, half) if is_float(result) else result

    def _append(
        self, op_type: type[TensorOp], operands: Sequence[SSAValue | Sequence[SSAValue]], properties: Properties | None,
        element: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        try:
            given = {name: attribute_of(value) for name, value in (properties or {}).items()}
            op = op_type.make(operands, given, element=element)
        except ElementsError as error:
            raise UnsupportedError(f"its types are not computed on: {error}") from None
        except VerifyException as error:
            raise self.error("its inputs and attributes must fit", str(error)) from None
        try:
            for result in op.results:
                sized(shape_of(result))
        except UnsupportedError:
            op.erase()
            raise
        self._follow(op)
        self._pending.append(op)
        return op.results[0]

    def _follow(self, op: Operation) -> None:
        """Records the counted axis of an operation's results, if its operands have one (counted.py)."""
        try:
            axis = follow(op, self.builder.counted)
        except UnsupportedError:
            op.erase()
            raise
        if axis is not None:
            self.builder.counted |= dict.fromkeys(op.results, axis)

    def converted(self, x: Value, element: Attribute) -> SSAValue:
        """Returns the input in another element type; an `nn.cast` converts it unless it already has that type."""
        value = self.builder.ssa(x)
        return value if element_of(value) == element else self._append(CastOp, [value], None, element)

    def _widened(self, value: SSAValue) -> SSAValue:
        return self.converted(value, f32) if _is_half(value) else value

    def half_of(self, x: Value) -> Attribute | None:
        """The element type of an input if it is a float of 16 bits; None of any other."""
        return HALVES.get(self.element(x))

    def widened(self, x: Value) -> Value:
        """The input in f32 if it is one of 16 bits."""
        if self.half_of(x) is None:
            return x
        return Constant(x.array.astype(np.float32), x.name) if isinstance(x, Constant) else self.converted(x, f32)

    def compute(
        self, op_type: type[TensorOp], operands: Sequence[Operand], properties: Properties | None = None, *,
        output: int = 0, part: str | None = None, element: Attribute | None = None, half: Attribute | None = None,
    ) -> SSAValue:  # fmt: skip
        """Adds the operation that computes an output, as `insert` does, and names it after the node and the output.

        If `part` is given, the result is an intermediate tensor of that output instead, and is called
        `<output>.<part>`. A node of several operations that takes its inputs `widened` gives as `half` the type to
        which its result is rounded, so that it rounds once.
        """
        result = self.insert(op_type, operands, properties, element=element)
        result = result if half is None else self.converted(result, half)
        assert isinstance(result, OpResult)
        tensor = self.outputs[output]
        if part is None:
            self._named.add(output)
            NAME.put(result.op, NameAttr.of([self.name], [tensor]))
        else:
            tensor = f"{tensor}.{part}"
            NAME.put(result.op, NameAttr.of(tensors=[tensor]))
        result.name_hint = name_hint(tensor)
        return result

    def mark_powers(self, exponent: int, first: int = 0) -> None:
        """Marks the pending operations from index `first` on as steps of a sum of powers, or of a root of that sum."""
        for op in self._pending[first:]:
            if isinstance(op, NNOp) and not isinstance(op, ConstantOp | MovementOp):
                POWER.put(op, exponent)

    def cast(self, op_type: type[QuantCastOp], x: SSAValue, element: Attribute) -> SSAValue:
        """Adds a cast from or to a quantized type; it carries no name, since its value is still the same tensor."""
        op = op_type(x, TensorType(element, self.shape(x)))
        self._follow(op)
        self._pending.append(op)
        return op.result

    def number(self, value: float, like: Value) -> Constant:
        """Makes a scalar constant of the element type that `like` is computed in: f32 for f16 and bf16."""
        dtype = self.dtype(like)
        return Constant(np.array(value, np.float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype))

    def _add_whole(self, op: Operation) -> list[Value]:
        """Adds the operation that a node is imported as, under the names of node and outputs; returns its results."""
        NAME.put(op, NameAttr.of([self.name], self.outputs))
        for result, output in zip(op.results, self.outputs, strict=True):
            result.name_hint = name_hint(output)
        self._pending.append(op)
        self._named.update(range(len(op.results)))
        return list(op.results)

    def add_opaque(
        self, kind: str, inputs: Sequence[Value | None], names: Sequence[str], attributes: Mapping[str, Attribute],
        version: int, types: Sequence[Attribute], reason: str,
    ) -> list[Value]:  # fmt: skip
        """Adds a `qmlir.opaque` operation in the node's place that records what the node says; returns its results.

        Args:
            kind: The operator, with the format or domain.
            inputs: The node's inputs; one that is left out, or a constant of a type that the IR lacks, is no operand.
            names: The names of the inputs; an empty name stands for one that is left out.
            attributes: The node's attributes.
            version: The operator's version.
            types: The types of the results.
            reason: Why the node is not imported.
        """
        source: dict[str, Attribute] = {
            "version": IntegerAttr(version, i64),
            "attributes": DictionaryAttr(dict(attributes)),
            "inputs": ArrayAttr(StringAttr(n) for n in names),
        }
        operands: list[SSAValue] = []
        for value in inputs:
            try:
                operands += [] if value is None else [self.builder.ssa(value)]
            except UnsupportedError:
                continue
        return self._add_whole(OpaqueOp(kind, operands, types, reason=reason, source=source))

    def add_own(
        self, own: OwnOperator, inputs: Sequence[Value | None], attributes: Mapping[str, Attribute],
        types: Sequence[Attribute] | None = None,
    ) -> list[Value]:  # fmt: skip
        """Adds the call of an operator that the program defines, and returns its results.

        Args:
            own: The operator.
            inputs: The node's inputs, none of which may be left out.
            attributes: The node's attributes.
            types: The types of the results; None if the operator's shape function says the shapes.

        Raises:
            UnsupportedError: An input is left out, or is quantized.
            QmlirError: The shape function fails.
        """
        if any(x is None for x in inputs):
            raise UnsupportedError("an input of an operator that the program defines is left out")
        values = [self.builder.ssa(x) for x in inputs if x is not None]
        for value in values:
            if value in self.builder.counted:
                raise unknown_size(value, self.builder.counted)
        if types is None:
            shapes = own.shapes([self.shape(v) for v in values], attribute_values(attributes), len(self.outputs))
            element = element_type_of(own.dtype) if own.dtype is not None else element_of(values[0]) if values else f32
            types = [TensorType(element, sized(shape)) for shape in shapes]
        return self._add_whole(CustomOp.of(own, values, attributes, types))

    def permuted(self, x: Value, permutation: Sequence[int]) -> SSAValue:
        """The input with its dimensions permuted: at import if it is constant, else by `nn.transpose`."""
        if list(permutation) == list(range(self.rank(x))):
            return self.builder.ssa(x)
        if isinstance(x, Constant):
            return self.builder.constant(x, tuple(permutation))
        return self.insert(TransposeOp, [x], {"permutation": permutation})

    def moved(self, x: Value, permutation: Sequence[int]) -> Value:
        """Like `permuted`, except that a constant stays a `Constant` and does not enter the IR yet."""
        if isinstance(x, Constant):
            return self.builder.rearranged(x, "transposed", tuple(permutation))
        return self.permuted(x, permutation)

    def reversed(self, x: Value, axes: Sequence[int]) -> Value:
        """The input with some axes in reverse order: at import if it is constant, else by `nn.slice`."""
        if isinstance(x, Constant):
            return self.builder.rearranged(x, "reversed", tuple(axes))
        shape = self.shape(x)
        properties = {
            "offsets": [size - 1 if axis in axes else 0 for axis, size in enumerate(shape)],
            "sizes": shape,
            "strides": [-1 if axis in axes else 1 for axis in range(len(shape))],
        }
        return self.insert(SliceOp, [x], properties)

    def reshaped(self, x: Value, shape: Sequence[int]) -> Value:
        """The input under another shape: at import if it is constant, else by `nn.reshape`."""
        if tuple(shape) == self.shape(x):
            return x
        if isinstance(x, Constant):
            return self.builder.rearranged(x, "reshaped", tuple(shape))
        return self.insert(ReshapeOp, [x], {"shape": shape})

    def matrix(self, x: Value, axis: int) -> Value:
        """The input as a matrix, whose rows hold the dimensions from an axis on; an axis may be the rank."""
        shape = self.shape(x)
        first = axis if axis == len(shape) else self.axis(axis, len(shape))
        return self.reshaped(x, (prod(shape[:first]), prod(shape[first:])))

    def _operand(self, operand: Operand) -> SSAValue | Sequence[SSAValue]:
        if operand is None:
            return []
        if isinstance(operand, SSAValue | Constant):
            return self.builder.ssa(operand)
        return [self.builder.ssa(o) for o in operand]

    # ------------------------------------------------------------------------------------------------------------
    # The end of a converter

    @property
    def pending(self) -> list[Operation]:
        """The operations that wait for the converter to return."""
        return self._pending

    def commit(
        self, results: Sequence[Value], add: Callable[[Sequence[Operation]], object], *, rename: bool = True
    ) -> None:
        """Hands the pending operations to `add`.

        If `rename` is set and no pending operation carries the name of an output, that name is added to the names of
        the output's value.
        """
        if rename:
            locate(self._pending, node_location(self.called(), self.file, self.position))
        add(self._pending)
        for index, (output, result) in enumerate(zip(self.outputs, results, strict=False)):
            value = result.carrier if isinstance(result, Constant) else result
            if rename and output and index not in self._named and isinstance(value, SSAValue):
                self._rename(value, output)

    def _rename(self, value: SSAValue, tensor: str) -> None:
        """Adds the node and a tensor to the names that the operation or argument behind a value stands for."""
        while isinstance(value, OpResult) and not NAME.on(value.op):
            if not isinstance(value.op, TransposeOp | ReshapeOp):
                break
            value = value.op.x
        if not isinstance(value, OpResult) and not self.NAMES_ARGUMENTS:
            return
        own = names_of(value.op) if isinstance(value, OpResult) else names_of_value(value)
        if tensor in own.tensors:  # the last operation of a body already carries the name
            return
        # A cast carries no name of its own, so it takes the tensor's.
        is_only_name = not own.tensors and isinstance(value, OpResult) and isinstance(value.op, QuantCastOp)
        tensors = [tensor] if is_only_name else own.tensors
        set_names(value, NameAttr.of([own.nodes, self.name], tensors, [own.data.inside, tensor]))

    def discard(self) -> None:
        """Erases the pending operations, after the converter refused."""
        for op in reversed(self._pending):
            for result in op.results:
                self.builder.counted.pop(result, None)
            op.erase()
        self._pending.clear()
        self._named.clear()


HALVES: dict[str, Attribute] = {"f16": Float16Type(), "bf16": BFloat16Type()}
"""Floats of 16 bits, by name."""


def _is_half(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float16Type | BFloat16Type)
