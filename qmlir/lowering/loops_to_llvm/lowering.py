"""The lowering of one function: values, blocks, intrinsics, and the types of the llvm level."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any, NoReturn, TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.codegen.machine import Capabilities
from qmlir.dialects.simd.matrices import matrix_shape
from qmlir.errors import UnsupportedError
from qmlir.ir.types import is_integer, is_memref, is_vector, vector_of
from qmlir.ir.upstream.llvm import ShlOp, X86AMXType

# ---------------------------------------------------------------------------------------------------------------
# The LLVM types of loops-level types.
#
#     index → i64      memref<…> → ptr      vector<Nxindex> → vector<Nxi64>      iN, fN, vector<N×…> → themselves
#     (or i32, the size of an address)
#     vector<R×C×…> of simd's matrices → x86_amx
#
# A lowered memref is a bare pointer to its first element; shapes and strides are static, and become part of addresses.


POINTER = llvm.LLVMPointerType()

X86_AMX = X86AMXType()

STORED_WIDTHS = (1, 8, 16, 32, 64)
"""Integer widths in bits that memory holds unpacked; an i1 takes a byte."""


def lowered_type(type: Attribute, index: IntegerType = i64) -> Attribute:
    """The LLVM type of a loops-level type; `index` is the type of indices.

    Raises:
        UnsupportedError: The type is a tensor, a dynamic or multi-dimensional vector, or has no LLVM form.
    """
    if is_integer(type):
        return type if type.signedness.data is Signedness.SIGNLESS else IntegerType(type.width.data)
    if isinstance(type, IndexType):
        return index
    if is_memref(type):
        return POINTER
    if is_vector(type):
        if matrix_shape(type):
            return X86_AMX
        if type.get_num_dims() != 1 or type.get_num_scalable_dims():
            raise UnsupportedError(f"vectors must have one static dimension, got {type}")
        element = lowered_type(type.element_type, index)
        return type if element is type.element_type else VectorType(element, type.get_shape())
    if isinstance(type, AnyFloat):
        return type
    raise UnsupportedError(f"type {type} has no LLVM form")


def element_bits(type: Attribute) -> int:
    """The width in bits of a scalar type; an index has 64 bits, or is kept as if it had.

    Raises:
        UnsupportedError: The type is not a scalar.
    """
    if isinstance(type, IndexType):
        return 64
    if is_integer(type):
        return type.width.data
    if isinstance(type, AnyFloat):
        return type.bitwidth
    raise UnsupportedError(f"type {type} has no width")


def element_bytes(type: Attribute) -> int:
    """The bytes that one element takes in memory.

    Raises:
        UnsupportedError: Memory does not hold elements of this width.
    """
    bits = element_bits(type)
    if bits not in STORED_WIDTHS:
        raise UnsupportedError(f"memory holds elements of {STORED_WIDTHS} bits, got {type}")
    return max(1, bits // 8)


def static_strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """The strides of a memref: the distance in elements between neighbours along each dimension.

    Raises:
        UnsupportedError: A size other than the first or a stride is dynamic, or the layout is an affine map.
    """
    shape = type.get_shape()
    if any(size < 0 for size in shape[1:]):
        raise UnsupportedError(f"memrefs must have static shapes, the first size excepted, got {type}")
    if isinstance(type.layout, NoneAttr):
        return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    strides = type.layout.get_strides() if isinstance(type.layout, StridedLayoutAttr) else None
    if strides is None or any(s is None for s in strides):
        raise UnsupportedError(f"memrefs must have static strides, got {type}")
    return tuple(s for s in strides if s is not None)


def is_contiguous(type: MemRefType[Attribute]) -> bool:
    """Whether the elements lie row-major without gaps (dimensions of size 1 may have any stride)."""
    expected = 1
    for size, stride in zip(reversed(type.get_shape()), reversed(static_strides(type)), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def byte_size(type: MemRefType[Attribute]) -> int:
    """The bytes that a contiguous memref spans.

    Raises:
        UnsupportedError: The memref's size is not known.
    """
    if any(size < 0 for size in type.get_shape()):
        raise UnsupportedError(f"memrefs must have static shapes, got {type}")
    return prod(type.get_shape()) * element_bytes(type.element_type)


# ---------------------------------------------------------------------------------------------------------------
# The state of lowering one function: the insertion point, the lowered values, and methods that build llvm operations.
#
# The files of the dialects (arith.py, memory.py, control.py, …) are tables from an operation class to a rule. A rule
# reads its operation, emits llvm operations through `FunctionLowering`, and defines the lowered results. One walk
# applies the rules: no pattern is tried twice and nothing is rewritten in place, so the cost is that of building the
# result.


Rule: TypeAlias = Callable[["FunctionLowering", Any], None]
"""Lowers one operation: (state, operation) → None; a rule defines the lowered results in the state."""

Rules: TypeAlias = Mapping[type[Operation], Rule]

NO_WRAP = {"overflowFlags": llvm.OverflowAttr([llvm.OverflowFlag.NO_SIGNED_WRAP])}
"""`nsw`, for addresses and induction variables: both stay inside memory objects, which are far below 2^63 bytes."""

WRAP = {"overflowFlags": llvm.OverflowAttr("none")}

COMPARISONS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Integer predicates in the order in which arith and llvm number them."""

