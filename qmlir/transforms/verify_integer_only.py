"""The pass `verify-integer-only`: refuses a module that computes on floats, and says where each float comes from.

`float_operations` is the scan behind it. `qmlir certify` runs it before a network is certified.

A float operation is one of three:

* `entry`: it quantizes an input of the network, or moves an input on its way there;
* `exit`: it dequantizes an output, or moves it afterwards;
* `between`: any other. A float between an integer input and an integer output is always of this kind.

An operation on integers counts as well if it computes them by float instructions: a requantization under a contract in
float32, onnxruntime's addition, an interpolation in float32, an operator of the user's own. On the nn level, so does an
operation on quantized types that has no integer form, because `nn-to-qint` would compute it between casts.

Functions that hold kernels or machine-level code have no tensors to follow. There the kernels that casts became, named
after their operations (`quant_qcast_0`), are entry and exit, and any other float operation is between.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    ContainerType,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike, IsTerminator

from qmlir.dialects import qint
from qmlir.dialects.custom import CustomOp
from qmlir.dialects.nn.casts import CastOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import QuantizableOp, data_operands
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.dialects.quant.foreign import FloatStorageType
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import NodeError, UnsupportedError
from qmlir.ir.facts import DECISION
from qmlir.ir.interfaces import element_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.numerics.contracts import CONTRACTS
from qmlir.policies.legality import require_integer_form, target_of

ENTRY, EXIT, BETWEEN = "entry", "exit", "between"
"""Where a float operation stands: before the network's integers, behind them, or among them."""

CAST_OPERATIONS = (QuantizeCastOp.name, DequantizeCastOp.name)

LONGEST_PATH = 16
"""The most producers that a path lists."""


@dataclass(frozen=True)
class FloatOperation:
    """An operation that computes on floats.

    operation  the operation's name in the IR
    node       its name in the source model, or that of its result
    place      `entry`, `exit` or `between`
    types      the float types of its operands and results; empty if its integers are computed by float instructions
    reason     why it computes on floats
    path       the operations that produce its floats, from the last integer or input of the network up to itself
    """

    operation: str
    node: str
    place: str
    types: tuple[str, ...]
    reason: str
    path: tuple[str, ...]

    @property
    def floats(self) -> str:
        """The floats that an operation computes on, as text."""
        return " and ".join(self.types) or "float instructions"


def first_of(found: Sequence[FloatOperation]) -> tuple[FloatOperation, str]:
    """The first of some float operations, of casts only if there is no other; and how many more there are, as text."""
    first = next((each for each in found if each.operation not in CAST_OPERATIONS), found[0])
    return first, f", and {len(found) - 1} more" if len(found) > 1 else ""


class VerifyIntegerOnlyPass(ModulePass):
    """Refuses operations on floats, except casts at the network's entry and exit; the module stays as it is."""

    name = "verify-integer-only"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        refuse([each for each in float_operations(op, ctx) if each.place == BETWEEN])


def refuse(found: Sequence[FloatOperation]) -> None:
    """Raises an error about the first of the float operations that stand between; of casts only if there is no other.

    Raises:
        NodeError: There is one.
    """
    if not found:
        return
    first, others = first_of(found)
    remedy = "quantize it, or choose other numerics if a runtime's rounding asks for floats"
    if first.operation == CastOp.name and first.path[0].startswith("input "):
        remedy = f"--inputs {first.node} leaves the cast out, so that the network is given what it yields"
    raise NodeError(
        first.operation,
        first.node,
        "must compute on integers by integer instructions",
        got=f"{first.floats} ({first.reason}), by way of {' → '.join(first.path)}{others}",
        remedy=remedy,
    )


def float_operations(module: ModuleOp, ctx: Context | None = None) -> Iterator[FloatOperation]:
    """Yields the operations of a module that compute on floats, in program order.

    Args:
        module: A module on any level.
        ctx: The context, whose target says which integer forms there are on the nn level; by default the CPU's.
    """
    context = ctx or Context()
    for function in module.walk():
        if isinstance(function, func.FuncOp | llvm.FuncOp) and function.body.blocks:
            yield from _on_tensors(function, context) if _has_tensors(function) else _in_code(function)


def float_type(type: Attribute) -> str | None:
    """Returns the float type among the elements of a type, as text; None if there is none."""
    if isinstance(type, FloatStorageType):
        return str(type)
    if isinstance(type, llvm.LLVMArrayType):
        return float_type(type.type)
    if isinstance(type, ComplexType):
        return str(cast(Attribute, type))
    if isinstance(type, ContainerType):
        return float_type(cast(Attribute, type.get_element_type()))
    if isinstance(type, llvm.LLVMStructType):
        return next(filter(None, map(float_type, type.types.data)), None)
    return str(type) if isinstance(type, AnyFloat) else None


def float_types(op: Operation) -> tuple[str, ...]:
    """Returns the distinct float types of an operation's operands, results and block arguments."""
    arguments = chain.from_iterable(block.args for region in op.regions for block in region.blocks)
    found = (float_type(v.type) for v in chain(op.operands, op.results, arguments))
    return tuple(dict.fromkeys(filter(None, found)))


def hidden_floats(op: Operation, ctx: Context) -> str | None:
    """Returns why an operation on integers computes them by float instructions; None if it does not."""
    match op:
        case qint.RequantizeOp() if CONTRACTS[op.contract.data].in_floats:
            return f"contract {op.contract.data} rounds in float32"
        case qint.FloatAddOp():
            return "it adds in float32, as onnxruntime does"
        case qint.InterpolateOp() if op.computed_in_floats():
            return f"it interpolates in float32 ({op.rounding.data})"
        case OpaqueOp() | CustomOp():
            return "qmlir does not know what it computes"
        case QuantizableOp() if any(isinstance(element_of(v), UniformType) for v in data_operands(op)):
            try:
                require_integer_form(op, target_of(ctx))
            except UnsupportedError as why:
                return f"it has no integer form: {why}"
        case _:
            pass
    return None


