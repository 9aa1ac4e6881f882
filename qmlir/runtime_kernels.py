"""Whether the runtime that a network follows has a kernel for an operation on quantized types, and how that rounds.

Only of LiteRT it is known which data its kernels take (runtimes.py): what a .tflite file holds they do, what is
quantized here they may not. Of onnxruntime it is known which operations it computes in integers, or as good as those.
The quantizer asks to say it in the ledger, nn-to-qint to round: both ask here, before and after unsigned integers have
become signed ones.

LiteRT has kernels for unsigned bytes and for signed ones, hardly any for both at once. So a network that has unsigned
data beside signed weights is followed as the file that is written of it: all bytes are signed there.
"""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.comparison import ComparisonOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qmlir import INTEGER_OPERATOR, MIXED, UNSIGNED
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.quantized_values import chooses_integers, data_operands, uniform
from qmlir.runtimes import (
    EXACT,
    LIBRARY_FUNCTIONS,
    LITERT_FUNCTIONS,
    NOT_FOLLOWED,
    ONNXRUNTIME_EXACT,
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


def mixes_bytes(function: func.FuncOp) -> bool:
    """Whether an operation has unsigned bytes beside signed ones, or changes between unsigned bytes and 16 bits.

    No file for LiteRT has one, though it may return both (`func.return` computes nothing), and QUANTIZE changes between
    signed and unsigned bytes.
    """
    return any(_is_mixed(op) for op in function.body.block.ops if op.results)


def _is_mixed(op: Operation) -> bool:
    found = [e for v in (*op.operands, *op.results) if (e := quantized_element(v.type)) is not None]
    if isinstance(op, nn.RequantizeOp):
        return any(e.storage_width == 16 for e in found) and any(not e.is_signed for e in found)
    return len({e.is_signed for e in found if e.storage_width <= 8}) == 2


def stores_signed(function: func.FuncOp, runtime: str) -> bool:
    """Whether a runtime's file of a function stores all its bytes as signed ones."""
    return follows_litert(runtime) and mixes_bytes(function)


def rounded_as_default(op: Operation, runtime: str, *, signed: bool = False) -> str:
    """Why an operation on quantized types is rounded as by default though a runtime is followed; empty where it is not.

    What onnxruntime computes in float32 may be one step off: a pool sums numbers, not integers, and ties fall either
    way. `signed` is as `lacking` has it.
    """
    if words := NOT_FOLLOWED.get(runtime, {}).get(f"{op.name}/{_kernel(op, signed=signed)}"):
        return words
    if lacks := lacking(op, runtime, signed=signed):
        return f"LiteRT has no kernel for {lacks}"
    if runtime == "default" or follows_litert(runtime) or _is_alike_in_onnxruntime(op, runtime):
        return ""
    return f"onnxruntime computes {_called(op)} in float32"


def depending_on_library(op: Operation, runtime: str) -> str:
    """How a followed LiteRT's results depend on the C library beneath it; empty where they do not."""
    return LIBRARY_FUNCTIONS.get(f"{op.name}/{_kernel(op)}", "") if follows_litert(runtime) else ""


def _is_alike_in_onnxruntime(op: Operation, runtime: str) -> bool:
    """Whether an operation's integers are known to be onnxruntime's."""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return chooses_integers(op)
    exact = isinstance(op, _ALIKE) and not isinstance(op, nn.AveragePool2DOp)
    return exact or op.name in RUNTIMES[runtime] or f"{op.name}/{_kernel(op)}" in ONNXRUNTIME_EXACT


def bounds_rounding(op: Operation, runtime: str) -> str:
    """How a runtime rounds the bounds of a clamp: a name in numerics.QUANTIZATIONS, or `float32_shifted`.

    LiteRT divides them in float32 and rounds halves away from zero. Where XNNPACK fuses a clamp into another operation
    on bytes, it adds the zero point before it rounds half to even: `float32_shifted`.
    """
    if not follows_litert(runtime):
        return "exact"
    fused = not isinstance(op, nn.ClampOp) and all(uniform(v).storage_width <= 8 for v in _activations(op))
    return "float32_shifted" if runtime == "litert-xnnpack" and fused else "float32_away"


def compared_storage(op: Operation, runtime: str) -> Sequence[SSAValue]:
    """The stored integers that a comparison of dequantized ones compares under a runtime; none where floats compare.

    LiteRT's operators on stored integers do; one on floats behind a DEQUANTIZE has no mark.
    """
    if not follows_litert(runtime) or not isinstance(op, ComparisonOp) or INTEGER_OPERATOR not in op.attributes:
        return ()
    sources = [v.owner.input for v in op.operands if isinstance(v.owner, DequantizeCastOp)]
    if len(sources) < 2 or any(uniform(v).is_per_axis for v in sources):
        return ()
    left, right = (_stored(v, 0) for v in sources)
    return sources if left == right and left in STORAGES else ()


def followed_runtime(op: Operation) -> str:
    """The runtime that the module of an operation follows; before it is part of one, the module of what it reads."""
    top = op.get_toplevel_object()
    while not isinstance(top, ModuleOp):
        if not isinstance(top, Operation) or not top.operands:
            return "default"
        top = top.operands[0].owner.get_toplevel_object()
    return runtime_of(top)


def lacking(op: Operation, runtime: str, *, signed: bool = False) -> str:
    """What LiteRT has no kernel for, in words; empty where it has one, or where another runtime is followed.

    Args:
        op: On quantized types.
        runtime: That is followed.
        signed: Whether unsigned bytes are stored as signed ones, 128 less (`stores_signed`).
    """
    if not follows_litert(runtime) or isinstance(op, _ALIKE):
        return ""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return "" if chooses_integers(op) else "a choice between two scales"
    storage = _kernel(op, signed=signed)
    names = {op.name, f"{op.name}/{storage}"}
    others = {"i32", "mixed"} if isinstance(op, nn.RequantizeOp) else {"i16 by i8"}
    taken = {*STORAGES, "operator", *others}
    if storage not in taken or not names & {*RUNTIMES[runtime], *EXACT}:
        return f"{_called(op)} of {'data stored in several ways' if storage == 'mixed' else storage}"
    result = uniform(op.results[0])
    moved = 128 if signed and _stored(op.results[0], 0) == "u8" else 0
    found = result.scale, result.zero_point + _displaced(op) - moved
    if RESULTS.get(op.name, {}).get(storage, found) != found:
        return f"{_called(op)} with a result of scale {found[0]:g} and zero point {found[1]}"
    return ""


def _called(op: Operation) -> str:
    return op.name.partition(".")[2]


def _kernel(op: Operation, *, signed: bool = False) -> str:
    """How the source model stores an operation's data, as the table's keys say it; in words if they have none."""
    if INTEGER_OPERATOR in op.attributes and f"{op.name}/operator" in LITERT_FUNCTIONS:
        return "operator"
    if MIXED in op.attributes:
        return "mixed"
    found = [_stored(v, _displaced(op)) for v in _activations(op)]
    if signed:
        found = ["i8" if name == "u8" else name for name in found]
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
