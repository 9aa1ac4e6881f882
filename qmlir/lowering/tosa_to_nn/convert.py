"""`tosa-to-nn`: reads a network of TOSA 1.0 or 0.80, so that it can be profiled, quantized and compiled.

Enters: functions of one block on tensors of static shape, in tosa, with constants of `arith`. Leaves: the same
functions in nn. Floats become nn on floats. A convolution or matrix product of bytes with its rescale becomes a
quantized layer where nn-to-qint computes the same integers (layers.py); all other integer operations become operations
of nn on plain integers, and of qint, which compute what TOSA's specification says. Storage casts stand between the two.
Arguments and results keep their types.

Names come from locations (`loc("conv1")`), from the names of values (`%conv1`), and for arguments and results from the
attributes of their function that importers write.

The pass refuses dynamic shapes, control flow, variables, custom operations, Fourier transforms, convolutions over three
dimensions, computed zero points and shapes, and the NaN mode IGNORE of reductions and pools of floats.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.tosa import IfOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects import nn
from qmlir.dialects.quant.ops import CastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import NAME, NUMERICS
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.registry import Registry
from qmlir.ir.rewriting import name_hint
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import set_state, states_of
from qmlir.ir.upstream.tosa import contraction as tosa
from qmlir.ir.upstream.tosa.base import TosaOp
from qmlir.ir.upstream.tosa.shape import ConstOp, ConstShapeOp
from qmlir.ir.upstream.tosa_0_80 import is_tosa
from qmlir.lowering.tosa_to_nn import contraction, elementwise, movement, reduction, rescale
from qmlir.lowering.tosa_to_nn.code import NNCode, Rule, declared, declared_quantization, nn_element, static_shape
from qmlir.lowering.tosa_to_nn.layers import runtime_for, write_layer
from qmlir.lowering.tosa_to_nn.names import argument_names, result_names
from qmlir.lowering.tosa_to_nn.version_0_80 import modernize
from qmlir.policies.legality import target_of
from qmlir.policies.runtimes import follow, runtime_of

RULES: Registry[Rule] = Registry(contraction.RULES, elementwise.RULES, movement.RULES, reduction.RULES, rescale.RULES)

Layer = tosa.ConvolutionOp | tosa.MatMulOp


class TosaToNNPass(ModulePass):
    """Reads a network of tosa: floats as nn, integers as quantized layers where they are such, else as they are.

    ```mlir
    %c = tosa.conv2d %x, %w, %b, %x_zp, %w_zp {…} : (tensor<1x4x4x2xi8>, …) -> tensor<1x4x4x3xi32>
    %y = tosa.rescale %c, %multiplier, %shift, %zero, %y_zp {…} : (tensor<1x4x4x3xi32>, …) -> tensor<1x4x4x3xi8>
    // becomes
    %q = quant.scast %x : tensor<1x4x4x2xi8> to tensor<1x4x4x2x!quant.uniform<i8:f32, 1.0:3>>
    %y = nn.conv2d %q, %w, %b {…} : …, tensor<3x3x3x2x!quant.uniform<i8<-127:127>:f32, 0.0027>>, …
           -> tensor<1x4x4x3x!quant.uniform<i8:f32, 1.0:7>>
    ```
    """

    name = "tosa-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in defined_functions(op) if any(is_tosa(o) for o in f.walk())]
        for function in functions:
            modernize(function)
        target = target_of(ctx)
        runtime = runtime_of(op)
        if not NUMERICS.on(op):
            runtime = runtime_for(op, NNCode(Block(), target, runtime))
        layers = sum(_converted(function, target, runtime) for function in functions)
        if layers:
            follow(op, runtime)


def _converted(function: func.FuncOp, target: Target, runtime: str) -> int:
    """Replaces a function by its form in nn; returns the number of its quantized layers."""
    _require_one_block(function)
    old = function.body.block
    code = NNCode(Block(arg_types=[_argument_type(function, a) for a in old.args]), target, runtime)
    for before, after, name in zip(old.args, code.block.args, argument_names(function), strict=True):
        after.name_hint = name_hint(name)
        code.values[before] = after
    for op in list(old.ops):
        code.begin(op)
        if isinstance(op, func.ReturnOp):
            code.block.add_op(func.ReturnOp(*(_returned(code, o) for o in op.operands)))
        elif op not in code.done and not isinstance(op, ConstOp | ConstShapeOp | arith.ConstantOp):
            _convert(code, op)
    _erase_unread(code.block)
    _replace(function, code.block)
    return code.layers


def _require_one_block(op: func.FuncOp) -> None:
    if (count := len(op.body.blocks)) != 1:
        raise UnsupportedError.at(
            op.name, op.sym_name.data, "needs a body of one block", got=str(count), remedy="networks have no branches"
        )


def _argument_type(op: func.FuncOp, value: SSAValue) -> Attribute:
    """The type of nn for an argument of a function, or a result of a call in it."""
    if static_shape(value) is None:
        raise UnsupportedError.at(
            op.name, op.sym_name.data, "needs arguments that are tensors of static shape",
            got=str(value.type), remedy="export it with static shapes",
        )  # fmt: skip
    kind = cast(TensorType[Attribute], value.type).element_type
    return TensorType(kind if isinstance(kind, UniformType) else nn_element(kind), static_shape(value) or ())


def _call(code: NNCode, op: func.CallOp) -> None:
    """Copies a call of a function, which is read too."""
    function = op.parent_op()
    assert isinstance(function, func.FuncOp)
    types = [_argument_type(function, r) for r in op.results]
    made = func.CallOp(op.callee, [_returned(code, o) for o in op.operands], types)
    if types:
        code.add(made)
    else:
        code.block.add_op(made)
    for before, after in zip(op.results, made.results, strict=True):
        code.finish(before, after, op)


def _convert(code: NNCode, op: Operation) -> None:
    """Writes an operation, and records the values of its results."""
    if isinstance(op, Layer) and write_layer(code, op):
        return
    if isinstance(op, TensorOp | CastOp):
        _copy(code, op)
        return
    if isinstance(op, func.CallOp):
        _call(code, op)
        return
    if (rule := RULES.get(type(op))) is None:
        code.refuse(_why_unknown(op), remedy="export the network without it")
    last, result = code.block.last_op, op.results[0]
    value = rule(code, op)
    shape = static_shape(result)
    if shape is not None and shape != shape_of(value):
        got = str(result.type)
        code.refuse(f"needs a result of shape {list(shape_of(value))}", got=got, remedy="convert the model again")
    if not isinstance(element_of(value), UniformType):
        value = code.cast(value, declared(result))
    if op.operands and all(code.array(o) is not None for o in op.operands if isinstance(o.type, TensorType)):
        if (array := code.folded(value, last)) is not None:
            code.arrays[result] = array
            return
    code.finish(result, value, op)


def _why_unknown(op: Operation) -> str:
    if isinstance(op, IfOp):
        return "is control flow, which networks of nn do not have"
    if isinstance(op, TosaOp):
        return "has no form in nn"
    return "is no operation of tosa, so that the function cannot be read"


def _copy(code: NNCode, op: Operation) -> None:
    """Copies an operation that is not tosa's, such as a storage cast."""
    operands = [code.raw(o) if quantized_element(o.type) == quantized_element(code.raw(o).type) else code.plain(o)
                for o in op.operands]  # fmt: skip
    made = op.clone(dict(zip(op.operands, operands, strict=True)))
    try:
        made.verify()
    except VerifyException as error:
        code.refuse(str(error))
    code.add(made)
    for before, after in zip(op.results, made.results, strict=True):
        code.values[before] = after


