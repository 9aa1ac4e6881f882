"""The compiler on one page: its stages, each a tuple of the names of passes (ir/passes.py).

The way from a model file to machine code is the concatenation of these tuples; `compiler.py` runs them, and
`qmlir-opt --mlir-print-ir-after-all` prints the IR after each pass.
"""

SIMPLIFY = ("simplify",)
"""nn → nn: constants folded, layouts cancelled, batch norms, biases and activations fused."""

FOLD_CASTS = ("fold-qdq",)
"""nn with the casts of a quantized model file → nn on quantized types, simplified."""

IMPORTED = (*SIMPLIFY, *FOLD_CASTS)
"""nn as imported from a model file → nn, on quantized types where the model file was quantized."""

QUANTIZE = (
    "apply-profile",  # where a profile is named
    "require-network",
    "apply-policy",
    "require-ranges",
    "gather-casts",  # of a network as imported
    "separate-slices",
    "widen-residuals",
    "split-squares",
    "keep-integers",  # this and the next three on samples
    "equalize-channels",
    "search-inputs",
    "align-scales",
    "choose-scales",
    "adjust-layers",  # on samples
    "quantize-ops",
    "quantize-bias",
    "quantize-states",
    "narrow-floats",
    "quantize-integers",
    "cancel-casts",
    "honour-policy",
    "fail-on-float",  # where asked for
)
"""nn + calib.observe with ranges → nn on !quant, by the settings that the pass `quantize` states on the module."""

OBSERVE = (*SIMPLIFY, "insert-observers")
"""nn → nn + calib: an observer on each activation tensor that remains after fusing."""

TO_INTEGERS = ("nn-to-qint",)
"""nn on !quant → qint: integers only, and exact from here on."""

TO_LOOPS = ("round-halves", "tabulate", "nn-to-loops", "qint-to-loops", "finish-loops")
"""nn and qint → scf, memref, vector, arith and simd: one kernel function for each fused operation."""

TO_LLVM = ("share-items", "hoist-scratch", "plan-memory", "loops-to-llvm")
"""Calls for several threads, one arena from liveness, the llvm dialect; `compile` gives two of them their options."""

TO_LAYERS = ("qint-to-npu", "npu-fuse")
"""qint → npu: layers of a device, and calls of its host; `compile` tells qint-to-npu the device."""

TO_COMMANDS = ("npu-fit", "npu-cascade", "npu-tile", "npu-place", "npu-order")
"""Layers → commands on buffers: first in tiles, then with addresses, then with waits."""
