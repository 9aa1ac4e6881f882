"""Verifies a module and reports several errors, each with its place in the text."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.errors import OptionError
from qmlir.ir.facts import SCALES
from qmlir.ir.names import names_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.source import SourceError, location_of
from qmlir.ir.states import misplaced_states
from qmlir.ir.upstream.definitions import prepared_checks
from qmlir.ir.upstream.source_parser import one_line

# ---------------------------------------------------------------------------------------------------------------
# Promises: attributes by which an operation states a property of everything inside it; the verifier checks them.


@dataclass(frozen=True)
class Violation:
    """A value that lacks a property which the enclosing operation states.

    op     the operation to report: the operation that defines the value, or whose block argument the value is
    value  the value
    got    what the value has instead
    """

    op: Operation
    value: SSAValue
    got: str


class Promise(ABC):
    """An attribute that states a property of everything inside the operation that has it."""

    STATES: ClassVar[str]
    """The property in words, such as `scales that are powers of two`."""

    @abstractmethod
    def broken(self, scope: Operation) -> Iterator[Violation]:
        """Yields the values inside an operation, including its results, that lack the property."""


# ---------------------------------------------------------------------------------------------------------------
# Verification
#
# xDSL's `verify` stops at the first error and adds a dump of the module to it. Here each function (each operation
# directly in the module) is verified by itself and contributes its first error, as in mlir-opt. Three checks are added
# to xDSL's. Dominance: inside a block, a value must be defined before it is used. Scales: an operation with the
# attribute `qmlir.scales` states a property of all scales inside it, which must hold (dialects/qmlir.py). States: what
# `qmlir.state` marks must be values that can live from call to call (states.py).


def verify(module: ModuleOp) -> None:
    """Checks a module.

    Raises:
        SourceError: The first error of the module.
    """
    if errors := verification_errors(module):
        raise errors[0]


@prepared_checks
def verification_errors(module: ModuleOp) -> list[SourceError]:
    """Returns the errors of a module: the first of each operation directly in it, and the module's own."""
    errors: list[SourceError] = []
    for op in module.body.ops:
        try:
            op.verify()
        except VerifyException as error:
            errors.append(_find(op, error))
        else:
            errors += _dominance_error(op) or _state_error(op) or _broken_promise(op)
    try:
        module.verify(verify_nested_ops=False)
    except VerifyException as error:
        errors.append(_at(module, error))
    return errors or _broken_promise(module)


def _find(outer: Operation, error: VerifyException) -> SourceError:
    """Finds the operation that raised an error: verifies each by itself, innermost first, until one raises."""
    for op in outer.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
            for block in op.walk_blocks():
                if block.is_empty:
                    block.verify()
        except VerifyException as found:
            return _at(op, found)
    return _at(outer, error)


def _at(op: Operation, error: VerifyException | str) -> SourceError:
    message = one_line(error)
    if not message.removeprefix("'").startswith(op.name):
        nodes = names_of(op).nodes
        name = f' "{nodes[0]}"' if nodes else ""
        message = f"{op.name}{name}: {message}"
    return SourceError(message, location_of(op))


def _state_error(op: Operation) -> list[SourceError]:
    """The first error of the states of a function (states.py)."""
    wrong = misplaced_states(op) if isinstance(op, func.FuncOp) else iter(())
    return [_at(op, message) for message in islice(wrong, 1)]


# ---------------------------------------------------------------------------------------------------------------
# Promises


def _broken_promise(outer: Operation) -> list[SourceError]:
    """Returns an error for the first value in `outer` that breaks an enclosing `qmlir.scales`, or nothing."""
    for scope in outer.walk():
        if (stated := SCALES.of(scope)) is None:
            continue
        if not isinstance(stated, Promise):
            return [_at(scope, f"{SCALES} must be #qmlir.power_of_two, got {stated}")]
        if (broken := next(stated.broken(scope), None)) is not None:
            called = f'tensor "{name}"' if (name := tensor_name(broken.value)) else "a value"
            return [_at(broken.op, f"{SCALES} promises {stated.STATES}, got {called} with {broken.got}")]
    return []


# ---------------------------------------------------------------------------------------------------------------
# Dominance


def _dominance_error(outer: Operation) -> list[SourceError]:
    """Returns an error for the first operand inside `outer` that is not defined where it is used, or nothing.

    Uses of a value in another block of the same region depend on control flow and are not checked.
    """
    order = {op: number for number, op in enumerate(outer.walk())}
    for op in order:
        for index, operand in enumerate(op.operands):
            if (wrong := _misuse(operand, op, order)) is not None:
                return [_at(op, f"operand #{index} is {wrong}")]
    return []


def _misuse(value: SSAValue, op: Operation, order: dict[Operation, int]) -> str | None:
    """Says what is wrong with the use of `value` by `op`, given the position of each operation in the text."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    around: Operation | None = op
    while around is not None and around.parent is not block:
        if around.parent is not None and block is not None and around.parent.parent is block.parent:
            return None  # another block of the same region
        around = around.parent_op()
    if around is None:
        return "defined in a region that is not around this operation"
    # An owner without a number stands directly in the module, where MLIR allows any order.
    if isinstance(owner, Operation) and order.get(owner, -1) >= order.get(around, 0):
        return "used before it is defined"
    return None


def require_module(given: object) -> None:
    """Checks that an argument is a module.

    Raises:
        OptionError: The argument is something else.
    """
    if not isinstance(given, ModuleOp):
        need, remedy = "must be a network as qmlir.load returns it", "load it: qmlir.load(path)"
        raise OptionError(
            "module",
            need,
            got=repr(given) if isinstance(given, str) else f"something of type {type(given).__name__}",
            remedy=remedy,
        )
