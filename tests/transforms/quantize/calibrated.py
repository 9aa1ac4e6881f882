"""Networks from text whose ranges are learnt by the reference: no machine code is needed to test the quantizer."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.backends.reference import Reference
from qmlir.compiler import Pipeline, main_function, reference
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import element_of
from qmlir.ir.source import parse_text
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.policies.ledger import Entry, deciding_operations, decision_of, decisions
from qmlir.profiles.profile import Profile
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from qmlir.transforms.quantize.ranges.observers import observed_shapes

Array = npt.NDArray[Any]


def parsed(text: str) -> ModuleOp:
    """A verified module."""
    module = parse_text(make_context(), text, "test.mlir")
    module.verify()
    return module


def text_of(module: ModuleOp) -> str:
    """A module's whole text, weights and all."""
    return module_text(module, WeightsMode.INLINE)


def learnt(module: ModuleOp, samples: Sequence[Array]) -> Profile:
    """The profile of a module's main function, observers inserted, over samples of its only input."""
    observed = Pipeline("insert-observers")(module)
    profile = Profile.empty(observed_shapes(main_function(observed)))
    network = Reference(main_function(Pipeline("observers-to-results")(observed)))
    for sample in samples:
        profile.update(dict(zip(profile.tensors, network.run(sample)[-len(profile.tensors) :], strict=True)))
    return profile


def calibrated(module: ModuleOp, samples: Sequence[Array]) -> ModuleOp:
    """The module with observers that hold ranges."""
    observed = Pipeline("insert-observers")(module)
    apply_profile(observed, learnt(module, samples))
    return observed


def quantized(module: ModuleOp, **options: Any) -> ModuleOp:
    """`--quantize` on a module with ranges."""
    return Pipeline(("quantize", options))(module)


def run(module: ModuleOp, x: Array) -> Array:
    """The only output for the only input, by the exact meaning."""
    return reference(module)(x)


def entry(module: ModuleOp, node: str) -> Entry:
    """The decision about the node of that name."""
    (found,) = [e for e in decisions(module) if e.node == node]
    return found


def operation(module: ModuleOp, name: str) -> Operation:
    """The only operation of a kind."""
    (found,) = [o for o in module.walk() if o.name == name]
    return found


def uniform(value: SSAValue) -> UniformType:
    """The quantized type of a value."""
    element = element_of(value)
    assert isinstance(element, UniformType), value.type
    return element


def quantized_values(module: ModuleOp) -> Iterator[SSAValue]:
    """Every value of a quantized type that an operation makes."""
    for op in module.walk():
        for result in op.results:
            if isinstance(element_of(result), UniformType):
                yield result


def undecided(module: ModuleOp) -> list[str]:
    """Operations without a decision; there are none after `quantize`."""
    return [op.name for op in deciding_operations(module) if decision_of(op) is None]


def sqnr(truth: Array, got: Array) -> float:
    """Signal to noise in dB."""
    noise = float(((got.astype(np.float64) - truth) ** 2).sum())
    return float("inf") if noise == 0 else 10 * float(np.log10((truth.astype(np.float64) ** 2).sum() / noise))
