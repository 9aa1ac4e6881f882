"""`qint-to-linalg`: mlir-opt accepts every operation's form, and IREE computes our bits from it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, StringAttr, TensorType, f32, i8, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import LoweringError
from qmlir.lowering.qint_to_linalg.convert import RULES
from qmlir.lowering.qint_to_linalg.requantize import ROUNDINGS
from tests.conftest import ROOT
from tests.interop.upstream import Array, Compiled, assert_same_bits, linalg_text, mlir_opt
from tests.lowering.both import network
from tests.models.networks import NETWORKS, Find, split
from tests.ops.samples import MOVEMENT_SAMPLES, NN_SAMPLES, QINT_SAMPLES, Sample, pads


@dataclass(frozen=True)
class Case:
    """A network of an operation or two, with its inputs."""

    name: str
    module: ModuleOp
    inputs: Sequence[Array]


HOLES: set[type[Operation]] = {
    # what gives or takes at places that are data, or steps backwards: no affine map reads there
    nn.SliceOp,
    nn.BroadcastOp,
    nn.GatherOp,
    nn.GatherNDOp,
    nn.ScatterNDOp,
    qint.ResizeOp,
    # what only onnxruntime rounds so
    qint.FloatAddOp,
    qint.SaturatingFullyConnectedOp,
}
"""Integers and movement that linalg could hold and nobody has written yet; README names them."""


def refused(sample: Sample) -> bool:
    """Whether a sample has no form in linalg, by contract, as a float computation, or not yet."""
    contract = sample.properties.get("contract")
    moves = issubclass(sample.op, MovementOp | nn.ConstantOp)
    return (
        (isinstance(contract, StringAttr) and contract.data not in ROUNDINGS)
        or (sample.op.name.startswith("nn.") and not moves)
        or sample.op in HOLES
    )


ALL = (*NN_SAMPLES, *MOVEMENT_SAMPLES, *QINT_SAMPLES)
LOWERED = [s for s in ALL if not refused(s)]


def sample_case(sample: Sample) -> Case:
    """A sample, its weights as constants."""
    arrays = sample.arrays(5)
    inputs, constants = arrays[: sample.inputs], arrays[sample.inputs :]

    def graph(*values: SSAValue) -> SSAValue:
        return sample.build([*values, *(nn.ConstantOp(c).y for c in constants)]).results[0]

    return Case(str(sample), network(graph, *(o.type for o in sample.operands[: sample.inputs])), inputs)


U8 = IntegerType(8, Signedness.UNSIGNED)
TYPES: dict[str, UniformType] = {
    "i8": UniformType.per_tensor(i8, 0.1, 3),
    "narrow i8": UniformType.per_tensor(i8, 1 / 3, -7, -127, 127),
    "u8": UniformType.per_tensor(U8, 0.02, 200),
    "i16": UniformType.per_tensor(i16, 0.0007, 0),
    "i32": UniformType.per_tensor(i32, 1e-9, 5),
    "last axis": UniformType.per_axis(i8, 1, [0.1, 0.25, 1e-3, 7.0], [0, -128, 5, 127]),
    "first axis": UniformType.per_axis(U8, 0, [0.1, 0.25, 3.0], [0, 128, 255]),
}


def floats() -> Array:
    """Ties of the scales above, values beyond every range, infinities and NaN, f32 [3, 4]."""
    ties = [0.05, 0.15, -0.25, 1.5, 1e9, -1e9, np.inf, -np.inf, np.nan, -0.0, 0.125, 0.375]
    return np.array(ties, np.float32).reshape(3, 4)


def cast_cases() -> list[Case]:
    """quantize → stored integers, and back."""
    cases: list[Case] = []
    for name, type in TYPES.items():
        plain, quantized = TensorType(type.storage_type, [3, 4]), TensorType(type, [3, 4])

        def quantize(x: SSAValue, quantized: Attribute = quantized, plain: Attribute = plain) -> SSAValue:
            return StorageCastOp(QuantizeCastOp(x, quantized).result, plain).result

        def dequantize(x: SSAValue, quantized: Attribute = quantized) -> SSAValue:
            return DequantizeCastOp(StorageCastOp(x, quantized).result, TensorType(f32, [3, 4])).result

        bits = type.storage_width
        stored = np.random.default_rng(0).integers(-(1 << bits - 1), 1 << bits - 1, (3, 4)).astype(f"i{bits // 8}")
        cases.append(Case(f"quantize {name}", network(quantize, TensorType(f32, [3, 4])), [floats()]))
        cases.append(Case(f"dequantize {name}", network(dequantize, plain), [stored]))
    u8 = TensorType(TYPES["u8"], [2, 3])

    def pad(x: SSAValue) -> SSAValue:
        return nn.PadOp.make([QuantizeCastOp(x, u8).result], pads([0, 1], [1, 0], bound(0.7))).y

    cases.append(Case("padded u8", network(pad, TensorType(f32, [2, 3])), [floats()[:2, :3]]))
    return cases


def together(cases: Sequence[Case]) -> str:
    """All cases as functions of one module: a compiler starts once."""
    functions: list[func.FuncOp] = []
    for index, case in enumerate(cases):
        function = main_function(case.module).clone()
        function.sym_name = StringAttr(f"case{index}")
        functions.append(function)
    return linalg_text(ModuleOp(functions))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [*map(sample_case, LOWERED), *cast_cases()]


def test_each_qint_operation_is_tried() -> None:
    assert {s.op for s in LOWERED} >= {op for op in qint.QINT.operations} - HOLES
    assert not HOLES & RULES.keys()


def test_mlir_opt_accepts_each_operation(cases: list[Case]) -> None:
    printed = mlir_opt(together(cases))
    assert printed.count("func.func") == len(cases)
    assert {m.split(".")[0] for m in re.findall(r"\b[a-z]+\.[a-z_]+", printed)} == {
        "func",
        "linalg",
        "arith",
        "tensor",
        "math",
    }


@pytest.mark.slow
def test_iree_computes_the_same_bits(cases: list[Case]) -> None:
    compiled = Compiled(together(cases))
    for index, case in enumerate(cases):
        with np.errstate(all="ignore"):
            (expected,) = evaluate(main_function(case.module), case.inputs)
        (got,) = compiled(f"case{index}", case.inputs)
        try:
            assert_same_bits(got, expected)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from None


@pytest.mark.parametrize("sample", [s for s in ALL if refused(s)], ids=str)
def test_the_rest_is_refused(sample: Sample) -> None:
    with pytest.raises(LoweringError, match=r"needs a contract of single|only integers, data movement|in linalg yet"):
        linalg_text(sample_case(sample).module)


# ---------------------------------------------------------------------------------------------------------------
# Networks


def check_network(quantized: ModuleOp, samples: Sequence[Array]) -> None:
    """mlir-opt accepts the network, and IREE's results are the reference's to the last bit."""
    compiled = Compiled(linalg_text(to_integers(quantized)))
    reference = qmlir.reference(quantized)
    for sample in samples:
        (got,) = compiled("main", [sample])
        assert_same_bits(got, reference(sample))


def digits(schema: str) -> tuple[ModuleOp, list[Array]]:
    data = np.load(ROOT / "examples/digits/digits.npz")
    module = qmlir.load(ROOT / "examples/digits/digits.onnx")
    profile = qmlir.profile(module, [x[None] for x in data["calibration_images"]])
    quantized = qmlir.quantize(module, profile, schema=schema, fail_on_float=True)
    return quantized, [x[None] for x in data["test_images"][:100]]


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric"])
def test_digits(schema: str) -> None:
    quantized, images = digits(schema)
    mlir_opt(linalg_text(to_integers(quantized)))
    check_network(quantized, images)


@pytest.mark.models
@pytest.mark.slow
def test_cifar(shared: Find) -> None:
    network = NETWORKS["cifar"]
    parts = split(network, shared, 100 / network.scored)
    module = qmlir.load(shared(network.file))
    quantized = qmlir.quantize(module, qmlir.profile(module, parts.profile))
    mlir_opt(linalg_text(to_integers(quantized)))
    check_network(quantized, list(parts.score))
