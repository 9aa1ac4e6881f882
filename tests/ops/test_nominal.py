"""Two meanings, one truth: integers stay within one step of dequantize → float → quantize.

An operation on quantized types means exactly what its integer form computes. What it means nominally is derived here,
once for all operations: its operands dequantized, its float meaning, the result quantized. Tables and data movement
must equal it, all others may be one step off, as they round elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i8, i16
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.traits import OpTrait

from qmlir.backends.reference import evaluate
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.quantizable import data_operands, data_results
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.rules import AccumulatorScale, FixedScale, SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import load_target
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.lowering.nn_to_qint.convert import LOWERINGS
from qmlir.numerics import fixed_point
from qmlir.numerics.calibration import choose_quantization
from qmlir.numerics.schemas import SCHEMAS, Precision, Schema, choose_weight_quantization, weight_range
from tests.conftest import THOROUGH
from tests.ops.sample import axis, f
from tests.ops.samples import NN_SAMPLES, OPERATIONS, Array, Sample
from tests.ops.samples_reduction import over

STEPS: dict[type[TensorOp], int] = {
    nn.SigmoidOp: 0,
    nn.TanhOp: 0,
    nn.MaxPool2DOp: 0,
    nn.ReshapeOp: 0,
    nn.TransposeOp: 0,
    nn.ConcatOp: 0,
    nn.PadOp: 0,
    nn.DilateOp: 0,
    nn.BroadcastOp: 0,
    nn.SliceOp: 0,
    nn.GatherOp: 0,
    nn.GatherNDOp: 0,
    nn.ScatterNDOp: 0,
    nn.WhereOp: 0,
    nn.ReduceMaxOp: 0,
    nn.ReduceMinOp: 0,
}
"""How far the stored integers may be off, where not one step."""

PRECISIONS: dict[IntegerType, Precision] = {i8: "int8", i16: "int16"}
"""The precision that stores data in a type."""

NO_INTEGERS: dict[str, str] = load_target("cpu").floating | {nn.ConstantOp.name: "its integers are given"}
"""Operations without an integer form, each with the reason."""


@dataclass(frozen=True)
class Quantized:
    """A value of a quantized type: its stored integers. Or indices and parameters of blocks, which are plain."""

    type: Attribute
    stored: Array

    @property
    def real(self) -> Array:
        """What the integers stand for, f32; plain values themselves."""
        if not isinstance(self.type, UniformType):
            return self.stored
        return fixed_point.dequantize(self.stored, *self.type.parameters_along(self.stored.ndim))

    @staticmethod
    def of(real: Array, type: UniformType) -> "Quantized":
        scale, zero_point = type.parameters_along(real.ndim)
        limits = type.storage_min, type.storage_max
        return Quantized(type, fixed_point.quantize(real, scale, zero_point, *limits, type.numpy_dtype))


def type_for(real: Array, schema: Schema, storage: IntegerType = i8) -> UniformType:
    """The type that a schema chooses for the range of some values."""
    lo, hi = (float(real.min()), float(real.max())) if real.size else (0.0, 0.0)
    return UniformType.per_tensor(storage, *choose_quantization(lo, hi, schema, PRECISIONS[storage]))


def quantized_operands(
    op: TensorOp, arrays: Sequence[Array], schema: Schema, *, per_channel: bool = False, storage: IntegerType = i8
) -> list[Quantized]:
    """Operands with random integers, under types a quantizer would choose for the sample's own values.

    Operands that are not data, such as indices and conditions, stay as they are.
    """
    if isinstance(op, WeightedOp):
        x, w, *bias = arrays
        element = type_for(x, schema)
        data = Quantized.of(x, element)
        scales = choose_weight_quantization(w, op.CHANNEL_AXIS if per_channel else None, schema)
        low, high = weight_range("int8")
        if per_channel:
            type = UniformType.per_axis(i8, op.CHANNEL_AXIS, [float(s) for s in scales], None, low, high)
        else:
            type = UniformType.per_tensor(i8, float(scales[0]), 0, low, high)
        (rule,) = op.get_traits_of_type(AccumulatorScale)
        return [data, Quantized.of(w, type), *(Quantized.of(b, rule.bias_type(element, type)) for b in bias)]
    pairs = list(zip(op.operands, arrays, strict=True))
    shared = None
    if op.has_trait(SameScale, value_if_unregistered=False):
        shared = type_for(np.concatenate([a.reshape(-1) for o, a in pairs if o in data_operands(op)]), schema, storage)
    return [
        Quantized.of(a, shared or type_for(a, schema, storage))
        if o in data_operands(op)
        else Quantized(element_of(o), a)
        for o, a in pairs
    ]


def result_type(
    op: TensorOp, operands: Sequence[Quantized], real: Array, schema: Schema, storage: IntegerType = i8
) -> UniformType | None:
    """The result's type by the operation's own rule; a free one leaves out the outermost tenth of its range.

    None for truth values and indices, which are not quantized.
    """
    if not data_results(op):
        return None
    rules: Sequence[OpTrait] = [*op.get_traits_of_type(FixedScale), *op.get_traits_of_type(SameScale)]
    match rules:
        case [FixedScale() as rule]:
            return UniformType.per_tensor(storage, *rule.result_parameters(schema, PRECISIONS[storage]))
        case [SameScale()]:
            return next(q.type for q in operands if isinstance(q.type, UniformType))
        case _:
            return type_for(real * np.float32(0.9), schema, storage)


def module_of(sample: Sample, operands: Sequence[Quantized], element: UniformType | None) -> ModuleOp:
    """A function of the quantized operands; weights and bias are constants in it."""
    types = [TensorType(q.type, q.stored.shape) for q in operands]
    block = Block(arg_types=types[: sample.inputs])
    constants = [nn.ConstantOp(q.stored, t) for q, t in list(zip(operands, types, strict=True))[sample.inputs :]]
    values: list[SSAValue] = [*block.args, *(c.y for c in constants)]
    op = sample.build(values, element)
    block.add_ops([*constants, op, func.ReturnOp(op.results[0])])
    function = func.FuncOp("main", (block.arg_types, [op.results[0].type]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.name.startswith("nn.")], ids=lambda op: op.name)
def test_each_operation_has_an_integer_form(op: type[TensorOp]) -> None:
    assert (op in LOWERINGS) != (op.name in NO_INTEGERS), "a lowering to qint, or a reason why there is none"


CASES = [
    pytest.param(sample, schema, per_channel, id=f"{sample}-{schema}{'-per_channel' if per_channel else ''}")
    for sample in NN_SAMPLES
    if sample.op in LOWERINGS
    for schema in SCHEMAS
    for per_channel in ([False, True] if issubclass(sample.op, WeightedOp) else [False])
]


@pytest.mark.parametrize(("sample", "schema", "per_channel"), CASES)
def test_integers_stay_within_a_step(sample: Sample, schema: Schema, per_channel: bool) -> None:
    float_op = sample.build()
    for seed in range(3 if THOROUGH else 1):
        operands = quantized_operands(float_op, sample.arrays(seed), schema, per_channel=per_channel)
        (real,) = float_op.evaluate(*(q.real for q in operands))
        type = result_type(float_op, operands, real, schema)
        nominal = real if type is None else Quantized.of(real, type).stored

        integers = to_integers(module_of(sample, operands, type))
        assert_integers_only(integers)
        (exact,) = evaluate(main_function(integers), [q.stored for q in operands[: sample.inputs]])
        assert exact.dtype == nominal.dtype
        off = np.abs(exact.astype(np.int64) - nominal.astype(np.int64)).max(initial=0)
        assert off <= (0 if type is None else STEPS.get(sample.op, 1)), f"{off} steps off, seed {seed}, result {type}"


WORDS = (
    Sample(nn.GlobalAveragePoolOp, "of many", (f(1, 260, 260, 1, low=3, high=4),)),
    Sample(nn.ReduceSumOp, "of many", (f(70_000, low=3, high=4),), over(0)),
    Sample(nn.CumulativeSumOp, "of many", (f(70_000, low=3, high=4),), axis(0)),
    Sample(nn.MulOp, "of one sign", (f(3, 70, low=2, high=5), f(70, low=-5, high=-2))),
    Sample(nn.PReluOp, "of one sign", (f(3, 70, low=-9, high=-2), f(70, low=3, high=5))),
)
"""Samples whose sums or products exceed 32 bits on words."""


@pytest.mark.parametrize(
    "sample",
    [
        s for s in (*NN_SAMPLES, *WORDS)
        if s.op in LOWERINGS and not issubclass(s.op, WeightedOp | nn.PowOp | nn.ModOp | nn.SquaredDifferenceOp)
    ],
    ids=str,
)  # fmt: skip
def test_words_stay_within_a_step(sample: Sample) -> None:
    """Asymmetric integers of 16 bits, whose products and sums are the widest."""
    op = sample.build()
    operands = quantized_operands(op, sample.arrays(), "asymmetric", storage=i16)
    (real,) = op.evaluate(*(q.real for q in operands))
    type = result_type(op, operands, real, "asymmetric", i16)
    nominal = real if type is None else Quantized.of(real, type).stored
    module = module_of(sample, operands, type)
    integers = to_integers(module)
    assert_integers_only(integers)
    (exact,) = evaluate(main_function(integers), [q.stored for q in operands[: sample.inputs]])
    off = np.abs(exact.astype(np.int64) - nominal.astype(np.int64)).max(initial=0)
    between_breakpoints = issubclass(sample.op, FunctionOp)
    assert off <= (0 if type is None else 1 if between_breakpoints else STEPS.get(sample.op, 1)), f"{off} steps off"


def assert_integers_only(module: ModuleOp) -> None:
    for op in main_function(module).body.block.ops:
        assert not isinstance(op, QuantizeCastOp | DequantizeCastOp)
        assert all(element_of(value) != f32 for value in (*op.operands, *op.results))


@pytest.mark.parametrize("sample", [s for s in NN_SAMPLES if issubclass(s.op, FunctionOp)], ids=str)
def test_functions_of_16_bits_stay_within_a_step(sample: Sample) -> None:
    """All 65,536 integers, over the range of the sample's values."""
    op = sample.build()
    assert isinstance(op, FunctionOp)
    (values,) = sample.arrays()
    scale, _ = choose_quantization(float(values.min()), float(values.max()), "symmetric", "int16")
    x = Quantized(UniformType.per_tensor(i16, scale), np.arange(-32768, 32768).astype(np.int16))
    with np.errstate(all="ignore"):
        (real,) = op.evaluate(np.clip(x.real, *op.DOMAIN))
    finite = real[np.isfinite(real)]
    (fixed,) = op.get_traits_of_type(FixedScale) or (None,)
    spread = choose_quantization(float(finite.min()), float(finite.max()), "symmetric", "int16")[0]
    type = UniformType.per_tensor(i16, fixed.int16_scale if fixed else spread)
    whole = replace(sample, operands=(replace(sample.operands[0], shape=x.stored.shape),))
    integers = to_integers(module_of(whole, [x], type))
    assert_integers_only(integers)
    (exact,) = evaluate(main_function(integers), [x.stored])
    off = np.abs(exact.astype(np.int64) - Quantized.of(real, type).stored)
    assert off.max() <= 1


def test_saturating_results_are_tried() -> None:
    """The types chosen above make some results reach the ends of their range, so that clamps are tested."""
    sample = next(s for s in NN_SAMPLES if s.op is nn.AddOp)
    op = sample.build()
    operands = quantized_operands(op, sample.arrays(), "symmetric")
    (real,) = op.evaluate(*(q.real for q in operands))
    type = result_type(op, operands, real, "symmetric")
    assert type is not None
    assert (np.abs(real) > type.scale * 128).any()
    assert shape_of(op.results[0]) == real.shape
