"""`set-interface`: makes a quantized network take and give integers, or floats.

A network that was quantized takes floats, which its first operation quantizes, and gives floats, which its last one
dequantizes. A program for a processor without floats has integers already, from a sensor or a microphone, and wants
integers back. The pass moves the casts out of the network: the function's types say scale and zero point, and whoever
calls it quantizes and dequantizes.

Enters: nn on quantized types. Leaves: the same network between other types. Where the integers asked for are the
network's own, no bit of it changes. Unsigned bytes are the network's signed bytes plus 128, with a zero point larger by
128, and the other way round. Integers of 16 bits hold those of 8 bits as they are, with the same scale and zero point.

If a network quantizes an input in several ways, the input holds the finest of these integers: other readers get them in
their own scale, and float operations get them dequantized.

Results that are joined behind their dequantization (`delivered` in the ledger) get one scale for all of them. The pass
`quantize-ops` then turns the join into integers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConcatOp, ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import element_of
from qmlir.ir.passes import option
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import states_of
from qmlir.ir.traversal import reached
from qmlir.ir.types import with_element
from qmlir.numerics.schemas import exponent_of, quantization_of_range
from qmlir.policies.ledger import note_branches
from qmlir.transforms.quantize.ranges.scale_group import real_range

INTERFACES = ("int8", "uint8", "int16", "float")
"""What a network may take and give."""

STORAGE = {"int8": (8, Signedness.SIGNED), "uint8": (8, Signedness.UNSIGNED), "int16": (16, Signedness.SIGNED)}
"""Bits and sign of the integers."""


@dataclass(frozen=True)
class SetInterfacePass(ModulePass):
    """Gives the inputs and outputs of a quantized network, its states aside, another type.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
      …
      %2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 0.25>> to tensor<4xf32>
      func.return %2 : tensor<4xf32>
    // becomes with type=int8
    func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>> {
      …
      func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.25>>
    ```

    Inputs and outputs that are integers of the model's own, such as indices, stay as they are.
    """

    name = "set-interface"

    type: Literal["int8", "uint8", "int16", "float"] = option("int8", "what inputs and outputs hold")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            states = states_of(function)
            kept = {state.index for state in states.values()}
            for i, argument in enumerate(list(function.body.block.args)):
                if i not in states:
                    _set_argument(argument, self.type)
            end = function.body.block.last_op
            assert isinstance(end, func.ReturnOp)
            for i, value in enumerate(list(end.operands)):
                if i not in kept:
                    end.operands[i] = _given(value, end, self.type, _result_name(function, i))
            for cast in [o for o in op.walk() if isinstance(o, DequantizeCastOp) and not o.result.uses]:
                Rewriter.erase_op(cast)
            function.update_function_type()


def _set_argument(argument: BlockArgument, wanted: str) -> None:
    """Gives an argument the wanted type, and its readers what they read before."""
    name = argument.name_hint or f"argument {argument.index}"
    readers = [use.operation for use in argument.uses]
    if not readers or not (is_float(argument) or isinstance(element_of(argument), UniformType)):
        return
    if isinstance(own := element_of(argument), UniformType):
        type = own if wanted == "float" else _stored(own, wanted, "input", name)
        if wanted == "float" or type != own:
            _retype(argument, own.expressed if wanted == "float" else type, own)
        return
    if wanted != "float":
        _store(argument, [o for o in readers if isinstance(o, QuantizeCastOp)], wanted, name)


def _store(argument: BlockArgument, casts: Sequence[QuantizeCastOp], wanted: str, name: str) -> None:
    """Gives a float argument the finest integers that its casts make of it, which its other readers convert."""
    types = [element_of(cast.result) for cast in casts]
    if not types:
        readers = ", ".join(sorted({use.operation.name for use in argument.uses}))
        _refuse("input", name, "must be quantized by one of its readers", readers)
    finest = min((t for t in types if isinstance(t, UniformType)), key=lambda t: min(t.scales))
    type = _stored(finest, wanted, "input", name)
    float_type, block = argument.type, argument.block
    stored = Rewriter.replace_value_with_new_type(argument, with_element(float_type, type))
    stored.name_hint = argument.name_hint
    back = DequantizeCastOp(stored, float_type)
    Rewriter.insert_op(back, InsertPoint.at_start(block))
    stored.replace_uses_with_if(back.result, lambda use: use.operation not in (back, *casts))
    for cast, own in zip(casts, types, strict=True):
        new = stored if type == own else _converted(stored, own, InsertPoint.before(cast))
        cast.results[0].replace_all_uses_with(new)
        Rewriter.erase_op(cast)


def _retype(argument: BlockArgument, type: Attribute, own: UniformType) -> None:
    """Gives a quantized argument another type, from which it is converted at the function's start."""
    stored = Rewriter.replace_value_with_new_type(argument, with_element(argument.type, type))
    new = _converted(stored, own, InsertPoint.at_start(argument.block))
    stored.replace_uses_with_if(new, lambda use: use.operation is not new.owner)


def _given(value: SSAValue, end: func.ReturnOp, wanted: str, name: str) -> SSAValue:
    """Returns what the function returns in place of a value."""
    own = element_of(value)
    if isinstance(own, UniformType):
        if wanted != "float":
            return _to(value, _stored(own, wanted, "output", name), end)
        cast = DequantizeCastOp(value, with_element(value.type, own.expressed))
        Rewriter.insert_op(cast, InsertPoint.before(end))
        return cast.result
    if wanted == "float" or not is_float(value):
        return value
    back = value.owner
    if (joined := _joined(value, wanted)) is not None:
        return _to(_in_one_type(value, joined), _stored(joined, wanted, "output", name), end)
    if not isinstance(back, DequantizeCastOp):
        got = back.name if isinstance(back, Operation) else "an input"
        _refuse("output", name, "must be dequantized integers", got)
    stored = element_of(back.input)
    return _to(back.input, _stored(stored, wanted, "output", name), end)


def _moved(value: SSAValue) -> Iterator[SSAValue]:
    """Yields a value, and what data movement makes it of."""
    yield from reached([value], lambda v: data_operands(v.owner) if isinstance(v.owner, MovementOp) else ())


def _joined(value: SSAValue, wanted: str) -> UniformType | None:
    """The type that holds all dequantized values that data movement makes a value of; None if it is no such value."""
    sources = [v.owner for v in _moved(value) if not isinstance(v.owner, MovementOp) or isinstance(v.owner, ConstantOp)]
    types = [element_of(source.input) for source in sources if isinstance(source, DequantizeCastOp)]
    plain = [t for t in types if isinstance(t, UniformType) and not t.is_per_axis]
    constants = [source.value.array for source in sources if isinstance(source, ConstantOp)]
    if not isinstance(value.owner, MovementOp) or not plain or len(plain) + len(constants) < len(sources):
        return None
    ranges = [real_range(t) for t in plain]
    ranges += [(float(array.min()), float(array.max())) for array in constants if array.size]
    wide = wanted == "int16" or any(t.storage_width == 16 for t in plain)
    schema = "symmetric" if wide or all(t.zero_point == 0 for t in plain) else "asymmetric"
    if all(exponent_of(t.scale) is not None for t in plain) and schema == "symmetric":
        schema = "symmetric_with_power2_scale"
    lo, hi = min(lo for lo, _ in ranges), max(hi for _, hi in ranges)
    return UniformType.per_tensor(
        IntegerType(16 if wide else 8), *quantization_of_range(lo, hi, schema, "int16" if wide else "int8")
    )


def _in_one_type(value: SSAValue, type: UniformType) -> SSAValue:
    """Quantizes what data movement makes a value of, step by step, as `quantize-ops` takes it; returns the integers."""
    stored = value
    for made in [o for v in _moved(value) if isinstance(o := v.owner, MovementOp) and not isinstance(o, ConstantOp)]:
        moved = made.y
        cast = QuantizeCastOp(moved, with_element(moved.type, type))
        back = DequantizeCastOp(cast.result, moved.type)
        Rewriter.insert_op([cast, back], InsertPoint.after(made))
        operands = {
            tensor_name(b.input): real_range(t)
            for v in made.operands
            if isinstance(b := v.owner, DequantizeCastOp) and isinstance(t := element_of(b.input), UniformType)
        }
        if isinstance(made, ConcatOp):
            note_branches(made, {f'"{name}"': bounds for name, bounds in operands.items()}, type)
        moved.replace_uses_with_if(back.result, lambda use, cast=cast: use.operation is not cast)
        stored = cast.result if moved is value else stored
    return stored


def _to(value: SSAValue, type: UniformType, end: func.ReturnOp) -> SSAValue:
    return value if element_of(value) == type else _converted(value, type, InsertPoint.before(end))


def _converted(value: SSAValue, type: Attribute, place: InsertPoint) -> SSAValue:
    """Inserts the conversion of a float or quantized value to a quantized type."""
    if is_float(value):
        cast = QuantizeCastOp(value, with_element(value.type, type))
    else:
        cast = RequantizeOp.make([value], element=type)
    Rewriter.insert_op(cast, place)
    return cast.results[0]


def _stored(own: Attribute, wanted: str, kind: str, name: str) -> UniformType:
    """Returns the quantized type of the wanted storage for the same real values.

    Raises:
        UnsupportedError: The network's own integers do not fit, or have a scale for each channel.
    """
    if not isinstance(own, UniformType) or own.is_per_axis:
        _refuse(kind, name, "must have one scale and one zero point", str(own))
    bits, sign = STORAGE[wanted]
    if own.storage_width > bits:
        _refuse(kind, name, f"must hold integers of at most {bits} bits for {wanted}", f"{own.storage_width} bits")
    if own.storage_width == bits and own.is_signed == (sign == Signedness.SIGNED):
        return own
    moved = 0 if own.is_signed == (sign == Signedness.SIGNED) or own.storage_width < bits else (
        128 if own.is_signed else -128
    )  # fmt: skip
    limits = (own.storage_min + moved, own.storage_max + moved)
    return UniformType.per_tensor(IntegerType(bits, sign), own.scale, own.zero_point + moved, *limits, own.expressed)


def _result_name(function: func.FuncOp, index: int) -> str:
    entries = function.res_attrs.data if function.res_attrs else ()
    name = NAME.among(entries[index].data) if index < len(entries) else None
    return name.tensors[0] if name is not None and name.tensors else f"result {index}"


def _refuse(kind: str, name: str, need: str, got: str) -> NoReturn:
    remedy = "ask for integers that the network holds, or for float"
    raise UnsupportedError(need, got, where=f'{kind} "{name}"', remedy=remedy)
