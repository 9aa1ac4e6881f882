"""Each limit of a device file at its edge: what keeps to it is computed, what goes one beyond is refused in words."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, Operation

from qmlir.devices import Device
from qmlir.devices.legality.limits import FOLLOWED, LIMITS, kind_of, refusals
from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.weights import WeightsAttr
from tests.ops.sample import Sample, axis, groups, i, narrow, scaled, shares, weights, window, zero, zeros
from tests.ops.samples import HALF
from tests.ops.samples_normalization import over_root

TARGETS = Path(__file__).parents[2] / "qmlir" / "targets"


def device(**ops: Any) -> Device:
    """The Ethos-like device, with tables of [ops] replaced."""
    data: dict[str, Any] = tomllib.loads((TARGETS / "ethos-u55-like.toml").read_text("utf-8"))
    data["ops"] |= ops
    return Device.model_validate(data)


def with_quant(**keys: Any) -> Device:
    """The Ethos-like device, with keys of [quant] replaced."""
    data: dict[str, Any] = tomllib.loads((TARGETS / "ethos-u55-like.toml").read_text("utf-8"))
    data["quant"] |= keys
    return Device.model_validate(data)


def elsewhere() -> Device:
    """A device with a queue that arranges matrices, but reads them where no data is loaded."""
    data: dict[str, Any] = tomllib.loads((TARGETS / "npu-transformer.toml").read_text("utf-8"))
    data["memory"].append({"id": "other", "bytes": 4096, "holds": ["ifm"]})
    arrange = next(queue for queue in data["queue"] if queue["id"] == "arrange")
    arrange["from"] = ["other"]
    return Device.model_validate(data)


def with_sums(bits: int) -> Device:
    """The Ethos-like device, whose sums have so many bits."""
    data: dict[str, Any] = tomllib.loads((TARGETS / "ethos-u55-like.toml").read_text("utf-8"))
    data["array"]["modes"] = [{"a": "i8", "w": "i8", "acc": f"i{bits}"}]
    return Device.model_validate(data)


def conv(properties: Mapping[str, Attribute | None] | None = None, kernel: tuple[int, int] = (3, 3)) -> Sample:
    return Sample(qint.Conv2DOp, "", (i(8, 1, 12, 12, 4), i(8, 4, *kernel, 4)), dict(properties or {}))


def depthwise(properties: Mapping[str, Attribute | None] | None = None, outputs: int = 4) -> Sample:
    return Sample(qint.DepthwiseConv2DOp, "", (i(8, 1, 9, 9, 4), i(8, 1, 3, 3, outputs)), dict(properties or {}))


def pool(op: Any, rows: int, columns: int) -> Sample:
    return Sample(op, "", (i(8, 1, 12, 12, 4),), window(window=(rows, columns)))


def product(terms: int, lhs: int = 0, rhs: int = 0) -> Sample:
    return Sample(qint.MatMulOp, "", (i(8, 2, 5, terms), i(8, 2, terms, 3)), zeros(lhs, rhs))


def add(left: int, right: int, operands: tuple[Any, Any] = (i(8, 4), i(8, 4))) -> Sample:
    multipliers = DenseArrayBase.from_list(i64, [left, right])
    properties = {"multipliers": multipliers, "shift": int32(20)} | narrow()
    return Sample(qint.AddOp, "", operands, properties, i(8).element)


def requantize(multipliers: list[int], shifts: list[int], contract: str = "single") -> Sample:
    shape = (3, len(multipliers))
    return Sample(
        qint.RequantizeOp, "", (i(32, *shape),), scaled(multipliers, shifts, contract) | narrow(), i(8).element
    )


def softmax(division: str = "exact", first: int = 1 << 30, along: int = 7, axis_at: int = 1) -> Sample:
    unit = (1 << 15 if division == "interpolated" else 256) << 12
    properties = axis(axis_at) | shares(weights([first, *[0] * 255], "int32"), unit, division) | narrow()
    if division == "interpolated":
        properties |= {"inverse": weights([1 << 14] * 513, "int16")}
    return Sample(qint.SoftmaxOp, "", (i(8, 3, along),), properties, i(8).element)


def rms_norm(first: int, end: int = 2) -> Sample:
    return Sample(
        qint.RMSNormOp, "", (i(8, 3, 12),), over_root(first, end, HALF, 26, 40, 3, 0) | narrow(), i(8).element
    )


class Bounded(Sample):
    """A convolution whose sums end in a change of scale with bounds."""

    def __init__(self, low: int, high: int, zero_point: int = 0):
        super().__init__(qint.Conv2DOp, "", (i(8, 1, 12, 12, 4), i(8, 4, 3, 3, 4)), {})
        self._ends = scaled([HALF], [0]) | narrow(8, zero_point, low, high)

    def build(self, values: Any = None, element: Any = None) -> TensorOp:
        op = super().build(values, element)
        qint.RequantizeOp.make([op.results[0]], self._ends, element=i(8).element)
        return op


GROUPED = Sample(qint.Conv2DOp, "", (i(8, 1, 9, 9, 4), i(8, 4, 3, 3, 2)), groups(2))
TABLE = Sample(qint.LookupOp, "", (i(8, 4),), {"table": weights([0] * 256, "int8")})
CASES: list[tuple[str, Device, Sample, Sample, str]] = [
    ("ops.conv2d.kernel_max", device(conv2d={"kernel_max": [3, 2]}), conv(kernel=(3, 2)), conv(kernel=(2, 3)), "2x3"),
    ("ops.conv2d.kernel_area_max", device(conv2d={"kernel_area_max": 6}), conv(kernel=(3, 2)), conv(), "got 9"),
    ("ops.conv2d.stride_max", device(conv2d={"stride_max": 2}), conv(window((2, 1))), conv(window((1, 3))), "got 3"),
    ("ops.conv2d.dilation_max", device(conv2d={"dilation_max": 2}), conv(window(dilations=(2, 1))),
     conv(window(dilations=(1, 3))), "got 3"),
    ("ops.conv2d.padding_max", device(conv2d={"padding_max": 1}), conv(window(padding=(1, 0, 1, 1))),
     conv(window(padding=(0, 2, 0, 0))), "got 2"),
    ("ops.conv2d.groups", device(conv2d={}), conv(), GROUPED,
     "channels fall into 1 group or groups of a multiple of 16, got 2 of 2 to 2 channels"),
    ("ops.conv2d.channels_multiple", device(conv2d={"channels_multiple": 4}), conv(), GROUPED, ""),
    ("ops.depthwise", device(depthwise={}), depthwise(), depthwise(outputs=8), "1 output channel, got 2"),
    ("ops.depthwise.stride_max", device(), depthwise(window((3, 3))), depthwise(window((4, 1))), "got 4"),
    ("ops.act", device(act=["none", "relu"]), Bounded(-3, 127, -3), Bounded(-3, 100, -3),
     "the bounds of a result are none or relu, got relu6"),
    ("ops.act", device(act=["none"]), Bounded(-128, 127), Bounded(0, 127), "are none, got relu"),
    ("ops.act", device(act=["none", "relu", "relu6"]), Bounded(0, 90), Bounded(-1, 90), "got clamp"),
    ("ops.maxpool.kernel_max", device(maxpool={"kernel_max": [2, 2]}), pool(qint.MaxPool2DOp, 2, 2),
     pool(qint.MaxPool2DOp, 3, 2), "got 3x2"),
    ("ops.avgpool.kernel_max", device(avgpool={"kernel_max": [3, 3]}), pool(qint.AveragePool2DOp, 3, 3),
     pool(qint.AveragePool2DOp, 4, 4), "got 4x4"),
    ("ops.avgpool.divisor", device(avgpool={"divisor": "pow2"}), pool(qint.AveragePool2DOp, 2, 4),
     pool(qint.AveragePool2DOp, 3, 2), "a pool divides by a power of two, got 6"),
    ("ops.fc.terms_max", device(fc={"terms_max": 16}), Sample(qint.FullyConnectedOp, "", (i(8, 1, 16), i(8, 5, 16))),
     Sample(qint.FullyConnectedOp, "", (i(8, 1, 17), i(8, 5, 17))), "got 17"),
    ("ops.matmul.terms_max", device(matmul={"terms_max": 16}), product(16), product(17), "got 17"),
    ("queue.arranges", device(), product(16), product(16), "brings matrices from where it reads data"),
    ("quant.zero_point.weights", with_quant(zero_point={"activations": True}), product(16, lhs=3),
     product(16, rhs=-3), "the second matrix has the zero point 0, got -3"),
    ("ops.avgpool", device(), pool(qint.AveragePool2DOp, 2, 2),
     Sample(qint.AveragePool2DOp, "", (i(8, 1, 12, 12, 4),), window(window=(2, 2)) | {"offset": int32(128)}),
     "means are rounded away from 0, got 128"),
    ("ops.add", device(), add(HALF, HALF), add(HALF, HALF, (i(8, 4), i(16, 4))), "both operands have 1 type, got 2"),
    ("ops.add", device(), add(HALF, HALF, (i(8, 2, 4, 2, 4), i(8, 4, 1, 4))),
     add(HALF, HALF, (i(8, 2, 4, 2, 4), i(8, 4, 1, 1))),
     "operands are repeated by whole images, rows and columns alone, got 4x1x1"),
    ("ops.mul", device(mul={}), Sample(qint.MulOp, "", (i(8, 4), i(8, 4))),
     Sample(qint.MulOp, "", (i(16, 4), i(16, 4)), {}, i(64).element), "have at most 32 bits, got 64"),
    ("ops.avgpool", device(), Sample(qint.GlobalSumPoolOp, "", (i(8, 1, 4, 4, 2),)),
     Sample(qint.GlobalSumPoolOp, "", (i(8, 1, 4, 4, 2),), {}, i(64).element), "have at most 32 bits, got 64"),
    (
        "ops.move",
        device(),
        Sample(nn.TransposeOp, "", (i(8, 2, 3, 4),), {"permutation": window(window=(1, 0, 2))["window"]}),
        Sample(
            nn.TransposeOp,
            "",
            (i(8, 9, 9, 8, 9, 2, 9, 2),),
            {"permutation": window(window=(6, 5, 4, 3, 2, 1, 0))["window"]},
        ),
        "data moves in at most 1024 boxes",
    ),
    ("ops.softmax.row_max", device(softmax={"row_max": 7}), softmax(), softmax(along=8), "at most 7 elements, got 8"),
    ("ops.rms_norm.row_max", device(rms_norm={"row_max": 12}), rms_norm(1), rms_norm(0), "at most 12 elements, got 36"),
    ("ops.softmax", device(), softmax(), softmax(axis_at=0), "neighbours of a row lie 1 element apart, got 7"),
    ("ops.rms_norm", device(), rms_norm(1), rms_norm(0, 1), "neighbours of a row lie 1 element apart, got 12"),
    ("ops.softmax", device(), softmax("newton", first=4096 << 12), softmax("newton", first=4095 << 12),
     "a row's exponentials sum to at least 1 time what their division takes, got 0"),
    ("ops.softmax", device(), softmax("interpolated", first=2), softmax("interpolated", first=1),
     "a row's exponentials sum to at least 1 time what their division takes, got 0"),
    ("ops.add.operand_scale", device(add={"operand_scale": "same"}), add(HALF, HALF), add(HALF, HALF + 1), "1 scale"),
    ("ops.add.multiplier_bits", device(add={"operand_scale": "independent", "multiplier_bits": 8}),
     add(127 << 20, 3 << 20), add(129 << 20, 1 << 20), "at most 8 bits beside one of both, got 9"),
    ("ops.add.ratio", device(add={"operand_scale": "independent", "multiplier_bits": 8, "ratio": "shift-add"}),
     add(78 << 20, 37 << 20), add(100 << 20, 37 << 20),
     "the larger multiplier of an operand is the other one shifted, plus or minus a power of two, got 100x37"),
    ("ops.add.operand_scale", device(add={"operand_scale": "rounded"}), add(1 << 20, 1 << 20), add(HALF, HALF),
     "both operands have the result's scale, 1 time theirs, got"),
    ("ops.lut.entries", device(lut={"entries": 512, "type": "i8"}),
     Sample(nn.ReshapeOp, "", (i(8, 4),), {"shape": window(window=(2, 2))["window"]}), TABLE, "512"),
    ("ops.lut.type", device(lut={"entries": 256, "type": "i8"}), TABLE,
     Sample(qint.LookupOp, "", (i(8, 4),), {"table": weights([0] * 256, "int16")}),
     "entries of a table are i8, got i16"),
    ("array.modes", device(), conv(), Sample(qint.Conv2DOp, "", (i(16, 1, 3, 3, 2), i(16, 2, 2, 2, 2))),
     "or i8 by i8 around a zero point, got i16 by i16"),
    ("array.modes.acc", with_sums(24), Sample(qint.FullyConnectedOp, "", (i(8, 1, 257), i(8, 5, 257))),
     Sample(qint.FullyConnectedOp, "", (i(8, 1, 258), i(8, 5, 258))),
     "sums take at most 24 bits of i8 by i8, got 25 bits of i8 by i8"),
    ("quant.types", with_quant(types=["i8"]), Sample(nn.ConcatOp, "", (i(8, 2, 3), i(8, 2, 1)), axis(1)),
     Sample(nn.ConcatOp, "", (i(16, 2, 3), i(16, 2, 1)), axis(1)), "data is i8, got i16"),
    ("quant.zero_point.activations", with_quant(zero_point={"activations": False}), conv(), conv(zero(3)),
     "zero points are 0, got 3"),
    ("quant.round", device(), requantize([HALF + 9], [0]), requantize([HALF], [0], "double"), "single, got double"),
    ("quant.round", device(), requantize([HALF + 9], [0], "single64"), requantize([HALF], [0], "upup"), "got upup"),
    ("quant.scale", with_quant(scale="pow2"), requantize([HALF], [0], "single64"),
     requantize([HALF, HALF + 9], [0, 0], "single64"), "multipliers are powers of two"),
    ("quant.bias.type", with_quant(bias={"type": "i32"}),
     Sample(qint.FullyConnectedOp, "", (i(16, 1, 4), i(8, 2, 4), i(32, 2))),
     Sample(qint.FullyConnectedOp, "", (i(16, 1, 4), i(8, 2, 4), i(64, 2)), {}, i(64).element),
     "a bias has at most 32 bits, got 64"),
    ("quant.granularity", with_quant(granularity="tensor"), requantize([HALF], [0]),
     requantize([HALF, HALF + 1], [0, 0]), "a result has 1 scale, got 2"),
    ("quant.shift.per", with_quant(multiplier_bits=16, shift={"per": "layer"}),
     requantize([HALF, HALF + (1 << 17)], [1, 0]), requantize([HALF, HALF + (1 << 17)], [2, 0]),
     "all multipliers of a layer have at most 16 bits at one shift, got 17"),
    ("quant.shift", with_quant(shift={"min": 31, "max": 35}), requantize([HALF + 8], [-7]),
     requantize([HALF + 8], [-8]), "products are shifted to the right by [31, 35] bits, got 36"),
    ("quant.multiplier_bits", with_quant(multiplier_bits=16), requantize([HALF + (1 << 16)], [0]),
     requantize([HALF + (1 << 15)], [0]), "multipliers have at most 16 bits, got 17"),
    ("quant.shift", with_quant(shift={"min": 31, "max": 35}), requantize([HALF + 1], [-4]),
     requantize([HALF + 1], [-5]), "products are shifted to the right by [31, 35] bits, got 36"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "described", "kept", "broken", "says"), CASES, ids=[c[0] for c in CASES])
def test_a_limit_at_its_edge(key: str, described: Device, kept: Sample, broken: Sample, says: str) -> None:
    assert refusals(kept.build(), described) == []
    if key == "queue.arranges":  # a queue that arranges, but not to where the array reads weights
        described = elsewhere()
    sentences = refusals(broken.build(), described)
    mine = [s for s in sentences if s.endswith(f"({key})")]
    if key == "ops.conv2d.channels_multiple":  # 4 channels are a multiple of 4 in groups too; of 3 they are not
        assert mine == []
        mine = [s for s in refusals(kept.build(), device(conv2d={"channels_multiple": 3})) if s.endswith(f"({key})")]
    assert len(mine) == 1
    assert says in mine[0]


def test_every_limit_has_a_case() -> None:
    tested = {key for key, *_ in CASES}
    for limit in LIMITS:
        assert any(limit.key.replace("*", kind) in tested for kind in limit.kinds), limit.key


def test_a_sum_over_an_image_has_no_window() -> None:
    """Commands that add to the sums of others sum an image of any size."""
    narrow = device(avgpool={"kernel_max": [3, 3], "kernel_area_max": 4})
    assert refusals(Sample(qint.GlobalSumPoolOp, "", (i(8, 1, 4, 4, 2),)).build(), narrow) == []


@pytest.mark.parametrize("ends", [(-128, 127, 0), (0, 127, 0), (5, 90, 5), (-3, 100, 0)])
def test_a_device_that_clamps_has_all_bounds(ends: tuple[int, int, int]) -> None:
    assert refusals(Bounded(*ends).build(), device(act=["clamp"])) == []


def test_groups_of_whole_vectors() -> None:
    """A device without groups takes each group by itself if its channels are vectors of the device's layout."""
    whole = Sample(qint.Conv2DOp, "", (i(8, 1, 9, 9, 64), i(8, 32, 3, 3, 32)), groups(2))
    parts = Sample(qint.Conv2DOp, "", (i(8, 1, 9, 9, 64), i(8, 40, 3, 3, 32)), groups(2))
    assert refusals(whole.build(), device(conv2d={})) == []
    assert len(refusals(parts.build(), device(conv2d={}))) == 1
    assert refusals(parts.build(), device(conv2d={"groups": True})) == []


