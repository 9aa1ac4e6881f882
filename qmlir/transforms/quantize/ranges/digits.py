"""Finds the operations that stay float because integers of their operands' types would lose the result's digits.

A function is steep where a small change of its argument changes the result much: a logarithm near 0, a reciprocal, a
tangent near its poles, an exponential of a wide range. Whether this costs digits depends on the data. So the function
itself answers, over the histogram of its argument: how far the results for rounded arguments are from the results for
the arguments, against the rounding of the results, which the bits allow. A function is steep here if less than half
of the decibels that its result's type allows remain.

Rounding what comes before a steep function costs as much. Its argument therefore keeps its digits, back to the sums
of the last contraction:

* An operation that is no contraction stays float if nothing but such operations reads it.
* A contraction that only such operations read gives its sums in i32 (`type_of_sums`), where the target can.
* A contraction before a steep function whose digits the rounding of its data would cost divides its rows by their
  largest magnitudes and reads them in i32 (row_scales.py), and so do all other contractions before that function. Where
  the target cannot, it stays float if it has few of the network's products (`FEW`).
* A function whose argument saturates where the function is flat (flat_ends.py) is steep in this sense: few of its
  arguments decide.
* The rounding of a contraction's data costs too much if it takes more than `MOST_LOST` from the function, whatever is
  left: beside the rounding of the function's result, such a contraction decides what a network of 16 bits reaches.

A quotient with a computed divisor and an operation that the policy keeps float read their arguments likewise.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import Observation, ObserveOp
from qmlir.dialects.nn import (
    AddOp,
    ConstantOp,
    GlobalAveragePoolOp,
    MulOp,
    PowOp,
    ReduceMeanOp,
    ReduceSumOp,
    ReshapeOp,
    SubOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import ContractionOp, MatMulOp, WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp, OperandPairOp, StepOp
from qmlir.dialects.nn.functions import LinearOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands, data_results, storage_name
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, shape_of
from qmlir.numerics import Float64s
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.numerics.schemas import QuantizationError
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.flat_ends import memories, source_of
from qmlir.transforms.quantize.ranges.row_scales import (
    RowWeights,
    clamp_behind,
    constant_factor,
    divide_rows,
    precision_of_row_weights,
)
from qmlir.transforms.quantize.ranges.scale_groups import ScaleGroups, quantized_as
from qmlir.transforms.quantize.reasons import (
    COMPUTED_DIVISOR,
    KEPT_FLOAT,
    Reason,
    names_format,
    read_by_steep,
    saturating,
    steep,
    sums_of_steep,
)

KEPT = 0.5
"""The share of the decibels which the result's type allows that has to remain when the argument is rounded."""

MOST_LOST = 24.0
"""The most decibels that the rounding of a contraction's data may cost a function of its sums: four bits.

Of 8 bits this is about half of the decibels. Half of those of 16 bits is no more than a whole network should reach.
"""

FEW = 0.05
"""The share of a network's products that contractions before steep functions may compute in floats."""

POINTS = 4096
"""About how many arguments stand for those in a histogram; each bin with values has at least one."""

SPREAD = 64
"""How many arguments stand for those in a bin that begins at 0."""

TURN = (math.sqrt(5) - 1) / 2
"""Multiples of it, less whole numbers, lie evenly between 0 and 1, and follow no step of a type."""

FURTHEST = 4
"""How many functions of one element are looked at as one."""

FURTHEST_AHEAD = 8
"""How many operations behind a contraction are looked at as one function, data movement left out."""

LEAST = 2.0**-20
"""The least magnitude of arguments in a bin that begins at 0, in widths of the bin."""

NOISE: tuple[Float64s, Float64s] = np.polynomial.hermite_e.hermegauss(5)
"""Five values of noise with a normal distribution and variance 1, and their weights."""

Function = Callable[[Float64s], Float64s]


