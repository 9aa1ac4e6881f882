"""2,000 random pools of integers: machine code gives the reference's bits (random_layers.py)."""

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue

from qmlir.dialects.qint import AveragePool2DOp, GlobalSumPoolOp, MaxPool2DOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from tests.lowering.qint_to_loops.random_layers import (
    Form,
    Layer,
    batches,
    computes,
    extreme,
    largest,
    requantization,
    requantized,
    up_to,
    zero_point_of,
)


def window_pool(rng: np.random.Generator) -> Layer:
    """Maxima and means over windows of 1 to 7 a side, some of them beside the image, of 8, 16 or 32 bits."""
    bits = int(rng.choice([8, 16, 32], p=[0.6, 0.25, 0.15]))
    extent = rng.integers(1, 8, 2)
    strides, dilations = rng.integers(1, 4, 2), np.where(rng.random(2) < 0.6, 1, rng.integers(1, 4, 2))
    padding = rng.integers(0, 1 + rng.choice([0, 1, 3, 9]), 4)
    needed = (extent - 1) * dilations + 1 - padding.reshape(2, 2).sum(1)
    size = np.maximum(needed, 1) + rng.integers(0, 12, 2) + [0, int(rng.choice([0, 50], p=[0.8, 0.2]))]
    x = extreme(rng, bits, int(rng.integers(1, 3)), *map(int, size), up_to(rng, 300))
    properties = {
        "window": ints(extent.tolist()),
        "strides": ints(strides.tolist()),
        "dilations": ints(dilations.tolist()),
        "padding": ints(padding.tolist()),
    }
    kind = MaxPool2DOp if rng.random() < 0.4 else AveragePool2DOp
    if kind is AveragePool2DOp:
        properties |= {
            "count_include_pad": BoolAttr.from_bool(bool(rng.random() < 0.5)),
            "zero_point": int32(zero_point_of(rng, min(bits, 16), beyond=0)),
            "offset": int32(int(rng.choice([0, 128]))),
        }
    return Layer((x,), lambda v: kind.make([v], properties).y, f"{kind.name} {x.shape} {x.dtype}, {properties}")


def global_pool(rng: np.random.Generator) -> Layer:
    """Sums over images of up to 40 pixels a side, requantized or not."""
    bits = int(rng.choice([8, 16], p=[0.7, 0.3]))
    rows, columns = up_to(rng, 40), up_to(rng, 40)
    x = extreme(rng, bits, int(rng.integers(1, 4)), rows, columns, up_to(rng, 300))
    zero_point = zero_point_of(rng, bits)
    most = rows * columns * largest(x, zero_point)
    then = None if rng.random() < 0.2 else requantization(rng, most, x.shape[3])

    def graph(v: SSAValue) -> SSAValue:
        return requantized(GlobalSumPoolOp.make([v], {"zero_point": int32(zero_point)}).acc, then)

    return Layer((x,), graph, f"{GlobalSumPoolOp.name} {x.shape} {x.dtype}, zero point {zero_point}, {then}")


def draw(rng: np.random.Generator) -> Layer:
    return global_pool(rng) if rng.random() < 0.3 else window_pool(rng)


@batches
def test_pools(batch: int, form: Form) -> None:
    computes(draw, batch, form)
