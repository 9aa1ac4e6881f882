"""Shared output of all lowerings to the loops level: kernel functions, the calls of them, and what parametrizes them.

A `Kernel` is a frozen dataclass that holds everything its code depends on besides the types of its arguments. Two
operations with equal kernels and equal argument types share one private function. Data that may differ between such
operations (weights, biases, multipliers) is passed in buffers.

The lowerings nn_to_loops and qint_to_loops do not know each other. Each replaces the tensor operations it knows and
leaves casts where a tensor meets a buffer. `finish-loops` folds the casts when all lowerings have run:

    %x' = builtin.unrealized_conversion_cast %x : tensor<4xf32> to memref<4xf32>
    %y' = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
    func.call @nn_relu_0(%x', %y', %begin, %end)
    %y = builtin.unrealized_conversion_cast %y' : memref<4xf32> to tensor<4xf32>

This is sound without an alias analysis, because only one call writes each buffer, and it does so before any use.
(The casts are not bufferization.to_tensor: that operation keeps the element type, while the buffer of a quantized
tensor holds storage integers.)
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
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
    UnrealizedConversionCastOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel
from qmlir.codegen.leads import APART
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn import ConstantOp, ReshapeOp
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import Heir, Mark, Movement, moved
from qmlir.ir.facts import INNER, KERNELS, LAYER, LEADS, PARALLEL, STRIPES
from qmlir.ir.interfaces import Array
from qmlir.ir.locations import locate, named_location
from qmlir.ir.rewriting import node_name
from qmlir.ir.stripes import Stripes
from qmlir.ir.types import is_integer, is_memref, is_numpys_own
from qmlir.ir.weights import WeightsAttr

ALIGNMENT = IntegerAttr(64, i64)
"""Alignment of allocated buffers in bytes: a cache line."""

SCRATCH_LIMIT = 48 * 1024
"""Bytes of scratch memory that one share of a kernel may use: a part of a second-level cache."""

SMALL_SCRATCH = 1024
"""Bytes of scratch memory that a kernel may use if it is to take little, unless it cannot do with less."""


class Kernel(abc.ABC):
    """A kernel function; subclasses are frozen dataclasses whose fields determine the function's code."""

    @property
    def symbol(self) -> str:
        """The name of the function without its number; if empty, the operation's: `nn_softmax` of `nn.softmax`."""
        return ""

    def arguments(self, count: int) -> Sequence[str]:
        """Name hints of the function's `count` buffer arguments."""
        return ("x", *(f"p{i}" for i in range(1, count - 1)), "y")[-count:]

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        """The leads of the result before operands (leads.py), by position, if one thread runs all items in order.

        The result must lie apart from operands that are not listed.
        """
        return {}

    def stripes(self, types: Sequence[MemRefType[Attribute]]) -> Stripes | None:
        """The stripes that some of the items touch (ir/stripes.py); None if the kernel has no such order."""
        return None

    @abc.abstractmethod
    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        """Writes the function body for items [begin, end) of the outermost loop; `buffers` are inputs, then results."""


class PackedTable(abc.ABC):
    """A matrix of bytes [rows, channels] in the form in which a layer reads it (kernels/rows_of_tables.py)."""

    table: Array

    @abc.abstractmethod
    def look_up(self) -> tuple[Kernel, Sequence[Array]]:
        """Returns a kernel of rows and the layer's constants that it takes, before the indices and the result."""