@dataclass(frozen=True)
class Kept:
    """Which operations stay float for the digits of their results, and which contractions give all digits of sums.

    reasons  operation that stays float → why
    sums     the contractions that nothing but float operations read, which need the digits
    rows     the contractions among them whose rows have scales of their own → the precision of their weights
    """

    reasons: Mapping[Operation, Reason]
    sums: AbstractSet[Operation]
    rows: Mapping[Operation, RowWeights]


def find_kept(
    operations: Sequence[Operation], observed: Mapping[SSAValue, Observation], configs: OpConfigs, groups: ScaleGroups,
    *, wide: bool,
) -> Kept:  # fmt: skip
    """Finds the operations of a block that stay float for their digits, given the types that values would have.

    Args:
        operations: The operations, in order.
        observed: What was observed of their values.
        configs: Their configs.
        groups: The values that share a scale.
        wide: Whether the target's contractions read and give 32 bits.
    """
    finding = _Finding(operations, observed, configs, groups, wide=wide)
    finding.run()
    for op, function in memories(observed, configs.of_value).items() if wide else ():
        fine = configs.of(op).integers == "int16" or function in finding.reasons
        if fine and configs.why_float(op) is None and not names_format(op):
            finding.reasons.setdefault(op, saturating(function))
    rows: dict[Operation, RowWeights] = {op: precision_of_row_weights(op, finding.least(op)) for op in finding.rows}
    return Kept(finding.reasons, finding.sums.keys(), rows)


def keep_digits(kept: Kept) -> dict[Operation, Reason]:
    """Gives rows scales of their own, and clamps on floats what the steps of sums would clamp to a rounded bound.

    Returns:
        The new float operations, and why they are float.
    """
    found: dict[Operation, Reason] = {}
    for op in kept.sums:
        assert isinstance(op, ContractionOp)
        why = read_by_steep(next(o for o in _readers(op)))
        new = divide_rows(op) if op in kept.rows else clamp_behind(op) if op.bounds()[0] else []
        found |= dict.fromkeys(new, why)
    return found


def type_of_sums(seen: Observation, finest: float, *, power_of_two: bool) -> UniformType | None:
    """The type of 32 bits in which a contraction gives its sums; None if nothing but 0 was observed.

    It has 24 bits, as f32 has, for the greatest magnitude that was observed, and holds 128 times as much.

    Args:
        seen: What was observed of the result.
        finest: The least scale.
        power_of_two: Whether the scale has to be a power of two.
    """
    largest = max(map(abs, seen.bounds))
    scale = max(largest * 2.0**-24, finest)
    if not 0 < largest < math.inf or not 0 < scale < math.inf:
        return None
    scale = 2.0 ** math.ceil(math.log2(scale)) if power_of_two else float(np.float32(scale))
    return UniformType.per_tensor(i32, scale, 0) if scale else None