# ---------------------------------------------------------------------------------------------------------------
# Functions on tensors


def _has_tensors(function: func.FuncOp | llvm.FuncOp) -> bool:
    return any(isinstance(v.type, TensorType) for op in function.walk() for v in (*op.operands, *op.results))


def _on_tensors(function: func.FuncOp | llvm.FuncOp, ctx: Context) -> Iterator[FloatOperation]:
    """Classifies each float operation of a function by what comes before it and behind it."""
    operations = list(function.body.walk())
    entries, exits = _entries(operations), _exits(operations)
    for op in operations:
        hidden = hidden_floats(op, ctx)
        types = float_types(op)
        moves = op.has_trait(ConstantLike) or op.has_trait(IsTerminator) or _passes_on(op)
        if hidden is None and (not types or moves):
            continue
        place = BETWEEN
        if hidden is None:
            place = ENTRY if op in entries else EXIT if op in exits else BETWEEN
        yield FloatOperation(op.name, node_name(op), place, types, hidden or _reason(op, types), _path(op))


def _passes_on(op: Operation) -> bool:
    """Whether an operation only passes floats on to kernels, which are functions of their own."""
    tensors = any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))
    return isinstance(op, UnrealizedConversionCastOp) or (op.name.startswith(MOVING) and not tensors)


def _entries(operations: Iterable[Operation]) -> set[Operation]:
    """The operations, given in order, that only quantize or move floats which the network gets as inputs."""
    found: set[Operation] = set()

    def enters(value: SSAValue) -> bool:
        if isinstance(value, BlockArgument):
            return isinstance(value.owner.parent_op(), func.FuncOp)
        return isinstance(value.owner, MovementOp) and bool(value.owner.operands) and value.owner in found

    for op in operations:
        if isinstance(op, QuantizeCastOp | MovementOp) and all(enters(v) for v in _floats_of(op)):
            found.add(op)
    return found


def _exits(operations: Sequence[Operation]) -> set[Operation]:
    """The operations, given in order, that only dequantize or move such floats, which are moved until returned."""
    moved, found = set[Operation](), set[Operation]()
    for op in operations:
        made = isinstance(op, DequantizeCastOp) or all(v.owner in moved for v in _floats_of(op))
        if isinstance(op, DequantizeCastOp | MovementOp) and made:
            moved.add(op)
    for op in reversed(operations):
        readers = (use.operation for result in op.results for use in result.uses)
        if op in moved and all(isinstance(r, func.ReturnOp) or r in found for r in readers):
            found.add(op)
    return found


def _floats_of(op: Operation) -> list[SSAValue]:
    """The operands of an operation whose elements are floats."""
    return [v for v in op.operands if float_type(v.type) is not None]


def _reason(op: Operation, types: Sequence[str]) -> str:
    decision = DECISION.of(op)
    if decision is not None and decision.outcome.data == "float":
        return decision.reason.data
    if isinstance(op, QuantizeCastOp | DequantizeCastOp):
        return "it casts between floats and integers"
    return f"it computes on {' and '.join(types)}"


def _path(op: Operation) -> tuple[str, ...]:
    """The operations that produce an operation's floats, first to last, and before them the input or the integers."""
    steps, at = [_called(op)], op
    while len(steps) < LONGEST_PATH:
        sources = [v for v in at.operands if float_type(v.type) is not None and not _is_constant(v)]
        value = next(iter(sources or [v for v in at.operands if not _is_constant(v)]), None)
        if value is None:
            break
        if not isinstance(value, OpResult):
            steps.append(f'input "{tensor_name(value) or value.name_hint or ""}"')
            break
        at = value.op
        if isinstance(at, StorageCastOp):
            continue
        steps.append(_called(at))
        if float_type(value.type) is None:
            break
    return tuple(reversed(steps))


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.has_trait(ConstantLike)


def _called(op: Operation) -> str:
    return f'{op.name} "{node_name(op)}"'


# ---------------------------------------------------------------------------------------------------------------
# Functions of kernels and of machine-level code

CASTS = {"quant_qcast": ENTRY, "quant_dcast": EXIT}
"""The start of the name of a kernel that a cast became → where it stands."""

MOVING = (
    *("func.call", "llvm.call", "memref.", "qmlir.constant_buffer", "llvm.mlir.constant", "llvm.mlir.global"),
    UnrealizedConversionCastOp.name,
)
"""Operations that pass floats or their addresses on, and compute nothing; the last until `finish-loops`."""


def place_of_kernel(name: str) -> str:
    """Where a function that computes on floats stands, by its name."""
    return next((place for start, place in CASTS.items() if name.removeprefix("main_").startswith(start)), BETWEEN)


def _in_code(function: func.FuncOp | llvm.FuncOp) -> Iterator[FloatOperation]:
    """The first float operation of each kind in a function of loops or of LLVM's dialect."""
    name, met = function.sym_name.data, set[str]()
    for op in function.body.walk():
        types = float_types(op)
        moves = op.has_trait(ConstantLike) or op.has_trait(IsTerminator) or op.name.startswith(MOVING)
        if types and not moves and op.name not in met:
            met.add(op.name)
            reason = f"it computes on {' and '.join(types)}"
            yield FloatOperation(op.name, name, place_of_kernel(name), types, reason, (f"@{name}", op.name))
