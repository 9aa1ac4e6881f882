"""Finds out whether the followed runtime has a kernel for an operation on quantized types, and how it rounds.

Only for LiteRT does qmlir know which data its kernels accept (runtimes.py). They accept all data of a .tflite file, but
possibly not data that qmlir quantized. For onnxruntime, qmlir knows which operations it computes in integers, or with
the same results. The quantizer asks here to write the ledger, nn-to-qint to round; they ask before and after
unsigned integers have become signed.

LiteRT has kernels for unsigned bytes and for signed bytes, but hardly any for both at once. So a network with unsigned
data beside signed weights is followed as the file that qmlir exports for it, in which all bytes are signed.
"""

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import ComparisonOp
from qmlir.dialects.nn.quantizable import activations, uniform, widest
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.quant.types import quantized_element
from qmlir.ir.facts import INTEGER_OPERATOR, KERNEL, MIXED, ON_FLOATS, UNDELEGATED, UNSIGNED
from qmlir.numerics.contracts import CONTRACTS
from qmlir.policies.runtimes import (
    BYTES,
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

TRANSPOSED = "TRANSPOSE_CONV"
"""The kernel (`KERNEL`) of a convolution on signed bytes that is a transposed convolution of a .tflite file."""

TRANSPOSED_UNSIGNED = "TRANSPOSE_CONV u8"
"""The same of unsigned bytes."""


def rounding_for(op: Operation, runtime: str, contract: str) -> Rounding:
    """Returns how a runtime rounds an operation on quantized types; as the target does if it lacks a kernel."""
    if lacking(op, runtime):
        return Rounding(contract)
    return rounding_of(op.name, kernels_for(op, runtime), contract, _kernel(op))


def kernels_for(op: Operation, runtime: str) -> str:
    """Returns the runtime whose kernel computes an operation: LiteRT passes on what a set of kernels does not take.

    What XNNPACK declines, such as 16-bit data, goes to the optimized kernels, and these leave grouped convolutions to
    the reference kernels.
    """
    if runtime == "litert-xnnpack" and (UNDELEGATED.on(op) or _kernel(op) == "i16"):
        runtime = "litert-builtin"
    if runtime == "litert-builtin" and isinstance(op, nn.Conv2DOp) and op.group_count() > 1:
        return "litert-reference"
    return runtime


def has_rounding(op: Operation, runtime: str) -> bool:
    """Whether the runtime, and not the target, determines how an operation on quantized types is rounded."""
    return rounding_for(op, runtime, "").contract != ""


def wide_rounding(op: Operation, rounding: Rounding) -> Rounding | None:
    """Returns how an operation's sums of 64 bits are rounded; None if a followed runtime has no such sums.

    By default, a contract without a form for 64 bits gives way to `single64`: the CPU computes such sums, whatever
    device it is the host of.
    """
    if rounding.wide is not None:
        return rounding.wide
    contract = CONTRACTS[rounding.contract].wide
    if contract is None and not has_rounding(op, followed_runtime(op)):
        contract = "single64"
    return None if contract is None else Rounding(contract)


def no_wide_form(rounding: Rounding) -> str:
    """The reason of an operation whose sums may need 64 bits under a contract that has not so many."""
    return f"its sums may need 64 bits, which contract {rounding.contract} has not"


def mixes_bytes(function: func.FuncOp) -> bool:
    """Whether an operation has unsigned and signed bytes, or passes between unsigned bytes and 16 bits.

    No file for LiteRT has such an operation. A function may return both (`func.return` computes nothing), and QUANTIZE
    converts between signed and unsigned bytes.
    """
    return any(_is_mixed(op) for op in function.body.block.ops if op.results)


def _is_mixed(op: Operation) -> bool:
    if ON_FLOATS.on(op):  # between casts, of which each has bytes of its own
        return False
    found = [e for v in (*op.operands, *op.results) if (e := quantized_element(v.type)) is not None]
    if isinstance(op, nn.RequantizeOp | nn.MatMulOp):  # QUANTIZE makes signed bytes of 16 bits, not unsigned ones
        return any(e.storage_width == 16 for e in found) and any(not e.is_signed for e in found)
    return len({e.is_signed for e in found if e.storage_width <= 8}) == 2


def stores_signed(function: func.FuncOp, runtime: str) -> bool:
    """Whether a function's file for a runtime stores all bytes as signed bytes."""
    return follows_litert(runtime) and mixes_bytes(function)


def rounded_as_default(op: Operation, runtime: str, *, signed: bool = False) -> str:
    """Says why an operation rounds as by default although a runtime is followed; empty if it follows the runtime.

    Operations that onnxruntime computes in float32 may be one step off: a pool sums real numbers, not integers, and
    ties fall either way. For `signed`, see `lacking`.
    """
    runtime = kernels_for(op, runtime)
    if words := NOT_FOLLOWED.get(runtime, {}).get(f"{op.name}/{_kernel(op, signed=signed)}"):
        return words
    if lacks := lacking(op, runtime, signed=signed):
        return f"LiteRT has no kernel for {lacks}"
    if runtime == "default" or follows_litert(runtime) or _is_alike_in_onnxruntime(op, runtime):
        return ""
    return f"onnxruntime computes {_called(op)} in float32"


def depending_on_library(op: Operation, runtime: str) -> str:
    """Says how a followed LiteRT's results depend on its C library; empty if they do not."""
    return LIBRARY_FUNCTIONS.get(f"{op.name}/{_kernel(op)}", "") if follows_litert(runtime) else ""


def _is_alike_in_onnxruntime(op: Operation, runtime: str) -> bool:
    """Whether an operation is known to give the same integers as in onnxruntime."""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return op.chooses_integers()
    selects = keeps_scale(op) and not isinstance(op, nn.AveragePool2DOp)
    return selects or op.name in RUNTIMES[runtime] or f"{op.name}/{_kernel(op)}" in ONNXRUNTIME_EXACT


def bounds_rounding(op: Operation, runtime: str) -> str:
    """Returns how a runtime rounds the bounds of a clamp: a name in numerics.QUANTIZATIONS, or `float32_shifted`.

    LiteRT divides the bounds in float32 and rounds halves away from zero. Where XNNPACK fuses a clamp into another
    operation on bytes, it adds the zero point before it rounds half to even: `float32_shifted`.
    """
    if not follows_litert(runtime):
        return "exact"
    runtime = kernels_for(op, runtime)
    fused = not isinstance(op, nn.ClampOp) and all(uniform(v).storage_width <= 8 for v in activations(op))
    return "float32_shifted" if runtime == "litert-xnnpack" and fused else "float32_away"


def compared_storage(op: Operation, runtime: str) -> Sequence[SSAValue]:
    """Returns the stored integers that a comparison of dequantized values compares; empty if it compares floats.

    LiteRT's operators on stored integers, which carry a mark, compare integers. An operator on floats behind a
    DEQUANTIZE has no mark.
    """
    if not follows_litert(runtime) or not isinstance(op, ComparisonOp) or not INTEGER_OPERATOR.on(op):
        return ()
    sources = [v.owner.input for v in op.operands if isinstance(v.owner, DequantizeCastOp)]
    if len(sources) < 2 or any(uniform(v).is_per_axis for v in sources):
        return ()
    left, right = (_stored(v, 0) for v in sources)
    return sources if left == right and left in STORAGES else ()


def followed_runtime(op: Operation) -> str:
    """Returns the runtime that an operation's module follows; outside a module, that of its operand's module."""
    top = op.get_toplevel_object()
    while not isinstance(top, ModuleOp):
        if not isinstance(top, Operation) or not top.operands:
            return "default"
        top = top.operands[0].owner.get_toplevel_object()
    return runtime_of(top)


def lacking(op: Operation, runtime: str, *, signed: bool = False) -> str:
    """Says which kernel LiteRT lacks for an operation; empty if it has one, or if another runtime is followed.

    Args:
        op: An operation on quantized types.
        runtime: The followed runtime.
        signed: Whether unsigned bytes are stored as signed bytes, less by 128 (`stores_signed`).
    """
    if not follows_litert(runtime) or keeps_scale(op):  # what keeps the scale gives the same integers in every runtime
        return ""
    if isinstance(op, nn.MaximumOp | nn.MinimumOp):
        return "" if op.chooses_integers() else "a choice between two scales"
    runtime, storage = kernels_for(op, runtime), _kernel(op, signed=signed)
    names = {op.name, f"{op.name}/{storage}"}
    others = {"i32", "mixed"} if isinstance(op, nn.RequantizeOp) else {"i16 by i8"}
    taken = {*STORAGES, "operator", "SVDF", "LSTM", "LSTM hidden", "LSTM norm", "LSTM of words", *others,
             TRANSPOSED, TRANSPOSED_UNSIGNED}  # fmt: skip
    if storage not in taken or not names & {*RUNTIMES[runtime], *EXACT}:
        return f"{_called(op)} of {'data stored in several ways' if storage == 'mixed' else storage}"
    if isinstance(op, nn.AddOp | nn.SubOp | nn.MulOp) and (beyond := _beyond(op, runtime, storage)):
        return beyond
    result = uniform(op.results[0])
    moved = 128 if signed and _stored(op.results[0], 0) == "u8" else 0
    found = result.scale, result.zero_point + sign_shift(op) - moved
    if RESULTS.get(op.name, {}).get(storage, found) != found:
        return f"{_called(op)} with a result of scale {found[0]:g} and zero point {found[1]}"
    return ""


def left_shift(op: nn.AddOp | nn.SubOp) -> int:
    """Returns the bits l by which LiteRT shifts a sum's operands left: 20 for bytes, 15 if one is wider."""
    return 20 if max(uniform(op.lhs).storage_width, uniform(op.rhs).storage_width) <= 8 else 15


def has_sum(op: Operation) -> bool:
    """Whether LiteRT computes a sum of stored integers.

    It stops the process unless the factor 2 · max(s_a, s_b) / (2^l · s_y) is below 1. All operations but sums and
    differences on quantized types pass.
    """
    if not isinstance(op, nn.AddOp | nn.SubOp) or quantized_element(op.y.type) is None:
        return True
    return 2 * max(uniform(op.lhs).scale, uniform(op.rhs).scale) < uniform(op.y).scale * (1 << left_shift(op))


def _beyond(op: nn.AddOp | nn.SubOp | nn.MulOp, runtime: str, storage: str) -> str:
    """Says which sum or product LiteRT does not compute; empty if it computes this one.

    Its optimized kernels of sums and products of bytes add the zero point in 16 bits, which wrap around. Under
    `litert-xnnpack` they compute what XNNPACK does not take: factors from 2^8 on.
    """
    lhs, rhs, result = uniform(op.lhs), uniform(op.rhs), uniform(op.y)
    if not has_sum(op):
        return f"{_called(op)} with scales a factor of {max(lhs.scale, rhs.scale) / result.scale:.3g} apart"
    if isinstance(op, nn.SubOp) or runtime == "litert-reference" or storage not in BYTES:
        return ""
    factors = op.factors()
    terms = [op.sums().bound] if isinstance(op, nn.MulOp) else [widest(lhs), widest(rhs)]
    most = sum(term * float(factor) for term, factor in zip(terms, factors, strict=True))
    optimized = runtime == "litert-builtin" or factors.max() >= 2**8
    wraps = most + abs(result.zero_point + sign_shift(op)) >= 1 << 15
    return f"{_called(op)} with results beyond 16 bits" if optimized and wraps else ""


def _called(op: Operation) -> str:
    return op.name.partition(".")[2]


def _kernel(op: Operation, *, signed: bool = False) -> str:
    """Returns the storage part of an operation's key in runtimes.py; a description if no key can match."""
    if INTEGER_OPERATOR.on(op) and f"{op.name}/operator" in LITERT_FUNCTIONS:
        return "operator"
    if (kernel := KERNEL.of(op)) is not None:
        return kernel
    if MIXED.on(op):
        return "mixed"
    found = [_stored(v, sign_shift(op)) for v in activations(op)]
    if signed:
        found = ["i8" if name == "u8" else name for name in found]
    if isinstance(op, nn.PReluOp) and found == ["i16", "i8", "i16"]:
        return "i16 by i8"
    pointed = next((name for name in found if name.endswith(POINTED)), None)
    same = isinstance(op, nn.RequantizeOp) or len(set(found)) == 1
    return pointed or (found[0] if same else "mixed")


POINTED = " with a zero point"


def _stored(value: SSAValue, sign_shift: int) -> str:
    """Returns the storage type of a value, such as `u8`, in 8, 16 or 32 bits; notes a zero point of 16 bits."""
    type = uniform(value)
    width = next(bits for bits in (8, 16, 32) if type.storage_width <= bits)
    unsigned = sign_shift or type.storage_max >= 1 << width - 1
    return f"{'u' if unsigned else 'i'}{width}" + (POINTED if width == 16 and any(type.zero_points) else "")


def sign_shift(op: Operation) -> int:
    """The sign shift: how much larger an operation's stored integers are in the source model.

    It is 0 unless the source model stores unsigned integers, which nn-to-qint made signed. Float arithmetic on the
    larger integers may round differently.
    """
    return UNSIGNED.of(op) or 0