_PREDICATES = {name: IntegerAttr(i, i64) for i, name in enumerate(COMPARISONS)}

NO_FASTMATH = {"fastmathFlags": llvm.FastMathAttr(None)}

_NO_BUNDLES = DenseArrayBase.from_list(i32, ())

_CALL_PROPERTIES: Mapping[str, Attribute] = {
    "fastmathFlags": llvm.FastMathAttr(None),
    "CConv": llvm.CallingConventionAttr("ccc"),
    "op_bundle_sizes": _NO_BUNDLES,
    "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
}


@cache
def operand_sizes(*sizes: int) -> DenseArrayBase:
    """The attribute with the sizes of an operation's operand groups."""
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(1024)
def _mask(*lanes: int) -> DenseArrayBase:
    """The attribute with the lanes of a shuffle."""
    return DenseArrayBase.from_list(i32, lanes)


def mangled(type: Attribute) -> str:
    """A type as it appears in an intrinsic's name: `f32`, `v8i32`, `p0`."""
    if is_integer(type):
        return f"i{type.width.data}"
    if isinstance(type, AnyFloat):
        return "bf16" if type.name == "bf16" else f"f{type.bitwidth}"
    if is_vector(type):
        return f"v{type.get_shape()[0]}{mangled(type.element_type)}"
    return "p0"


