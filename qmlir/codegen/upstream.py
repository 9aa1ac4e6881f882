"""Shared code of the exports to upstream dialects (tosa, linalg), which rebuild functions operation by operation.

An export from qint is a table of rules, operation class → rule. `rebuild` walks each function and hands every operation
to its rule together with its lowered operands. It writes an operation without a rule as the operations that compose it,
and refuses it if none do. Types become the plain types that upstream computes on (see `plain_type`).

Enters: a module on the integer level. Leaves: the same functions, each operation replaced. Names and quantization
decisions are dropped, because upstream has no such attributes.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias, TypeVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, ComposedOp, element_of, parts_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.types import element_type_of, is_integer
from qmlir.ir.upstream.dense import Dense, dense_of

Rule: TypeAlias = Callable[..., SSAValue]
"""Lowers one operation: (code, operation, its lowered operands) → the value that replaces the operation's result."""


class BodyCode:
    """A function body under construction.

    block    the block that receives the new operations
    source   the operation being lowered: new operations take its location, and refusals name it
    """

    def __init__(self, block: Block, source: Operation):
        self.block = block
        self.source = source

    def refuse(self, need: str, *, got: str | None = None, remedy: str | None = None) -> NoReturn:
        """Raises an UnsupportedError about the operation being lowered."""
        raise UnsupportedError.at(self.source.name, node_name(self.source), need, got=got, remedy=remedy)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation and returns its first result."""
        op.location = self.source.location
        self.block.add_op(op)
        return op.results[0]

    def dense(self, array: Array) -> Dense:
        """Returns an array as upstream's dense attribute; unsigned integers become signless integers of the same bits.

        Raises:
            UnsupportedError: The array holds booleans.
        """
        if array.dtype.kind == "b":
            self.refuse("has no constants of one bit upstream", got=f"bool{list(array.shape)}", remedy="use i8")
        stored = signless(array)
        return dense_of(TensorType(element_type_of(stored.dtype), stored.shape), stored)


def check_comparable(code: BodyCode, x: SSAValue) -> IntegerType:
    """Returns the element type of a comparison's operand; refuses all types but integers of 8 bits and more.

    Floats are refused because upstream orders NaN and signed zeros differently.
    """
    element = element_of(x)
    if not is_integer(element) or element.width.data < 8:
        code.refuse(
            "compares integers of 8 bits and more",
            got=str(element),
            remedy="quantize it; --quantize=fail-on-float=true tells what stays float",
        )
    return element


def signless(array: Array) -> Array:
    """Reinterprets unsigned integers as signed integers of the same bits, numpy's stand-in for signless integers."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


Code = TypeVar("Code", bound=BodyCode)


def rebuild(
    module: ModuleOp, code_of: Callable[[Block, Operation], Code], rules: Mapping[type[Operation], Rule], dialect: str
) -> None:
    """Replaces each function of the module by a new function whose body the rules write.

    Args:
        module: A module on the integer level.
        code_of: Makes the writer that a rule gets, from the new block and the operation being lowered.
        rules: Operation class → rule.
        dialect: The name of the dialect that the rules write, for messages.

    Raises:
        UnsupportedError: An operation has no rule or its rule refuses it, or a function has branches.
    """
    for op in list(module.body.block.ops):
        if isinstance(op, func.FuncOp) and not op.is_declaration:
            if (count := len(op.body.blocks)) != 1:
                need = "needs a body of one block"
                raise UnsupportedError.at(
                    op.name, op.sym_name.data, need, got=str(count), remedy="networks have no branches"
                )
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
        if isinstance(op, func.ReturnOp):
            new.add_op(func.ReturnOp(*(values[o] for o in op.operands)))
            continue
        writes = code_of if type(op) in rules or isinstance(op, ComposedOp) else BodyCode
        result = _lowered(writes(new, op), op, values, rules, dialect)
        if result.name_hint is None:
            result.name_hint = op.results[0].name_hint
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


def _lowered(
    code: BodyCode,
    op: Operation,
    values: dict[SSAValue, SSAValue],
    rules: Mapping[type[Operation], Rule],
    dialect: str,
) -> SSAValue:
    """Writes an operation and enters the value that replaces its result into `values`."""
    if (rule := rules.get(type(op))) is not None:
        values[op.results[0]] = rule(code, op, *(values[o] for o in op.operands))
    elif isinstance(op, ComposedOp):
        with parts_of(op) as parts:
            for part in parts:
                values[op.results[0]] = _lowered(code, part, values, rules, dialect)
    else:
        code.refuse(
            f"has no form in {dialect}: only integers, data movement and casts leave",
            remedy="run --nn-to-qint first; --quantize=fail-on-float=true tells what stays float",
        )
    return values[op.results[0]]


def _is_unread_constant(op: Operation) -> bool:
    """Whether an operation is a constant without uses, for example because a rule copied its data elsewhere."""
    return op.has_trait(Pure) and not op.operands and not op.regions and not any(r.uses for r in op.results)


def plain_type(type: Attribute) -> Attribute:
    """The type that upstream computes on: quantized elements become their storage integers, integers are signless."""
    if not isinstance(type, TensorType):
        return type
    tensor = cast(TensorType[Attribute], type)
    quantized, element = quantized_element(tensor), tensor.element_type
    if quantized is not None:
        element = quantized.storage_type
    if is_integer(element):
        element = IntegerType(element.width.data)
    return TensorType(element, tensor.get_shape())