class _Finding:
    """The search on one block, from the readers to what they read."""

    def __init__(
        self,
        operations: Sequence[Operation],
        observed: Mapping[SSAValue, Observation],
        configs: OpConfigs,
        groups: ScaleGroups,
        *,
        wide: bool,
    ):
        self.operations, self.observed, self.configs, self.groups = operations, observed, configs, groups
        self.wide = wide
        self.reasons: dict[Operation, Reason] = {}
        self.sums: dict[Operation, None] = {}
        self.rows: dict[ContractionOp, None] = {}
        self._needing: dict[Operation, Operation] = {}  # operation that needs its operands' digits → for which result
        self._losing: set[Operation] = set()  # steep functions that a contraction's rounded input costs digits

    def run(self) -> None:
        known = -1
        while len(self._losing) > known:  # all contractions before a function that loses digits are looked at anew
            known = len(self._losing)
            for found in (self.reasons, self.sums, self.rows, self._needing):
                found.clear()
            self._look()
        self._follow_contractions()

    def _look(self) -> None:
        few = FEW * sum(map(products, self.operations))
        for op in reversed(self.operations):
            why = self.configs.why_float(op)
            if (reason := self._why_steep(op)) is not None:
                self._keep(op, op, reason)
            elif why is COMPUTED_DIVISOR or (why is KEPT_FLOAT and not isinstance(op, ContractionOp | MovementOp)):
                self._needing[op] = op
            elif names_format(op):
                continue
            elif (reader := self._needing_reader(op)) is None:
                if isinstance(op, ContractionOp) and self._is_before_flat(op):
                    self._needing[op] = op
                    self.rows[op] = self.sums[op] = None
            elif not isinstance(op, ContractionOp):
                self._keep(op, reader, read_by_steep(reader))
            elif (left := self._left_of_reader(op)) is not None and self._divides_rows(op):
                self._needing[op] = op
                self.rows[op] = self.sums[op] = None
            elif left is not None and products(op) <= few:
                few -= products(op)
                self._keep(op, reader, left)
            elif why is None and not self._is_stated(op.results[0]):
                self.sums[op] = None

    def _follow_contractions(self) -> None:
        """Decides what depends on contractions that were found: what is before them, and movement of integers."""
        for op in self.sums:
            self._leave_inputs_float(op)
        for op in self.operations:
            if op in self.reasons and isinstance(op, MovementOp) and all(map(self._is_rounded, data_operands(op))):
                del self.reasons[op]
        for op in [o for o in self.rows if any(map(self._is_rounded, data_operands(o)))]:
            del self.rows[op]
            if self._needing_reader(op) is None:
                del self.sums[op]

    def _leave_inputs_float(self, op: Operation) -> None:
        """Leaves what computes a contraction's data from inputs float, as inputs come, where the data have 16 bits.

        Pre-emphasis leaves little of low tones, and the rounding of its operands and result leaves less.
        """
        before = self._between_inputs_and(op)
        if self.configs.of(op).integers == "int16" and not all(isinstance(o, MovementOp) for o in before):
            self.reasons |= {o: read_by_steep(op) for o in before if self.configs.why_float(o) is None}

    def _between_inputs_and(self, op: Operation) -> list[Operation]:
        """The operations between inputs of the network and a contraction; empty if something else reads them too."""
        found: dict[Operation, None] = {op: None}
        waiting = [v.owner for v in data_operands(op)]
        while waiting:
            made = waiting.pop()
            if not isinstance(made, Operation) or isinstance(made, ConstantOp) or made in found:
                continue
            if not data_operands(made) or isinstance(made, ContractionOp) or names_format(made):
                return []
            found[made] = None
            waiting += [v.owner for v in data_operands(made)]
        del found[op]
        inside = all(r is op or r in found for o in found for r in _readers(o))
        return list(found) if inside and not any(self._is_stated(o.results[0]) for o in found) else []

    def _divides_rows(self, op: ContractionOp) -> bool:
        """Whether a contraction may read its rows in 32 bits: the target can, and nothing says how they are stored."""
        if not self.wide or self.configs.why_float(op) is not None or constant_factor(op) is None:
            return False
        return not any(map(self._is_stated, (*data_operands(op), *op.results)))

    def _is_rounded(self, value: SSAValue) -> bool:
        """Whether an integer operation makes a value, so that to move it costs no digits."""
        op = value.owner
        if not isinstance(op, Operation) or op in self.reasons or op in self.sums:
            return False
        return bool(data_operands(op)) and self.configs.why_float(op) is None

    def _keep(self, op: Operation, needing: Operation, reason: Reason) -> None:
        self._needing[op] = needing
        if self.configs.why_float(op) is None:
            self.reasons[op] = reason

    def _needing_reader(self, op: Operation) -> Operation | None:
        """The operation for which the results of `op` need their digits; None if an operation reads them rounded."""
        results = data_results(op)
        readers = _readers(op)
        if not results or not readers or any(r not in self._needing for r in readers):
            return None
        return self._needing[readers[0]]

    # -- functions ---------------------------------------------------------------------------------------------

    def _why_steep(self, op: Operation) -> Reason | None:
        """Why an operation is steep for the data that it reads; None if it is not, or the policy names its format."""
        if names_format(op) or not is_steep_somewhere(op) or (result := self._type(op.results[0], op)) is None:
            return None
        for first, x, function in _behind(op):
            seen, argument = self.observed.get(x), self._type(x, first)
            if seen is None or argument is None:
                continue
            points, counts = sampled(seen)
            left, allowed = remaining(function, (points, counts), [rounded(points, argument)], np.ones(1), result)
            if left < KEPT * allowed:
                return steep(storage_name(argument.storage), left, allowed, None if first is op else first)
        return None

    def _type(self, value: SSAValue, op: Operation) -> UniformType | None:
        """The type in which an operation would read or give a value; None if it is unknown, or not ours to choose."""
        if self._is_stated(value):
            return None
        try:
            return self.groups.type_of(value, self.configs.of(op).format)
        except QuantizationError:  # refused where a type is needed
            return None

    def _is_stated(self, value: SSAValue) -> bool:
        """Whether a cast or the policy says how a value is stored."""
        config = self.configs.of_value(value)
        stated = config.range is not None or config.parameters is not None
        return stated or config.glow_exact or quantized_as(value) is not None

    # -- contractions ------------------------------------------------------------------------------------------

    def _left_of_reader(self, op: ContractionOp) -> Reason | None:
        """Why a contraction stays float: rounding its input costs the digits of a steep function that reads the sums.

        None if it does not, or if operations stand between the two that `_along` does not know. A contraction whose
        rows have scales needs the digits of the contractions before it.
        """
        divided = next((o for o in _moved_to(op) if o in self.rows and self._needing_reader(o) is not None), None)
        if isinstance(divided, ContractionOp):
            return self._left_of_reader(divided)
        found = self._left_of(op, lambda last: self._needing.get(last) is last)
        if found is None:
            return None
        last, reason = found
        self._losing.add(last)
        return reason

    def _is_before_flat(self, op: ContractionOp) -> bool:
        """Whether rounding the input of a contraction costs the digits of functions whose ends saturate most sums.

        Energies that a gate reads are such an input: they are spread over many decades.
        """
        factor = constant_factor(op)
        made = None if factor is None else op.operands[factor.data].owner
        if not isinstance(made, Operation) or len(_readers(made)) != 1:
            return False
        return self._left_of(op, self._saturates) is not None and self._divides_rows(op)

    def _saturates(self, op: Operation) -> bool:
        """Whether the range of what a function reads ends where the function is flat (flat_ends.py)."""
        seen = self._seen(op.operands[0])
        return seen is not None and seen.derived

    def least(self, op: ContractionOp) -> float:
        """The least number that was observed of a contraction's data; −∞ if nothing was."""
        factor = constant_factor(op)
        seen = None if factor is None else self._seen(op.operands[factor.data])
        return -math.inf if seen is None else seen.bounds[0]

    def _seen(self, value: SSAValue) -> Observation | None:
        """What was observed of a value, or of the value that it is moved from."""
        return self.observed.get(source_of(value, self.observed))

    def _left_of(self, op: ContractionOp, is_reader: Callable[[Operation], bool]) -> tuple[Operation, Reason] | None:
        """A function that reads the sums of a contraction whose rounded input costs it too many digits, and why."""
        spread = _noise_of_input(op, [self._type(v, op) for v in data_operands(op)])
        seen = self.observed.get(op.y)
        if spread is None or seen is None:
            return None
        points, counts = sampled(seen)
        moved = [points + spread * float(n) for n in NOISE[0]]
        for last, function in _ahead(op):
            if not is_steep_somewhere(last) or not is_reader(last):
                continue
            if (result := self._type(last.results[0], last)) is None:
                continue
            left, allowed = remaining(function, (points, counts), moved, NOISE[1], result)
            if left < max(KEPT * allowed, allowed - MOST_LOST) or last in self._losing:
                return last, sums_of_steep(self.configs.of(op).integers, left, allowed, last)
        return None


