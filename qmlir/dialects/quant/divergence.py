"""Ranges of least information lost: the Kullback-Leibler searches of Glow and of TVM. numpy only.

Both try windows of a histogram, from all of it to as few bins as there are quantized ones. P is what the window
holds, the tails added to its end bins; Q is what is left of it after merging its bins into the quantized ones: a
merged bin's mass, spread evenly over those of its bins that are not empty. Both get a little mass in empty bins,
taken from the others; the window of the least D(P‖Q) = Σ p·ln(p / q) wins.

Glow computes in float32, one after another; its result is reproduced to the last bit, so here the sums are too: numpy
adds the rows of a [bins, windows] array one after another. Logarithms are correctly rounded, as the C library's are
in all but very few cases. That takes a logarithm for each bin of each window, so only windows that come near the
least divergence by a formula over merged bins, with sums of the histogram taken once, are computed so.
"""

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

LEVELS = 255
"""Quantized bins, whatever the precision: int8's without one end, as Glow and TVM have it."""

_EMPTY = np.float32(0.0001)
_RELATIVE, _ABSOLUTE = 4e-4, 2e-5
"""How far an estimate and its divergence may be apart: half as much again as is seen near the least."""

_LARGEST_LOSS = 0.04
"""The largest share of a count that filled bins may lose to empty ones for an estimate to be `_ABSOLUTE`ly right."""

_CHUNK = 64
"""Windows computed together: enough to fill vectors, few enough to stay in cache and near one width."""


def glow_range(
    counts: Float32s, lo: float, hi: float, *, symmetric: bool, glow_exact: bool = False
) -> tuple[float, float]:
    """Glow's optimizeKL: the window of least divergence of a histogram over [lo, hi].

    Args:
        counts: [bins], bins ≥ 255; whole numbers.
        lo: A float32 number.
        hi: Another, larger; for a symmetric window lo < 0 < hi.
        symmetric: Take a bin from each side at each step, and extend the result to the ratio of lo and hi. If not, two
            bins go that hold least: one from each side, or two from one.
        glow_exact: Whether a window that holds nothing has no divergence, so that values far from zero all saturate;
            here it has an infinite one.
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
    """TVM's threshold for a symmetric range: the end of the window around zero of least divergence.

    Unlike Glow's, the mass of a merged bin is spread over the bins that are not empty with the tails.

    Args:
        counts: [2·n + 1], the middle bin around zero; 2·n + 1 ≥ levels.
        width: Of a bin.
        levels: Quantized bins, an odd number.
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
    """The first window of least divergence; one that holds no value has the divergence `of_nothing`.

    Other arguments are those of `divergences`.
    """
    held = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    empty = held[stops + 1] == held[starts]
    guess = np.where(empty, of_nothing, _estimates(counts, starts, stops, levels, spread_tails))
    least = np.fmin.reduce(guess, initial=np.inf)
    near = np.nonzero(~(guess > least * (1 + _RELATIVE) + _ABSOLUTE))[0]  # NaN, which nobody knows, may be the least
    found = divergences(counts, starts[near], stops[near], levels, spread_tails=spread_tails)
    return int(near[np.where(empty[near], of_nothing, found).argmin()])


