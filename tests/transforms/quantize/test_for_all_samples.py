"""An operation on all samples at once: the same bits as on one sample after the other, in fewer calls of numpy."""

from typing import Any

import numpy as np

from qmlir.dialects.nn import ConstantOp
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import main_function
from qmlir.transforms.quantize.adjust.nominal import Meaning, Rows, for_all_samples, nominal_meaning
from tests.transforms.quantize.calibrated import parsed

NETWORK = """
func.func @main(%x: tensor<2x3xf32>, %z: tensor<3xf32>) -> tensor<3x2xf32> {
  %c = nn.constant <tensor<2x1xf32>, [0.5, -2.0]> : tensor<2x1xf32>
  %op0 = nn.add %x, %z : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %op1 = nn.mul %op0, %c : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  %op2 = nn.sigmoid %op1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %q = quant.qcast %op2 : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32, 0.1:3>>
  %d = quant.dcast %q : tensor<2x3x!quant.uniform<i8:f32, 0.1:3>> to tensor<2x3xf32>
  %p = quant.qcast %d : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32:1, {0.1:3, 0.2:0, 0.3:1}>>
  %e = quant.dcast %p : tensor<2x3x!quant.uniform<i8:f32:1, {0.1:3, 0.2:0, 0.3:1}>> to tensor<2x3xf32>
  %t = nn.transpose %e {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %y = nn.add %t, %t : tensor<3x2xf32>, tensor<3x2xf32> -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}
"""


def test_results_have_the_bits_and_the_layout_of_single_samples() -> None:
    block = main_function(parsed(NETWORK)).body.block
    draw, count = np.random.default_rng(0), 5
    values: dict[Any, list[Array]] = {
        argument: [draw.normal(size=shape).astype(np.float32) for _ in range(count)]
        for argument, shape in zip(block.args, ((2, 3), (3,)), strict=True)
    }
    calls: dict[str, int] = {}
    for op in block.ops:
        if not op.results:
            continue
        if isinstance(op, ConstantOp):
            values[op.y] = [op.value.array] * count
            continue
        alone, name = nominal_meaning(op), str(op.results[0].name_hint)

        def counting(*arrays: Array, alone: Meaning = alone, name: str = name) -> tuple[Array, ...]:
            calls[name] = calls.get(name, 0) + 1
            return alone(*arrays)

        operands = [values[v] for v in op.operands]
        (found,) = for_all_samples(op, counting, operands)
        for place, got in enumerate(found):
            (expected,) = alone(*(each[place] for each in operands))
            assert got.dtype == expected.dtype
            assert got.strides == expected.strides
            assert np.array_equal(got, expected)
        values[op.results[0]] = found
    # Scales for each channel, and movement, are computed sample by sample.
    assert calls == {"op0": 1, "op1": 1, "op2": 1} | dict.fromkeys("qdy", 1) | dict.fromkeys("pet", count)


def test_operands_that_lie_otherwise_keep_their_layout() -> None:
    op = next(op for op in main_function(parsed(NETWORK)).body.block.ops if op.name == "nn.add")
    x = [np.full((3, 2), n, np.float32).T for n in range(3)]
    (found,) = for_all_samples(op, nominal_meaning(op), [x, [np.ones(3, np.float32)] * 3])
    assert not isinstance(found, Rows)
    assert all(y.strides == x[0].strides for y in found)


def test_a_single_sample_is_no_row() -> None:
    block = main_function(parsed(NETWORK)).body.block
    op = next(op for op in block.ops if op.name == "nn.add")
    x, z = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    (found,) = for_all_samples(op, nominal_meaning(op), [[x], [z]])
    assert not isinstance(found, Rows)
    assert np.array_equal(found[0], x + z)
