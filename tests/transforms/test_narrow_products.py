"""`narrow-products`: random layers of bytes with a computed zero point keep every integer, in machine code, too."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i32, i64
from xdsl.ir import SSAValue

import qmlir
from qmlir.dialects.nn import CastOp, ConstantOp, Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, SubOp, TransposeOp
from qmlir.dialects.windows import ints
from qmlir.ir.context import make_context
from qmlir.ir.types import element_type_of
from qmlir.transforms.qint.narrow_products import NarrowProductsPass
from tests.conftest import crossed
from tests.lowering.both import network

Array = np.ndarray[Any, Any]

KINDS = ("rows", "image", "depthwise")


def drawn(kind: str, rng: np.random.Generator) -> tuple[ModuleOp, list[Array]]:
    """A random layer, and data with the least and the greatest byte; the zero point is often one of these."""
    channels, outputs, groups = int(rng.integers(1, 40)), int(rng.integers(1, 40)), 1
    if kind == "image" and rng.random() < 0.3:
        groups = int(rng.integers(2, 4))
        channels, outputs = groups * int(rng.integers(1, 9)), groups * int(rng.integers(1, 9))
    dtype = np.int8 if rng.random() < 0.8 else np.uint8
    ends = np.iinfo(dtype)
    kernel, strides, dilations = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(3))
    padding = [int(n) for n in rng.integers(0, 4, 4) * (rng.random() < 0.7)]
    image = [int(rng.integers((k - 1) * d + 1, 12)) for k, d in zip(kernel, dilations, strict=True)]
    shape = [int(rng.integers(1, 20)), channels] if kind == "rows" else [int(rng.integers(1, 3)), channels, *image]
    x = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    x.reshape(-1)[:2] = (ends.min, ends.max)[: x.size]
    z = np.array(rng.choice([ends.min, ends.max, int(rng.integers(ends.min, ends.max))]), dtype)
    sizes = {
        "rows": [outputs, channels],
        "image": [outputs, *kernel, channels // groups],
        "depthwise": [1, *kernel, channels],
    }
    w = rng.integers(-128, 127, sizes[kind], np.int32, endpoint=True)

    def graph(x: SSAValue, z: SSAValue) -> SSAValue:
        data, point = (CastOp.make([v], element=i32).y for v in (x, z))
        difference: SSAValue = SubOp.make([data, point]).y
        weights = ConstantOp(w).y
        if kind == "rows":
            return FullyConnectedOp.make([difference, weights, []]).y
        image = TransposeOp.make([difference], {"permutation": ints((0, 2, 3, 1))}).y
        properties = {"strides": ints(strides), "dilations": ints(dilations), "padding": ints(padding)}
        if kind == "depthwise":
            return DepthwiseConv2DOp.make([image, weights, []], properties).y
        return Conv2DOp.make([image, weights, []], {**properties, "groups": IntegerAttr(groups, i64)}).y

    types = [TensorType(element_type_of(a.dtype), a.shape) for a in (x, z)]
    return network(graph, *types), [x, z]


@crossed({"kind": KINDS, "seed": [*range(4)], "number": [*range(10)]})
def test_random_layers(kind: str, seed: int, number: int) -> None:
    module, inputs = drawn(kind, np.random.default_rng([KINDS.index(kind), seed, number]))
    named = dict(zip([i.name for i in qmlir.reference(module).signature.inputs], inputs, strict=True))
    (wanted,) = qmlir.reference(module).run(named)
    narrow = module.clone()
    NarrowProductsPass().apply(make_context(), narrow)
    narrow.verify()
    signed = inputs[0].dtype == np.int8
    assert any(op.name.startswith("qint.") for op in narrow.walk()) == signed
    assert (qmlir.reference(narrow).run(named)[0] == wanted).all()
    assert (np.asarray(qmlir.compile(module)(named)) == wanted).all()