class FunctionLowering:
    """The state of lowering one function to the llvm dialect.

    name      the function's symbol, for errors
    machine   what the processor can do
    index     the type of an index: an integer of the size of an address
    written   memrefs of the source function that an operation stores to, as roots (see `root_of` in dialects/loops.py)
    region    the lowered body
    blocks    block of the source function → lowered block
    """

    def __init__(self, name: str, rules: Rules, machine: Capabilities = Capabilities(), index: IntegerType = i64):
        self.name = name
        self.machine = machine
        self.index = index
        self.written: set[SSAValue] = set()
        self.region = Region()
        self.blocks: dict[Block, Block] = {}
        self._rules = rules
        self._values: dict[SSAValue, SSAValue] = {}
        self._constants: dict[tuple[object, ...], SSAValue] = {}
        self._integers: dict[tuple[int, int], SSAValue] = {}
        self._known: dict[SSAValue, int] = {}
        self._derived: dict[tuple[str, SSAValue, SSAValue | None], SSAValue] = {}
        self._at_entry: list[Operation] = []
        self._frame: SSAValue | None = None
        self._block = Block()

    # -- the walk ----------------------------------------------------------------------------------------------

    def lower(self, operations: Iterable[Operation]) -> None:
        """Lowers operations in order into the current block."""
        rules = self._rules
        for op in operations:
            rule = rules.get(type(op))
            if rule is None:
                self.refuse(op, "has no lowering to LLVM", remedy="express it in simpler operations before this pass")
            try:
                rule(self, op)
            except UnsupportedError as error:
                raise error.about(op.name, self.name) from None

    def refuse(self, op: Operation, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Raises an UnsupportedError about `op`."""
        raise UnsupportedError.at(op.name, self.name, need, got=got, remedy=remedy)

    def finish(self) -> Region:
        """Inserts constants and stack slots at the top of the entry block, and returns the lowered body."""
        entry = self.region.blocks.first
        assert entry is not None
        if entry.first_op is None:
            entry.add_ops(self._at_entry)
        else:
            entry.insert_ops_before(self._at_entry, entry.first_op)
        return self.region

    # -- blocks ------------------------------------------------------------------------------------------------

    def place(self, block: Block) -> Block:
        """Makes `block` the current block; a new block is appended to the function."""
        if block.parent is None:
            self.region.add_block(block)
        self._block = block
        return block

    def branch(self, target: Block, arguments: Sequence[SSAValue] = ()) -> None:
        """Ends the current block with a jump."""
        self._block.add_op(llvm.BrOp.create(operands=arguments, successors=[target]))

    def branch_if(
        self,
        condition: SSAValue,
        then: Block,
        otherwise: Block,
        then_arguments: Sequence[SSAValue] = (),
        else_arguments: Sequence[SSAValue] = (),
    ) -> None:
        """Ends the current block with a conditional jump to one of two blocks."""
        sizes = operand_sizes(1, len(then_arguments), len(else_arguments))
        self._block.add_op(
            llvm.CondBrOp.create(
                operands=[condition, *then_arguments, *else_arguments],
                properties={"operandSegmentSizes": sizes},
                successors=[then, otherwise],
            )
        )

    # -- values ------------------------------------------------------------------------------------------------

    def value(self, source: SSAValue) -> SSAValue:
        """The lowered value of a value of the source function."""
        return self._values[source]

    def values(self, sources: Iterable[SSAValue]) -> list[SSAValue]:
        """The lowered values of values of the source function."""
        return [self._values[s] for s in sources]

    def define(self, source: SSAValue, lowered: SSAValue) -> None:
        """Records the lowered value of a value of the source function."""
        self._values[source] = lowered

    def add(self, op: Operation) -> None:
        """Emits an operation without results."""
        self._block.add_op(op)

    def emit(self, op: Operation) -> SSAValue:
        """Emits an operation and returns its first result."""
        self._block.add_op(op)
        return op.results[0]

    def derived(
        self, name: str, source: SSAValue, build: Callable[[], SSAValue], other: SSAValue | None = None
    ) -> SSAValue:
        """A value that is computed from the lowered values `source` and `other`, once for each name.

        It is computed right behind the later of them; where they are needed, if they lie in different blocks.
        """
        made = self._derived.get((name, source, other))
        if made is not None:
            return made
        key = name, source, other
        if other is not None and (first := source.owner) is not (then := other.owner):
            if isinstance(first, Block) or isinstance(then, Block) or not first.parent or first.parent != then.parent:
                return build()
            if first.is_before_in_block(then):
                source = other
        outer, self._block = self._block, Block()
        made = build()
        emitted, self._block = list(self._block.ops), outer
        for op in emitted:
            op.detach()
        owner = source.owner
        if isinstance(owner, Block):
            if owner.first_op is None:
                owner.add_ops(emitted)
            else:
                owner.insert_ops_before(emitted, owner.first_op)
        elif owner.parent is None:  # a constant, which is still to be placed at the top of the function
            self._at_entry.extend(emitted)
        else:
            owner.parent.insert_ops_after(emitted, owner)
        self._derived[key] = made
        return made

    def emit_at_entry(self, op: Operation) -> SSAValue:
        """Emits an operation at the top of the function and returns its first result."""
        self._at_entry.append(op)
        return op.results[0]

    def stack_slot(self, size: int, alignment: int) -> SSAValue:
        """Emits a slot of `size` bytes on the stack, at the top of the function."""
        slot = llvm.AllocaOp.create(
            operands=[self.integer(size)],
            result_types=[POINTER],
            properties={"alignment": IntegerAttr(alignment, i64), "elem_type": i8},
        )
        return self.emit_at_entry(slot)

    def frame(self, size: int) -> SSAValue:
        """The slot for arguments of shared calls (sharing.py), one a function; each caller asks for the same size."""
        if self._frame is None:
            self._frame = self.stack_slot(size, 8)
        return self._frame

    def lowered_type(self, source: Attribute) -> Attribute:
        """The LLVM type of a loops-level type."""
        return lowered_type(source, self.index)

    # -- constants ---------------------------------------------------------------------------------------------

    def constant(self, value: Attribute, type: Attribute) -> SSAValue:
        """A constant; equal constants are created once for each function."""
        key = (value, type)
        made = self._constants.get(key)
        if made is None:
            op = llvm.ConstantOp.create(result_types=[type], properties={"value": value})
            made = self._constants[key] = self.emit_at_entry(op)
            if isinstance(value, IntegerAttr):
                self._known[made] = value.value.data
        return made

    @property
    def pointer_bytes(self) -> int:
        """The bytes of an address in memory."""
        return self.index.width.data // 8

    def integer(self, value: int, type: IntegerType | None = None) -> SSAValue:
        """An integer constant; by default an index."""
        type = type or self.index
        key = (value, type.width.data)  # looked up before an attribute is made: addresses need thousands of constants
        made = self._integers.get(key)
        if made is None:
            made = self.constant(IntegerAttr(value, type, truncate_bits=True), type)
            self._integers[key] = made
        return made

    def splat(self, value: float, type: Attribute) -> SSAValue:
        """A constant of any integer or float type; a vector constant has the number in every lane."""
        if is_vector(type):
            dense: Any = DenseIntOrFPElementsAttr
            return self.constant(dense.from_list(type, [value]), type)
        if is_integer(type):
            return self.integer(int(value), type)
        assert isinstance(type, AnyFloat)
        return self.constant(FloatAttr(float(value), type), type)

    def known(self, value: SSAValue) -> int | None:
        """The number of a lowered integer if it is a constant, else None."""
        return self._known.get(value)

    # -- arithmetic --------------------------------------------------------------------------------------------

    def binary(
        self,
        kind: type[Operation],
        lhs: SSAValue,
        rhs: SSAValue,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """Emits an operation on two values of one type; the result has the same type."""
        return self.emit(kind.create(operands=[lhs, rhs], result_types=[lhs.type], properties=properties))

    def cast(self, kind: type[Operation], value: SSAValue, type: Attribute) -> SSAValue:
        """A conversion to `type`."""
        return self.emit(kind.create(operands=[value], result_types=[type]))

    def shifts_by_floats(self, type: Attribute) -> bool:
        """Whether LLVM shifts lanes of a vector by distances of their own by way of floats.

        On x86 without AVX2 it computes the power of two of a lane of 16 or 32 bits by a conversion from a float. The
        bits are right, but the conversion has no place in code on integers only.
        """
        short = is_vector(type) and is_integer(type.element_type) and type.element_type.width.data in (16, 32)
        return short and "sse2" in self.machine.features and "avx2" not in self.machine.features

    def shift_left(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Shifts lanes to the left by distances of their own; lanes of 64 bits where LLVM shifts others by floats."""
        if not self.shifts_by_floats(lhs.type):
            return self.binary(ShlOp, lhs, rhs, WRAP)
        assert is_vector(lhs.type)
        wide = VectorType(i64, lhs.type.get_shape())
        value, distance = (self.cast(llvm.ZExtOp, x, wide) for x in (lhs, rhs))
        return self.cast(llvm.TruncOp, self.binary(ShlOp, value, distance, WRAP), lhs.type)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """An integer comparison, lane by lane on vectors."""
        type = lhs.type
        result = VectorType(i1, type.get_shape()) if is_vector(type) else i1
        return self.emit(
            llvm.ICmpOp.create(
                operands=[lhs, rhs], result_types=[result], properties={"predicate": _PREDICATES[predicate]}
            )
        )

    def call(self, symbol: str, arguments: Sequence[SSAValue], results: Sequence[Attribute] = ()) -> Operation:
        """Calls a function by its name; `results` are the lowered types of what it returns."""
        call = llvm.CallOp.create(
            operands=arguments,
            result_types=results,
            properties={
                **_CALL_PROPERTIES,
                "callee": SymbolRefAttr(symbol),
                "operandSegmentSizes": operand_sizes(len(arguments), 0),
            },
        )
        self._block.add_op(call)
        return call

    def shuffle(self, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """A vector of lanes of `a` and `b`, which have equal lengths; the lane number −1 means an undefined lane."""
        assert is_vector(a.type)
        return self.emit(
            llvm.ShuffleVectorOp.create(
                operands=[a, b],
                result_types=[vector_of(a.type.element_type, len(lanes))],
                properties={"mask": _mask(*lanes)},
            )
        )

    def intrinsic(self, name: str, arguments: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """Calls an LLVM intrinsic by its full, mangled name and returns its result."""
        return self.emit(_call_intrinsic(name, arguments, (result,)))

    def effect(self, name: str, arguments: Sequence[SSAValue]) -> None:
        """Calls an LLVM intrinsic that has no result."""
        self.add(_call_intrinsic(name, arguments, ()))


def _call_intrinsic(name: str, arguments: Sequence[SSAValue], results: Sequence[Attribute]) -> Operation:
    return llvm.CallIntrinsicOp.create(
        operands=arguments,
        result_types=results,
        properties={
            "intrin": StringAttr(name),
            **NO_FASTMATH,
            "op_bundle_sizes": _NO_BUNDLES,
            "operandSegmentSizes": operand_sizes(len(arguments), 0),
        },
    )
