"""What `qint-to-tosa` writes is defined by TOSA's specification, and means our bits."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, ModuleOp, i8

from qmlir.backends.reference import evaluate
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects import qint
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array
from tests.graphs import SCHEMAS, Graph, quantized
from tests.interop.cases import ALL, Case, sample_case
from tests.lowering import tosa_specification as specification
from tests.lowering.qint_to_tosa.tosa_cases import MORE, REFUSED, ROOTS, tosa_cases
from tests.ops.samples import HALF, MOST, Sample, i, narrow, scaled, summed, zeros
from tests.transforms.quantize.calibrated import parsed


def check(case: Case) -> None:
    compare(case.module, Pipeline("qint-to-tosa")(case.module), case.inputs)


def compare(module: ModuleOp, lowered: ModuleOp, inputs: Sequence[Array]) -> None:
    with np.errstate(all="ignore"):
        expected = evaluate(main_function(module), inputs)
        got = specification.evaluate(main_function(lowered), inputs)
    for ours, theirs in zip(got, expected, strict=True):
        signed = theirs.view(f"i{theirs.itemsize}") if theirs.dtype.kind == "u" else theirs
        np.testing.assert_array_equal(ours, signed)


def test_each_qint_operation_is_tried() -> None:
    written = {s.op for s in (*ALL, *MORE) if str(s) not in REFUSED}
    assert written == {*written, *qint.QINT.operations} - {
        qint.FloatAddOp,
        qint.RescaledAddOp,
        qint.SoftmaxOp,
        qint.ExponentialsOp,
        qint.RowQuotientOp,
        qint.RowMagnitudesOp,
        qint.DivideRowsOp,
        qint.DivOp,
        qint.LogSoftmaxOp,
        *ROOTS,
        qint.LocalResponseNormalizationOp,
        qint.InterpolateOp,
        qint.AffineFullyConnectedOp,
        qint.BlockedFullyConnectedOp,
    }


@pytest.mark.parametrize("case", tosa_cases(), ids=lambda case: case.name)
def test_what_is_written_means_the_same(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("sample", [s for s in ALL if str(s) in REFUSED], ids=str)
def test_the_rest_is_refused(sample: Sample) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED[str(sample)]):
        Pipeline("qint-to-tosa")(sample_case(sample).module)


@pytest.mark.slow
@given(
    st.sampled_from(["single", "double"]),
    st.lists(st.tuples(st.integers(HALF, MOST) | st.just(0), st.integers(-31, 29)), min_size=1, max_size=3),
    st.sampled_from([8, 16]),
    st.integers(0, 1 << 31),
)
def test_accumulators_of_every_size(contract: str, scales: list[tuple[int, int]], bits: int, seed: int) -> None:
    """Random ones, the ends of their range, and those whose products are ties."""
    multipliers, shifts = zip(*scales, strict=True)
    sample = Sample(
        qint.RequantizeOp,
        "random",
        (i(32, 60, len(scales)),),
        scaled(multipliers, shifts, contract) | narrow(bits, seed % 100),
        IntegerType(bits),
    )
    case = sample_case(sample)
    rng = np.random.default_rng(seed)
    x = rng.integers(-(1 << 31), 1 << 31, (60, len(scales))) >> rng.integers(0, 32, (60, 1))
    x[:2] = [[-(1 << 31)], [(1 << 31) - 1]]
    check(replace(case, inputs=[x.astype(np.int32)]))


@pytest.mark.slow
@given(
    st.integers(-MOST, MOST),
    st.integers(-MOST, MOST),
    st.integers(11, 46),
    st.integers(-128, 127),
    st.integers(-128, 127),
)
def test_sums_of_every_scale(lhs: int, rhs: int, shift: int, lhs_zero: int, rhs_zero: int) -> None:
    """Below a shift of 11 an operand is some million times coarser than the sum, and refused."""
    properties = zeros(lhs_zero, rhs_zero) | summed([lhs, rhs], shift) | narrow()
    sample = Sample(qint.AddOp, "random", (i(8, 64, 1), i(8, 64)), properties, i8)
    check(sample_case(sample))


UNSIGNED = """
!x = !quant.uniform<u8:f32, 0.05:100>
!w = !quant.uniform<u8:f32, 0.01:180>
!y = !quant.uniform<u8:f32, 0.1:7>
func.func @main(%f: tensor<1x4x4x4xf32>, %q: tensor<1x4x4x2x!y>) -> (tensor<1x4x4x2xf32>, tensor<1x4x4x2x!y>) {
  %x = quant.qcast %f : tensor<1x4x4x4xf32> to tensor<1x4x4x4x!x>
  %w = nn.constant <tensor<2x1x1x2xui8>, [0, 255, 180, 3]> : tensor<2x1x1x2x!w>
  %c = nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x4x4x4x!x>, tensor<2x1x1x2x!w> -> tensor<1x4x4x2x!y>
  %s = nn.add %c, %q : tensor<1x4x4x2x!y>, tensor<1x4x4x2x!y> -> tensor<1x4x4x2x!y>
  %y = quant.dcast %c : tensor<1x4x4x2x!y> to tensor<1x4x4x2xf32>
  func.return %y, %s : tensor<1x4x4x2xf32>, tensor<1x4x4x2x!y>
}
"""


def test_bytes_without_sign_at_every_edge() -> None:
    """Of the network as floats and as stored, and of weights with a zero point; the loops in between are of i8."""
    module = to_integers(parsed(UNSIGNED))
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(-9, 9, (1, 4, 4, 4)).astype(np.float32), rng.integers(0, 256, (1, 4, 4, 2)).astype(np.uint8)]
    compare(module, Pipeline("qint-to-tosa")(module), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
def test_random_networks(schema: str) -> None:
    """All but those that have a fallback or a softmax."""

    def check(module: ModuleOp, graph: Graph) -> bool:
        integers = to_integers(module)
        if any(isinstance(op, qint.SoftmaxOp) for op in integers.walk()):
            return False  # refused, as its own test says
        lowered = Pipeline("qint-to-tosa")(integers)
        for sample in graph.samples:
            compare(integers, lowered, [sample])
        return True

    assert quantized(schema, 40, check, fail_on_float=True) >= 20


def test_a_scatter_of_too_many_pairs_is_refused() -> None:
    data, updates = "tensor<8192x2xi8>", "tensor<4096x2xi8>"
    module = parsed(f"""
    func.func @main(%x: {data}, %u: {updates}, %i: tensor<4096x1xi32>) -> {data} {{
      %0 = nn.scatter_nd %x, %u, %i : {data}, {updates}, tensor<4096x1xi32> -> {data}
      func.return %0 : {data}
    }}""")
    with pytest.raises(UnsupportedError, match="at most 16777216 pairs, got 8192 rows and 4096 updates"):
        Pipeline("qint-to-tosa")(module)
