"""What exports to upstream dialects are tried on: each sample of tests/ops as a network, casts, whole networks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, SSAValue

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.reduction import ExtremeOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import QUANTIZATION, REST, UNSIGNED
from tests.conftest import ROOT
from tests.interop.upstream import Array, Compiled, assert_same_bits
from tests.lowering.both import network
from tests.models.networks import NETWORKS, Find, split
from tests.ops.samples import NN_SAMPLES, SAMPLES, Sample, pads


def stays(sample: Sample) -> bool:
    """Whether a sample is of an operation of nn that stays on the integer level."""
    compared = issubclass(sample.op, ExtremeOp) and isinstance(sample.operands[0].element, IntegerType)
    return compared or issubclass(sample.op, MovementOp | nn.ConstantOp)


ALL = (*NN_SAMPLES, *(s for s in SAMPLES if s not in NN_SAMPLES and (stays(s) or s.op in qint.QINT.operations)))


@dataclass(frozen=True)
class Case:
    """A network of an operation or two, with its inputs."""

    name: str
    module: ModuleOp
    inputs: Sequence[Array]


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

        def multiplied(x: SSAValue, quantized: Attribute = quantized, plain: Attribute = plain) -> SSAValue:
            return StorageCastOp(_quantized_by("float32_reciprocal", x, quantized), plain).result

        def away(x: SSAValue, quantized: Attribute = quantized, plain: Attribute = plain) -> SSAValue:
            return StorageCastOp(_quantized_by("float32_away", x, quantized), plain).result

        def dequantize(x: SSAValue, quantized: Attribute = quantized) -> SSAValue:
            return DequantizeCastOp(StorageCastOp(x, quantized).result, TensorType(f32, [3, 4])).result

        def in_two_ways(x: SSAValue, quantized: Attribute = quantized, plain: Attribute = plain) -> SSAValue:
            q = _quantized_by("float32_reciprocal", x, quantized, rest="exact_away")
            return StorageCastOp(q, plain).result

        def apart(x: SSAValue, quantized: Attribute = quantized) -> SSAValue:
            back = DequantizeCastOp(StorageCastOp(x, quantized).result, TensorType(f32, [3, 4]))
            back.attributes.update(QUANTIZATION.entry("float32_apart") | REST.entry("exact") | UNSIGNED.entry(128))
            return back.result

        bits = type.storage_width
        stored = np.random.default_rng(0).integers(-(1 << bits - 1), 1 << bits - 1, (3, 4)).astype(f"i{bits // 8}")
        for note, cast in (("", quantize), (" reciprocal", multiplied), (" away", away)):
            cases.append(Case(f"quantize{note} {name}", network(cast, TensorType(f32, [3, 4])), [floats()]))
        cases.append(Case(f"dequantize {name}", network(dequantize, plain), [stored]))
        if not type.is_per_axis:
            cases.append(
                Case(f"quantize in two ways {name}", network(in_two_ways, TensorType(f32, [3, 4])), [floats()])
            )
            cases.append(Case(f"dequantize in two ways {name}", network(apart, plain), [stored]))
    u8 = TensorType(TYPES["u8"], [2, 3])

    def pad(x: SSAValue) -> SSAValue:
        return nn.PadOp.make([QuantizeCastOp(x, u8).result], pads([0, 1], [1, 0], bound(0.7))).y

    cases.append(Case("padded u8", network(pad, TensorType(f32, [2, 3])), [floats()[:2, :3]]))
    return cases


def _quantized_by(quantization: str, x: SSAValue, type: Attribute, rest: str | None = None) -> SSAValue:
    op = QuantizeCastOp(x, type)
    QUANTIZATION.put(op, quantization)
    if rest is not None:
        REST.put(op, rest)
    return op.result


def together(cases: Sequence[Case]) -> ModuleOp:
    """All cases as functions of one module: a compiler starts once."""
    functions: list[func.FuncOp] = []
    for index, case in enumerate(cases):
        function = main_function(case.module).clone()
        function.sym_name = StringAttr(f"case{index}")
        functions.append(function)
    return ModuleOp(functions)


def check_cases(compiled: Compiled, cases: Sequence[Case]) -> None:
    """What `together` made of the cases computes their bits."""
    for index, case in enumerate(cases):
        with np.errstate(all="ignore"):
            (expected,) = evaluate(main_function(case.module), case.inputs)
        (got,) = compiled(f"case{index}", case.inputs)
        try:
            assert_same_bits(got, expected)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from None


# ---------------------------------------------------------------------------------------------------------------
# Networks


def check_network(compiled: Compiled, quantized: ModuleOp, samples: Sequence[Array]) -> None:
    """What is compiled of a network computes the reference's bits."""
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


def cifar(shared: Find) -> tuple[ModuleOp, list[Array]]:
    found = NETWORKS["cifar"]
    parts = split(found, shared, 100 / found.scored)
    module = qmlir.load(shared(found.file))
    return qmlir.quantize(module, qmlir.profile(module, parts.profile)), list(parts.score)