def _symmetric_windows(bins: int) -> tuple[Int64s, Int64s]:
    cut = np.arange((bins - LEVELS) // 2 + 1)
    return cut, bins - 1 - cut


def _least_loss_windows(counts: Float32s) -> tuple[Int64s, Int64s]:
    """(first, last) bins of Glow's asymmetric windows, which lose what counts least at each step."""
    held: list[float] = counts.tolist()
    start, stop = 0, len(held) - 1
    windows: list[tuple[int, int]] = []
    while stop - start + 1 >= LEVELS:
        windows.append((start, stop))
        both, left, right = (
            np.float32(a + b)
            for a, b in (
                (held[start], held[stop]),
                (held[start], held[start + 1]),
                (held[stop], held[stop - 1]),
            )
        )
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
    """D(P‖Q) of each window, float32.

    Args:
        counts: [bins].
        starts: First bin of each window.
        stops: Last bin of each.
        levels: Quantized bins.
        spread_tails: Whether an end bin that only a tail fills shares in its merged bin's mass.
    """
    pieces = [
        _divergences(counts, starts[i : i + _CHUNK], stops[i : i + _CHUNK], levels, spread_tails)
        for i in range(0, len(starts), _CHUNK)
    ]
    return np.concatenate(pieces)


def _estimates(counts: Float32s, starts: Int64s, stops: Int64s, levels: int, spread_tails: bool) -> Float64s:
    """The divergences within `_RELATIVE` and `_ABSOLUTE`, by a formula over merged bins; NaN where it does not hold.

    With h the counts of a window's filled bins, its tails on the end ones, e what each loses to empty bins, and Q the
    same in all filled bins of a merged bin,

        Σ p·ln(p/q) = (Σ (h − e)·ln(h − e) − Σ_merged ln Q · Σ (h − e)) / ΣP + ln(ΣQ / ΣP)

    where the first sum, for e « h, is Σ h·ln h − e·Σ (1 + ln h) + e²/2 · Σ 1/h: sums of the histogram from its start.
    A window with very few filled bins takes so much from each that e is no longer small: the formula does not hold.
    """
    h = counts.astype(np.float64)
    filled = h > 0
    log = np.log(h, out=np.zeros_like(h), where=filled)
    inverse = np.divide(1.0, h, out=np.zeros_like(h), where=filled)
    mass, number, entropy, logs, inverses = (
        np.concatenate([[0.0], np.cumsum(each)]) for each in (h, filled, h * log, log, inverse)
    )
    total, sizes = mass[-1], stops - starts + 1
    # P: the bins between the ends by sums, the ends by themselves.
    left, right = mass[starts + 1], total - mass[stops]
    holes = sizes - (number[stops] - number[starts + 1]) - (left > 0) - (right > 0)
    lost = _lost(holes, sizes)
    first = entropy[stops] - entropy[starts + 1]
    first -= lost * (logs[stops] - logs[starts + 1] + number[stops] - number[starts + 1])
    first += lost**2 / 2 * (inverses[stops] - inverses[starts + 1])
    first += _times_log(left - lost) + _times_log(right - lost)
    # Q: its end bins by themselves, those between by sums.
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
    """Σ (m − lost · n) · ln(m / n − q_lost) of each window, over all merged bins but the first and the last.

    Here m is the mass of a merged bin, and n how many of its bins are filled. Those of one width are a list of the
    histogram, by where they begin, of which a window sums every width-th: a difference of two such sums. What a
    filled bin of Q loses to empty ones, `q_lost` « m / n, enters by its powers up to the third.

    Args:
        mass: Counts below the start of each bin, and of all.
        number: Filled bins below it.
        starts: First bin of each window.
        merged: How many bins each merges.
        levels: To how many.
        lost: What a filled bin of P loses.
        q_lost: What one of Q loses.
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
    """Sums of every `step`-th term before each place: [rows, n] → [rows, n + step or more]."""
    rows, n = terms.shape
    padded = np.zeros((rows, -(-n // step) + 1, step))
    padded[:, 1:].reshape(rows, -1)[:, :n] = terms
    return np.cumsum(padded, axis=1).reshape(rows, -1)


def _lost(holes: Float64s, sizes: Int64s) -> Float64s:
    """What each filled bin loses to the empty ones."""
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
    """Gives empty bins a little, taken evenly from the others; not if these would lose a whole count each."""
    empty = inside & (mass == 0)
    holes = empty.sum(axis=0)
    others = np.maximum(sizes - holes, 1)
    taken = _EMPTY * holes.astype(np.float32) / others.astype(np.float32)
    acts = (holes < sizes) & (taken < 1)
    mass += np.where(empty & acts, _EMPTY, np.float32(0))
    mass -= np.where(inside & ~empty & acts, taken, np.float32(0))
