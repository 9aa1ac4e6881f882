"""The interval of every integer of a network, derived from its constants in Python's own integers.

`derive` returns for each operation the fields that a certificate states about it. The rules follow
docs/certificates.md, which says for each operation what its interval is; nothing here looks at how qmlir computes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from qmlir.checker.deriver import Derived, Deriver, Rule, all_of, entries, limits
from qmlir.checker.network import Constant, Network, Node
from qmlir.checker.normalizations import NORMALIZATIONS
from qmlir.checker.ranges import (
    Channels,
    Range,
    Sums,
    clamped,
    join,
    less,
    repeated,
    require_fit,
    signed,
    spread,
    times,
)
from qmlir.checker.rounding import contract_of, requantized
from qmlir.checker.unproven import UnprovenError
from qmlir.checker.weights import ends, signed_sums


def derive(network: Network) -> dict[int, Derived]:
    """Derives the intervals of all operations with results of integers; index of the operation → what follows.

    Raises:
        RefusedError: An operation has no rule, or its integers may not fit.
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
    return Derived([ends(held.values)])


def _quantized(d: Deriver, node: Node) -> Derived:
    value = d.value(node.results[0])
    return Derived([value.stored if value.stored is not None and value.signed else all_of(value)])


def _stored(d: Deriver, node: Node) -> Derived:
    values = [d.value(n) for n in (*node.operands, *node.results)]
    unsigned = any(v.stored is not None and not v.signed for v in values)
    return Derived([all_of(values[1])] if unsigned else d.known[node.operands[0]])


def _moved(data: slice) -> Rule:
    def rule(d: Deriver, node: Node) -> Derived:
        ranges = [d.operand(node, place) for place in range(len(node.operands))[data]]
        if node.kind in ("nn.pad", "nn.dilate"):
            fill = node.properties["value"]
            ranges.append((fill, fill) if isinstance(fill, int) else all_of(d.value(node.results[0])))
        return Derived([join(*ranges)])

    return rule


def _converted(d: Deriver, node: Node) -> Derived:
    """A cast of integers keeps their low bits; the interval stays where these bits hold it as signed numbers."""
    given, result = d.value(node.operands[0]), d.value(node.results[0])
    whole = all_of(result)
    if node.operands[0] not in d.known or given.element.startswith("u") or result.element.startswith("u"):
        return Derived([whole])
    low, high = d.operand(node)
    return Derived([(low, high) if whole[0] <= low and high <= whole[1] else whole])


def _bits(d: Deriver, node: Node) -> Derived:
    return Derived([all_of(d.value(node.results[0]))])


def _shifted_right(d: Deriver, node: Node) -> Derived:
    """Of signed numbers by fewer places than they have bits, the sign stays and the magnitude falls."""
    result = d.value(node.results[0])
    (low, high), (least, most) = d.operand(node, 0), d.operand(node, 1)
    if result.element.startswith("u") or not 0 <= least <= most < result.bits:
        return Derived([all_of(result)])
    return Derived([(min(low >> least, low >> most), max(high >> least, high >> most))])


def _argument(d: Deriver, node: Node) -> Derived:
    return Derived([(0, max(0, d.shape(node)[node.number("axis")] - 1))])


def _place(d: Deriver, node: Node) -> Derived:
    """Of a place in an image; −1 where a window lies beside it."""
    return Derived([(-1, max(0, prod(d.shape(node)[1:3]) - 1))])


def _listed(d: Deriver, node: Node) -> Derived:
    """Of places in a tensor; −1 behind the last of them."""
    return Derived([(-1, max(0, *d.shape(node)) - 1)])


def _extremum(of: Callable[[int, int], int]) -> Rule:
    def rule(d: Deriver, node: Node) -> Derived:
        (a, b), (p, q) = d.operand(node, 0), d.operand(node, 1)
        return Derived([(of(a, p), of(b, q))])

    return rule


# ---------------------------------------------------------------------------------------------------------------
# Sums of products


def _terms(weights: Sequence[int], data: Range) -> Range:
    """The interval of Σ w·d, where each product may be left out."""
    low, high = join(data, (0, 0))
    positive, negative = signed_sums(weights)
    return positive * low + negative * high, positive * high + negative * low


def _rows(d: Deriver, node: Node) -> list[Sequence[int]]:
    weights = d.constant(node, 1)
    if node.kind == "qint.depthwise_conv2d":
        channels = weights.shape[-1]
        return [weights.values[c::channels] for c in range(channels)]
    return rows_of(weights, prod(weights.shape[1:]))


def rows_of(constant: Constant, size: int) -> list[Sequence[int]]:
    """The elements of a constant in rows."""
    return [constant.values[start : start + size] for start in range(0, len(constant.values), size)]