def is_steep_somewhere(op: Operation) -> bool:
    """Whether an operation is a function of one element that is no line and has no jumps."""
    return isinstance(op, FunctionOp | PowOp) and not isinstance(op, StepOp | LinearOp)


def function_of(op: Operation) -> tuple[SSAValue, Function] | None:
    """The argument of an operation that computes each element from one element, and its function on f64."""
    if len(op.results) != 1 or not is_float(op.results[0]):
        return None
    if isinstance(op, ReshapeOp | TransposeOp):
        return op.x, lambda x: x
    if isinstance(op, FunctionOp):
        return None if isinstance(op, StepOp) else (op.x, op.scalar)
    if not isinstance(op, OperandPairOp):
        return None
    x, other = (op.lhs, op.rhs) if isinstance(op.rhs.owner, ConstantOp) else (op.rhs, op.lhs)
    if isinstance(x.owner, ConstantOp) or not isinstance(other.owner, ConstantOp):
        return None
    numbers = np.unique(other.owner.value.array)
    if len(numbers) != 1:
        return None

    def of_one(elements: Float64s) -> Float64s:
        operands = [Lanes(elements), Lanes(np.full(elements.shape, numbers[0], np.float64))]
        return op.formula(*(operands if x is op.lhs else reversed(operands))).array

    return x, of_one