@dataclass
class MainLowering:
    """The state of lowering the tensor operations of one module: the insertion point and the kernels written so far.

    machine    what the processor can do, by which kernels are chosen
    at         the operation being lowered; new operations of main are inserted before it
    chosen     for each operation by number, the kernel and the reason (`record`)
    packed     what a kernel has packed or found of a buffer that operations read, by both
    largest    bounds of the magnitudes of operands, by the operation that reads one and its position
    """

    module: ModuleOp
    machine: Capabilities = Capabilities()
    at: Operation | None = None

    def __post_init__(self) -> None:
        self._functions: dict[tuple[object, ...], str] = {}
        self._symbols = {f.sym_name.data for f in self.module.body.block.ops if isinstance(f, func.FuncOp)}
        self._constants: dict[tuple[Block, WeightsAttr], SSAValue] = {}
        self.chosen: dict[str, str] = {}
        self.packed_tables: list[tuple[Block, PackedTable]] = []  # the layers' matrices of bytes so far
        self.packed: dict[tuple[SSAValue, Kernel], SSAValue] = {}
        self.largest: dict[tuple[Operation, int], int] = {}

    def note_table(self, table: PackedTable) -> None:
        """Notes the form in which the layer that is being lowered has its weights."""
        assert self.at is not None
        assert self.at.parent is not None
        self.packed_tables.append((self.at.parent, table))

    def note_largest(self, tensor: SSAValue, largest: int) -> None:
        """Notes a bound of a tensor's magnitudes for the operations that read the tensor."""
        self.largest.update({(use.operation, use.index): largest for use in tensor.uses})

    # -- operands --------------------------------------------------------------------------------------------------

    def buffer(self, tensor: SSAValue) -> SSAValue:
        """The memref that holds a tensor."""
        if isinstance(tensor.owner, UnrealizedConversionCastOp) and is_memref(tensor.owner.inputs[0].type):
            return tensor.owner.inputs[0]
        return self.insert(UnrealizedConversionCastOp.get([tensor], [self.buffer_type(tensor)])).results[0]

    def buffer_type(self, tensor: SSAValue) -> MemRefType[Attribute]:
        """The type of the memref that holds a tensor; for a quantized tensor, a memref of storage integers."""
        return storage_memref(tensor.type)

    def constant(self, array: Array) -> SSAValue:
        """A buffer with constant data; equal constants of one block share a buffer."""
        assert self.at is not None
        assert self.at.parent is not None
        weights = WeightsAttr(array)
        key = (self.at.parent, weights)
        if key not in self._constants:
            self._constants[key] = self.insert(ConstantBufferOp(weights)).results[0]
        return self._constants[key]

    def require_constant(self, op: Operation, tensor: SSAValue, what: str) -> Array:
        """The data of a constant operand; `what` names the operand in the message.

        Raises:
            UnsupportedError: The operand is computed at run time.
        """
        array = constant_array(tensor)
        if array is None:
            self.refuse(
                op, f"needs constant {what}", got="a value computed at run time", remedy="run --fold-constants first"
            )
        return array

    def view(self, buffer: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Views a buffer under another shape with the same number of elements."""
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
        """Allocates a buffer for an intermediate value."""
        segments = DenseArrayBase.from_list(i32, (0, 0))
        properties: dict[str, Attribute] = {"alignment": ALIGNMENT, "operandSegmentSizes": segments}
        return self.insert(memref.AllocOp.create(result_types=[type], properties=properties)).results[0]

    def allocate_result(self, tensor: SSAValue) -> SSAValue:
        """Allocates a buffer for a result of the operation being lowered; the buffer takes over the tensor's name."""
        buffer = self.allocate(self.buffer_type(tensor))
        op, alloc = tensor.owner, buffer.owner
        assert isinstance(op, Operation)
        assert isinstance(alloc, Operation)
        alloc.attributes.update(moved(op, Movement.TO_LOOPS, Heir.BUFFER))
        buffer.name_hint = tensor.name_hint
        return buffer

    def replace(self, tensor: SSAValue, buffer: SSAValue) -> None:
        """Replaces all uses of `tensor` by a cast of `buffer`."""
        if not tensor.uses:
            return
        tensor.replace_all_uses_with(self.insert(UnrealizedConversionCastOp.get([buffer], [tensor.type])).results[0])

    def compute(
        self, kernel: Kernel, result: SSAValue, shape: Sequence[int], *operands: tuple[SSAValue, Sequence[int]],
        items: int | None = None,
    ) -> None:  # fmt: skip
        """Computes a result of the operation being lowered by one call of a kernel; an empty result needs no call.

        Args:
            kernel: The kernel, whose buffers are the operands and the result.
            result: The result.
            shape: The shape under which the kernel writes the result.
            operands: Each tensor that the kernel reads, and the shape under which it does.
            items: The size of the kernel's outermost loop; by default the first dimension of `shape`.
        """
        y = self.allocate_result(result)
        if prod(shape):
            buffers = [self.view(self.buffer(x), seen) for x, seen in operands]
            self.call(kernel, [*buffers, self.view(y, shape)], shape[0] if items is None else items)
        self.replace(result, y)

    def call(self, kernel: Kernel, arguments: Sequence[SSAValue], items: int) -> None:
        """Calls a kernel's function on the items [0, items); writes the function first if it does not exist yet."""
        types = tuple(argument.type for argument in arguments)
        symbol = self._functions.get((kernel, types)) or self._write(kernel, types)
        bounds = [self.insert(arith.ConstantOp(IntegerAttr(i, INDEX))).results[0] for i in (0, items)]
        call = self.insert(func.CallOp(symbol, [*arguments, *bounds], []))
        if self.machine.small:
            buffers = [cast("MemRefType[Attribute]", type) for type in types]
            leads = kernel.leads(buffers)
            LEADS.put(call, [leads.get(i, APART) for i in range(len(types))])
            if (stripes := kernel.stripes(buffers)) is not None:
                STRIPES.put(call, stripes)
        if self.at is not None:
            call.attributes.update(moved(self.at, Movement.TO_LOOPS, Heir.CALLS))
            self.record(kernel.symbol or _symbol(self.at), "", again=False)

    def record(self, name: str, why: str, *, again: bool = True) -> None:
        """Records the kernel of the operation being lowered, and why it was chosen, if operations are numbered.

        Args:
            name: What users read as the kernel's name.
            why: The reason; empty if the operation has one kernel.
            again: Whether the record replaces an earlier one.
        """
        number = None if self.at is None else LAYER.of(self.at)
        if number is not None and (again or str(number) not in self.chosen):
            self.chosen[str(number)] = f"{name}: {why}" if why else name

    def _write(self, kernel: Kernel, types: tuple[Attribute, ...]) -> str:
        assert self.at is not None

        def body(code: Code, arguments: Sequence[SSAValue]) -> None:
            *buffers, begin, end = arguments
            kernel.write(code, [Buffer(code, b) for b in buffers], Value(code, INDEX, begin), Value(code, INDEX, end))

        names = [*kernel.arguments(len(types)), "begin", "end"]
        symbol = self._function(kernel.symbol or _symbol(self.at), [*types, INDEX, INDEX], names, PARALLEL, body)
        self._functions[kernel, types] = symbol
        return symbol

    def _microkernel(self, function: Microkernel, types: Sequence[Attribute]) -> str:
        """The symbol of a microkernel's function, which is written if it does not exist yet."""
        key = (function, tuple(types))
        if key not in self._functions:

            def body(code: Code, arguments: Sequence[SSAValue]) -> None:
                buffers = [Buffer(code, argument) for argument in arguments if is_memref(argument.type)]
                numbers = [Value(code, INDEX, argument) for argument in arguments[len(buffers) :]]
                function.write(code, buffers, numbers)

            self._functions[key] = self._function(function.symbol, types, function.arguments, INNER, body)
        return self._functions[key]

    def _function(
        self,
        name: str,
        types: Sequence[Attribute],
        names: Sequence[str],
        kind: Mark,
        body: Callable[[Code, Sequence[SSAValue]], None],
    ) -> str:
        """Adds a private function with a mark, and returns its symbol, a name with a number."""
        number = 0
        while (symbol := f"{name}_{number}") in self._symbols:
            number += 1
        self._symbols.add(symbol)
        entry = Block(arg_types=types)
        for argument, hint in zip(entry.args, names, strict=True):
            argument.name_hint = hint
        code = Code(entry, self._microkernel, vectors=self.machine.vectors)
        body(code, entry.args)
        code.add(func.ReturnOp())
        code.finish()
        function = func.FuncOp(symbol, (types, []), Region(entry), StringAttr("private"))
        kind.put(function)
        self.module.body.block.add_op(function)
        return symbol

    # -- the walk ------------------------------------------------------------------------------------------------

    def insert(self, op: Operation) -> Operation:
        """Inserts an operation before the operation being lowered."""
        assert self.at is not None
        assert self.at.parent is not None
        locate([op], named_location(self.at))
        self.at.parent.insert_op_before(op, self.at)
        return op

    def refuse(self, op: Operation, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Raises an UnsupportedError about `op`."""
        raise UnsupportedError.at(op.name, node_name(op), need, got=got, remedy=remedy)


Rule: TypeAlias = Callable[[MainLowering, Any], None]
"""Lowers one operation; a rule calls `MainLowering.replace` on each result of the operation."""

Rules: TypeAlias = Mapping[type[Operation], Rule]


def lower_tensor_ops(module: ModuleOp, rules: Rules, machine: Capabilities, last: Rules | None = None) -> None:
    """Lowers the operations that have a rule in all main functions of `module`, in program order.

    Those with a rule in `last` are lowered behind the others, so that they may use what these have laid out.
    """
    state = MainLowering(module, machine)
    for function in list(module.body.block.ops):
        if not isinstance(function, func.FuncOp) or function.is_declaration or is_kernel(function):
            continue
        for table in (rules, last or {}):
            for op in list(function.body.block.ops):
                if (rule := table.get(type(op))) is None or op.parent is None:
                    continue
                state.at = op
                rule(state, op)
        erase_dead(function, (*rules, *(last or {}), *LEFTOVERS))
    if state.chosen:
        KERNELS.put(module, {**(KERNELS.of(module) or {}), **state.chosen})


def _symbol(op: Operation) -> str:
    """The name of a kernel that computes an operation: `nn_softmax` of `nn.softmax`."""
    return op.name.replace(".", "_")


def is_kernel(function: func.FuncOp) -> bool:
    """Whether a function is a kernel or a microkernel, and has no tensors left to lower."""
    return PARALLEL.on(function) or INNER.on(function)


LEFTOVERS = (ConstantBufferOp, UnrealizedConversionCastOp, memref.ReinterpretCastOp, arith.ConstantOp)
"""Operations of main that may be left without uses by the lowering."""


def erase_dead(function: func.FuncOp, kinds: Sequence[type[Operation]]) -> None:
    """Erases the operations of the given classes whose results have no uses, the last operation first."""
    operations, erased = list(function.body.block.ops), tuple(kinds)
    wanted = {kind for kind in set(map(type, operations)) if issubclass(kind, erased)}
    for op in reversed(operations):
        if type(op) in wanted and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def storage_memref(type: Attribute) -> MemRefType[Attribute]:
    """The memref type that holds a tensor: unsigned integers become signless, quantized elements storage integers.

    Types without arithmetic are held as their bits: f16 and bf16 as i16, narrower floats and integers as i8. An i1
    stays i1.
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
    """The data of a constant, None for a computed tensor; looks through reshapes, casts and constant buffers.

    The data of a quantized constant are its stored integers. Unsigned data are returned in the signed dtype of the same
    bits, and f16 and types that numpy lacks as the integers of their bits.
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
