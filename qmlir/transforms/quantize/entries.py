"""Entries of one network: functions that compute the same for other numbers of rows, with the same parameters.

A decoder has two: `prefill` takes many tokens a call, `decode` one. Both have to compute the same integers from the
same integers, so that a prompt may go through any of them. Each is quantized by itself, as its shapes ask for. Twice it
takes over the parameters of the first entry, which alone has seen samples: before scales are chosen, ranges and weights
whose channels were equalized, from which the same decisions follow; and in the end types, rounded weights and corrected
biases.

Operations that compute are found by their kind and their tensor's name. Data movement and choices of elements may
differ, as a transpose of one row is a reshape; their results have the types of what they move.
"""

from collections import Counter
from typing import NoReturn, TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.elementwise import WhereOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.errors import QmlirError
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.signature import main_function
from qmlir.ir.states import StateAttr, set_state, states_of
from qmlir.ir.types import with_element
from qmlir.transforms.quantize.ranges.observers import observers

Key: TypeAlias = tuple[str, str, int]
"""The kind of an operation, its tensor's name, and its number among those with the same kind and name."""

SEGMENTS = "operandSegmentSizes"
"""The property that says which operands an operation has; a bias that samples have corrected may be one more."""


class FirstEntry:
    """The first entry before its scales are chosen; the other entries take its ranges and weights then.

    name  the name of the entry that is quantized, for errors
    """

    def __init__(self) -> None:
        self.name = ""
        self._prepared: ModuleOp | None = None

    def meet(self, module: ModuleOp) -> None:
        """Keeps a copy of the first entry, and gives its ranges and weights to each other one."""
        if self._prepared is None:
            self._prepared = module.clone()
        else:
            adopt_parameters(module, self._prepared, self.name)


def adopt_ranges(module: ModuleOp, first: ModuleOp) -> None:
    """Gives the observers of a float entry the ranges that the first entry's observers of the same tensors have."""
    known = {observer.tensor.data: observer for observer in observers(first)}
    for observer in observers(module):
        if (like := known.get(observer.tensor.data)) is not None:
            observer.properties = dict(like.properties)


def adopt_parameters(module: ModuleOp, first: ModuleOp, name: str) -> None:
    """Gives a quantized entry the types and the constants of the first entry.

    Args:
        module: The entry, which is changed in place.
        first: The first entry.
        name: The entry's name, for errors.

    Raises:
        QmlirError: The two do not compute the same; the error names a tensor that differs.
    """
    function, other = main_function(module), main_function(first)
    _adopt_arguments(function, other, name)
    _complete(function, other)
    known, constants = _by_key(other), dict[ConstantOp, ConstantOp]()
    for key, op in _by_key(function).items():
        like = known.pop(key, None)
        if not isinstance(op, ConstantOp):
            _adopt_types(op, like, name, constants)
        elif key[1] and isinstance(like, ConstantOp) and op.value.array.shape == like.value.array.shape:
            _adopt_constant(op, like)
            constants[like] = op
    if left := next((op for op in known.values() if not _selects(op)), None):
        _refuse(name, left, f"must be computed by {left.name} in all entries", "no such operation")
    for op in [o for o in function.body.block.ops if isinstance(o, ConstantOp) and not o.y.uses]:
        Rewriter.erase_op(op)
    function.update_function_type()


def _by_key(function: func.FuncOp) -> dict[Key, Operation]:
    """The operations of a function in order, by what finds them in another entry."""
    count, found = Counter[tuple[str, str]](), dict[Key, Operation]()
    for op in function.body.block.ops:
        key = op.name, _name(op)
        found[*key, count[key]] = op
        count[key] += 1
    return found


def _selects(op: Operation) -> bool:
    """Whether an operation computes no data: it moves or chooses elements, or tells which.

    One row may be written to its place by a choice, where several rows are scattered.
    """
    if isinstance(op, MovementOp | ConstantOp | ObserveOp | func.ReturnOp):
        return True
    data = [element_of(value) for value in (*op.operands, *op.results) if is_float(value) or is_quantized(value)]
    return not data or (isinstance(op, WhereOp) and len({*data[:-1]}) == 1)


def _complete(function: func.FuncOp, other: func.FuncOp) -> None:
    """Inserts the operations that only the first entry has, such as factors that equalize the channels of a tensor.

    Only operations on one tensor and constants are inserted. What reads their results in the first entry does so here.
    """
    own, keys = _by_key(function), {op: key for key, op in _by_key(other).items()}
    for op, key in keys.items():
        data = [value for value in op.operands if not isinstance(value.owner, ConstantOp)]
        if key in own or isinstance(op, MovementOp | ConstantOp) or len(data) != 1 or len(op.results) > 1:
            continue
        made = data[0]
        source = own.get(keys[made.op]) if isinstance(made, OpResult) else None
        if source is None or not isinstance(made, OpResult):
            continue
        value = source.results[made.index]
        constants = [v.owner.clone() for v in op.operands if isinstance(v.owner, ConstantOp)]
        fresh = iter(constants)
        operands: list[SSAValue] = [value if v is made else next(fresh).y for v in op.operands]
        types = [with_element(value.type, element_of(result)) for result in op.results]
        new = type(op).create(
            operands=operands, result_types=types, properties=dict(op.properties), attributes=dict(op.attributes)
        )
        new.location = source.location
        Rewriter.insert_op([*constants, new], InsertPoint.after(source))
        own[key] = new
        for use in (use for result in op.results for use in result.uses):
            reader = own.get(keys[use.operation])
            if reader is not None and use.index < len(reader.operands) and reader.operands[use.index] is value:
                reader.operands[use.index] = new.results[0]


