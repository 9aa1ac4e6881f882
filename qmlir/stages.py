"""The compiler on one page: its stages, each a tuple of passes (ir/passes.py), or a function that returns one.

The way from a model file to machine code is the concatenation of these tuples. `compiler.py` runs them and no other
pass; a stage that takes the settings of a run is a function of them. `qmlir-opt --mlir-print-ir-after-all` prints the
IR after each pass.
"""

from collections.abc import Sequence

from qmlir.ir.passes import Step

FROM_TOSA = ("tosa-to-nn", "inline")
"""tosa → nn."""

FROM_FILE = ("fold-fake-quant",)
"""nn as a frontend reads it: the ranges that training has found become those of its tensors."""

SIMPLIFY = ("simplify",)
"""nn → nn: constants folded, layouts cancelled, batch norms, biases and activations fused."""

FOLD_CASTS = ("fold-qdq",)
"""nn with the casts of a quantized model file → nn on quantized types, simplified."""

IMPORTED = (*SIMPLIFY, *FOLD_CASTS)
"""nn as imported from a model file → nn, on quantized types where the model file was quantized."""


def rotated(what: str) -> Sequence[Step]:
    """nn → nn: channels rotated before ranges are learned, as the setting `rotate` says."""
    return () if what == "none" else (("rotate", {"what": what}),)


OBSERVE = (*SIMPLIFY, "insert-observers")
"""nn → nn + calib: an observer on each activation tensor that remains after fusing."""

PROFILE = ("observers-to-results",)
"""nn + calib → nn: what observers see are results of the function, from which ranges are learned."""

FOR_DEVICE = ("settle-transposes",)
"""nn → nn: transposes where a device, which takes single samples, has none to compute."""

QUANTIZE = (
    "apply-profile",  # where a profile is named
    "require-network",
    "apply-policy",
    "require-ranges",
    "gather-casts",  # of a network as imported
    "separate-slices",
    "fuse-attention",
    "widen-residuals",
    "divide-rows",
    "divide-states",
    "keep-blocks",
    "split-squares",
    "keep-integers",  # this and the next four on samples
    "equalize-blocks",
    "equalize-channels",
    "search-inputs",
    "align-scales",
    "choose-scales",
    "adjust-layers",  # on samples
    "quantize-ops",
    "quantize-block-scales",
    "quantize-bias",
    "quantize-states",
    "store-blocks",
    "narrow-floats",
    "quantize-integers",
    "cancel-casts",
    "narrow-attention",
    "align-constants",
    "pack-states",
    "honour-policy",
    "fail-on-float",  # where asked for
)
"""nn + calib.observe with ranges → nn on !quant, by the settings that the pass `quantize` states on the module."""


def interface(type: str) -> Sequence[Step]:
    """nn on !quant → the same, with functions that take and give a type: `int8`, …, `float`."""
    return (("set-interface", {"type": type}), "quantize-ops")


def batched(most: int) -> Sequence[Step]:
    """nn → nn that takes up to so many samples in a call."""
    return (("batch-samples", {"most": most}),)


def exportable(*, matrices: bool) -> Sequence[Step]:
    """nn → nn without sums of integers that a format cannot compute; of all, or of matrices only."""
    return (("float-products", {"matrices": matrices}),)


VERIFY_LOOPS = False
"""Whether to verify the module between the passes below qint. There are thousands of scalar operations: verifying them
takes longer than the passes do. The tests verify them."""

TO_INTEGERS = ("nn-to-qint", "merge-requantizes")
"""nn on !quant → qint: integers only, and exact from here on."""


def to_loops(features: str = "", memory: str = "fast", counter: str | None = None) -> Sequence[Step]:
    """nn and qint → scf, memref, vector, arith and simd: one kernel function for each fused operation.

    Args:
        features: Those of the processor: `+avx2,+fma`.
        memory: "fast", or "small" for kernels that take little memory.
        counter: The counter that is read around each call of a kernel; None for none.
    """
    machine = {"features": features, **_small(memory)}
    timing: Sequence[Step] = () if counter is None else (("time-calls", {"counter": counter}),)
    return (
        "round-halves",
        "narrow-products",
        "tabulate",
        "stripe-rows",
        ("nn-to-loops", machine),
        ("qint-to-loops", machine),
        "finish-loops",
        *timing,
    )


LEAST_SMALL = 64
"""Bytes from which a buffer moves to the arena where memory is to be small, and the stack with it. By default, smaller
buffers stay: they are a few registers' worth, which LLVM keeps in registers where it can; it cannot do that for memory
of the caller's."""


def to_plan(threads: int = 1, memory: str = "fast", hook: str | None = None) -> Sequence[Step]:
    """Calls of kernels → calls for several threads, on one arena that is planned from liveness.

    Args:
        threads: Threads that one call of the network may use.
        memory: "fast", or "small" for an arena as small as possible.
        hook: The function that is told where layers begin and end; None for none.
    """
    share: Step = ("share-items", {"threads": threads})
    told: Sequence[Step] = () if hook is None else (("call-layers", {"function": hook}),)
    if memory == "fast":
        return (share, "hoist-scratch", "plan-memory", *told)
    return (share, ("hoist-scratch", {"least": LEAST_SMALL}), "stripe-calls", ("plan-memory", _small(memory)), *told)


def to_llvm(features: str = "", index_bitwidth: int = 64) -> Sequence[Step]:
    """Loops on one arena → the llvm dialect, for a processor's features and the width of its addresses."""
    return (("loops-to-llvm", {"features": features, "index_bitwidth": index_bitwidth}),)


def _small(memory: str) -> dict[str, str]:
    return {} if memory == "fast" else {"memory": memory}


def to_layers(device: str) -> Sequence[Step]:
    """qint → npu: layers of a device, whose file's text is given, and calls of its host."""
    return (("qint-to-npu", {"device": device}), "npu-fuse")


TO_COMMANDS = ("npu-fit", "npu-cascade", "npu-tile", "npu-place", "npu-order")
"""Layers → commands on buffers: first in tiles, then with addresses, then with waits."""
