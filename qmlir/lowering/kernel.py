"""What every edge to the loops level writes: kernel functions, and main's calls of them.

A `Kernel` is a frozen dataclass that holds everything its text depends on besides the types of its arguments; two
operations with equal kernels and argument types share one private function. All that may differ between them
(weights, biases, multipliers) is passed in buffers.

The edges nn_to_loops and qint_to_loops do not know each other. Each replaces the tensor operations it knows and
leaves casts where a tensor meets a buffer; `finish-loops` folds them when all edges have run:

    %x' = builtin.unrealized_conversion_cast %x : tensor<4xf32> to memref<4xf32>
    %y' = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
    func.call @nn_relu_0(%x', %y', %begin, %end)
    %y = builtin.unrealized_conversion_cast %y' : memref<4xf32> to tensor<4xf32>

This is sound without an analysis: a buffer is written by one call only, the one that makes it, before any use.
(bufferization.to_tensor keeps the element type, and a quantized tensor's buffer holds its storage integers.)
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeIs
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    UnrealizedConversionCastOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.dialects.dtypes import is_numpys_own
from qmlir.dialects.loops import is_integer, is_memref
from qmlir.dialects.nn import ConstantOp, ReshapeOp
from qmlir.dialects.qmlir import NAME, ConstantBufferOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsAttr
from qmlir.errors import LoweringError
from qmlir.lowering.code import Buffer, Code
from qmlir.lowering.value import INDEX, Value
from qmlir.rewriting import node_name

Array: TypeAlias = npt.NDArray[Any]

PARALLEL = "qmlir.parallel"
"""Attribute of a kernel whose last two arguments are the range [begin, end) of its outermost loop."""

ALIGNMENT = IntegerAttr(64, i64)
"""Bytes; a cache line, and more than any vector needs."""

STACK_LIMIT = 48 * 1024
"""Bytes of stack one kernel may use: within a first or second level cache, and within every thread's stack."""


class Kernel(abc.ABC):
    """A kernel function: a frozen dataclass whose fields are all that its text depends on."""

    @property
    @abc.abstractmethod
    def symbol(self) -> str:
        """What its function is called, without a number: `qint_conv2d`."""

    def arguments(self, count: int) -> Sequence[str]:
        """Names of its buffers, for readers."""
        return ("x", *(f"p{i}" for i in range(1, count - 1)), "y")[-count:]

    @abc.abstractmethod
    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        """Writes the body: the items [begin, end) of the outermost loop. `buffers` are inputs, then results."""


