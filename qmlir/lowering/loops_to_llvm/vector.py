"""Lowering of vector."""

from collections.abc import Mapping, Sequence

from xdsl.dialects import llvm, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.loops import root_of
from qmlir.ir.types import is_integer, is_vector, vector_of
from qmlir.ir.upstream.llvm import AddOp, ExtractElementOp, MulOp
from qmlir.lowering.loops_to_llvm.arith import refuse_fastmath
from qmlir.lowering.loops_to_llvm.lowering import WRAP, FunctionLowering, Rule, mangled, static_strides
from qmlir.lowering.loops_to_llvm.memory import access_pointer, load, memref_type, store

# ---------------------------------------------------------------------------------------------------------------
# vector → LLVM's vectors: memory, masks, lanes and reductions of 1-D vectors.
#
# Float reductions by addition or multiplication are sequential: they start with the accumulator (if there is none, with
# −0 or 1) and go from lane 0 to the last lane, which is the order of the reference. Kernels pass the values of masked-
# off lanes as `pass_thru`; the memory of such lanes is neither read nor written.


INTEGER_REDUCTIONS: Mapping[str, type[Operation] | str] = {
    "add": AddOp,
    "mul": MulOp,
    "and": llvm.AndOp,
    "or": llvm.OrOp,
    "xor": llvm.XOrOp,
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
}
"""Kind → how the reduced vector is combined with the accumulator: an operation, or the name of an LLVM intrinsic."""

FLOAT_REDUCTIONS: Mapping[str, tuple[str, str]] = {
    "maximumf": ("fmaximum", "maximum"),
    "minimumf": ("fminimum", "minimum"),
}
"""Kind → names of LLVM's reduction and scalar intrinsics; `maxnumf` is absent, as it leaves the sign of zero open."""


def lanes_of(value: SSAValue) -> int:
    """The number of lanes of a 1-D vector."""
    assert is_vector(value.type)
    return value.type.get_shape()[0]


def broadcast(f: FunctionLowering, scalar: SSAValue, lanes: int) -> SSAValue:
    """A vector with a scalar in every lane."""
    type = vector_of(scalar.type, lanes)
    undefined = f.emit(llvm.UndefOp.create(result_types=[type]))
    first = f.emit(llvm.InsertElementOp.create(operands=[undefined, scalar, f.integer(0, i32)], result_types=[type]))
    return f.shuffle(first, undefined, [0] * lanes)


def _vector_pointer(
    f: FunctionLowering, op: Operation, buffer: SSAValue, indices: Sequence[SSAValue]
) -> tuple[SSAValue, int]:
    type = memref_type(buffer)
    strides = static_strides(type)
    if type.element_type == i1:
        f.refuse(op, "must not pack bits: memory holds an i1 in a byte", remedy="use i8")
    if strides and strides[-1] != 1:
        f.refuse(op, "must touch neighbours in memory", got=str(type))
    return access_pointer(f, buffer, indices)


def _load(f: FunctionLowering, op: vector.LoadOp) -> None:
    pointer, alignment = _vector_pointer(f, op, op.operands[0], op.operands[1:])
    f.define(op.result, load(f, pointer, f.lowered_type(op.result.type), alignment))


def _store(f: FunctionLowering, op: vector.StoreOp) -> None:
    value, buffer, *indices = op.operands
    pointer, alignment = _vector_pointer(f, op, buffer, indices)
    f.written.add(root_of(buffer))
    store(f, f.value(value), pointer, alignment)


def _masked_load(f: FunctionLowering, op: vector.MaskedLoadOp) -> None:
    pointer, alignment = _vector_pointer(f, op, op.base, op.indices)
    mask, otherwise = f.value(op.mask), f.value(op.pass_thru)
    name = f"llvm.masked.load.{mangled(otherwise.type)}.p0"
    f.define(op.result, f.intrinsic(name, (pointer, f.integer(alignment, i32), mask, otherwise), otherwise.type))


def _masked_store(f: FunctionLowering, op: vector.MaskedStoreOp) -> None:
    pointer, alignment = _vector_pointer(f, op, op.base, op.indices)
    mask, value = f.value(op.mask), f.value(op.value_to_store)
    f.written.add(root_of(op.base))
    f.effect(f"llvm.masked.store.{mangled(value.type)}.p0", (value, pointer, f.integer(alignment, i32), mask))


def _broadcast(f: FunctionLowering, op: vector.BroadcastOp) -> None:
    source, type = f.value(op.source), f.lowered_type(op.vector.type)
    assert is_vector(type)
    if source.type == type:
        f.define(op.vector, source)
    elif is_vector(source.type):
        f.refuse(op, "must spread a scalar", got=str(source.type))
    else:
        f.define(op.vector, broadcast(f, source, type.get_shape()[0]))


