"""Kernels of detection: non-maximum suppression, and the places of elements that are not zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i32, i64

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.lowering import Kernel, MainLowering, Rules
from qmlir.codegen.value import INDEX, Value
from qmlir.dialects.nn.detection import NonMaxSuppressionOp, NonZeroOp
from qmlir.ir.interfaces import shape_of
from qmlir.lowering.nn_to_loops.movement import order_key


@dataclass(frozen=True)
class NonMaxSuppression(Kernel):
    """y[o, k] = the k-th box that is kept for a pair o of image and class.

    The kernel holds the indices of the boxes that are left in a list in index order. Each step takes the best of them
    and writes the list anew without the boxes that it drops.

    classes, iou_threshold, score_threshold, keep_equal_scores, drop_equal_overlaps   as the operation has them
    """

    classes: int
    iou_threshold: float
    score_threshold: float | None
    keep_equal_scores: bool
    drop_equal_overlaps: bool

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        boxes, scores, y = buffers
        left = code.scratch((boxes.shape[1],), i64, "left")
        with code.loop(begin, end, name="o") as o:
            count = self._candidates(code, scores, left, o)
            image = o // self.classes

            def step(k: Value, carried: list[Value]) -> Sequence[Value]:
                (count,) = carried
                none = count.equals(0)
                at = self._best(code, scores, left, o, count)
                box = none.choose(0, left.load(at).to(INDEX))
                y.store(none.choose(-1, box.to(i64)), o, k)
                return [self._dropped(code, boxes, left, image, box, count)]

            code.fold(0, y.shape[1], [count], step, name="k")

    def _candidates(self, code: Code, scores: Buffer, left: Buffer, o: Value) -> Value:
        """Writes the boxes whose scores suffice to the list, and returns how many there are."""
        left.store(code.constant(0, i64), 0)  # what an empty list is read for

        def step(box: Value, carried: list[Value]) -> Sequence[Value]:
            (count,) = carried
            left.store(box.to(i64), count)
            if self.score_threshold is None:
                return [count + 1]
            score, least = scores.load(o, box), self.score_threshold
            enough = score >= least if self.keep_equal_scores else score.same(least) < score
            return [enough.choose(count + 1, count)]

        (count,) = code.fold(0, scores.shape[1], [code.index(0)], step, name="box")
        return count

    def _best(self, code: Code, scores: Buffer, left: Buffer, o: Value, count: Value) -> Value:
        """Returns the first place in the list of the best score."""

        def step(place: Value, carried: list[Value]) -> Sequence[Value]:
            best, at = carried
            key = order_key(scores.load(o, left.load(place).to(INDEX)), False)
            better = best < key
            return [better.choose(key, best), better.choose(place, at)]

        least = code.constant(-(1 << 31), i32)
        return code.fold(0, count, [least, code.index(0)], step, name="place")[1]

    def _dropped(self, code: Code, boxes: Buffer, left: Buffer, image: Value, box: Value, count: Value) -> Value:
        """Takes a box and those that it drops from the list, and returns how many are left."""
        own = _sides(boxes, image, box)

        def step(place: Value, carried: list[Value]) -> Sequence[Value]:
            (kept,) = carried
            other = left.load(place)
            overlap = _overlap(own, _sides(boxes, image, other.to(INDEX)))
            most = self.iou_threshold
            dropped = overlap >= most if self.drop_equal_overlaps else overlap.same(most) < overlap
            left.store(other, kept)
            return [(dropped | other.equals(box.to(i64))).choose(kept, kept + 1)]

        (kept,) = code.fold(0, count, [code.index(0)], step, name="place")
        return kept


def _sides(boxes: Buffer, image: Value, box: Value) -> tuple[Value, Value, Value, Value]:
    """Returns the lower y and x and the upper y and x of a box."""
    one_y, one_x, other_y, other_x = (boxes.load(image, box, i) for i in range(4))
    return one_y.minimum(other_y), one_x.minimum(other_x), one_y.maximum(other_y), one_x.maximum(other_x)


def _overlap(one: Sequence[Value], other: Sequence[Value]) -> Value:
    """Returns the share of common area of two boxes; the same as the operation's `_overlaps`."""
    areas = [(high_y - low_y) * (high_x - low_x) for low_y, low_x, high_y, high_x in (one, other)]
    height = (other[2].minimum(one[2]) - other[0].maximum(one[0])).maximum(0.0)
    width = (other[3].minimum(one[3]) - other[1].maximum(one[1])).maximum(0.0)
    shared = height * width
    covered = areas[0] + areas[1] - shared
    zero = shared.same(0.0)
    some = (zero < shared) & (zero < areas[0]) & (zero < areas[1]) & (zero < covered)
    return some.choose(shared / covered, zero)


def _non_max_suppression(state: MainLowering, op: NonMaxSuppressionOp) -> None:
    images, classes, boxes = shape_of(op.scores)
    least = None if op.score_threshold is None else op.score_threshold.value.data
    kernel = NonMaxSuppression(
        classes, op.iou_threshold.value.data, least, bool(op.keep_equal_scores), bool(op.drop_equal_overlaps)
    )
    rows = (images * classes, op.count.value.data)
    state.compute(kernel, op.y, rows, (op.boxes, (images, boxes, 4)), (op.scores, (images * classes, boxes)))


@dataclass(frozen=True)
class NonZero(Kernel):
    """y[:, j] = the place of the j-th element of x that is not zero; −1 behind the last.

    shape   x's dimensions
    """

    shape: tuple[int, ...]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        rank, size = y.shape
        with code.loop(begin, end), code.loop(0, rank) as axis, code.loop(0, size) as j:
            y.store(code.constant(-1, i64), axis, j)

        def step(i: Value, carried: list[Value]) -> Sequence[Value]:
            (count,) = carried
            element = x.load(i)
            zero = element.equals(0)
            # NaN is not equal to 0 either, and is not zero.
            with code.when(zero.equals(0)):
                for axis in range(rank):
                    y.store((i // prod(self.shape[axis + 1 :]) % self.shape[axis]).to(i64), axis, count)
            return [zero.choose(count, count + 1)]

        with code.loop(begin, end):
            code.fold(0, size, [code.index(0)], step, name="i")


def _non_zero(state: MainLowering, op: NonZeroOp) -> None:
    shape = shape_of(op.x)
    state.compute(NonZero(shape), op.y, (len(shape), prod(shape)), (op.x, (prod(shape),)), items=1)


RULES: Rules = {NonMaxSuppressionOp: _non_max_suppression, NonZeroOp: _non_zero}