@dataclass
class MainLowering:
    """The state of lowering one module's tensor operations: where operations go, and the kernels made so far."""

    module: ModuleOp
    at: Operation | None = None

    def __post_init__(self) -> None:
        self._kernels: dict[tuple[object, ...], str] = {}
        self._symbols = {f.sym_name.data for f in self.module.body.block.ops if isinstance(f, func.FuncOp)}
        self._constants: dict[tuple[Block, WeightsAttr], SSAValue] = {}

    # -- operands --------------------------------------------------------------------------------------------------

    def buffer(self, tensor: SSAValue) -> SSAValue:
        """The memref that holds a tensor."""
        if isinstance(tensor.owner, UnrealizedConversionCastOp) and is_memref(tensor.owner.inputs[0].type):
            return tensor.owner.inputs[0]
        return self.insert(UnrealizedConversionCastOp.get([tensor], [self.buffer_type(tensor)])).results[0]

    def buffer_type(self, tensor: SSAValue) -> MemRefType[Attribute]:
        """The type of the memref that holds a tensor; a quantized one holds its storage integers."""
        return storage_memref(tensor.type)

    def constant(self, array: Array) -> SSAValue:
        """A buffer with constant data."""
        assert self.at is not None
        assert self.at.parent is not None
        weights = WeightsAttr(array)
        key = (self.at.parent, weights)
        if key not in self._constants:
            self._constants[key] = self.insert(ConstantBufferOp(weights)).results[0]
        return self._constants[key]

    def require_constant(self, op: Operation, tensor: SSAValue, what: str) -> Array:
        """The data of a constant operand.

        Raises:
            LoweringError: It is computed at run time.
        """
        array = constant_array(tensor)
        if array is None:
            self.refuse(
                op, f"needs constant {what}", got="a value computed at run time", remedy="run --fold-constants first"
            )
        return array

    def view(self, buffer: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same memory under another shape with as many elements."""
        assert is_memref(buffer.type)
        shape = tuple(shape)
        if buffer.type.get_shape() == shape:
            return buffer
        assert prod(shape) == prod(buffer.type.get_shape()), f"{buffer.type} as {shape}"
        strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
        type = MemRefType(buffer.type.element_type, shape)
        return self.insert(memref.ReinterpretCastOp(buffer, [], [], [], [0], shape, strides, type)).results[0]

    # -- results ---------------------------------------------------------------------------------------------------

    def allocate(self, type: MemRefType[Attribute]) -> SSAValue:
        """A buffer for an intermediate value."""
        segments = DenseArrayBase.from_list(i32, (0, 0))
        properties: dict[str, Attribute] = {"alignment": ALIGNMENT, "operandSegmentSizes": segments}
        return self.insert(memref.AllocOp.create(result_types=[type], properties=properties)).results[0]

    def allocate_result(self, tensor: SSAValue) -> SSAValue:
        """A buffer for a tensor that the operation at hand computes; it takes over the tensor's name."""
        buffer = self.allocate(self.buffer_type(tensor))
        op, alloc = tensor.owner, buffer.owner
        assert isinstance(op, Operation)
        assert isinstance(alloc, Operation)
        if (name := op.attributes.get(NAME)) is not None:
            alloc.attributes[NAME] = name
        buffer.name_hint = tensor.name_hint
        return buffer

    def replace(self, tensor: SSAValue, buffer: SSAValue) -> None:
        """Lets `buffer` stand for `tensor` from here on."""
        if not tensor.uses:
            return
        tensor.replace_all_uses_with(self.insert(UnrealizedConversionCastOp.get([buffer], [tensor.type])).results[0])

    def call(self, kernel: Kernel, arguments: Sequence[SSAValue], items: int) -> None:
        """Calls a kernel's function on all its items, writing it first if there is no such function yet."""
        types = tuple(argument.type for argument in arguments)
        key = (kernel, types)
        if key not in self._kernels:
            self._kernels[key] = self._write(kernel, types)
        bounds = [self.insert(arith.ConstantOp(IntegerAttr(i, INDEX))).results[0] for i in (0, items)]
        self.insert(func.CallOp(self._kernels[key], [*arguments, *bounds], []))

    def _write(self, kernel: Kernel, types: Sequence[Attribute]) -> str:
        number = 0
        while (symbol := f"{kernel.symbol}_{number}") in self._symbols:
            number += 1
        self._symbols.add(symbol)
        entry = Block(arg_types=[*types, INDEX, INDEX])
        code = Code(entry)
        *buffers, begin, end = entry.args
        begin.name_hint, end.name_hint = "begin", "end"
        for buffer, hint in zip(buffers, kernel.arguments(len(buffers)), strict=True):
            buffer.name_hint = hint
        kernel.write(code, [Buffer(code, b) for b in buffers], Value(code, INDEX, begin), Value(code, INDEX, end))
        code.add(func.ReturnOp())
        code.finish()
        function = func.FuncOp(symbol, ([*types, INDEX, INDEX], []), Region(entry), StringAttr("private"))
        function.attributes[PARALLEL] = UnitAttr()
        self.module.body.block.add_op(function)
        return symbol

    # -- the walk ------------------------------------------------------------------------------------------------

    def insert(self, op: Operation) -> Operation:
        """Puts an operation before the one at hand."""
        assert self.at is not None
        assert self.at.parent is not None
        self.at.parent.insert_op_before(op, self.at)
        return op

    def refuse(self, op: Operation, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Ends the lowering because of `op`."""
        raise LoweringError(op.name, node_name(op), need, got=got, remedy=remedy)


Rule: TypeAlias = Callable[[MainLowering, Any], None]
"""Lowers one operation of the class it is filed under, by calling `MainLowering.replace` on its results."""

Rules: TypeAlias = Mapping[type[Operation], Rule]


def lower_tensor_ops(module: ModuleOp, rules: Rules) -> None:
    """Replaces the operations that `rules` knows in all functions of `module`, in order."""
    state = MainLowering(module)
    for function in list(module.body.block.ops):
        if not isinstance(function, func.FuncOp) or function.is_declaration or PARALLEL in function.attributes:
            continue
        for op in list(function.body.block.ops):
            if (rule := rules.get(type(op))) is None or op.parent is None:
                continue
            state.at = op
            rule(state, op)
        erase_dead(function, (*rules, *LEFTOVERS))


LEFTOVERS = (ConstantBufferOp, UnrealizedConversionCastOp, memref.ReinterpretCastOp, arith.ConstantOp)
"""Operations of main that lowering may leave without a use."""


def erase_dead(function: func.FuncOp, kinds: Sequence[type[Operation]]) -> None:
    """Erases operations of the given classes whose results nobody uses, the last first."""
    for op in reversed(list(function.body.block.ops)):
        if isinstance(op, tuple(kinds)) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def storage_memref(type: Attribute) -> MemRefType[Attribute]:
    """The memref that holds a tensor: signless integers for unsigned ones, and for quantized values their storage.

    Types that only store are held as their bits: i16 for f16 and bf16, i8 for all narrower floats and integers.
    """
    assert is_tensor(type)
    element = type.element_type
    if isinstance(element, UniformType):
        element = element.storage_type
    elif is_integer(element):
        element = IntegerType(1 if element.width.data == 1 else max(element.width.data, 8))
    elif isinstance(element, AnyFloat) and not isinstance(element, Float32Type | Float64Type):
        element = IntegerType(max(element.bitwidth, 8))
    return MemRefType(element, type.get_shape())


def memref_shape(buffer: SSAValue) -> tuple[int, ...]:
    """The shape of a buffer."""
    assert is_memref(buffer.type)
    return buffer.type.get_shape()


def is_tensor(type: Attribute) -> TypeIs[TensorType[Attribute]]:
    """Whether a type is a ranked tensor, of any element type."""
    return isinstance(type, TensorType)


def constant_array(tensor: SSAValue) -> Array | None:
    """The data of a constant, also through reshapes and casts, and when another edge made it a buffer already.

    A quantized constant's data are its stored integers; they and unsigned integers are in the signless dtype, and
    types that only store are the integers of their bits.
    """
    op = tensor.owner
    array: Array | None = None
    if isinstance(op, ConstantOp | ConstantBufferOp):
        array = op.value.array
    elif isinstance(op, UnrealizedConversionCastOp | StorageCastOp | memref.ReinterpretCastOp | ReshapeOp):
        array = constant_array(op.operands[0])
    if array is None:
        return None
    if array.dtype.kind == "u" or array.dtype == np.float16 or not is_numpys_own(array.dtype):
        array = array.view(f"i{array.dtype.itemsize}")
    assert is_tensor(tensor.type) or is_memref(tensor.type)
    return array.reshape(tensor.type.get_shape())