def _readers(op: Operation) -> list[Operation]:
    return [u.operation for r in op.results for u in r.uses if not isinstance(u.operation, ObserveOp)]


def _behind(op: Operation) -> Iterator[tuple[Operation, SSAValue, Function]]:
    """An operation, and some functions of one element before it which it alone reads, with all up to it as one."""
    after: Function | None = None
    for _ in range(FURTHEST):
        if (found := function_of(op)) is None:
            return
        x, inner = found
        after = inner if after is None else _composed(after, inner)
        yield op, x, after
        if not isinstance(x.owner, Operation) or len(_readers(x.owner)) != 1:
            return
        op = x.owner


def _ahead(op: Operation, most: int = FURTHEST_AHEAD) -> Iterator[tuple[Operation, Function]]:
    """Operations that read a result, one after another, each with all up to it as one function of one element."""
    for value, reader in _reading(op) if most else ():
        if (found := function_of(reader)) is None:
            function = _along(reader, value)
        else:
            function = found[1]
        if function is not None:
            yield reader, function
            further = most if isinstance(reader, MovementOp) else most - 1
            yield from ((last, _composed(outer, function)) for last, outer in _ahead(reader, further))


def _along(op: Operation, value: SSAValue) -> Function | None:
    """An operation as a function of one element, as if summed elements were equal and addends 0; None if it is none."""
    if isinstance(op, MovementOp | AddOp | SubOp | ReduceMeanOp | GlobalAveragePoolOp):
        return lambda x: x
    if isinstance(op, ReduceSumOp):
        count = math.prod(shape_of(op.x)) / math.prod(shape_of(op.y))
        return lambda x: x * count
    if not isinstance(op, MulOp):
        return None
    if op.lhs is op.rhs:
        return lambda x: x * x
    other = op.rhs if value is op.lhs else op.lhs
    if not isinstance(other.owner, ConstantOp):
        return None
    factor = float(np.sqrt(np.mean(np.square(other.owner.value.array, dtype=np.float64))))
    return lambda x: x * factor


def _moved_to(op: Operation) -> Iterator[Operation]:
    """The operations that read a result, moved or as it is."""
    for reader in _readers(op):
        yield from _moved_to(reader) if isinstance(reader, MovementOp) else (reader,)


def _reading(op: Operation) -> Iterator[tuple[SSAValue, Operation]]:
    return ((r, u.operation) for r in op.results for u in r.uses if not isinstance(u.operation, ObserveOp))


def _composed(outer: Function, inner: Function) -> Function:
    return lambda x: outer(inner(x))


