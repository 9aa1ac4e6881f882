"""Operators that qmlir cannot import, and the report of all of them in a source model.

A frontend imports a source operation that nn cannot express as `qmlir.opaque` and goes on, so one run finds every gap.
The compiler calls `refuse_opaque` before it does anything with the module.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, IntegerAttr, ModuleOp, StringAttr, f64, i64
from xdsl.ir import Attribute

from qmlir.dialects.qmlir import OpaqueOp
from qmlir.errors import QmlirError
from qmlir.ir.rewriting import node_name

_NAMES_SHOWN = 4

UNKNOWN_SHAPE = "the shape of its input"
"""Start of the reason of an opaque operation whose operator qmlir knows, but whose input has an unknown shape.

The shape is unknown because an earlier opaque operation computes the input.
"""


@dataclass(frozen=True)
class OpaqueKind:
    """The opaque operations of a module that share a kind and a reason.

    kind    domain and operator, as `onnx.NonZero`
    count   the number of these operations
    names   their names, in program order
    reason  why qmlir cannot import them
    """

    kind: str
    count: int
    names: tuple[str, ...]
    reason: str


def opaque_report(module: ModuleOp) -> list[OpaqueKind]:
    """Lists the opaque operations of a module, grouped by kind and reason, in order of first appearance."""
    names: dict[tuple[str, str], list[str]] = {}
    for op in module.walk():
        if isinstance(op, OpaqueOp):
            names.setdefault((op.kind.data, op.reason.data), []).append(node_name(op))
    return [OpaqueKind(kind, len(found), tuple(found), reason) for (kind, reason), found in names.items()]


def refuse_opaque(module: ModuleOp, file: str) -> None:
    """Refuses a module that holds opaque operations.

    Args:
        module: A module as a frontend returns it.
        file: The model's file, for the message.

    Raises:
        QmlirError: The module holds opaque operations. The message lists them with counts, names and reasons. If an
            operation is opaque only because an earlier one leaves its input's shape unknown, it is merely counted.
    """
    report = opaque_report(module)
    if not report:
        return
    causes = [k for k in report if not k.reason.startswith(UNKNOWN_SHAPE)] or report
    listed = "; ".join(f"{k.count} x {k.kind} ({_shown(k.names)}): {k.reason}" for k in causes)
    total = sum(k.count for k in causes)
    if after := sum(k.count for k in report) - total:
        listed += f"; and {after} after {'it' if total == 1 else 'them'} whose shapes are not known for that"
    raise QmlirError(
        "every operation must be one that qmlir knows",
        where=file,
        got=f"{total} that {'is' if total == 1 else 'are'} not: {listed}",
        remedy="replace them in the model, or cut the model before them",
    )


def _shown(names: tuple[str, ...]) -> str:
    shown = ", ".join(f'"{n}"' for n in names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


def attribute_ir(
    value: Any, *, real: AnyFloat = f64, most: int | None = None, other: Callable[[Any], Attribute] | None = None
) -> Attribute:
    """Returns the value of a node's attribute as an MLIR attribute; a string describes what the IR cannot hold.

    Args:
        value: The value.
        real: The type of numbers with a fraction.
        most: The most elements of a list, and bytes of a text, that are recorded; None for all.
        other: Makes the attribute of a value that is neither numbers nor text; None to record its type's name.
    """
    match value:
        case tuple():
            items = cast(tuple[Any, ...], value)
            return ArrayAttr([attribute_ir(v, real=real, most=most, other=other) for v in items[:most]])
        case bytes():
            return StringAttr(value[:most].decode(errors="replace"))
        case str():
            return StringAttr(value)
        case float():
            return FloatAttr(value, real)
        case int():
            return IntegerAttr(value, i64)
        case _:
            return StringAttr(type(value).__name__) if other is None else other(value)
