"""Which layers in a row are worked off band by band: where memory binds, those that then take fewer cycles.

Looked at are layers of which each is read by the next alone, and between which no tensor stays as a whole. Judged is
what they take one after the other (tile_costs.py), whole or in bands: in bands, rows that two of them need are computed
twice, and weights are brought once for each, but what lies between the layers needs neither to go out nor to come in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, prod

from qmlir.device.stored import stored_dtype
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.npu import LayerOp
from qmlir.transforms.npu.bands import Bands, can_split, hands_on, rows_of, split
from qmlir.transforms.npu.residency import Stays, Tensor
from qmlir.transforms.npu.tile_costs import Price, in_a_row

LONGEST = 4
"""So many layers are worked off band by band at most."""

SHARES = (1, 2, 4, 8)
"""Of the memory, tensors between layers get this part at most: 1/1, 1/2, …"""

LEAST = 0.01
"""Part of their cycles that layers must be able to save before they are looked at."""


def fuse_rows(stays: Stays) -> Stays:
    """Splits layers where that pays, in the function and in what is known of it: what saves most first."""
    found = [
        (gain, layers, rows)
        for layers in _candidates(stays)
        for rows in _heights(stays, layers)
        if (gain := _gain(stays, layers, rows)) > 0
    ]
    for _, layers, rows in sorted(found, key=lambda candidate: -candidate[0]):
        if all(layer in stays.steps for layer in layers):
            stays = _with_bands(stays, layers, rows)
    return stays


# ---------------------------------------------------------------------------------------------------------------
# What is looked at


def _candidates(stays: Stays) -> Iterator[list[LayerOp]]:
    """Two and more layers in a row whose tensors between them could be bands, and whose transfers bind."""
    for first in range(len(stays.steps)):
        layers: list[LayerOp] = []
        for layer in stays.steps[first : first + LONGEST]:
            if not isinstance(layer, LayerOp) or not can_split(layer) or (layers and not hands_on(layers[-1], layer)):
                break
            layers.append(layer)
            if len(layers) > 1 and _could_save(stays, layers):
                yield [*layers]
            if layer.outputs[0] in stays.values:
                break


def _could_save(stays: Stays, layers: Sequence[LayerOp]) -> bool:
    """Whether layers would take less if nothing were transferred."""
    prices = _prices(stays, layers)
    if prices is None:
        return False
    computing = [stays.costs.without_transfers(price) for price in prices]
    return in_a_row(computing) < (1 - LEAST) * in_a_row(prices)


def _heights(stays: Stays, layers: Sequence[LayerOp]) -> list[int]:
    """Rows of bands such that what lies between layers fits shares of the memory; nearly the same for each band."""
    total = shape_of(layers[-1].outputs[0])[1]
    found: dict[int, None] = {}
    for share in SHARES:
        room = stays.costs.memory.bytes // share
        fitting = [rows for rows in range(1, total) if _between(layers, rows) <= room]
        if fitting:
            bands = -(-total // fitting[-1])
            found[-(-total // bands)] = None
    return [rows for rows in found if rows < total]


def _between(layers: Sequence[LayerOp], rows: int) -> int:
    """The most bytes at a time between layers, for a band of so many rows from within the last result."""
    total = shape_of(layers[-1].outputs[0])[1]
    first = (total - rows) // 2
    sizes = [
        len(some) * prod(shape_of(layer.outputs[0])[2:]) * stored_dtype(layer.outputs[0]).itemsize
        for layer, some in zip(layers[:-1], rows_of(layers, range(first, first + rows)), strict=False)
    ]
    return max(one + other for one, other in zip([0, *sizes], [*sizes, 0], strict=True))


# ---------------------------------------------------------------------------------------------------------------
# What it brings


def _gain(stays: Stays, layers: Sequence[LayerOp], rows: int) -> float:
    """Cycles that layers save in bands of so many rows; negative if they take more, or if there is no room."""
    bands = split(layers, rows)
    after = _cycles_in_bands(_trial(stays, layers, bands), bands)
    bands.erase()
    return _cycles(stays, layers) - after


def _cycles_in_bands(trial: Stays | None, bands: Bands) -> float:
    """What bands take one after the other; infinitely many if there is no room for them."""
    return inf if trial is None else _cycles(trial, [layer for band in bands.layers for layer in band])


def _cycles(stays: Stays, layers: Sequence[LayerOp]) -> float:
    """What layers take one after the other; infinitely many if the tiles of one do not fit."""
    prices = _prices(stays, layers)
    return inf if prices is None else in_a_row(prices)


def _prices(stays: Stays, layers: Sequence[LayerOp]) -> list[Price] | None:
    """Of each layer; None if the tiles of one do not fit."""
    numbers = stays.numbers()
    prices = [stays.price(numbers[layer]) for layer in layers]
    known = [price for price in prices if price is not None]
    return known if len(known) == len(prices) else None


def _trial(stays: Stays, layers: Sequence[LayerOp], bands: Bands) -> Stays | None:
    """What stays if layers are split: what did, and what lies between them; None if there is no room."""
    steps = bands.instead_of(layers, stays.steps)
    trial = Stays(steps, stays.costs)
    numbers, whole = trial.numbers(), layers[-1].outputs[0]
    added: list[Tensor] = []
    for tensor in stays.tensors:
        if tensor.value is whole:
            begins = numbers[bands.layers[0][-1]]
            longer = tensor.last + len(steps) - len(stays.steps)
            added.append(replace(tensor, value=bands.joined.outputs[0], first=begins, last=longer))
        elif (known := trial.tensor(tensor.value, numbers)) is not None:
            trial = replace(trial, tensors=[*trial.tensors, replace(known, address=tensor.address)])
    if any(one.meets(other) for one, other in combinations(trial.tensors, 2)):
        return None
    between = [trial.tensor(layer.outputs[0], numbers) for band in bands.layers for layer in band[:-1]]
    for tensor in [*added, *sorted((t for t in between if t is not None), key=lambda t: (-t.size, t.first))]:
        placed = trial.placed(tensor)
        if placed is None:
            return None
        trial = placed
    return trial


def _with_bands(stays: Stays, layers: Sequence[LayerOp], rows: int) -> Stays:
    """Puts bands in the place of layers if that still saves cycles beside what was split before."""
    bands = split(layers, rows)
    trial = _trial(stays, layers, bands)
    if trial is None or not _cycles_in_bands(trial, bands) < _cycles(stays, layers):
        bands.erase()
        return stays
    bands.put(layers)
    return trial
