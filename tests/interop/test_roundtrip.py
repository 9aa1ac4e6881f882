"""qmlir → mlir-opt (generic form) → qmlir leaves a module as it was: operations, types, scales and weights."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, Signedness, TensorType, f32, i64
from xdsl.ir import Block, Region

import qmlir
from qmlir.compiler import Pipeline
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.stages import TO_INTEGERS, to_llvm, to_loops, to_plan
from tests.conftest import ROOT, THOROUGH
from tests.interop.upstream import iree_opt, mlir_opt
from tests.models.networks import NETWORKS, Find, split

GENERIC = "--mlir-print-op-generic"
OUR_DIALECTS = "--allow-unregistered-dialect"


def read(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "mlir-opt")
    module.verify()
    return module


def assert_unchanged(module: ModuleOp, *flags: str) -> None:
    """What comes back is the module, attribute by attribute."""
    printed = mlir_opt(module_text(module, WeightsMode.INLINE, generic=True), GENERIC, *flags)
    assert read(printed).is_structurally_equivalent(module)


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
@settings(max_examples=200 if THOROUGH else 20, suppress_health_check=[HealthCheck.too_slow])
@given(quantized_modules())
def test_quantized_modules(module: ModuleOp) -> None:
    module.verify()
    assert_unchanged(module)


LEVELS = {
    "quantized": (),
    "integers": TO_INTEGERS,
    "loops": (*TO_INTEGERS, *to_loops()),
    "planned": (*TO_INTEGERS, *to_loops(), "plan-memory"),
    "linalg": (*TO_INTEGERS, "qint-to-linalg"),
    "llvm": (*TO_INTEGERS, *to_loops(), *to_plan(), *to_llvm()),
}
"""Level → the passes to it from a quantized network. Operations of ours pass mlir-opt as unregistered ones."""

OF_UPSTREAM = ("linalg", "llvm")
"""Levels without an operation of ours: mlir-opt verifies each."""

LOCATIONS = "--mlir-print-debuginfo"
AS_DIGITS = "--mlir-print-elementsattrs-with-hex-if-larger=1"
AS_LISTS = "--mlir-print-elementsattrs-with-hex-if-larger=-1"
WITHOUT_ALIASES = "--mlir-print-local-scope"

PRINTINGS = (
    (WeightsMode.INLINE, ()),
    (WeightsMode.RESOURCE, (LOCATIONS, AS_DIGITS)),
    (WeightsMode.INLINE, (LOCATIONS, AS_LISTS, WITHOUT_ALIASES)),  # in a local scope mlir-opt prints no resources
)
"""How we print, and how mlir-opt prints after that; the last one where it is cheap."""


def with_defaults(module: ModuleOp) -> ModuleOp:
    """With what mlir-opt states of functions and globals of the llvm dialect where we say nothing."""
    result = module.clone()
    for op in result.walk():
        if op.name in ("llvm.func", "llvm.mlir.global"):
            for name in ("visibility_", "unnamed_addr"):
                op.properties.setdefault(name, IntegerAttr(0, i64))
    return result


def check_levels(network: ModuleOp, quantized: ModuleOp) -> None:
    """Each level comes back as it went, in the generic form and in the custom one of upstream's operations."""
    assert_unchanged(network, OUR_DIALECTS)
    for number, (level, passes) in enumerate(LEVELS.items()):
        module = Pipeline(*passes)(quantized)
        expected = with_defaults(module)
        flags = () if level in OF_UPSTREAM else (OUR_DIALECTS,)
        some = PRINTINGS[:2] if THOROUGH else [PRINTINGS[number % 2]]
        for mode, printing in PRINTINGS if level in ("quantized", "linalg") else some:
            printed = mlir_opt(module_text(module, mode, generic=True), GENERIC, *flags, *printing)
            assert with_defaults(read(printed)).is_structurally_equivalent(expected), (level, mode, printing)
        if level in OF_UPSTREAM:
            custom = module_text(module, WeightsMode.RESOURCE)
            back, ours = with_defaults(read(mlir_opt(custom))), with_defaults(read(custom))
            assert back.is_structurally_equivalent(ours), level


@pytest.mark.slow
def test_levels_of_the_example() -> None:
    module = qmlir.load(ROOT / "examples/digits/model.mlir")
    check_levels(module, Pipeline("quantize")(module))


def digits() -> tuple[ModuleOp, ModuleOp]:
    """The float network and the quantized one."""
    data = np.load(ROOT / "examples/digits/digits.npz")
    module = qmlir.load(ROOT / "examples/digits/digits.onnx")
    profile = qmlir.profile(module, [x[None] for x in data["calibration_images"][:10]])
    return module, qmlir.quantize(module, profile)


@pytest.mark.slow
@pytest.mark.skipif(not THOROUGH, reason="make conformance runs it; those of the example run always")
def test_levels_of_digits() -> None:
    check_levels(*digits())


@pytest.mark.parametrize("edge", ["qint-to-linalg", "qint-to-tosa"])
def test_a_younger_tool(edge: str) -> None:
    """TOSA 1.0 and what else changed since LLVM 19; weights as digits and as resources."""
    module = Pipeline(*TO_INTEGERS, edge)(digits()[1])
    for mode in (WeightsMode.INLINE, WeightsMode.RESOURCE):
        text = module_text(module, mode)
        assert ("dialect_resources" in text) == (mode is WeightsMode.RESOURCE)
        assert read(iree_opt(text)).is_structurally_equivalent(module)


@pytest.mark.models
@pytest.mark.slow
def test_levels_of_cifar(shared: Find) -> None:
    network = NETWORKS["cifar"]
    module = qmlir.load(shared(network.file))
    profile = qmlir.profile(module, split(network, shared, 0.01).profile[:10])
    check_levels(module, qmlir.quantize(module, profile))
