"""The interval of every integer of a network, derived from its constants in Python's own integers.

`derive` returns for each operation the fields that a certificate states about it. The rules follow
docs/certificates.md, which says for each operation what its interval is; nothing here looks at how qmlir computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from qmlir.checker.network import Constant, Network, Node, Value
from qmlir.checker.rounding import CONTRACTS, LIMITS, OverflowsError

Range = tuple[int, int]
Channels = tuple[list[int], list[int]]
"""The lowest and the highest value of each channel; lists of one element if all channels have one interval."""


class UnprovenError(Exception):
    """Raised for an operation that has no rule, or whose integers may not fit their widths."""


@dataclass(frozen=True)
class Sums:
    """Sums of a width: the intervals of complete sums and of all partial sums."""

    whole: Channels
    partial: Range
    bits: int

    @property
    def slack(self) -> int:
        """How many times the partial sums could double before they overflow."""
        return self.bits - max(n.bit_length() if n >= 0 else (~n).bit_length() for n in self.partial) - 1


@dataclass(frozen=True)
class Derived:
    """What follows for an operation.

    channels       the interval of its result, for each channel
    sums           its sums, if it has any
    accumulators   what a requantization rounds: one interval for each of its channels
    """

    channels: Channels
    sums: Sums | None = None
    accumulators: Channels | None = None

    @property
    def range(self) -> Range:
        """The interval of the whole result."""
        return min(self.channels[0]), max(self.channels[1])


def derive(network: Network) -> dict[int, Derived]:
    """Derives the intervals of all operations with results of integers; index of the operation → what follows.

    Raises:
        UnprovenError: An operation has no rule, or its integers may not fit; the text names the operation and channel.
    """
    deriver = _Deriver(network)
    found: dict[int, Derived] = {}
    for node in network.nodes:
        if any(network.values[v].bits for v in node.results):
            found[node.index] = deriver.add(node)
    return found


class _Deriver:
    """Intervals of the values of a network, in program order."""

    def __init__(self, network: Network):
        self.network, self.constants = network, dict[int, Constant]()
        self.known: dict[int, Channels] = {
            number: _one(_whole(network.values[number])) for number in network.arguments if network.values[number].bits
        }

    def add(self, node: Node) -> Derived:
        """Derives one operation."""
        if (rule := RULES.get(node.kind)) is None or len(node.results) != 1:
            raise UnprovenError(f"operation {node.index}, {node.kind}, has no rule")
        try:
            found = rule(self, node)
        except OverflowsError as error:
            raise UnprovenError(f"operation {node.index}, {node.kind}: {error}") from None
        except (KeyError, IndexError) as error:
            raise UnprovenError(f"operation {node.index}, {node.kind}, lacks {error}") from None
        low, high = _whole(self.value(node.results[0]))
        if not low <= found.range[0] <= found.range[1] <= high:
            raise UnprovenError(f"operation {node.index}, {node.kind}, does not fit its result: {found.range}")
        self.known[node.results[0]] = found.channels
        return found

    def value(self, number: int) -> Value:
        return self.network.values[number]

    def operand(self, node: Node, place: int) -> Range:
        channels = self.known[node.operands[place]]
        return min(channels[0]), max(channels[1])

    def constant(self, node: Node, place: int) -> Constant:
        if node.operands[place] not in self.constants:
            raise UnprovenError(f"operation {node.index}, {node.kind}, has no constant operand {place}")
        return self.constants[node.operands[place]]

    def bits(self, node: Node) -> int:
        return self.value(node.results[0]).bits


def _one(interval: Range) -> Channels:
    return [interval[0]], [interval[1]]


def _whole(value: Value) -> Range:
    """All integers that bits can hold, read as signed; booleans are 0 and 1."""
    return (0, 1) if value.bits == 1 else (-(1 << value.bits - 1), (1 << value.bits - 1) - 1)


def _join(*ranges: Range) -> Range:
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def _fit(bits: int, channels: Channels) -> None:
    for channel, (low, high) in enumerate(zip(*channels, strict=True)):
        if low < -(1 << bits - 1) or high >= 1 << bits - 1:
            raise OverflowsError(f"sums of channel {channel} reach [{low}, {high}], beyond {bits} bits")


def _summed(whole: Channels, partial: Channels, bits: int) -> Derived:
    _fit(bits, partial)
    return Derived(whole, Sums(whole, (min(partial[0]), max(partial[1])), bits))


# ---------------------------------------------------------------------------------------------------------------
# Values that enter, and values that move


def _constant(d: _Deriver, node: Node) -> Derived:
    held = node.properties["value"]
    d.constants[node.results[0]] = held
    return Derived(_one((int(min(held.values)), int(max(held.values))) if held.values else (0, 0)))


def _quantized(d: _Deriver, node: Node) -> Derived:
    value = d.value(node.results[0])
    return Derived(_one(value.stored if value.stored is not None and value.signed else _whole(value)))


def _stored(d: _Deriver, node: Node) -> Derived:
    values = [d.value(n) for n in (*node.operands, *node.results)]
    unsigned = any(v.stored is not None and not v.signed for v in values)
    return Derived(_one(_whole(values[1])) if unsigned else d.known[node.operands[0]])


def _moved(data: slice) -> "Rule":
    def rule(d: _Deriver, node: Node) -> Derived:
        ranges = [d.operand(node, place) for place in range(len(node.operands))[data]]
        if node.kind in ("nn.pad", "nn.dilate"):
            fill = node.properties["value"]
            ranges.append((fill, fill) if isinstance(fill, int) else _whole(d.value(node.results[0])))
        return Derived(_one(_join(*ranges)))

    return rule


def _converted(d: _Deriver, node: Node) -> Derived:
    """Integers keep their value where the type holds it, and their low bits where it may not."""
    whole = _whole(d.value(node.results[0]))
    if node.operands[0] not in d.known:
        return Derived(_one(whole))
    low, high = d.operand(node, 0)
    return Derived(_one((low, high) if whole[0] <= low and high <= whole[1] else whole))


def _boolean(d: _Deriver, node: Node) -> Derived:
    return Derived(_one(_whole(d.value(node.results[0]))))


def _argument(d: _Deriver, node: Node) -> Derived:
    return Derived(_one((0, max(0, d.value(node.operands[0]).shape[node.number("axis")] - 1))))


def _place(d: _Deriver, node: Node) -> Derived:
    """Of a place in an image; −1 where a window lies beside it."""
    return Derived(_one((-1, max(0, prod(d.value(node.operands[0]).shape[1:3]) - 1))))


def _listed(d: _Deriver, node: Node) -> Derived:
    """Of places in a tensor; −1 behind the last of them."""
    return Derived(_one((-1, max(0, *d.value(node.operands[0]).shape) - 1)))


def _extremum(of: Callable[[int, int], int]) -> "Rule":
    def rule(d: _Deriver, node: Node) -> Derived:
        (a, b), (p, q) = d.operand(node, 0), d.operand(node, 1)
        return Derived(_one((of(a, p), of(b, q))))

    return rule


# ---------------------------------------------------------------------------------------------------------------
# Sums of products


def _terms(weights: Sequence[int], data: Range) -> Range:
    """The interval of Σ w·d, where each product may be left out."""
    low, high = min(data[0], 0), max(data[1], 0)
    positive = sum(w for w in weights if w > 0)
    negative = sum(w for w in weights if w < 0)
    return positive * low + negative * high, positive * high + negative * low


def _less(interval: Range, point: int) -> Range:
    return interval[0] - point, interval[1] - point


def _rows(d: _Deriver, node: Node) -> list[Sequence[int]]:
    weights = d.constant(node, 1)
    if node.kind == "qint.depthwise_conv2d":
        channels = weights.shape[-1]
        return [weights.values[c::channels] for c in range(channels)]
    size = prod(weights.shape[1:])
    return [weights.values[c * size : (c + 1) * size] for c in range(weights.shape[0])]


def _with_bias(d: _Deriver, node: Node, place: int, sums: Sequence[Range]) -> Derived:
    bias = d.constant(node, place).values if len(node.operands) > place else [0] * len(sums)
    whole = (
        [low + b for (low, _), b in zip(sums, bias, strict=True)],
        [h + b for (_, h), b in zip(sums, bias, strict=True)],
    )
    partial = [
        [min(low, without) for low, (without, _) in zip(whole[0], sums, strict=True)],
        [max(high, without) for high, (_, without) in zip(whole[1], sums, strict=True)],
    ]
    return _summed(whole, (partial[0], partial[1]), d.bits(node))


def _weighted(d: _Deriver, node: Node) -> Derived:
    data = _less(d.operand(node, 0), node.number("zero_point"))
    return _with_bias(d, node, 2, [_terms(row, data) for row in _rows(d, node)])


def _saturating(d: _Deriver, node: Node) -> Derived:
    data = _less(d.operand(node, 0), node.number("zero_point"))
    sums: list[Range] = []
    for row in _rows(d, node):
        pairs = [_terms(row[i : i + 2], data) for i in range(0, len(row), 2)]
        sums.append((sum(max(p[0], -(1 << 15)) for p in pairs), sum(min(p[1], (1 << 15) - 1) for p in pairs)))
    return _with_bias(d, node, 2, sums)


def _blocked(d: _Deriver, node: Node) -> Derived:
    factors, data = d.constant(node, 2), _less(d.operand(node, 0), node.number("zero_point"))
    blocks, sums = factors.shape[1], list[Range]()
    for channel, row in enumerate(_rows(d, node)):
        size, low, high = len(row) // blocks, 0, 0
        for block in range(blocks):
            inner = _terms(row[block * size : (block + 1) * size], data)
            _fit(32, _one(inner))
            ends = [end * factors.values[channel * blocks + block] for end in inner]
            low, high = low + min(ends), high + max(ends)
        sums.append((low, high))
    return _with_bias(d, node, 3, sums)


def _times(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _pair(d: _Deriver, node: Node) -> tuple[Range, Range]:
    lhs, rhs = d.operand(node, 0), d.operand(node, 1)
    return _less(lhs, node.number("lhs_zero_point")), _less(rhs, node.number("rhs_zero_point"))


def _matmul(d: _Deriver, node: Node) -> Derived:
    term, count = _join(_times(*_pair(d, node)), (0, 0)), d.value(node.operands[0]).shape[-1]
    total = _one((term[0] * count, term[1] * count))
    return _summed(total, total, d.bits(node))


def _mul(d: _Deriver, node: Node) -> Derived:
    product = _one(_times(*_pair(d, node)))
    return _summed(product, product, d.bits(node))


def _global_sum(d: _Deriver, node: Node) -> Derived:
    count = prod(d.value(node.operands[0]).shape[1:3])
    low, high = _less(d.operand(node, 0), node.number("zero_point"))
    whole, partial = _one((low * count, high * count)), _one((min(low, 0) * count, max(high, 0) * count))
    return _summed(whole, partial, d.bits(node))


def _running_sum(d: _Deriver, node: Node) -> Derived:
    count = d.value(node.operands[0]).shape[node.number("axis")]
    low, high = _join(d.operand(node, 0), (0, 0))
    total = _one((low * count, high * count))
    return _summed(total, total, d.bits(node))


def _resize(d: _Deriver, node: Node) -> Derived:
    data = _join(_less(d.operand(node, 0), node.number("zero_point")), (0, 0))
    widest = data
    for weights in node.properties["weights"]:
        taps = weights.shape[1]
        rows = [_terms(weights.values[i : i + taps], data) for i in range(0, len(weights.values), taps)]
        data = _join((0, 0), *rows)
        widest = _join(widest, data)
    return _summed(_one(data), _one(widest), d.bits(node))


# ---------------------------------------------------------------------------------------------------------------
# Results that are narrowed


def _clamp(node: Node, low: int, high: int) -> Channels:
    point, least, most = node.number("zero_point"), node.properties["min"], node.properties["max"]
    return _one((min(max(low + point, least), most), min(max(high + point, least), most)))


def _limits(d: _Deriver, node: Node) -> Derived:
    return Derived(_one((node.properties["min"], node.properties["max"])))


def spread(values: Sequence[int], count: int) -> Sequence[int]:
    """One value for each channel, where one may stand for all."""
    return values if len(values) == count else [values[0]] * count


def _requantized(d: _Deriver, node: Node) -> Derived:
    name, ms, ss = (node.properties[key] for key in ("contract", "multiplier", "shift"))
    if name not in CONTRACTS:
        raise UnprovenError(f"operation {node.index}, {node.kind}, rounds in floats by contract {name}")
    channels, point = d.known[node.operands[0]], node.number("input_zero_point")
    count = max(len(channels[0]), len(ms))
    lows, highs = ([n - point for n in spread(ends, count)] for ends in channels)
    rule, low, high = CONTRACTS[name], list[int](), list[int]()
    for channel, (a, b, m, s) in enumerate(zip(lows, highs, spread(ms, count), spread(ss, count), strict=True)):
        try:
            low.append(rule(a, m, s))
            high.append(rule(b, m, s))
        except OverflowsError as error:
            raise OverflowsError(f"{error} in channel {channel}") from None
    return Derived(_clamp(node, min(low), max(high)), accumulators=(lows, highs))


def limit_slack(contract: str, accumulators: Channels) -> int:
    """How many times accumulators could double before they leave a contract's limit."""
    return LIMITS[contract].bit_length() - max(map(abs, chain(*accumulators))).bit_length()


