"""qmlir → mlir-opt (generic form) → qmlir leaves a module as it was: operations, types, scales and weights."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f32
from xdsl.ir import Block, Region

import qmlir
from qmlir.compiler import TO_INTEGERS, TO_LOOPS, Pipeline
from qmlir.context import make_context
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.weights import WeightsMode, module_text
from qmlir.source import parse_text
from tests.conftest import ROOT
from tests.interop.upstream import mlir_opt

GENERIC = "--mlir-print-op-generic"
OUR_DIALECTS = "--allow-unregistered-dialect"


def assert_unchanged(module: ModuleOp, *flags: str) -> None:
    """What comes back is the module, attribute by attribute."""
    printed = mlir_opt(module_text(module, WeightsMode.INLINE, generic=True), GENERIC, *flags)
    back = parse_text(make_context(), printed, "mlir-opt")
    back.verify()
    assert back.is_structurally_equivalent(module)


@st.composite
def quantized_types(draw: st.DrawFn, shape: tuple[int, ...]) -> UniformType:
    """Types per tensor and per axis that LLVM 19 knows: sub-channel types are younger."""
    signed = draw(st.booleans())
    bits = draw(st.integers(2, 32))
    storage = IntegerType(bits, Signedness.SIGNLESS if signed else Signedness.UNSIGNED)
    least = -(1 << bits - 1) if signed else 0
    low = draw(st.integers(least, least + (1 << bits) - 2))
    high = draw(st.integers(low + 1, least + (1 << bits) - 1))
    scale = st.floats(float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max), width=32)
    if not draw(st.booleans()):
        return UniformType.per_tensor(storage, draw(scale), draw(st.integers(low, high)), low, high)
    axis = draw(st.integers(0, len(shape) - 1))
    count = shape[axis]
    scales = draw(st.lists(scale, min_size=count, max_size=count))
    points = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return UniformType.per_axis(storage, axis, scales, points, low, high)


@st.composite
def quantized_modules(draw: st.DrawFn) -> ModuleOp:
    """A function that quantizes, looks at the stored integers, and dequantizes."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    type = draw(quantized_types(shape))
    block = Block(arg_types=[TensorType(f32, shape)])
    q = QuantizeCastOp(block.args[0], TensorType(type, shape))
    stored = StorageCastOp(q.result, TensorType(type.storage_type, shape))
    again = StorageCastOp(stored.result, TensorType(type, shape))
    y = DequantizeCastOp(again.result, TensorType(f32, shape))
    block.add_ops([q, stored, again, y, func.ReturnOp(y.result, q.result)])
    signature = ([TensorType(f32, shape)], [TensorType(f32, shape), TensorType(type, shape)])
    return ModuleOp([func.FuncOp("main", signature, Region(block))])


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(quantized_modules())
def test_quantized_modules(module: ModuleOp) -> None:
    module.verify()
    assert_unchanged(module)


def example() -> ModuleOp:
    return qmlir.load(ROOT / "examples/digits/model.mlir")


LEVELS = {
    "nn": (),
    "quantized": ("quantize",),
    "integers": ("quantize", *TO_INTEGERS),
    "loops": ("quantize", *TO_INTEGERS, *TO_LOOPS),
    "planned": ("quantize", *TO_INTEGERS, *TO_LOOPS, "plan-memory"),
}
"""Level → the passes to it. Operations of ours pass mlir-opt as unregistered ones."""


@pytest.mark.parametrize("level", LEVELS)
def test_levels_of_the_example(level: str) -> None:
    assert_unchanged(Pipeline(*LEVELS[level])(example()), OUR_DIALECTS)


def test_linalg_needs_no_leave() -> None:
    """Nothing of ours is left, so mlir-opt verifies every operation; in the custom syntax as well."""
    module = Pipeline("quantize", *TO_INTEGERS, "qint-to-linalg")(example())
    assert_unchanged(module)
    back = parse_text(make_context(), mlir_opt(module_text(module, WeightsMode.INLINE)), "mlir-opt")
    assert back.is_structurally_equivalent(module)
