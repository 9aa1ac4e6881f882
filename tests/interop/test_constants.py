"""Constants of every element type: what mlir-opt makes of ours, and what we make of its, bit for bit."""

import numpy as np
import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float8E4M3FNType,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Region

from qmlir.ir.context import make_context
from qmlir.ir.source import SourceError, parse_text
from qmlir.ir.upstream.dense import Array, Dense, dense, held_bytes
from qmlir.ir.weights import WeightsMode, module_text
from tests.interop.upstream import iree_opt, mlir_opt

INTEGERS = [*(IntegerType(n) for n in (1, 2, 4, 7, 8, 16, 24, 32, 48, 64)), IndexType()]
FLOATS = [f16, bf16, f32, f64, Float8E4M3FNType()]
ELEMENTS: list[Attribute] = [*INTEGERS, *FLOATS, ComplexType(f32)]

COUNTS = (1, 5, 64, 65, 100, 101, 800)
"""On both sides of the limits of what is listed, and what is printed as digits."""

PRINTINGS = ("=1", "=-1", "=100")
"""mlir-opt prints digits wherever it may, never, or as it likes."""


def random_constants(element: Attribute) -> list[Dense]:
    """A tensor and a vector of each size, of random bits: NaNs of all kinds among the floats."""
    random = np.random.default_rng(len(str(element)))
    found: list[Dense] = []
    for count in COUNTS:
        if isinstance(element, IntegerType | IndexType):
            bits = element.width.data if isinstance(element, IntegerType) else 64
            numbers: Array = random.integers(-(1 << bits - 1), (1 << bits - 1), count, np.int64)
            data = element.pack(numbers.tolist())
        elif element == ComplexType(f32):  # mlir-opt prints NaNs in pairs as digits that xDSL takes for integers
            data = random.standard_normal(2 * count, np.float32).tobytes()
        else:
            assert isinstance(element, AnyFloat)
            data = random.bytes(count * element.compile_time_size)
        shape = [count] if count % 5 else [5, count // 5]
        found.append(dense(TensorType(element, shape), data))
        if not isinstance(element, ComplexType):
            found.append(dense(VectorType(element, [count]), data))
    return found


def module_of(constants: list[Dense]) -> ModuleOp:
    block = Block()
    block.add_ops([*map(arith.ConstantOp, constants), func.ReturnOp()])
    return ModuleOp([func.FuncOp("main", ([], []), Region(block))])


def constants_of(text: str) -> list[Dense]:
    module = parse_text(make_context(), text, "constants.mlir")
    module.verify()
    values = [op.value for op in module.walk() if isinstance(op, arith.ConstantOp)]
    return [v for v in values if isinstance(v, DenseIntOrFPElementsAttr)]


def assert_same(got: list[Dense], expected: list[Dense]) -> None:
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.type == e.type
        np.testing.assert_array_equal(held_bytes(g), held_bytes(e), str(e.type))
        assert g == e
        assert hash(g) == hash(e)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_here_and_back(element: Attribute) -> None:
    constants = random_constants(element)
    for mode in (WeightsMode.SIDE_FILE, WeightsMode.INLINE, WeightsMode.RESOURCE):
        for generic in (False, True):
            assert_same(constants_of(module_text(module_of(constants), mode, generic=generic)), constants)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_through_mlir_opt(element: Attribute) -> None:
    constants = random_constants(element)
    for mode in (WeightsMode.INLINE, WeightsMode.RESOURCE):
        text = module_text(module_of(constants), mode)
        for printing in PRINTINGS:
            printed = mlir_opt(text, f"--mlir-print-elementsattrs-with-hex-if-larger{printing}")
            assert_same(constants_of(printed), constants)


def test_a_younger_tool_reads_them() -> None:
    constants = [c for element in (f32, bf16, *INTEGERS[:7]) for c in random_constants(element)]
    for mode in (WeightsMode.INLINE, WeightsMode.RESOURCE):
        assert_same(constants_of(iree_opt(module_text(module_of(constants), mode))), constants)


def test_resources_are_printed_as_mlir_opt_prints_them() -> None:
    constants = [c for element in (f32, f64, IntegerType(16)) for c in random_constants(element)]
    text = module_text(module_of(constants), WeightsMode.RESOURCE)
    sections = [t[t.index("{-#") :].strip() for t in (text, mlir_opt(text))]
    assert sections[0] == sections[1]


@pytest.mark.parametrize(
    ("mode", "elide", "message"),
    [
        (WeightsMode.RESOURCE, "resource-strings", "constants.mlir:3:42: the file holds no resource weights; print"),
        (WeightsMode.INLINE, "elementsattrs", "constants.mlir:3:42: this constant was elided when the module was"),
    ],
    ids=str,
)
def test_what_mlir_opt_elided_is_missed(mode: WeightsMode, elide: str, message: str) -> None:
    large = random_constants(f32)[-1:]
    printed = mlir_opt(module_text(module_of(large), mode), f"--mlir-elide-{elide}-if-larger=4")
    with pytest.raises(SourceError, match=f"^{message}"):
        constants_of(printed)