def _position(f: FunctionLowering, op: vector.ExtractOp | vector.InsertOp) -> SSAValue:
    positions = op.get_mixed_position()
    if len(positions) != 1:
        f.refuse(op, "must name one lane", got=f"{len(positions)} positions")
    (position,) = positions
    return f.integer(position) if isinstance(position, int) else f.value(position)


def _extract(f: FunctionLowering, op: vector.ExtractOp) -> None:
    source, position = f.value(op.vector), _position(f, op)
    lane = ExtractElementOp.create(operands=[source, position], result_types=[f.lowered_type(op.result.type)])
    f.define(op.result, f.emit(lane))


def _insert(f: FunctionLowering, op: vector.InsertOp) -> None:
    operands = (f.value(op.dest), f.value(op.source), _position(f, op))
    f.define(op.result, f.emit(llvm.InsertElementOp.create(operands=operands, result_types=[operands[0].type])))


def _shuffle(f: FunctionLowering, op: vector.ShuffleOp) -> None:
    a, b = f.value(op.v1), f.value(op.v2)
    first, second = lanes_of(a), lanes_of(b)
    longest = max(first, second)
    lanes = [lane if lane < first else lane - first + longest for lane in op.mask.get_values()]
    f.define(op.result, f.shuffle(_lengthened(f, a, longest), _lengthened(f, b, longest), lanes))


def _lengthened(f: FunctionLowering, value: SSAValue, lanes: int) -> SSAValue:
    have = lanes_of(value)
    return value if have == lanes else f.shuffle(value, value, [*range(have), *[-1] * (lanes - have)])


def _bitcast(f: FunctionLowering, op: vector.BitcastOp) -> None:
    source, type = f.value(op.source), f.lowered_type(op.result.type)
    f.define(op.result, source if source.type == type else f.cast(llvm.BitcastOp, source, type))


def _create_mask(f: FunctionLowering, op: vector.CreateMaskOp) -> None:
    """Lowers a mask whose lane i is on if i < n; n is clamped to the number of lanes, so that 32-bit comparisons do."""
    type = f.lowered_type(op.mask_vector.type)
    assert is_vector(type)
    (lanes,) = type.get_shape()
    count = f.value(op.mask_dim_sizes[0])
    count = f.intrinsic(f"llvm.smax.{mangled(count.type)}", (count, f.integer(0)), count.type)
    count = f.intrinsic(f"llvm.smin.{mangled(count.type)}", (count, f.integer(lanes)), count.type)
    numbers_type = VectorType(i32, [lanes])
    numbers = f.constant(DenseIntOrFPElementsAttr.from_list(numbers_type, list(range(lanes))), numbers_type)
    limit = broadcast(f, f.cast(llvm.TruncOp, count, i32), lanes)
    f.define(op.mask_vector, f.compare("ult", numbers, limit))


def _reduction(f: FunctionLowering, op: vector.ReductionOp) -> None:
    refuse_fastmath(f, op)
    kind = str(op.kind.data)
    source = f.value(op.vector)
    accumulator = None if op.acc is None else f.value(op.acc)
    assert is_vector(source.type)
    element: Attribute = source.type.element_type
    suffix = mangled(source.type)

    if is_integer(element):
        combine = INTEGER_REDUCTIONS.get(kind)
        if combine is None:
            f.refuse(op, "must be a reduction of integers", got=kind)
        name = combine if isinstance(combine, str) else kind
        result = f.intrinsic(f"llvm.vector.reduce.{name}.{suffix}", (source,), element)
        if accumulator is not None and isinstance(combine, str):
            result = f.intrinsic(f"llvm.{combine}.{mangled(element)}", (accumulator, result), element)
        elif accumulator is not None and not isinstance(combine, str):
            properties = WRAP if kind in ("add", "mul") else {}
            result = f.binary(combine, accumulator, result, properties)
    elif kind in ("add", "mul"):
        start = accumulator or f.splat(-0.0 if kind == "add" else 1.0, element)
        result = f.intrinsic(f"llvm.vector.reduce.f{kind}.{suffix}", (start, source), element)
    elif kind in FLOAT_REDUCTIONS:
        reduce, scalar = FLOAT_REDUCTIONS[kind]
        result = f.intrinsic(f"llvm.vector.reduce.{reduce}.{suffix}", (source,), element)
        if accumulator is not None:
            result = f.intrinsic(f"llvm.{scalar}.{mangled(element)}", (accumulator, result), element)
    else:
        f.refuse(op, "must define the sign of zero", got=kind, remedy="use maximumf or minimumf")
    f.define(op.dest, result)


RULES: Mapping[type[Operation], Rule] = {
    vector.LoadOp: _load,
    vector.StoreOp: _store,
    vector.MaskedLoadOp: _masked_load,
    vector.MaskedStoreOp: _masked_store,
    vector.BroadcastOp: _broadcast,
    vector.ExtractOp: _extract,
    vector.InsertOp: _insert,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _bitcast,
    vector.CreateMaskOp: _create_mask,
    vector.ReductionOp: _reduction,
}