def test_operations_that_a_device_lacks() -> None:
    data = tomllib.loads((TARGETS / "vta.toml").read_text("utf-8"))
    vta = Device.model_validate(data)
    assert refusals(depthwise().build(), vta) == ["vta has no depthwise (ops.depthwise)"]
    assert refusals(TABLE.build(), vta) == ["vta has no lut (ops.lut)"]
    assert refusals(softmax().build(), vta) == ["vta has no softmax (ops.softmax)"]
    odd = Sample(qint.SaturatingFullyConnectedOp, "", (i(8, 3, 16), i(8, 5, 16))).build()
    assert kind_of(odd) is None
    assert refusals(odd, vta) == [f"no device file has a key for qint.saturating_fully_connected{FOLLOWED}"]


def test_weights_around_a_zero_point() -> None:
    """Differences of 9 bits are numbers of 8 to a device whose weights have zero points; to others they are not."""

    def differences(low: int, high: int) -> Operation:
        values = np.arange(low, high + 1, dtype=np.int16).reshape(1, -1)
        data = test.TestOp(result_types=[i(8, 1, values.size).type]).res[0]
        weights = nn.ConstantOp(WeightsAttr(values)).results[0]
        return qint.FullyConnectedOp.make([data, weights, []], {}, element=i(32).element)

    without = with_quant(zero_point={"activations": True})
    assert refusals(differences(-200, 55), device()) == refusals(differences(-255, 0), device()) == []
    assert refusals(differences(-200, 56), device()) == [
        "the array multiplies i16 by i8 or i16 by i8 around a zero point or i8 by i8 or i8 by i8 around a zero point, "
        "got i8 by i16 (array.modes)"
    ]
    assert refusals(differences(-200, 55), without) == [
        "the array multiplies i16 by i8 or i8 by i8, got i8 by i16 or i8 by i8 around a zero point (array.modes)"
    ]