def _with_bias(d: Deriver, node: Node, place: int, sums: Channels) -> Derived:
    bias = d.constant(node, place).values if len(node.operands) > place else [0] * len(sums)
    whole = [(low + b, high + b) for (low, high), b in zip(sums, bias, strict=True)]
    return d.summed(node, whole, [join(*both) for both in zip(whole, sums, strict=True)])


def _weighted(d: Deriver, node: Node) -> Derived:
    data = d.operand(node, 0, "zero_point")
    return _with_bias(d, node, 2, [_terms(row, data) for row in _rows(d, node)])


def _saturating(d: Deriver, node: Node) -> Derived:
    data, (least, most), sums = d.operand(node, 0, "zero_point"), signed(16), list[Range]()
    for row in _rows(d, node):
        pairs = [_terms(row[i : i + 2], data) for i in range(0, len(row), 2)]
        sums.append((sum(max(low, least) for low, _ in pairs), sum(min(high, most) for _, high in pairs)))
    return _with_bias(d, node, 2, sums)


def _blocked(d: Deriver, node: Node) -> Derived:
    """Of sums of blocks, each multiplied; where blocks have offsets, the sums of their data are multiplied, too."""
    factors, data, affine = d.constant(node, 2), d.operand(node, 0, "zero_point"), node.kind == AFFINE
    offsets = d.constant(node, 3).values if affine else ()
    blocks, sums = factors.shape[1], list[Range]()
    for channel, row in enumerate(_rows(d, node)):
        size, low, high = len(row) // blocks, 0, 0
        for block in range(blocks):
            inner = _terms(row[block * size : (block + 1) * size], data)
            require_fit([inner], 32)
            product = times(inner, repeated((1, 1), factors.values[channel * blocks + block]))
            low, high = low + product[0], high + product[1]
            if affine:
                whole = repeated(join(data, (0, 0)), size)
                require_fit([whole], 32)
                product = times(whole, repeated((1, 1), offsets[channel * blocks + block]))
                low, high = low + product[0], high + product[1]
        sums.append((low, high))
    return _with_bias(d, node, 4 if affine else 3, sums)


AFFINE = "qint.affine_fully_connected"
"""The fully connected layer whose blocks of weights have offsets beside their multipliers."""


def _pair(d: Deriver, node: Node) -> tuple[Range, Range]:
    return d.operand(node, 0, "lhs_zero_point"), d.operand(node, 1, "rhs_zero_point")


def _matmul(d: Deriver, node: Node) -> Derived:
    term = join(times(*_pair(d, node)), (0, 0))
    return d.summed(node, [repeated(term, d.shape(node)[-1])])


def _mul(d: Deriver, node: Node) -> Derived:
    return d.summed(node, [times(*_pair(d, node))])


def _global_sum(d: Deriver, node: Node) -> Derived:
    count, data = prod(d.shape(node)[1:3]), d.operand(node, 0, "zero_point")
    return d.summed(node, [repeated(data, count)], [repeated(join(data, (0, 0)), count)])


def _running_sum(d: Deriver, node: Node) -> Derived:
    return d.summed(node, [repeated(join(d.operand(node), (0, 0)), d.shape(node)[node.number("axis")])])


def _signed_sums(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node)
    return d.summed(node, [repeated((min(low, -high), max(high, -low)), node.number("block"))])


def _resize(d: Deriver, node: Node) -> Derived:
    data = widest = join(d.operand(node, 0, "zero_point"), (0, 0))
    for weights in node.properties["weights"]:
        data = join((0, 0), *(_terms(row, data) for row in rows_of(weights, weights.shape[1])))
        widest = join(widest, data)
    bits = node.number("dropped")
    return replace(d.summed(node, [data], [widest]), channels=[(data[0] >> bits, data[1] >> bits)])


# ---------------------------------------------------------------------------------------------------------------
# Results that are narrowed


def _clamped(node: Node, interval: Range) -> Channels:
    return [clamped(interval, node.number("zero_point"), *limits(node))]


def _requantized(d: Deriver, node: Node) -> Derived:
    ms, ss, point = node.properties["multiplier"], node.properties["shift"], node.number("input_zero_point")
    channels = [less(each, point) for each in d.known[node.operands[0]]]
    found, slack = requantized(node.properties["contract"], channels, ms, ss)
    accumulators = spread(channels, max(len(channels), len(ms)))
    return Derived(_clamped(node, found), accumulators=accumulators, slack=slack)


def _add(d: Deriver, node: Node) -> Derived:
    lhs, rhs = (times(data, (m, m)) for data, m in zip(_pair(d, node), node.properties["multipliers"], strict=True))
    total, result = sum_of_products(lhs, rhs, node.number("shift"))
    return Derived(_clamped(node, result), Sums.of([total], [total], 64))


