"""Which channels share a pair, so that no sum of two byte products leaves 16 bits.

Processors without vpdpbusd multiply an unsigned by a signed byte and add the products of two neighbours in i16, with
saturation (vpmaddubsw). For weights v and w of two channels and one output the sum fits, whatever the data are, if

    max(v, 0) + max(w, 0) ≤ 128   and   min(v, 0) + min(w, 0) ≥ −128,      because 255 · 128 < 2^15.

A pair of channels is safe for a span of outputs if this holds for each of them. Neighbouring channels often are not
safe. A sum over channels may take them in any order, so each span gets an order of its own in which neighbours are
safe. Channels stay within their group of 16, in which a processor permutes the bytes of a register by one instruction.

Pairs that are still not safe keep a part of their weights: those of the first channel, and those of the second one as
far as the bounds permit. The rest, w − clip(w), is multiplied behind all other channels, where the second channel
appears once more. So the sums are exact in all cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from qmlir.codegen.lowering import Array

GROUP = 16
"""Channels that one instruction permutes."""

LIMIT = 128
"""What the positive weights of a pair may sum to, and the magnitudes of the negative ones."""

TRIES = 3
"""How often a group is matched, at most."""


@dataclass(frozen=True)
class Pairing:
    """Channels in an order in which all pairs are safe, for each span of outputs.

    order     int8 [spans, C]; channel i of a group of 16 comes from place order[s, i] of the group
    extra     the channels that appear once more, int32 [E] for each span; E is a multiple of 4
    weights   int8 [outputs of a span, C + E] for each span, in that order; zero for outputs beyond the last
    """

    order: Array
    extra: Sequence[Array]
    weights: Sequence[Array]


def pair_channels(weights: Array, span: int) -> Pairing:
    """Pairs the channels of weights int8 [O, C] for each `span` of outputs; C is a multiple of 16."""
    outputs, channels = weights.shape
    padded = np.pad(weights, ((0, -outputs % span), (0, 0)))
    spans = padded.reshape(-1, span, channels).transpose(0, 2, 1)  # [spans, C, span]
    order = _matched(spans.reshape(-1, GROUP, span)).reshape(-1, channels)
    groups: Array = np.arange(channels, dtype=np.int64) // GROUP
    source: Array = order + groups * GROUP
    kept, rest = _split(np.take_along_axis(spans, source[:, :, None], 1))
    extra: list[Array] = []
    packed: list[Array] = []
    for i, own in enumerate(rest):
        places = _placed(own)
        more = np.zeros((len(places), span), np.int8)
        channel = np.zeros(len(places), np.int32)
        for place, pair in enumerate(places):
            if pair is not None:
                more[place], channel[place] = own[pair], source[i, 2 * pair + 1]
        extra.append(channel)
        packed.append(np.concatenate([kept[i], more]).T)
    return Pairing(order.astype(np.int8), extra, packed)


def _safe(groups: Array) -> Array:
    """Which pairs of channels are safe: bool [n, 16, 16], symmetric, for weights int8 [n, 16, span]; span is 8k.

    A channel is compared with all channels behind it at a time, in bytes: v + w > 128 as v > 128 − w, both magnitudes.
    """
    count, size, span = groups.shape
    by_channel = np.ascontiguousarray(groups.transpose(1, 0, 2)).reshape(size, -1)
    above = np.maximum(by_channel, 0).view(np.uint8)
    below = np.negative(np.minimum(by_channel, 0)).view(np.uint8)  # −128 stays, which is 128 as an unsigned byte
    room_above, room_below = LIMIT - above, LIMIT - below
    safe = np.zeros((size, size, count), np.bool_)
    for i in range(size - 1):
        unsafe = above[i] > room_above[i + 1 :]
        unsafe |= below[i] > room_below[i + 1 :]
        words = unsafe.view(np.uint64).reshape(size - 1 - i, count, span // 8)
        safe[i, i + 1 :] = safe[i + 1 :, i] = reduce(np.bitwise_or, np.moveaxis(words, -1, 0)) == 0
    return np.ascontiguousarray(safe.transpose(2, 0, 1))


def _matched(groups: Array) -> Array:
    """An order of the channels of each group int8 [n, 16, span] in which neighbours are safe where possible, [n, 16].

    The channel with the fewest free partners takes that partner of it that has the fewest itself. Groups in which a
    channel is left over try again with other preferences; the best try counts.
    """
    count, size, _ = groups.shape
    random = np.random.default_rng(0)
    order = np.tile(np.arange(size, dtype=np.int64), (count, 1))
    fewest = np.full(count, size)
    safe = _safe(groups)
    at = np.arange(count, dtype=np.int64)
    for _ in range(TRIES):
        found, left = _attempt(safe, random.random((at.size, size), np.float32))
        better = left < fewest[at]
        order[at[better]], fewest[at[better]] = found[better], left[better]
        again = fewest[at] > 0
        at, safe = at[again], safe[again]
        if not at.size:
            break
    return order


def _attempt(safe: Array, preference: Array) -> tuple[Array, Array]:
    """Matches the channels of each group once; `preference` in [0, 1) decides between channels alike, [n, 16].

    Returns:
        The order, and the number of channels without a safe partner, which come last.
    """
    count, size = preference.shape
    partners = safe.reshape(count * size, size)
    order = np.empty(count * size, np.int64)
    left = np.zeros(count, np.int64)
    base = np.arange(0, count * size, size, dtype=np.int64)  # of each group in the flat arrays
    front, back = base.copy(), base + size - 1
    degree = safe.sum(2, dtype=np.float32) + preference  # partners left of each channel; infinite once it has a place
    flat = degree.reshape(-1)
    while True:
        first = degree.argmin(1)
        at = base + first
        busy = flat[at] < np.inf
        if not busy.any():
            return order.reshape(count, size), left
        flat[at] = np.inf
        of_first = partners.take(at, 0)
        among = np.where(of_first, degree, np.inf)
        second = among.argmin(1)
        then = base + second
        both = among.reshape(-1)[base + second] < np.inf
        alone = busy & ~both
        order[front[both]], order[front[both] + 1] = first[both], second[both]
        order[back[alone]] = first[alone]
        flat[then[both]] = np.inf
        front[both] += 2
        back[alone] -= 1
        left += alone
        degree -= of_first
        degree -= partners.take(then, 0) & both[:, None]


def _split(ordered: Array) -> tuple[Array, Array]:
    """Splits weights [spans, C, span] of ordered channels: what each keeps, so that all pairs are safe, and the rest.

    Returns:
        The weights kept, [spans, C, span]; the rest of the second channel of each pair, [spans, C / 2, span].
    """
    first, second = ordered[:, 0::2].astype(np.int16), ordered[:, 1::2].astype(np.int16)
    clipped = np.clip(second, -LIMIT - np.minimum(first, 0), LIMIT - np.maximum(first, 0))
    kept = ordered.copy()
    kept[:, 1::2] = clipped
    return kept, (second - clipped).astype(np.int8)


def _all_safe(first: Array, second: Array) -> bool:
    """Whether two channels' weights [span] are safe as a pair."""
    a, b = first.astype(np.int16), second.astype(np.int16)
    above, below = np.maximum(a, 0) + np.maximum(b, 0), np.minimum(a, 0) + np.minimum(b, 0)
    return bool(above.max() <= LIMIT and below.min() >= -LIMIT)


def _placed(rest: Array) -> list[int | None]:
    """The pairs with weights left, [pairs, span], so that neighbours are safe and the number of places is 4k."""
    places: list[int | None] = []
    for pair in np.flatnonzero(rest.any(1)).tolist():
        last = places[-1] if len(places) % 2 else None
        if last is not None and not _all_safe(rest[last], rest[pair]):
            places.append(None)
        places.append(pair)
    return places + [None] * (-len(places) % 4)
