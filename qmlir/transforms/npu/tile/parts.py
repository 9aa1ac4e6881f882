"""The parts of a contraction, of which each has the same tiles: images, groups of channels, products of matrices.

The operands of a product of matrices may be views of transposed tensors (aliases.py), and its result may be written to
a transposed tensor, so that the heads of an attention are neither split nor merged by copies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices.model.work import Contraction, Inside, Weighted, groups_of, is_pointwise, other_operands
from qmlir.dialects import qint
from qmlir.dialects.npu import LayerOp
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.tile.aliases import read_strides, written_strides
from qmlir.transforms.npu.tile.emission import Emitter, View


@dataclass(frozen=True)
class Matrix:
    """The second matrix of a product.

    view        its elements [rows, 1, columns], the columns dense
    transposed  whether its columns are the output channels, and its rows the terms; otherwise it is the other way round
    """

    view: View
    transposed: bool

    def some(self, outputs: range, terms: range) -> tuple[View, bool]:
        """The part with some output channels and some terms, and whether it is transposed."""
        rows, columns = (terms, outputs) if self.transposed else (outputs, terms)
        return self.view.box(rows, range(1), columns), self.transposed


@dataclass(frozen=True)
class Part:
    """A contraction on one image and one group of its channels, or one product of matrices.

    source, target  the tensors, or the group's part of them
    operands        the other tensors that the operations after the contraction read
    outputs         the group's output channels, as indices into all output channels
    matrix          the second matrix of a product
    """

    source: View
    target: View
    operands: Mapping[SSAValue, View]
    outputs: range
    matrix: Matrix | None = None


def parts_of(emitter: Emitter, layer: LayerOp, op: Contraction, chain: Sequence[Operation]) -> Iterator[Part]:
    """Yields the parts of a layer's contraction, group by group, and image by image within a group."""
    if isinstance(op, qint.MatMulOp):
        return _products(emitter, layer, op, chain)
    return _images(emitter, layer, op, chain)


def inside(emitter: Emitter, part: Part) -> Inside:
    """Which tensors of a part stay inside the device."""
    stays = emitter.engines.staying
    return Inside(
        emitter.rests[-1],
        part.source.memory == stays,
        part.matrix is not None and part.matrix.view.memory == stays,
        part.target.memory == stays,
        sum(view.memory == stays for view in part.operands.values()),
    )


# ---------------------------------------------------------------------------------------------------------------
# Images and groups


def _images(emitter: Emitter, layer: LayerOp, op: Weighted, chain: Sequence[Operation]) -> Iterator[Part]:
    """Yields images and groups; if the contraction is pointwise, all pixels of all images are rows of one image."""
    seen = {v: emitter.views(v) for v in other_operands(op, chain)}
    sources, targets = emitter.views(op.x), emitter.result(layer.outputs[0], layer.label.data)
    if is_pointwise(op):
        sources, targets = _as_rows(sources), _as_rows(targets)
        seen = {v: _as_rows(views) for v, views in seen.items()}
    groups = groups_of(op)
    for group in range(groups):
        for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
            mine = [_group(view, group, groups) for view in (source, target)]
            operands = {v: _group(views[n], group, groups) for v, views in seen.items()}
            width = target.shape[2] // groups
            yield Part(mine[0], mine[1], operands, range(group * width, (group + 1) * width))


def _as_rows(images: Sequence[View]) -> list[View]:
    """Images that lie next to each other, as a single image with a row for each pixel."""
    first = images[0]
    pixels = len(images) * first.shape[0] * first.shape[1]
    return [View.dense(first.memory, first.spot, (pixels, 1, first.shape[2]), first.bits)]


def _group(view: View, group: int, groups: int) -> View:
    rows, columns, channels = view.shape
    width = channels // groups
    return view.box(range(rows), range(columns), range(group * width, (group + 1) * width))


# ---------------------------------------------------------------------------------------------------------------
# Products of matrices


def _products(emitter: Emitter, layer: LayerOp, op: qint.MatMulOp, chain: Sequence[Operation]) -> Iterator[Part]:
    """Yields the products of a batch, the last of its dimensions first."""
    lhs, rhs = (_Batch.read(emitter, layer, value) for value in (op.lhs, op.rhs))
    others = {v: _Batch.read(emitter, layer, v) for v in other_operands(op, chain)}
    views, strides = emitter.result(layer.outputs[0], layer.label.data), written_strides(layer)
    result = _Batch(views[0], shape_of(layer.outputs[0]), strides)
    for place in np.ndindex(*shape_of(op.acc)[:-2]):
        target = result.rows(place)
        operands = {v: other.rows(place) for v, other in others.items()}
        yield Part(lhs.rows(place), target, operands, range(target.shape[2]), rhs.matrix(place))


@dataclass(frozen=True)
class _Batch:
    """Matrices [..., rows, columns] in a buffer.

    first    a view that begins with the first element
    shape    the extents
    strides  how many elements apart the neighbours along each axis are
    """

    first: View
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def read(emitter: Emitter, layer: LayerOp, value: SSAValue) -> "_Batch":
        """The tensor that an operation of a layer reads."""
        return _Batch(emitter.views(value)[0], shape_of(value), read_strides(layer, value))

    def rows(self, place: Sequence[int]) -> View:
        """A matrix with dense columns."""
        return self._view(place, self.shape[-2], self.strides[-2], self.shape[-1])

    def matrix(self, place: Sequence[int]) -> Matrix:
        """A matrix [terms, output channels], as it lies in memory."""
        (terms, outputs), (apart, beside) = self.shape[-2:], self.strides[-2:]
        if beside == 1:
            return Matrix(self._view(place, terms, apart, outputs), transposed=True)
        return Matrix(self._view(place, outputs, beside, terms), transposed=False)

    def _view(self, place: Sequence[int], rows: int, apart: int, columns: int) -> View:
        """The matrix at a place of the batch, whose dimensions of size 1 repeat."""
        size, batch = self.first.bits // 8, self.shape[:-2]
        mine = place[len(place) - len(batch) :]
        at = sum(n * stride for n, extent, stride in zip(mine, batch, self.strides, strict=False) if extent > 1)
        spot = self.first.spot.later(at * size)
        return View(self.first.memory, spot, (rows, 1, columns), self.first.bits, apart * size, columns * size)