def sum_of_products(lhs: Range, rhs: Range, shift: int) -> tuple[Range, Range]:
    """The partial sums of two products and one half, and the complete sum after it is shifted right."""
    low, high, half = lhs[0] + rhs[0], lhs[1] + rhs[1], 1 << shift - 1
    return (min(low, 0), max(high, 0) + half), (low + half >> shift, high + half >> shift)


def _rescaled_add(d: Deriver, node: Node) -> Derived:
    ms, ss, left = node.properties["multipliers"], node.properties["shifts"], node.number("left")
    inner, outer = (contract_of(node.properties[key]) for key in ("operand_contract", "contract"))
    parts = [[inner(end << left, ms[i], ss[i]) for end in data] for i, data in enumerate(_pair(d, node))]
    if node.number("subtract"):
        parts[1] = [-parts[1][1], -parts[1][0]]
    total = [(parts[0][0] + parts[1][0], parts[0][1] + parts[1][1])]
    sums = Sums.of(total, total, 32)
    low, high = (outer(end, ms[2], ss[2]) for end in total[0])
    return Derived(_clamped(node, (low, high)), sums)


def _division(d: Deriver, node: Node) -> Derived:
    if max(max(-low, high) for low, high in _pair(d, node)) > 1 << 30:
        raise UnprovenError("operands beyond 31 bits")
    return Derived([limits(node)])


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
            raise UnprovenError(f"{outputs} windows of {extent} along an axis")
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
    data, offset, (count, empty) = d.operand(node), node.number("offset"), _windows(d, node)
    if node.number("count_include_pad"):
        point = node.number("zero_point")
        data, count = join(data, (point, point)), prod(node.properties["window"])
    if empty:
        data = join(data, (0, 0))
    low, high = join(less(data, -offset), (0, 0))
    total = [(low * count - count // 2, high * count + count // 2)]
    return Derived([data], Sums.of(total, total, 64))


def _maximum(d: Deriver, node: Node) -> Derived:
    data, (_, empty) = d.operand(node), _windows(d, node)
    least = all_of(d.value(node.operands[0]))[0]
    return Derived([join(data, (least, least)) if empty else data])


def _interpolate(d: Deriver, node: Node) -> Derived:
    if node.properties["rounding"] not in ("half_up", "half_away"):
        raise UnprovenError("an interpolation in floats", "must compute on integers by integer instructions")
    bits = node.properties["bits"]
    for weights, b in zip(node.properties["weights"], bits, strict=True):
        if any(min(row) < 0 or sum(row) != 1 << b for row in rows_of(weights, weights.shape[1])):
            raise UnprovenError("others", "must have weights that are parts of 1")
    data = d.operand(node)
    low, high = (end + node.number("offset") << sum(bits) + 1 for end in data)
    require_fit([(low, high)], 64)
    return Derived([data])


# ---------------------------------------------------------------------------------------------------------------
# Tables


def _lookup(d: Deriver, node: Node) -> Derived:
    table, (low, high) = node.properties["table"], d.operand(node)
    half = len(table.values) // 2
    return Derived([ends(entries(table, low + half, high + half))])


def interpolated(table: Sequence[int], x: int) -> int:
    """The result of an interpolated table of 513 entries for a 16-bit integer."""
    place, part = divmod(x + (1 << 15), 1 << 7)
    return table[place] + ((table[place + 1] - table[place]) * part + (1 << 6) >> 7)


def _interpolated(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node)
    return Derived([ends([interpolated(node.properties["table"].values, x) for x in range(low, high + 1)])])


def _pairs(d: Deriver, node: Node) -> Derived:
    table, (a, b), (low, high) = node.properties["table"], d.operand(node, 0), d.operand(node, 1)
    rows = [entries(table, (x + 128) * 256 + low + 128, (x + 128) * 256 + high + 128) for x in range(a, b + 1)]
    return Derived([join(*map(ends, rows))])


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
    **dict.fromkeys(("nn.equal", "nn.less", "nn.less_equal", "nn.and", "nn.or", "nn.xor", "nn.not"), _bits),
    "nn.shift_left": _bits,  # what is shifted out is lost
    "nn.shift_right": _shifted_right,
    **dict.fromkeys(("nn.arg_max", "nn.arg_min", "nn.top_k"), _argument),
    "nn.max_pool2d_indices": _place,
    "nn.non_zero": _listed,
    **dict.fromkeys(("qint.conv2d", "qint.depthwise_conv2d", "qint.fully_connected"), _weighted),
    "qint.saturating_fully_connected": _saturating,
    "qint.blocked_fully_connected": _blocked,
    AFFINE: _blocked,
    "qint.matmul": _matmul,
    "qint.mul": _mul,
    "qint.global_sum_pool": _global_sum,
    "nn.cumulative_sum": _running_sum,
    "nn.hadamard": _signed_sums,
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