def _add(d: _Deriver, node: Node) -> Derived:
    factors, shift = node.properties["multipliers"], node.number("shift")
    parts = [_times(data, (m, m)) for data, m in zip(_pair(d, node), factors, strict=True)]
    low, high, half = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], 1 << shift - 1
    partial = _one((min(low, 0), max(high, 0) + half))
    summed = _summed(partial, partial, 64)
    return Derived(_clamp(node, low + half >> shift, high + half >> shift), summed.sums)


def _rescaled_add(d: _Deriver, node: Node) -> Derived:
    ms, ss, left = node.properties["multipliers"], node.properties["shifts"], node.number("left")
    inner, outer = CONTRACTS[node.properties["operand_contract"]], CONTRACTS[node.properties["contract"]]
    parts = [[inner(end << left, ms[i], ss[i]) for end in data] for i, data in enumerate(_pair(d, node))]
    if node.number("subtract"):
        parts[1] = [-parts[1][1], -parts[1][0]]
    total = _one((parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]))
    summed = _summed(total, total, 32)
    return Derived(_clamp(node, *(outer(end[0], ms[2], ss[2]) for end in total)), summed.sums)


def _division(d: _Deriver, node: Node) -> Derived:
    if max(map(abs, chain(*_pair(d, node)))) > 1 << 30:
        raise OverflowsError("operands beyond 31 bits")
    return _limits(d, node)


