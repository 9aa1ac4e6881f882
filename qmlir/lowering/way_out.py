"""What the ways out to upstream's dialects share: functions rebuilt one operation after another.

An edge out of qint is a table of rules, operation class → rule. `rebuild` walks each function, hands every operation to
its rule with its operands as lowered, and refuses those without one; types become what upstream computes on.

Enters: a module on the integer level. Leaves: the same functions, each operation replaced; names and decisions go,
as upstream knows no such attributes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from qmlir.dialects.dense import Dense, dense_of
from qmlir.dialects.dtypes import element_type_of
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.loops import is_integer
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import LoweringError
from qmlir.rewriting import node_name

Array: TypeAlias = npt.NDArray[Any]

Rule: TypeAlias = Callable[..., SSAValue]
"""(code, operation, its operands as lowered) → what stands for its result."""


class BodyCode:
    """A function body under construction.

    source   the operation that is being lowered: what is written takes its location, refusals name it
    """

    def __init__(self, block: Block, source: Operation):
        self.block = block
        self.source = source

    def refuse(self, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Ends the lowering because of the operation at hand."""
        raise LoweringError(self.source.name, node_name(self.source), need, got=got, remedy=remedy)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation; its first result."""
        op.location = self.source.location
        self.block.add_op(op)
        return op.results[0]

    def dense(self, array: Array) -> Dense:
        """An array as upstream's attribute; unsigned integers become signless ones of the same bits."""
        if array.dtype.kind == "b":
            self.refuse("has no constants of one bit upstream", got=f"bool{list(array.shape)}", remedy="use i8")
        stored = signless(array)
        return dense_of(TensorType(element_type_of(stored.dtype), stored.shape), stored)


def check_comparable(code: BodyCode, x: SSAValue) -> IntegerType:
    """The element type of what is compared; refuses floats, whose NaN and zeros upstream orders otherwise, and i1."""
    element = element_of(x)
    if not is_integer(element) or element.width.data < 8:
        code.refuse(
            "compares integers of 8 bits and more",
            got=str(element),
            remedy="quantize it; --quantize=fail-on-float=true tells what stays float",
        )
    return element


def signless(array: Array) -> Array:
    """Unsigned integers as the signed ones of the same bits, which is how numpy has signless ones."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


Code = TypeVar("Code", bound=BodyCode)


def rebuild(
    module: ModuleOp, code_of: Callable[[Block, Operation], Code], rules: Mapping[type[Operation], Rule], dialect: str
) -> None:
    """Replaces the module's functions by what the rules write.

    Args:
        module: A module on the integer level.
        code_of: What writes the body of a function for one operation of it.
        rules: Operation class → rule.
        dialect: What the operations become, for messages.

    Raises:
        LoweringError: An operation has no rule, or its rule refuses it; a function has branches.
    """
    for op in list(module.body.block.ops):
        if isinstance(op, func.FuncOp) and not op.is_declaration:
            if (count := len(op.body.blocks)) != 1:
                need = "needs a body of one block"
                raise LoweringError(op.name, op.sym_name.data, need, got=str(count), remedy="networks have no branches")
            _rebuild_function(op, code_of, rules, dialect)


def _rebuild_function(
    function: func.FuncOp,
    code_of: Callable[[Block, Operation], Code],
    rules: Mapping[type[Operation], Rule],
    dialect: str,
) -> None:
    old = function.body.block
    new = Block(arg_types=[plain_type(t) for t in function.function_type.inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
    for before, after in values.items():
        after.name_hint = before.name_hint
    for op in old.ops:
        operands = [values[o] for o in op.operands]
        if isinstance(op, func.ReturnOp):
            new.add_op(func.ReturnOp(*operands))
        elif (rule := rules.get(type(op))) is not None:
            values[op.results[0]] = result = rule(code_of(new, op), op, *operands)
            if result.name_hint is None:
                result.name_hint = op.results[0].name_hint
        else:
            BodyCode(new, op).refuse(
                f"has no form in {dialect}: only integers, data movement and casts leave",
                remedy="run --nn-to-qint first; --quantize=fail-on-float=true tells what stays float",
            )
    for op in reversed(list(new.ops)):
        if _is_unread_constant(op):
            op.detach()
            op.erase()
    signature = ([a.type for a in new.args], [plain_type(t) for t in function.function_type.outputs])
    made = func.FuncOp(function.sym_name.data, signature, Region(new), function.sym_visibility)
    made.location = function.location
    parent = cast(Block, function.parent)
    parent.insert_op_before(made, function)
    function.detach()
    function.erase()


def _is_unread_constant(op: Operation) -> bool:
    """Whether nobody reads a constant, as where a rule took its numbers elsewhere."""
    return op.has_trait(Pure) and not op.operands and not op.regions and not any(r.uses for r in op.results)


def plain_type(type: Attribute) -> Attribute:
    """A type as upstream computes on it: stored integers for quantized elements, no sign on integers."""
    if not isinstance(type, TensorType):
        return type
    tensor = cast(TensorType[Attribute], type)
    quantized, element = quantized_element(tensor), tensor.element_type
    if quantized is not None:
        element = quantized.storage_type
    if is_integer(element):
        element = IntegerType(element.width.data)
    return TensorType(element, tensor.get_shape())
