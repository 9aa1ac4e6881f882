"""The geometry of a layer's contraction as numbers: the input of the tile search, and what a tile's windows cover."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.model.engines import Engines, Rest, WeightBits
from qmlir.devices.model.stored import as_images, stored_bias, stored_dtype, stored_weights
from qmlir.devices.model.tables import sizes
from qmlir.dialects import qint
from qmlir.dialects.qint.requantize import width_of
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import shape_of


@dataclass(frozen=True)
class Inside:
    """Which tensors of a layer stay in a memory inside the device, instead of in the external memory.

    rest      the memory that staying tensors, its own or others, leave to its tiles; None if no tensor stays
    data      whether the data of the contraction stays
    matrix    whether the second matrix of a product of two computed matrices stays
    result    whether the result stays
    operands  how many of the other tensors stay that the operations after the contraction read
    """

    rest: Rest | None = None
    data: bool = False
    matrix: bool = False
    result: bool = False
    operands: int = 0


@dataclass(frozen=True)
class Work:
    """A contraction on one image and one group of its channels, or one product of matrices; also a pool's windows.

    rows, columns, channels              shape of the data
    out_rows, out_columns, out_channels  shape of the result; a depthwise convolution has as many channels as the data
    kernel, stride, dilation             rows, columns
    before                               padding above the first row and left of the first column
    data_bits, weight_bits, sum_bits     widths of an element, of a weight where the array reads it
    stored_weight_bits                   width of a weight in the constants and in their transfers
    bias_bits                            width of a number of the bias
    result_bits                          width of an element of the result, and of the results between the steps after
    posts                                requantizations and lookups after the sums
    operands                             sums and products with another tensor after the sums
    per_channel                          whether a requantization has a factor for each channel
    tables                               bytes of the tables that the steps after the sums read
    arranged                             whether the weights are a computed matrix, which a queue arranges
    inside                               which of its tensors stay inside the device
    """

    rows: int
    columns: int
    channels: int
    out_rows: int
    out_columns: int
    out_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    depthwise: bool = False
    data_bits: int = 8
    weight_bits: int = 8
    stored_weight_bits: int = 8
    sum_bits: int = 32
    bias_bits: int = 32
    result_bits: int = 8
    posts: int = 1
    operands: int = 0
    per_channel: bool = False
    tables: int = 8
    arranged: bool = False
    inside: Inside = Inside()

    @property
    def taps(self) -> int:
        """The number of elements of the window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def window(self) -> dict[str, int]:
        """The fields of a command that describe its windows; padding depends on the tile."""
        names = ("rows", "columns")
        sides = (("kernel", self.kernel), ("stride", self.stride), ("dilation", self.dilation))
        return {f"{what}_{name}": n for what, sizes in sides for name, n in zip(names, sizes, strict=True)}

    @property
    def widths(self) -> dict[str, int]:
        """The fields of a contraction's command that hold widths of elements."""
        return {name: getattr(self, name) for name in ("data_bits", "weight_bits", "sum_bits", "bias_bits")}

    def seen(self, axis: int, outputs: range) -> tuple[range, int]:
        """What windows cover along an axis.

        Args:
            axis: 0 for rows, 1 for columns.
            outputs: Indices of the result along the axis.

        Returns:
            Indices of the data, and how far before the first of them the first window starts (its padding).
        """
        size = (self.rows, self.columns)[axis]
        first = outputs.start * self.stride[axis] - self.before[axis]
        end = (outputs.stop - 1) * self.stride[axis] - self.before[axis] + self.reach(axis)
        low = min(max(first, 0), size - 1)
        seen = range(low, max(min(end, size), low + 1))
        return seen, seen.start - first

    def most_seen(self, axis: int, outputs: int) -> int:
        """The most indices of the data that `outputs` windows cover along an axis."""
        return min((outputs - 1) * self.stride[axis] + self.reach(axis), (self.rows, self.columns)[axis])

    def reach(self, axis: int) -> int:
        """The extent of a window along an axis, from its first element to behind its last."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1


# ---------------------------------------------------------------------------------------------------------------
# Builds the `Work` of a layer's contraction from its operations and the shapes of its tensors.


Weighted = qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp
"""A contraction whose weights are constants."""

Contraction = Weighted | qint.MatMulOp
"""A contraction; its data is its first operand, its weights or its second matrix are its second one."""


def work_of(
    op: Contraction, chain: Sequence[Operation], label: str, weights: WeightBits, inside: Inside, device: Device
) -> Work:
    """What the contraction computes for one image and one group of the channels, or for one product of matrices.

    Args:
        op: The contraction.
        chain: The elementwise operations after it, at least one.
        label: The name of the layer, for errors.
        weights: The widths of a weight.
        inside: Which tensors stay inside the device.
        device: The device.

    Raises:
        UnsupportedError: An operation after the contraction reads a tensor of another shape.
    """
    engines, result = Engines.of(device), _image(chain[-1].results[0], op)
    for value in other_operands(op, chain):
        if _image(value, op) != result:
            raise UnsupportedError.at(
                "npu.layer", label, f"needs operands of the shape {list(result)}",
                got=str(list(_image(value, op))),
            )  # fmt: skip
    steps = [step for step in chain if not isinstance(step, qint.MulOp)]
    two = [step for step in chain if isinstance(step, qint.AddOp | qint.MulOp)]
    work = Work(
        *_image(op.operands[0], op), *result, data_bits=8 * stored_dtype(op.operands[0]).itemsize,
        weight_bits=weights.read, stored_weight_bits=weights.stored, sum_bits=width_of(op.acc),
        bias_bits=stored_bias(op, device)[0],
        result_bits=max(width_of(step.results[0]) for step in steps), posts=len(steps) - len(two), operands=len(two),
        per_channel=any(isinstance(step, qint.RequantizeOp) and len(step.multiplier) > 1 for step in steps),
        tables=sum(sizes(chain, engines.tables(), engines)), arranged=isinstance(op, qint.MatMulOp), inside=inside,
    )  # fmt: skip
    if isinstance(op, qint.FullyConnectedOp | qint.MatMulOp):
        return work
    top, _, left, _ = op.padding_values()
    kernel_rows, kernel_columns = shape_of(op.w)[1:3]
    return replace(
        work,
        kernel=(kernel_rows, kernel_columns),
        stride=op.stride_values(),
        dilation=op.dilation_values(),
        before=(top, left),
        depthwise=isinstance(op, qint.DepthwiseConv2DOp),
    )


def weight_bits_of(op: Contraction, device: Device) -> WeightBits:
    """The widths of a weight; those of a computed matrix are stored as they are read."""
    if isinstance(op, qint.MatMulOp):
        return WeightBits(width_of(op.rhs), width_of(op.rhs))
    return Engines.of(device).weight_bits(stored_weights(op, device)[0])


def times_of(op: Contraction) -> int:
    """How many times a layer computes its `Work`: for each image and group of channels, or each product of matrices."""
    if isinstance(op, qint.MatMulOp):
        return prod(shape_of(op.acc)[:-2])
    return (1 if is_pointwise(op) else shape_of(op.x)[0]) * groups_of(op)


def other_operands(op: Contraction, chain: Sequence[Operation]) -> list[SSAValue]:
    """The tensors that the operations after a contraction read, besides its sums and their own results."""
    results = {v for step in chain for v in step.results}
    return [v for step in chain for v in step.operands if v not in results and v != op.acc]


def is_pointwise(op: Weighted) -> bool:
    """Whether each pixel of the result depends only on the same pixel of the data."""
    if isinstance(op, qint.FullyConnectedOp):
        return True
    return shape_of(op.w)[1:3] == (1, 1) and set(op.stride_values()) == {1} and not any(op.padding_values())


def groups_of(op: Weighted) -> int:
    """The number of groups into which channels fall."""
    return op.group_count() if isinstance(op, qint.Conv2DOp) else 1


def _image(value: SSAValue, op: Contraction) -> tuple[int, int, int]:
    """Rows, columns and channels that are computed at a time; of a pointwise contraction, all pixels are rows."""
    images, (rows, columns, channels) = as_images(shape_of(value))
    if isinstance(op, qint.MatMulOp):
        return columns, 1, channels
    if is_pointwise(op):
        rows, columns = images * rows * columns, 1
    return rows, columns, channels // groups_of(op)