def _windows(d: _Deriver, node: Node) -> tuple[int, bool]:
    """The most elements of the image in a window, and whether a window may lie outside of it."""
    image, (rows, columns) = d.value(node.operands[0]).shape, node.properties["window"]
    strides, dilations = (node.properties.get(key, [1, 1]) for key in ("strides", "dilations"))
    top, bottom, left, right = node.properties.get("padding", [0, 0, 0, 0])
    most, empty = 1, False
    for size, before, after, extent, stride, step in (
        (image[1], top, bottom, rows, strides[0], dilations[0]),
        (image[2], left, right, columns, strides[1], dilations[1]),
    ):
        outputs = (size + before + after - (extent - 1) * step - 1) // stride + 1
        inside = [sum(0 <= o * stride - before + i * step < size for i in range(extent)) for o in range(outputs)]
        most, empty = most * max(inside), empty or not all(inside)
    return most, empty


def _average(d: _Deriver, node: Node) -> Derived:
    data, offset, (count, empty) = d.operand(node, 0), node.number("offset"), _windows(d, node)
    if node.number("count_include_pad"):
        data, count = (
            _join(data, (node.number("zero_point"), node.number("zero_point"))),
            prod(node.properties["window"]),
        )
    if empty:
        data = _join(data, (0, 0))
    low, high = _join((data[0] + offset, data[1] + offset), (0, 0))
    total = _one((low * count - count // 2, high * count + count // 2))
    return Derived(_one(data), _summed(total, total, 64).sums)


def _maximum(d: _Deriver, node: Node) -> Derived:
    data, (_, empty) = d.operand(node, 0), _windows(d, node)
    least = _whole(d.value(node.operands[0]))[0]
    return Derived(_one(_join(data, (least, least)) if empty else data))


def _interpolate(d: _Deriver, node: Node) -> Derived:
    if node.properties["rounding"] not in ("half_up", "half_away"):
        raise UnprovenError(f"operation {node.index}, {node.kind}, interpolates in floats")
    for weights, bits in zip(node.properties["weights"], node.properties["bits"], strict=True):
        taps = weights.shape[1]
        rows = [weights.values[i : i + taps] for i in range(0, len(weights.values), taps)]
        if any(min(row) < 0 or sum(row) != 1 << bits for row in rows):
            raise UnprovenError(f"operation {node.index}, {node.kind}, has weights that are no parts of 1")
    data, offset = d.operand(node, 0), node.number("offset")
    _fit(64, _one(tuple(end + offset << sum(node.properties["bits"]) + 1 for end in data)))  # type: ignore[arg-type]
    return Derived(_one(data))


# ---------------------------------------------------------------------------------------------------------------
# Tables


def _entries(table: Constant, low: int, high: int) -> Sequence[int]:
    if not 0 <= low <= high < len(table.values):
        raise OverflowsError(f"places {low} to {high} of a table of {len(table.values)}")
    return table.values[low : high + 1]


def _lookup(d: _Deriver, node: Node) -> Derived:
    table, (low, high) = node.properties["table"], d.operand(node, 0)
    half = len(table.values) // 2
    reached = _entries(table, low + half, high + half)
    return Derived(_one((min(reached), max(reached))))


def interpolated(table: Sequence[int], x: int) -> int:
    """The result of an interpolated table of 513 entries for a 16-bit integer."""
    place, part = divmod(x + (1 << 15), 1 << 7)
    return table[place] + ((table[place + 1] - table[place]) * part + (1 << 6) >> 7)


def _interpolated(d: _Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0)
    reached = [interpolated(node.properties["table"].values, x) for x in range(low, high + 1)]
    return Derived(_one((min(reached), max(reached))))


def _pairs(d: _Deriver, node: Node) -> Derived:
    table, (a, b), (low, high) = node.properties["table"], d.operand(node, 0), d.operand(node, 1)
    rows = [_entries(table, (x + 128) * 256 + low + 128, (x + 128) * 256 + high + 128) for x in range(a, b + 1)]
    return Derived(_one((min(map(min, rows)), max(map(max, rows)))))


def _exponentials(d: _Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0)
    reached = _entries(node.properties["table"], 0, high - low)
    count = d.value(node.operands[0]).shape[node.number("axis")]
    total = _one((0, max(reached) * count))
    _require_softmax(node, max(reached), count)
    result = _whole(d.value(node.results[0])) if node.kind == "qint.log_softmax" else _limits(d, node).range
    return Derived(_one(result), _summed(total, total, 64).sums)


def _require_softmax(node: Node, largest: int, count: int) -> None:
    """Checks the numbers that a softmax derives from its sum."""
    if node.kind == "qint.log_softmax":
        _fit(63, _one((0, largest * count)))
    elif node.properties["division"] == "exact":
        unit = node.number("unit")
        _fit(63, _one((0, (largest * count << 13) - 1)))
        _fit(64, _one((0, 2 * largest * unit + (largest * count << 12))))
    else:
        term = (largest >> 12) + 1 if node.properties["division"] == "newton" else largest
        _fit(32, _one((0, term * count)))


def _l2(d: _Deriver, node: Node) -> Derived:
    low, high = _less(d.operand(node, 0), node.number("input_zero_point"))
    total = _one((0, max(low**2, high**2) * d.value(node.operands[0]).shape[node.number("axis")]))
    return Derived(_limits(d, node).channels, _summed(total, total, 32).sums)


Rule = Callable[[_Deriver, Node], Derived]

RULES: Mapping[str, Rule] = {
    "nn.constant": _constant,
    "quant.qcast": _quantized,
    "quant.scast": _stored,
    **dict.fromkeys(
        ("nn.reshape", "nn.transpose", "nn.broadcast", "nn.concat", "nn.pad", "nn.dilate", "nn.slice"),
        _moved(slice(None)),
    ),
    **dict.fromkeys(("nn.gather", "nn.gather_nd", "nn.scatter_nd"), _moved(slice(None, -1))),
    **dict.fromkeys(("nn.reduce_max", "nn.reduce_min"), _moved(slice(None))),
    "nn.cast": _converted,
    "nn.where": _moved(slice(1, None)),
    "nn.maximum": _extremum(max),
    "nn.minimum": _extremum(min),
    **dict.fromkeys(("nn.equal", "nn.less", "nn.less_equal", "nn.and", "nn.or", "nn.xor", "nn.not"), _boolean),
    **dict.fromkeys(("nn.arg_max", "nn.arg_min", "nn.top_k"), _argument),
    "nn.max_pool2d_indices": _place,
    "nn.non_zero": _listed,
    **dict.fromkeys(("qint.conv2d", "qint.depthwise_conv2d", "qint.fully_connected"), _weighted),
    "qint.saturating_fully_connected": _saturating,
    "qint.blocked_fully_connected": _blocked,
    "qint.matmul": _matmul,
    "qint.mul": _mul,
    "qint.global_sum_pool": _global_sum,
    "nn.cumulative_sum": _running_sum,
    "qint.resize": _resize,
    "qint.requantize": _requantized,
    "qint.add": _add,
    "qint.rescaled_add": _rescaled_add,
    "qint.div": _division,
    "qint.average_pool2d": _average,
    "qint.max_pool2d": _maximum,
    "qint.interpolate": _interpolate,
    "qint.lookup": _lookup,
    "qint.interpolated_lookup": _interpolated,
    "qint.pair_lookup": _pairs,
    **dict.fromkeys(("qint.softmax", "qint.log_softmax"), _exponentials),
    "qint.l2_normalization": _l2,
}
"""The rule of each operation that computes on integers; no other operation may have results of integers."""
