"""`cancel-transposes` ends, and its work grows with the length of the network, not faster."""

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from qmlir.compiler import reference
from qmlir.dialects.nn import AddOp, Conv2DOp, ReluOp, SigmoidOp, TransposeOp
from qmlir.dialects.windows import ints
from qmlir.transforms.nn import cancel_transposes as pass_module
from qmlir.transforms.nn.cancel_transposes import cancel_transposes
from tests.transforms.quantize.calibrated import parsed

IMAGE = TensorType(f32, [1, 3, 4, 5])


def residual_network(blocks: int) -> ModuleOp:
    """blocks × (x ← sigmoid(x + relu(conv(x)))), channels first around channels-last convolutions."""
    block = Block(arg_types=[IMAGE, TensorType(f32, [3, 3, 3, 3])])
    build = Builder(InsertPoint.at_end(block)).insert
    x, weights = block.args
    for _ in range(blocks):
        image = build(TransposeOp.make([x], {"permutation": ints([0, 2, 3, 1])}))
        conv = build(Conv2DOp.make([image.y, weights, []], {"padding": ints([1, 1, 1, 1])}))
        back = build(TransposeOp.make([conv.y], {"permutation": ints([0, 3, 1, 2])}))
        total = build(AddOp.make([x, build(ReluOp.make([back.y])).y]))
        x = build(SigmoidOp.make([total.y])).y
    build(func.ReturnOp(x))
    return ModuleOp([func.FuncOp("main", ([a.type for a in block.args], [IMAGE]), Region(block))])


def test_residual_network_keeps_its_edges_only() -> None:
    module = residual_network(10)
    cancel_transposes(module)
    module.verify()
    assert sum(isinstance(op, TransposeOp) for op in module.walk()) == 2
    assert not cancel_transposes(module)


def test_rewrites_grow_linearly(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites = 0
    original = pass_module.replace

    def counting(*args: object, **options: object) -> None:
        nonlocal rewrites
        rewrites += 1
        original(*args, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(pass_module, "replace", counting)
    counts: list[int] = []
    for blocks in (10, 20, 40):
        rewrites = 0
        cancel_transposes(residual_network(blocks))
        counts.append(rewrites)
    per_block = (counts[1] - counts[0]) / 10
    assert counts[2] - counts[1] == pytest.approx(20 * per_block)


NOTHING = """
func.func @main(%x: tensor<0x2x4xf32>) -> tensor<0x3xf32> {
  %0 = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<0x2x4xf32> -> tensor<0x4x2xf32>
  %1 = nn.reshape %0 {shape = array<i64: 0, 4>} : tensor<0x4x2xf32> -> tensor<0x4xf32>
  %w = nn.constant <tensor<3x4xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]> : tensor<3x4xf32>
  %2 = nn.fully_connected %1, %w : tensor<0x4xf32>, tensor<3x4xf32> -> tensor<0x3xf32>
  func.return %2 : tensor<0x3xf32>
}"""


def test_rows_of_no_elements_are_not_those_of_a_batch() -> None:
    """A tensor without elements has every shape with a dimension of size 0."""
    module = parsed(NOTHING)
    cancel_transposes(module)
    module.verify()
    assert reference(module).run(np.zeros((0, 2, 4), np.float32))[0].shape == (0, 3)
