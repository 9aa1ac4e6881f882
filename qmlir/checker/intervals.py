"""The interval of every integer of a network, derived from its constants in Python's own integers.

`derive` returns for each operation the fields that a certificate states about it. The rules follow
docs/certificates.md, which says for each operation what its interval is; nothing here looks at how qmlir computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import prod

from qmlir.checker.deriver import (
    Channels,
    Derived,
    Deriver,
    Range,
    Rule,
    all_of,
    entries,
    join,
    less,
    limits,
    one,
    require_fit,
    sums_of,
)
from qmlir.checker.network import Network, Node
from qmlir.checker.normalizations import NORMALIZATIONS
from qmlir.checker.rounding import CONTRACTS, LIMITS, OverflowsError
from qmlir.checker.unproven import UnprovenError
from qmlir.checker.weights import ends, signed_sums


def derive(network: Network) -> dict[int, Derived]:
    """Derives the intervals of all operations with results of integers; index of the operation → what follows.

    Raises:
        UnprovenError: An operation has no rule, or its integers may not fit; the text names the operation and channel.
    """
    deriver = Deriver(network, RULES)
    found: dict[int, Derived] = {}
    for node in network.nodes:
        if any(network.values[v].bits for v in node.results):
            found[node.index] = deriver.add(node)
    return found


# ---------------------------------------------------------------------------------------------------------------
# Values that enter, and values that move


def _constant(d: Deriver, node: Node) -> Derived:
    held = node.properties["value"]
    d.constants[node.results[0]] = held
    return Derived(one(ends(held.values)))


def _quantized(d: Deriver, node: Node) -> Derived:
    value = d.value(node.results[0])
    return Derived(one(value.stored if value.stored is not None and value.signed else all_of(value)))


def _stored(d: Deriver, node: Node) -> Derived:
    values = [d.value(n) for n in (*node.operands, *node.results)]
    unsigned = any(v.stored is not None and not v.signed for v in values)
    return Derived(one(all_of(values[1])) if unsigned else d.known[node.operands[0]])


def _moved(data: slice) -> Rule:
    def rule(d: Deriver, node: Node) -> Derived:
        ranges = [d.operand(node, place) for place in range(len(node.operands))[data]]
        if node.kind in ("nn.pad", "nn.dilate"):
            fill = node.properties["value"]
            ranges.append((fill, fill) if isinstance(fill, int) else all_of(d.value(node.results[0])))
        return Derived(one(join(*ranges)))

    return rule


def _converted(d: Deriver, node: Node) -> Derived:
    """A cast of integers keeps their low bits; the interval stays where these bits hold it as signed numbers."""
    given, result = d.value(node.operands[0]), d.value(node.results[0])
    whole = all_of(result)
    if node.operands[0] not in d.known or given.element.startswith("u") or result.element.startswith("u"):
        return Derived(one(whole))
    low, high = d.operand(node, 0)
    return Derived(one((low, high) if whole[0] <= low and high <= whole[1] else whole))


def _boolean(d: Deriver, node: Node) -> Derived:
    return Derived(one(all_of(d.value(node.results[0]))))


def _argument(d: Deriver, node: Node) -> Derived:
    return Derived(one((0, max(0, d.value(node.operands[0]).shape[node.number("axis")] - 1))))


def _place(d: Deriver, node: Node) -> Derived:
    """Of a place in an image; −1 where a window lies beside it."""
    return Derived(one((-1, max(0, prod(d.value(node.operands[0]).shape[1:3]) - 1))))


def _listed(d: Deriver, node: Node) -> Derived:
    """Of places in a tensor; −1 behind the last of them."""
    return Derived(one((-1, max(0, *d.value(node.operands[0]).shape) - 1)))


def _extremum(of: Callable[[int, int], int]) -> Rule:
    def rule(d: Deriver, node: Node) -> Derived:
        (a, b), (p, q) = d.operand(node, 0), d.operand(node, 1)
        return Derived(one((of(a, p), of(b, q))))

    return rule


# ---------------------------------------------------------------------------------------------------------------
# Sums of products


def _terms(weights: Sequence[int], data: Range) -> Range:
    """The interval of Σ w·d, where each product may be left out."""
    low, high = min(data[0], 0), max(data[1], 0)
    positive, negative = signed_sums(weights)
    return positive * low + negative * high, positive * high + negative * low


def _rows(d: Deriver, node: Node) -> list[Sequence[int]]:
    weights = d.constant(node, 1)
    if node.kind == "qint.depthwise_conv2d":
        channels = weights.shape[-1]
        return [weights.values[c::channels] for c in range(channels)]
    size = prod(weights.shape[1:])
    return [weights.values[c * size : (c + 1) * size] for c in range(weights.shape[0])]


def _with_bias(d: Deriver, node: Node, place: int, sums: Sequence[Range]) -> Derived:
    bias = d.constant(node, place).values if len(node.operands) > place else [0] * len(sums)
    whole = (
        [low + b for (low, _), b in zip(sums, bias, strict=True)],
        [h + b for (_, h), b in zip(sums, bias, strict=True)],
    )
    partial = [
        [min(low, without) for low, (without, _) in zip(whole[0], sums, strict=True)],
        [max(high, without) for high, (_, without) in zip(whole[1], sums, strict=True)],
    ]
    return sums_of(whole, (partial[0], partial[1]), d.bits(node))


def _weighted(d: Deriver, node: Node) -> Derived:
    data = less(d.operand(node, 0), node.number("zero_point"))
    return _with_bias(d, node, 2, [_terms(row, data) for row in _rows(d, node)])


def _saturating(d: Deriver, node: Node) -> Derived:
    data = less(d.operand(node, 0), node.number("zero_point"))
    sums: list[Range] = []
    for row in _rows(d, node):
        pairs = [_terms(row[i : i + 2], data) for i in range(0, len(row), 2)]
        sums.append((sum(max(p[0], -(1 << 15)) for p in pairs), sum(min(p[1], (1 << 15) - 1) for p in pairs)))
    return _with_bias(d, node, 2, sums)


def _blocked(d: Deriver, node: Node) -> Derived:
    factors, data = d.constant(node, 2), less(d.operand(node, 0), node.number("zero_point"))
    blocks, sums = factors.shape[1], list[Range]()
    for channel, row in enumerate(_rows(d, node)):
        size, low, high = len(row) // blocks, 0, 0
        for block in range(blocks):
            inner = _terms(row[block * size : (block + 1) * size], data)
            require_fit(32, one(inner))
            ends = [end * factors.values[channel * blocks + block] for end in inner]
            low, high = low + min(ends), high + max(ends)
        sums.append((low, high))
    return _with_bias(d, node, 3, sums)


def _times(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _pair(d: Deriver, node: Node) -> tuple[Range, Range]:
    lhs, rhs = d.operand(node, 0), d.operand(node, 1)
    return less(lhs, node.number("lhs_zero_point")), less(rhs, node.number("rhs_zero_point"))


def _matmul(d: Deriver, node: Node) -> Derived:
    term, count = join(_times(*_pair(d, node)), (0, 0)), d.value(node.operands[0]).shape[-1]
    total = one((term[0] * count, term[1] * count))
    return sums_of(total, total, d.bits(node))


def _mul(d: Deriver, node: Node) -> Derived:
    product = one(_times(*_pair(d, node)))
    return sums_of(product, product, d.bits(node))


def _global_sum(d: Deriver, node: Node) -> Derived:
    count = prod(d.value(node.operands[0]).shape[1:3])
    low, high = less(d.operand(node, 0), node.number("zero_point"))
    whole, partial = one((low * count, high * count)), one((min(low, 0) * count, max(high, 0) * count))
    return sums_of(whole, partial, d.bits(node))


def _running_sum(d: Deriver, node: Node) -> Derived:
    count = d.value(node.operands[0]).shape[node.number("axis")]
    low, high = join(d.operand(node, 0), (0, 0))
    total = one((low * count, high * count))
    return sums_of(total, total, d.bits(node))


def _resize(d: Deriver, node: Node) -> Derived:
    data = join(less(d.operand(node, 0), node.number("zero_point")), (0, 0))
    widest = data
    for weights in node.properties["weights"]:
        taps = weights.shape[1]
        rows = [_terms(weights.values[i : i + taps], data) for i in range(0, len(weights.values), taps)]
        data = join((0, 0), *rows)
        widest = join(widest, data)
    return sums_of(one(data), one(widest), d.bits(node))


# ---------------------------------------------------------------------------------------------------------------
# Results that are narrowed


def _clamp(node: Node, low: int, high: int) -> Channels:
    point, least, most = node.number("zero_point"), node.properties["min"], node.properties["max"]
    return one((min(max(low + point, least), most), min(max(high + point, least), most)))


def spread(values: Sequence[int], count: int) -> Sequence[int]:
    """One value for each channel, where one may stand for all."""
    return values if len(values) == count else [values[0]] * count


def _requantized(d: Deriver, node: Node) -> Derived:
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


def _add(d: Deriver, node: Node) -> Derived:
    factors, shift = node.properties["multipliers"], node.number("shift")
    parts = [_times(data, (m, m)) for data, m in zip(_pair(d, node), factors, strict=True)]
    low, high, half = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], 1 << shift - 1
    partial = one((min(low, 0), max(high, 0) + half))
    summed = sums_of(partial, partial, 64)
    return Derived(_clamp(node, low + half >> shift, high + half >> shift), summed.sums)


def _rescaled_add(d: Deriver, node: Node) -> Derived:
    ms, ss, left = node.properties["multipliers"], node.properties["shifts"], node.number("left")
    inner, outer = CONTRACTS[node.properties["operand_contract"]], CONTRACTS[node.properties["contract"]]
    parts = [[inner(end << left, ms[i], ss[i]) for end in data] for i, data in enumerate(_pair(d, node))]
    if node.number("subtract"):
        parts[1] = [-parts[1][1], -parts[1][0]]
    total = one((parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]))
    summed = sums_of(total, total, 32)
    return Derived(_clamp(node, *(outer(end[0], ms[2], ss[2]) for end in total)), summed.sums)


def _division(d: Deriver, node: Node) -> Derived:
    if max(map(abs, chain(*_pair(d, node)))) > 1 << 30:
        raise OverflowsError("operands beyond 31 bits")
    return limits(d, node)


def tap_counts(network: Network, node: Node) -> tuple[list[int], list[int]]:
    """How many rows of the image each row of windows covers, and how many columns each column."""
    image, (rows, columns) = network.values[node.operands[0]].shape, node.properties["window"]
    strides, dilations = (node.properties.get(key, [1, 1]) for key in ("strides", "dilations"))
    top, bottom, left, right = node.properties.get("padding", [0, 0, 0, 0])
    found: list[list[int]] = []
    for size, before, after, extent, stride, step in (
        (image[1], top, bottom, rows, strides[0], dilations[0]),
        (image[2], left, right, columns, strides[1], dilations[1]),
    ):
        outputs = (size + before + after - (extent - 1) * step - 1) // stride + 1
        if outputs > MOST_WINDOWS or min(stride, step, extent) < 1:
            raise OverflowsError(f"{outputs} windows of {extent} along an axis")
        found.append([taps_inside(o * stride - before, extent, step, size) for o in range(outputs)])
    return found[0], found[1]


MOST_WINDOWS = 1 << 22
"""The most windows along an axis that are followed."""


def taps_inside(first: int, extent: int, step: int, size: int) -> int:
    """How many of the places first, first + step, … of a window lie in [0, size)."""
    least, most = max(0, -(first // step)), min(extent, -((first - size) // step))
    return max(0, most - least)


def _windows(d: Deriver, node: Node) -> tuple[int, bool]:
    """The most elements of the image in a window, and whether a window may lie outside of it."""
    counts = tap_counts(d.network, node)
    return prod(map(max, counts)), not all(map(all, counts))


def _average(d: Deriver, node: Node) -> Derived:
    data, offset, (count, empty) = d.operand(node, 0), node.number("offset"), _windows(d, node)
    if node.number("count_include_pad"):
        data, count = (
            join(data, (node.number("zero_point"), node.number("zero_point"))),
            prod(node.properties["window"]),
        )
    if empty:
        data = join(data, (0, 0))
    low, high = join((data[0] + offset, data[1] + offset), (0, 0))
    total = one((low * count - count // 2, high * count + count // 2))
    return Derived(one(data), sums_of(total, total, 64).sums)


def _maximum(d: Deriver, node: Node) -> Derived:
    data, (_, empty) = d.operand(node, 0), _windows(d, node)
    least = all_of(d.value(node.operands[0]))[0]
    return Derived(one(join(data, (least, least)) if empty else data))


def _interpolate(d: Deriver, node: Node) -> Derived:
    if node.properties["rounding"] not in ("half_up", "half_away"):
        raise UnprovenError(f"operation {node.index}, {node.kind}, interpolates in floats")
    for weights, bits in zip(node.properties["weights"], node.properties["bits"], strict=True):
        taps = weights.shape[1]
        rows = [weights.values[i : i + taps] for i in range(0, len(weights.values), taps)]
        if any(min(row) < 0 or sum(row) != 1 << bits for row in rows):
            raise UnprovenError(f"operation {node.index}, {node.kind}, has weights that are no parts of 1")
    data, offset = d.operand(node, 0), node.number("offset")
    low, high = (end + offset << sum(node.properties["bits"]) + 1 for end in data)
    require_fit(64, one((low, high)))
    return Derived(one(data))


# ---------------------------------------------------------------------------------------------------------------
# Tables


def _lookup(d: Deriver, node: Node) -> Derived:
    table, (low, high) = node.properties["table"], d.operand(node, 0)
    half = len(table.values) // 2
    reached = entries(table, low + half, high + half)
    return Derived(one((min(reached), max(reached))))


def interpolated(table: Sequence[int], x: int) -> int:
    """The result of an interpolated table of 513 entries for a 16-bit integer."""
    place, part = divmod(x + (1 << 15), 1 << 7)
    return table[place] + ((table[place + 1] - table[place]) * part + (1 << 6) >> 7)


def _interpolated(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0)
    reached = [interpolated(node.properties["table"].values, x) for x in range(low, high + 1)]
    return Derived(one((min(reached), max(reached))))


def _pairs(d: Deriver, node: Node) -> Derived:
    table, (a, b), (low, high) = node.properties["table"], d.operand(node, 0), d.operand(node, 1)
    rows = [entries(table, (x + 128) * 256 + low + 128, (x + 128) * 256 + high + 128) for x in range(a, b + 1)]
    return Derived(one((min(map(min, rows)), max(map(max, rows)))))


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
    **NORMALIZATIONS,
}
"""The rule of each operation that computes on integers; no other operation may have results of integers."""
