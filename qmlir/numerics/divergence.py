"""Kullback-Leibler calibration: Glow's and TVM's searches for the range that loses the least information. numpy only.

Both searches try windows of a histogram, from the whole histogram down to as many bins as there are quantized bins.
Distribution P is the histogram inside the window, with the counts outside (the tails) added to its end bins.
Distribution Q is the window after quantization: its bins are merged into the quantized bins, and the mass of each
merged bin is spread evenly over its bins that are not empty. In both, empty bins get a little mass, taken from the
other bins. The window with the least D(P‖Q) = Σ p·ln(p / q) wins.

Glow sums in float32, sequentially, and its result is reproduced bit for bit. The sums here have the same order: numpy
adds the rows of a [bins, windows] array one after another. Logarithms are correctly rounded, as the C library's are
in all but very few cases. The exact divergence takes a logarithm for each bin of each window. It is therefore computed
only for windows whose estimate is near the least one; the estimate is a formula over merged bins that uses prefix
sums of the histogram.
"""

import numpy as np
import numpy.typing as npt

from qmlir.numerics import Float32s, Float64s, Int64s

LEVELS = 255
"""The number of quantized bins for every precision: that of int8 less one, as in Glow and TVM."""

_EMPTY = np.float32(0.0001)
_RELATIVE, _ABSOLUTE = 4e-4, 2e-5
"""The assumed error of an estimate: 1.5 times the largest error seen near the least divergence."""

_LARGEST_LOSS = 0.04
"""The largest share of a count that filled bins may lose to empty bins for an estimate to be within `_ABSOLUTE`."""

_CHUNK = 64
"""The number of windows computed together: enough to fill vectors, few enough for the cache and for similar widths."""


def glow_range(
    counts: Float32s, lo: float, hi: float, *, symmetric: bool, glow_exact: bool = False
) -> tuple[float, float]:
    """Returns the range of the window with the least divergence, by Glow's optimizeKL.

    Args:
        counts: The histogram over [lo, hi]: whole numbers, [bins] with bins ≥ 255.
        lo: The lower end of the histogram, a float32 number.
        hi: The upper end, a larger float32 number; a symmetric window needs lo < 0 < hi.
        symmetric: Whether each step drops one bin from each side, and the result is widened to the ratio lo : hi.
            Otherwise each step drops the two bins with the least count: one from each side, or both from one side.
        glow_exact: Whether a window without values has the divergence 0, as in Glow, so that values far from zero all
            saturate; otherwise its divergence is infinite.
    """
    low, high = np.float32(lo), np.float32(hi)
    width = (high - low) / np.float32(len(counts))
    starts, stops = _symmetric_windows(len(counts)) if symmetric else _least_loss_windows(counts)
    best = least_divergence(counts, starts, stops, of_nothing=0.0 if glow_exact else np.inf)
    left = low + np.float32(starts[best]) * width
    right = low + np.float32(stops[best] + 1) * width
    if symmetric:
        left_ratio, right_ratio = float(left) / float(low), float(right) / float(high)
        if left_ratio > right_ratio:
            right = np.float32(left_ratio * float(high))
        else:
            left = np.float32(right_ratio * float(low))
    return float(left), float(right)


