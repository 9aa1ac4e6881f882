"""What `simplify` leaves of the real models."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from qmlir.dialects.nn import Conv2DOp, FullyConnectedOp, TransposeOp
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.simplify import simplify

pytestmark = pytest.mark.models

Shared = Callable[[str], Path]


def simplified(shared: Shared, model: str) -> ModuleOp:
    module = load_onnx(shared(f"models/onnx/{model}.onnx"))
    simplify(module)
    return module


def kinds(module: ModuleOp) -> list[str]:
    """Kinds of the operations in order, without the dialect, constants and the return."""
    ops = main_function(module).body.block.ops
    return [o.name.removeprefix("nn.") for o in ops if o.name not in ("nn.constant", "func.return")]


def transposes_inside(module: ModuleOp) -> list[TransposeOp]:
    """The transposes that are not directly at an argument or a result."""
    return [
        o
        for o in main_function(module).body.block.ops
        if isinstance(o, TransposeOp)
        and not isinstance(o.x, BlockArgument)
        and not all(isinstance(use.operation, func.ReturnOp) for use in o.y.uses)
    ]


def test_mnist(shared: Shared) -> None:
    module = simplified(shared, "mnist-8")
    layers = ["conv2d", "max_pool2d", "conv2d", "max_pool2d", "reshape", "fully_connected"]
    assert kinds(module) == ["reshape", *layers]  # [1, 1, 28, 28] → [1, 28, 28, 1]
    for op in main_function(module).body.block.ops:
        if isinstance(op, Conv2DOp):
            assert op.bounds() == (0.0, None)
        if isinstance(op, Conv2DOp | FullyConnectedOp):
            assert op.b is not None


def test_cifar(shared: Shared) -> None:
    module = simplified(shared, "cifar_imageclassifier")
    convolutions = ["conv2d", "conv2d", "max_pool2d", "conv2d", "conv2d"]
    assert kinds(module) == ["transpose", *convolutions, "reshape", "fully_connected"]
    assert not transposes_inside(module)


def test_ultraface(shared: Shared) -> None:
    module = simplified(shared, "ultraface_RFB-320_simplified")
    assert Counter(kinds(module)) == Counter(
        transpose=1, conv2d=34, depthwise_conv2d=18, concat=3, add=1, reshape=8, softmax=1
    )
    assert not transposes_inside(module)


def test_super_resolution(shared: Shared) -> None:
    module = simplified(shared, "super_resolution")
    assert kinds(module) == ["reshape", *["conv2d"] * 4, "reshape", "transpose", "reshape"]
