"""`rotate`: rotates the channels of a float network by the passes that the setting `rotate` names.

Before ranges are learned, because rotated tensors have other ranges. A rotation spreads the few channels of
transformers that are far larger than the others: one scale then serves all channels.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.errors import QmlirWarning
from qmlir.ir.context import QmlirContext
from qmlir.ir.facts import ROTATED, ROTATION
from qmlir.ir.passes import PassPipeline, configured_pass, option
from qmlir.settings.quant_config import Rotate

PASSES: Mapping[Rotate, tuple[str, ...]] = {
    "none": (),
    "residual": ("simplify", "rotate-residual-stream"),
    "run-time": ("simplify", "rotate-at-run-time"),
    "all": ("simplify", "rotate-residual-stream", "rotate-values", "rotate-products"),
    "caches": ("simplify", "rotate-residual-stream", "rotate-values", "rotate-products", "rotate-keys"),
}
"""The passes of each setting."""


@dataclass(frozen=True)
class RotatePass(PassPipeline):
    """Rotates the channels of a float network, whose outputs stay the same but for float rounding."""

    name = "rotate"
    what: Rotate = option(
        "residual",
        "residual: the residual streams that only RMS normalizations and layers read; all: also values of attention, "
        "and products, results of GELU and its like, and layer normalizations before layers; "
        "caches: also keys that states hold, and queries; "
        "run-time: residual streams, by transforms that leave weights as they are",
    )

    def steps(self, ctx: QmlirContext, module: ModuleOp) -> Iterator[ModulePass]:
        yield from (configured_pass(name, {}) for name in PASSES[self.what])
        if self.what != "none":
            ROTATION.put(module, self.what)
            if not any(ROTATED.on(op) for op in module.walk()):
                text = f"rotate={self.what}: nothing was rotated, as the network has nothing of the kind"
                warnings.warn(text, QmlirWarning, stacklevel=2)
