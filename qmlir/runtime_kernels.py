"""Whether the runtime that a network follows has a kernel for an operation on quantized types, and how that rounds.

Only of LiteRT it is known which data its kernels take (runtimes.py): what a .tflite file holds they do, what is
quantized here they may not. The quantizer asks to say it in the ledger, nn-to-qint to round: both ask here, before and
after unsigned integers have become signed ones.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qmlir import INTEGER_OPERATOR, MIXED, UNSIGNED
from qmlir.quantized_values import chooses_integers, data_operands, uniform
from qmlir.runtimes import (
    EXACT,
    LITERT_FUNCTIONS,
    RESULTS,
    RUNTIMES,
    STORAGES,
    Rounding,
    follows_litert,
    rounding_of,
    runtime_of,
)

_ALIKE = MovementOp | nn.MaxPool2DOp | nn.AveragePool2DOp | nn.ReduceMaxOp | nn.ReduceMinOp
"""Operations whose integers are the same in every runtime."""


def rounding_for(op: Operation, runtime: str, contract: str) -> Rounding:
    """How a runtime rounds an operation on quantized types; as the target does where it has no kernel for it."""
    return Rounding(contract) if lacking(op, runtime) else rounding_of(op.name, runtime, contract, _kernel(op))


def has_rounding(op: Operation, runtime: str) -> bool:
    """Whether a runtime, and not the target, says how an operation on quantized types is rounded."""
    return rounding_for(op, runtime, "").contract != ""


def followed_runtime(op: Operation) -> str:
    """The runtime that the module of an operation follows; before it is part of one, the module of what it reads."""
    top = op.get_toplevel_object()
    while not isinstance(top, ModuleOp):
        if not isinstance(top, Operation) or not top.operands:
            return "default"
        top = top.operands[0].owner.get_toplevel_object()
    return runtime_of(top)


def lacking(op: Operation, runtime: str) -> str:
    """What LiteRT has no kernel for, in words; empty where it has one, or where another runtime is followed."""
    if not follows_litert(runtime) or isinstance(op, _ALIKE):
        return ""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return "" if chooses_integers(op) else "a choice between two scales"
    storage, names = _kernel(op), {op.name, f"{op.name}/{_kernel(op)}"}
    taken = {*STORAGES, "i32", "mixed"} if isinstance(op, nn.RequantizeOp) else {*STORAGES, "i16 by i8", "operator"}
    if storage not in taken or not names & {*RUNTIMES[runtime], *EXACT}:
        return f"{_called(op)} of {'data stored in several ways' if storage == 'mixed' else storage}"
    result = uniform(op.results[0])
    found = result.scale, result.zero_point + _displaced(op)
    if RESULTS.get(op.name, {}).get(storage, found) != found:
        return f"{_called(op)} with a result of scale {found[0]:g} and zero point {found[1]}"
    return ""


def _called(op: Operation) -> str:
    return op.name.partition(".")[2]


def _kernel(op: Operation) -> str:
    """How the source model stores an operation's data, as the table's keys say it; in words if they have none."""
    if INTEGER_OPERATOR in op.attributes and f"{op.name}/operator" in LITERT_FUNCTIONS:
        return "operator"
    if MIXED in op.attributes:
        return "mixed"
    found = [_stored(v, _displaced(op)) for v in _activations(op)]
    if isinstance(op, nn.PReluOp) and found == ["i16", "i8", "i16"]:
        return "i16 by i8"
    pointed = next((name for name in found if name.endswith(POINTED)), None)
    same = isinstance(op, nn.RequantizeOp) or len(set(found)) == 1
    return pointed or (found[0] if same else "mixed")


def _activations(op: Operation) -> Sequence[SSAValue]:
    """The values that an operation computes, and computes them of."""
    return [op.x, *op.results] if isinstance(op, WeightedOp) else [*data_operands(op), *op.results]


POINTED = " with a zero point"


def _stored(value: SSAValue, displaced: int) -> str:
    """How a value is stored, in as many bytes as it takes."""
    type = uniform(value)
    width = next(bits for bits in (8, 16, 32) if type.storage_width <= bits)
    unsigned = displaced or type.storage_max >= 1 << width - 1
    return f"{'u' if unsigned else 'i'}{width}" + (POINTED if width == 16 and any(type.zero_points) else "")


def _displaced(op: Operation) -> int:
    """How much larger an operation's stored integers were before they became signed (lowering/nn_to_qint)."""
    moved = op.attributes.get(UNSIGNED)
    return moved.value.data if isinstance(moved, IntegerAttr) else 0