def _name(op: Operation) -> str:
    """The name of an operation's tensor; for a cast, which has none, that of what it casts."""
    if op.results and (name := tensor_name(op.results[0])):
        return name
    return tensor_name(op.operands[0]) if op.operands else ""


def _adopt_arguments(function: func.FuncOp, other: func.FuncOp, name: str) -> None:
    known = {tensor_name(argument): argument for argument in other.body.block.args}
    states, resets = states_of(function), states_of(other)
    for argument in list(function.body.block.args):
        state, like = states.get(argument.index), known.get(tensor_name(argument))
        if like is None:
            _refuse_argument(name, argument, "must be an input of all entries", "an input of this entry only")
        before = resets.get(like.index)
        if (state is None) != (before is None):
            _refuse_argument(name, argument, "must be a state in all entries or in none", "a state in one of them")
        _retype(argument, element_of(like))
        if state is not None and before is not None:
            reset = None if isinstance(before.reset, NoneAttr) else before.reset.array
            set_state(function, argument.index, StateAttr.of(state.index, reset))
            if function.body.block.args[argument.index].type != like.type:
                _refuse_argument(name, argument, f"must be {like.type} in all entries", str(argument.type))


def _adopt_types(op: Operation, like: Operation | None, name: str, constants: dict[ConstantOp, ConstantOp]) -> None:
    """Gives an operation the types of its counterpart or, where it only moves or chooses elements, those of these."""
    if isinstance(op, ObserveOp):
        op.properties = dict(op.properties if like is None else like.properties)
    elif isinstance(op, MovementOp):
        for result, element in zip(op.results, op.infer_elements(), strict=True):
            _retype(result, element)
    elif like is not None and not isinstance(op, func.ReturnOp):
        _adopt(op, like, name, constants)
    elif not _selects(op):
        _refuse(name, op, f"must be computed by {op.name} in all entries", "another operation in the first")
    elif isinstance(op, WhereOp):
        _retype(op.results[0], element_of(op.operands[-1]))


def _adopt(op: Operation, like: Operation, name: str, constants: dict[ConstantOp, ConstantOp]) -> None:
    """Replaces an operation by its counterpart, which has its own data operands and all constants of the counterpart.

    `constants` are the function's constants by those of the first entry. A constant of another shape depends on the
    number of rows, and is the operation's own.
    """
    data = [value for value in op.operands if not isinstance(value.owner, ConstantOp)]
    if len(data) != sum(not isinstance(value.owner, ConstantOp) for value in like.operands):
        _refuse(name, op, "must read constants where the first entry does", "an operand that only one of them computes")
    operands, given = list[SSAValue](), iter(data)
    for i, value in enumerate(like.operands):
        if not isinstance(value.owner, ConstantOp):
            operands.append(next(given))
        elif len(op.operands) == len(like.operands) and shape_of(op.operands[i]) != shape_of(value):
            if element_of(op.operands[i]) != element_of(value):
                _refuse(name, op, f"must read a constant of {element_of(value)}", str(element_of(op.operands[i])))
            operands.append(op.operands[i])
        else:
            if value.owner not in constants:
                constants[value.owner] = value.owner.clone()
                Rewriter.insert_op(constants[value.owner], InsertPoint.before(op))
            operands.append(constants[value.owner].y)
    op.operands = operands
    if (sizes := like.properties.get(SEGMENTS)) is not None:
        op.properties[SEGMENTS] = sizes
    for result, other in zip(list(op.results), like.results, strict=True):
        _retype(result, element_of(other))
    op.attributes |= {key: value for key, value in like.attributes.items() if key != NAME.key}


def _adopt_constant(op: ConstantOp, like: ConstantOp) -> None:
    op.value = like.value
    op.attributes |= {key: value for key, value in like.attributes.items() if key != NAME.key}
    _retype(op.y, element_of(like.y))


def _retype(value: SSAValue, element: Attribute | None) -> None:
    if element is not None and element_of(value) != element:
        Rewriter.replace_value_with_new_type(value, with_element(value.type, element))


def _refuse_argument(entry: str, argument: BlockArgument, need: str, got: str) -> NoReturn:
    raise _error(entry, tensor_name(argument) or f"input {argument.index}", need, got)


def _refuse(entry: str, op: Operation, need: str, got: str) -> NoReturn:
    raise _error(entry, _name(op) or node_name(op), need, got)


def _error(entry: str, tensor: str, need: str, got: str) -> QmlirError:
    where = f'tensor "{tensor}" of entry "{entry}"'
    remedy = "make the entries of one model, whose sizes differ only, with the same names of tensors"
    return QmlirError(need, where=where, got=got, remedy=remedy)