def _returned(code: NNCode, value: SSAValue) -> SSAValue:
    """A result of the function, in its declared type."""
    type = declared_quantization(value)
    if type is None:
        return code.plain(value)
    raw = code.raw(value)
    if quantized_element(raw.type) == type:
        return raw
    stored = code.stored(raw)
    if not type.is_signed:
        stored = code.insert(nn.BitcastOp, [stored], element=IntegerType(type.storage_width))
    return code.add(StorageCastOp(stored, TensorType(type, shape_of(stored))))


def _erase_unread(block: Block) -> None:
    """Erases operations that nothing reads, which rules have left."""
    for op in reversed(list(block.ops)):
        if op.has_trait(Pure) and op.results and not any(r.first_use for r in op.results):
            op.detach()
            op.erase()


def _replace(function: func.FuncOp, block: Block) -> None:
    """Replaces a function by a function of the same name with another body."""
    last = block.last_op
    assert isinstance(last, func.ReturnOp)
    signature = ([a.type for a in block.args], [o.type for o in last.operands])
    made = func.FuncOp(
        function.sym_name.data, signature, Region(block), function.sym_visibility,
        arg_attrs=_named(argument_names(function)), res_attrs=_named(result_names(function)),
    )  # fmt: skip
    made.location = function.location
    for index, state in states_of(function).items():
        set_state(made, index, state)
    parent = cast(Block, function.parent)
    parent.insert_op_before(made, function)
    function.detach()
    function.erase()


def _named(names: Sequence[str]) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes of arguments or results with these names; None if none has a name."""
    if not any(names):
        return None
    return ArrayAttr([DictionaryAttr(NAME.entry(NameAttr.of(tensors=[n])) if n else {}) for n in names])