def tvm_threshold(counts: Float32s, width: float, levels: int = LEVELS) -> float:
    """Returns TVM's threshold for a symmetric range: the upper end of the window around zero with the least divergence.

    Unlike in Glow's search, a bin that only a tail fills counts as filled when the mass of a merged bin is spread.

    Args:
        counts: The histogram, [2·n + 1] with the middle bin around zero; 2·n + 1 ≥ levels.
        width: The width of a bin.
        levels: The number of quantized bins, odd.
    """
    middle = len(counts) // 2
    halves = np.arange(levels // 2, middle + 1)
    best = halves[least_divergence(counts, middle - halves, middle + halves, levels, spread_tails=True)]
    return float((best + 0.5) * width)


def least_divergence(
    counts: Float32s,
    starts: Int64s,
    stops: Int64s,
    levels: int = LEVELS,
    *,
    spread_tails: bool = False,
    of_nothing: float = np.inf,
) -> int:
    """Returns the index of the first window with the least divergence.

    A window without values has the divergence `of_nothing`. The other arguments are those of `divergences`.
    """
    held = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    empty = held[stops + 1] == held[starts]
    guess = np.where(empty, of_nothing, _estimates(counts, starts, stops, levels, spread_tails))
    least = np.fmin.reduce(guess, initial=np.inf)
    near = np.nonzero(~(guess > least * (1 + _RELATIVE) + _ABSOLUTE))[0]  # a NaN estimate is unknown: keep it
    found = divergences(counts, starts[near], stops[near], levels, spread_tails=spread_tails)
    return int(near[np.where(empty[near], of_nothing, found).argmin()])


def _symmetric_windows(bins: int) -> tuple[Int64s, Int64s]:
    cut = np.arange((bins - LEVELS) // 2 + 1)
    return cut, bins - 1 - cut


def _least_loss_windows(counts: Float32s) -> tuple[Int64s, Int64s]:
    """Returns (first, last) bins of Glow's asymmetric windows; each step drops the two bins with the least count."""
    held: list[float] = counts.tolist()
    pairs: list[float] = (counts[1:] + counts[:-1]).tolist()  # float32, as the sum of both ends is
    exact = max(held) < 2.0**23  # then a sum of two counts is a float32 as it is
    start, stop = 0, len(held) - 1
    windows: list[tuple[int, int]] = []
    while stop - start + 1 >= LEVELS:
        windows.append((start, stop))
        both, left, right = held[start] + held[stop], pairs[start], pairs[stop - 1]
        if not exact:
            both = float(np.float32(both))
        if both <= left and both <= right:
            start, stop = start + 1, stop - 1
        elif left <= right:
            start += 2
        else:
            stop -= 2
    starts, stops = np.array(windows).T
    return starts, stops


def divergences(
    counts: Float32s, starts: Int64s, stops: Int64s, levels: int = LEVELS, *, spread_tails: bool = False
) -> Float32s:
    """Returns the divergence D(P‖Q) of each window, float32.

    Args:
        counts: The histogram, [bins].
        starts: The first bin of each window, [windows].
        stops: The last bin of each window, [windows].
        levels: The number of quantized bins.
        spread_tails: Whether an end bin that only a tail fills takes a share of its merged bin's mass.
    """
    pieces = [
        _divergences(counts, starts[i : i + _CHUNK], stops[i : i + _CHUNK], levels, spread_tails)
        for i in range(0, len(starts), _CHUNK)
    ]
    return np.concatenate(pieces)


def _estimates(counts: Float32s, starts: Int64s, stops: Int64s, levels: int, spread_tails: bool) -> Float64s:
    """Estimates the divergences within `_RELATIVE` and `_ABSOLUTE`, by a formula over merged bins; NaN if invalid.

    h are the counts of a window's filled bins, with the tails added to the end bins. e is the mass that each filled
    bin loses to empty bins. Q is equal in all filled bins of a merged bin. Then

        Σ p·ln(p/q) = (Σ (h − e)·ln(h − e) − Σ_merged ln Q · Σ (h − e)) / ΣP + ln(ΣQ / ΣP)

    For e « h, the first sum is Σ h·ln h − e·Σ (1 + ln h) + e²/2 · Σ 1/h, which needs prefix sums of the histogram only.
    In a window with very few filled bins e is not small, and the formula does not hold: the estimate is NaN.
    """
    h = counts.astype(np.float64)
    filled = h > 0
    log = np.log(h, out=np.zeros_like(h), where=filled)
    inverse = np.divide(1.0, h, out=np.zeros_like(h), where=filled)
    mass, number, entropy, logs, inverses = (
        np.concatenate([[0.0], np.cumsum(each)]) for each in (h, filled, h * log, log, inverse)
    )
    total, sizes = mass[-1], stops - starts + 1
    # P: prefix sums give the bins between the end bins; the end bins are added separately.
    left, right = mass[starts + 1], total - mass[stops]
    holes = sizes - (number[stops] - number[starts + 1]) - (left > 0) - (right > 0)
    lost = _lost(holes, sizes)
    first = entropy[stops] - entropy[starts + 1]
    first -= lost * (logs[stops] - logs[starts + 1] + number[stops] - number[starts + 1])
    first += lost**2 / 2 * (inverses[stops] - inverses[starts + 1])
    first += _times_log(left - lost) + _times_log(right - lost)
    # Q: the first and the last merged bin are computed separately; prefix sums give the merged bins between them.
    merged = sizes // levels
    second, last = starts + merged, starts + merged * (levels - 1)
    in_q, spread_over = mass[last] - mass[second], number[last] - number[second]
    ends: list[tuple[Float64s, Float64s]] = []
    for start, stop, end, tail in ((starts, second, starts, left), (last, stops + 1, stops, right)):
        own, bins = mass[stop] - mass[start], number[stop] - number[start]
        spread = bins + ((tail > 0) & ~filled[end])
        share = own / np.maximum(spread if spread_tails else bins, 1)
        in_q += share * spread
        spread_over += np.where(own > 0, spread, 0)
        ends.append((own - h[end] + tail - lost * spread, share))
    q_lost = _lost(sizes.astype(np.float64) - spread_over, sizes)
    logs_of_q = _between_ends(mass, number, starts, merged, levels, lost, q_lost)
    for in_p, share in ends:
        logs_of_q += in_p * np.log(np.maximum(np.where(share > 0, share - q_lost, _EMPTY), 1e-12))
    estimate = (first - logs_of_q) / total + np.log(np.maximum(in_q, 1e-12) / total)
    return np.where(np.maximum(lost, q_lost) <= _LARGEST_LOSS, estimate, np.nan)


def _between_ends(
    mass: Float64s,
    number: Float64s,
    starts: Int64s,
    merged: Int64s,
    levels: int,
    lost: Float64s,
    q_lost: Float64s,
) -> Float64s:
    """Returns Σ (m − lost · n) · ln(m / n − q_lost) of each window, over all merged bins but the first and the last.

    m is the mass of a merged bin, and n the number of its filled bins. For each width of a merged bin, the terms are
    computed for every start in the histogram. A window sums every width-th term: a difference of two strided prefix
    sums. The loss `q_lost` « m / n enters by its powers up to the third.

    Args:
        mass: Prefix sums of the counts, [bins + 1].
        number: Prefix sums of the number of filled bins, [bins + 1].
        starts: The first bin of each window, [windows].
        merged: The number of bins in each merged bin, [windows].
        levels: The number of merged bins.
        lost: The mass that a filled bin of P loses to empty bins, [windows].
        q_lost: The mass that a filled bin of Q loses to empty bins, [windows].
    """
    result = np.zeros(len(starts))
    for width in np.unique(merged).tolist():
        chosen = merged == width
        second, last = starts[chosen] + width, starts[chosen] + width * (levels - 1)
        m, n = mass[width:] - mass[:-width], number[width:] - number[:-width]
        share = np.divide(m, n, out=np.ones_like(m), where=n > 0)
        log = np.log(share)
        sums = _every(np.stack([m * log, n * log, n, n / share, n / share**2]), width)
        m_log, n_log, n_0, n_1, n_2 = sums[:, last] - sums[:, second]
        p, q = lost[chosen], q_lost[chosen]
        result[chosen] = m_log - p * n_log - q * (n_0 - p * n_1) - q**2 / 2 * (n_1 - p * n_2) - q**3 / 3 * n_2
    return result


def _every(terms: Float64s, step: int) -> Float64s:
    """Returns strided prefix sums, at i the sum of terms i − step, i − 2·step, …: [rows, n] → [rows, ≥ n + step]."""
    rows, n = terms.shape
    padded = np.zeros((rows, -(-n // step) + 1, step))
    padded[:, 1:].reshape(rows, -1)[:, :n] = terms
    return np.cumsum(padded, axis=1).reshape(rows, -1)


def _lost(holes: Float64s, sizes: Int64s) -> Float64s:
    """Returns the mass that each filled bin of a window loses to the empty bins; 0 if it would be 1 or more."""
    lost = float(_EMPTY) * holes / np.maximum(sizes - holes, 1)
    return np.where(lost < 1, lost, 0.0)


def _times_log(x: Float64s) -> Float64s:
    return x * np.log(x, out=np.zeros_like(x), where=x > 0)


def _divergences(counts: Float32s, starts: Int64s, stops: Int64s, levels: int, spread_tails: bool) -> Float32s:
    sizes, columns = stops - starts + 1, np.arange(len(starts))
    rows = np.arange(int(sizes.max()))[:, None]
    inside = rows < sizes
    window = np.where(inside, counts[np.minimum(starts + rows, len(counts) - 1)], np.float32(0))
    before = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    p = window.copy()
    p[0] = before[starts + 1]
    p[sizes - 1, columns] = before[-1] - before[stops]

    merged = sizes // levels
    ends = np.minimum(np.arange(levels + 1)[:, None] * merged, sizes)
    ends[-1] = sizes
    filled = p != 0
    source = filled if spread_tails else window != 0
    mass = np.diff(before[starts + ends], axis=0).astype(np.float32)
    upto = np.concatenate([np.zeros((1, len(columns)), np.int64), np.cumsum(source, axis=0)])
    shares = np.diff(upto[ends, columns], axis=0).astype(np.float32)
    spread = np.divide(mass, shares, out=np.zeros_like(mass), where=shares != 0)
    q = np.where(filled, spread[np.minimum(rows // merged, levels - 1), columns], np.float32(0))

    for each in (p, q):
        _fill_empty(each, inside, sizes)
        total = np.add.reduce(each, axis=0)
        each /= np.where(total == 0, np.float32(1), total)
    both = (p > 0) & (q > 0)
    ratio = np.divide(p, q, out=np.ones_like(p), where=both)
    terms = p * np.log(ratio.astype(np.float64)).astype(np.float32)
    return np.add.reduce(np.where(both, terms, np.float32(0)), axis=0)


def _fill_empty(mass: Float32s, inside: npt.NDArray[np.bool_], sizes: Int64s) -> None:
    """Gives empty bins a little mass in place, taken evenly from the others, unless these would lose 1 or more each."""
    empty = inside & (mass == 0)
    holes = empty.sum(axis=0)
    others = np.maximum(sizes - holes, 1)
    taken = _EMPTY * holes.astype(np.float32) / others.astype(np.float32)
    acts = (holes < sizes) & (taken < 1)
    mass += np.where(empty & acts, _EMPTY, np.float32(0))
    mass -= np.where(inside & ~empty & acts, taken, np.float32(0))