def sampled(seen: Observation) -> tuple[Float64s, Float64s]:
    """Numbers that stand for observed values, and how many values each stands for.

    They lie evenly in each bin of the histogram, and evenly in the observed range without a histogram. In the bin at
    the lower end of positive data they lie evenly by their logarithm: such data are often spread over many decades.
    """
    low, high = seen.bounds
    if seen.histogram is None or not seen.histogram.counts.any():
        points: Float64s = np.linspace(low, high, POINTS)
        return points, np.ones(len(points))
    held = np.flatnonzero(seen.histogram.counts)
    each, width = max(1, POINTS // held.size), seen.histogram.width
    places = (np.arange(held.size * each) + 0.5) * TURN % 1
    points = np.repeat(seen.histogram.edges[held], each) + places * width
    counts = np.repeat(seen.histogram.counts[held] / each, each)
    for side, end in ((1.0, low), (-1.0, -high)):  # values of one sign, beside 0
        bin = held[0 if side > 0 else -1]
        near = side * seen.histogram.edges[bin + (0 if side > 0 else 1)]
        if end >= 0 and near <= width:
            least = max(end, near, LEAST * width)
            spread = side * least * ((near + width) / least) ** ((np.arange(SPREAD) + 0.5) / SPREAD)
            inside = (points >= seen.histogram.edges[bin]) & (points < seen.histogram.edges[bin + 1])
            points = np.concatenate([points[~inside], spread])
            counts = np.concatenate([counts[~inside], np.full(SPREAD, seen.histogram.counts[bin] / SPREAD)])
    return np.clip(points, low, high), counts


def rounded(x: Float64s, element: UniformType) -> Float64s:
    """Numbers as a quantized type stores them."""
    stored = np.clip(np.rint(x / element.scale) + element.zero_point, element.storage_min, element.storage_max)
    return (stored - element.zero_point) * element.scale


def remaining(
    function: Function,
    values: tuple[Float64s, Float64s],
    moved: Sequence[Float64s],
    weights: Float64s,
    result: UniformType,
) -> tuple[float, float]:
    """The decibels of a function's results when its arguments are moved, and when only its results are rounded.

    Args:
        function: The function.
        values: The arguments, and how many values each stands for.
        moved: What may stand in the arguments' place.
        weights: The weight of each of these.
        result: The type of the result, in which it saturates.
    """
    points, counts = values
    low, high = ((q - result.zero_point) * result.scale for q in (result.storage_min, result.storage_max))
    with np.errstate(all="ignore"):
        exact = np.asarray(function(points), np.float64)
        known = np.isfinite(exact)
        if not known.any():
            return math.inf, 0.0
        exact, counts = np.clip(exact[known], low, high), counts[known]
        noise = 0.0
        for arguments, weight in zip(moved, weights / weights.sum(), strict=True):
            there = np.clip(np.nan_to_num(function(arguments[known]), nan=0.0), low, high)
            noise += float(weight) * float(np.average((there - exact) ** 2, weights=counts))
        signal = float(np.average(exact**2, weights=counts))
    return _decibels(signal, noise), _decibels(signal, result.scale**2 / 12)


def _decibels(signal: float, noise: float) -> float:
    if not signal:
        return 0.0
    return 10 * math.log10(signal / noise) if noise else math.inf


def products(op: Operation) -> int:
    """The products that a contraction computes; 0 of any other operation."""
    if not isinstance(op, ContractionOp):
        return 0
    terms = math.prod(shape_of(op.w)) // max(op.output_channels(), 1) if isinstance(op, WeightedOp) else 0
    return math.prod(shape_of(op.y)) * (terms or shape_of(op.operands[0])[-1])


def _noise_of_input(op: ContractionOp, types: Sequence[UniformType | None]) -> float | None:
    """The standard deviation of a contraction's sums that the rounding of its input makes; None if it is unknown."""
    factor = constant_factor(op)
    if factor is None or (data := types[factor.data]) is None:
        return None
    weights: Array = np.asarray(factor.numbers, np.float64)
    channels = op.output_channels() if isinstance(op, WeightedOp) else _columns(op, weights)
    return data.scale * math.sqrt(float(np.sum(weights**2)) / max(channels, 1) / 12)


def _columns(op: ContractionOp, constant: Array) -> int:
    """How many sums of a matrix product the elements of its constant operand are divided among."""
    terms = shape_of(op.operands[0])[-1] if isinstance(op, MatMulOp) else 1
    return constant.size // max(terms, 1)
