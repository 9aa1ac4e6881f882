"""The pass `npu-cascade`: keeps tensors between layers inside the device (SRAM-resident) where that saves cycles.

Enters and leaves: functions of `npu.layer` and `npu.host`; layers get the attributes of residency.py. A tensor that
stays in the memory of the device that holds data and results is neither written to the external memory nor read from
it. During that time it takes room from tiles. It therefore stays only if the layers that run meanwhile are predicted
to take no more cycles. Layers with tensors between them that do not stay are split into stripes of rows if
the stripes then can stay and take fewer cycles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from qmlir.devices.model.engines import Engines
from qmlir.devices.model.module import device_of
from qmlir.devices.model.stored import stored_dtype
from qmlir.devices.model.work import Contraction
from qmlir.dialects import qint
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.passes import option
from qmlir.ir.signature import defined_functions
from qmlir.transforms.npu.cascade.residency import LayerCosts, Stays, Tensor, put
from qmlir.transforms.npu.cascade.stripes import StripedLayers, rows_of, runs, split
from qmlir.transforms.npu.tile.aliases import ELEMENTWISE, ROWS, first_of, home_of, joins
from qmlir.transforms.npu.tile.costs import Price, in_a_row

# ---------------------------------------------------------------------------------------------------------------
# Decides which consecutive layers are split into stripes of rows, to save memory traffic.
#
# Candidates are consecutive layers of which each is read by the next layer only, and between which no tensor stays as a
# whole. The predicted cycles of the layers (tile/costs.py) are compared whole and in stripes. In stripes, rows that two
# stripes need are computed twice and weights are loaded once for each stripe, but the tensors between the layers need
# no transfers.


LONGEST = 4
"""The most consecutive layers that are split into stripes together."""

SHARES = (1, 2, 4, 8)
"""Divisors of the memory size: tensors between layers may take at most 1/1, 1/2, … of the memory."""

LEAST = 0.01
"""The fraction of their cycles that layers must be able to save to become candidates."""


def fuse_rows(stays: Stays) -> Stays:
    """Splits layers into stripes where that saves cycles, the largest gain first; returns the new schedule.

    The function's block is changed as well.
    """
    found = [
        (gain, layers, rows)
        for layers in _runs(stays)
        for rows in _heights(stays, layers)
        if (gain := _gain(stays, layers, rows)) > 0
    ]
    for _, layers, rows in sorted(found, key=lambda candidate: -candidate[0]):
        if all(layer in stays.steps for layer in layers):
            stays = _with_stripes(stays, layers, rows)
    return stays


# ---------------------------------------------------------------------------------------------------------------
# Candidates


def _runs(stays: Stays) -> Iterator[list[LayerOp]]:
    """Yields runs of two and more consecutive layers that can be split and whose transfers limit their speed."""
    for first in range(len(stays.steps)):
        for layers in runs(stays.steps[first : first + LONGEST]):
            if layers[-2].outputs[0] in stays.values:
                break
            if _could_save(stays, layers):
                yield layers


def _could_save(stays: Stays, layers: Sequence[LayerOp]) -> bool:
    """Whether layers would take fewer cycles if nothing were transferred."""
    prices = _prices(stays, layers)
    if prices is None:
        return False
    computing = [stays.costs.without_transfers(price) for price in prices]
    return in_a_row(computing) < (1 - LEAST) * in_a_row(prices)


def _heights(stays: Stays, layers: Sequence[LayerOp]) -> list[int]:
    """Heights of stripes for which the tensors between the layers fit shares of the memory, nearly equal ones."""
    total = shape_of(layers[-1].outputs[0])[1]
    found: dict[int, None] = {}
    for share in SHARES:
        room = stays.costs.memory.addressable // share
        fitting = [rows for rows in range(1, total) if _between(layers, rows) <= room]
        if fitting:
            stripes = -(-total // fitting[-1])
            found[-(-total // stripes)] = None
    return [rows for rows in found if rows < total]


def _between(layers: Sequence[LayerOp], rows: int) -> int:
    """The most bytes live at once between layers, for a stripe of `rows` rows from the middle of the last result."""
    total = shape_of(layers[-1].outputs[0])[1]
    first = (total - rows) // 2
    sizes = [
        len(some) * prod(shape_of(layer.outputs[0])[2:]) * stored_dtype(layer.outputs[0]).itemsize
        for layer, some in zip(layers[:-1], rows_of(layers, range(first, first + rows)), strict=False)
    ]
    return max(one + other for one, other in zip([0, *sizes], [*sizes, 0], strict=True))


# ---------------------------------------------------------------------------------------------------------------
# Gain


def _gain(stays: Stays, layers: Sequence[LayerOp], rows: int) -> float:
    """The cycles that layers save in stripes of `rows` rows; negative if they take more, or if there is no room."""
    stripes = split(layers, rows)
    after = _cycles_in_stripes(_trial(stays, layers, stripes), stripes)
    stripes.erase()
    return _cycles_of_run(stays, layers) - after


def _cycles_in_stripes(trial: Stays | None, stripes: StripedLayers) -> float:
    """Predicted cycles of stripes one after the other; infinity if there is no room for them."""
    return inf if trial is None else _cycles_of_run(trial, [layer for stripe in stripes.layers for layer in stripe])


def _cycles_of_run(stays: Stays, layers: Sequence[LayerOp]) -> float:
    """Predicted cycles of layers one after the other; infinity if the tiles of a layer do not fit."""
    prices = _prices(stays, layers)
    return inf if prices is None else in_a_row(prices)


def _prices(stays: Stays, layers: Sequence[LayerOp]) -> list[Price] | None:
    """The price of each layer; None if the tiles of a layer do not fit."""
    numbers = stays.numbers()
    prices = [stays.price(numbers[layer]) for layer in layers]
    known = [price for price in prices if price is not None]
    return known if len(known) == len(prices) else None


def _trial(stays: Stays, layers: Sequence[LayerOp], stripes: StripedLayers) -> Stays | None:
    """The schedule if layers are split: its earlier tensors stay, and so do the stripes' tensors between the layers.

    Returns:
        The new schedule; None if there is no room.
    """
    steps = stripes.instead_of(layers, stays.steps)
    trial = Stays(steps, stays.costs)
    numbers, whole = trial.numbers(), layers[-1].outputs[0]
    added: list[Tensor] = []
    for tensor in stays.tensors:
        if tensor.value is whole:
            begins = numbers[stripes.layers[0][-1]]
            longer = tensor.last + len(steps) - len(stays.steps)
            added.append(replace(tensor, value=stripes.joined.outputs[0], first=begins, last=longer))
        elif (known := trial.tensor(tensor.value, numbers)) is not None:
            trial = replace(trial, tensors=[*trial.tensors, replace(known, address=tensor.address)])
    if any(one.meets(other) for one, other in combinations(trial.tensors, 2)):
        return None
    between = [trial.tensor(layer.outputs[0], numbers) for stripe in stripes.layers for layer in stripe[:-1]]
    for tensor in [*added, *sorted((t for t in between if t is not None), key=lambda t: (-t.size, t.first))]:
        placed = trial.placed(tensor)
        if placed is None:
            return None
        trial = placed
    return trial


def _with_stripes(stays: Stays, layers: Sequence[LayerOp], rows: int) -> Stays:
    """Replaces layers by stripes if that still saves cycles after the splits before."""
    stripes = split(layers, rows)
    trial = _trial(stays, layers, stripes)
    if trial is None or not _cycles_in_stripes(trial, stripes) < _cycles_of_run(stays, layers):
        stripes.erase()
        return stays
    stripes.put(layers)
    return trial


# ---------------------------------------------------------------------------------------------------------------
# The pass


COMPUTES = (Contraction, qint.GlobalSumPoolOp, qint.MaxPool2DOp, qint.AveragePool2DOp, *ROWS, *ELEMENTWISE)
"""First operations of the layers whose result may stay inside the device."""


@dataclass(frozen=True)
class NPUCascadePass(ModulePass):
    """Keeps results of layers inside the device where that saves cycles.

    ```mlir
    %1 = npu.layer "expand" (%0) { … }
    %2 = npu.layer "project" (%1) { … }
    // becomes
    %1 = npu.layer "expand" (%0) attributes {stays = 245760 : i64, rest = {memory = "act", …}} { … }
    %2 = npu.layer "project" (%1) attributes {rest = {…}} { … }
    ```
    """

    name = "npu-cascade"

    stripes: bool = option(True, "whether layers may be split into stripes of rows")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        memory = Engines.of(device).staying
        if memory is None:
            return
        costs = LayerCosts(device, Engines.of(device), memory)
        for function in defined_functions(op):
            stays = _chosen(function.body.block, costs)
            _write(fuse_rows(stays) if self.stripes else stays)


def _chosen(block: Block, costs: LayerCosts) -> Stays:
    """Chooses the tensors that stay: tries candidates, the largest first; keeps each that adds no predicted cycles."""
    stays = Stays([op for op in block.ops if isinstance(op, LayerOp | HostOp)], costs)
    for tensor in sorted(_candidates(stays), key=lambda t: (-t.size, t.first)):
        trial = stays.placed(tensor)
        if trial is not None and _cycles(trial, tensor) <= _cycles(stays, tensor) and _cycles(trial, tensor) < inf:
            stays = trial
    return stays


def _candidates(stays: Stays) -> Iterator[Tensor]:
    """Yields the results that layers compute and only layers read."""
    numbers = stays.numbers()
    for layer in stays.steps:
        if not isinstance(layer, LayerOp) or home_of(layer.outputs[0])[0] is not layer.outputs[0]:
            continue
        if isinstance(first_of(layer), COMPUTES) or joins(layer):
            tensor = stays.tensor(layer.outputs[0], numbers)
            if tensor is not None and tensor.size <= stays.costs.memory.addressable:
                yield tensor


def _cycles(stays: Stays, tensor: Tensor) -> float:
    """Predicted cycles of the layers during a tensor's lifetime; infinity if the tiles of a layer do not fit."""
    prices = [stays.price(number) for number in tensor.steps if isinstance(stays.steps[number], LayerOp)]
    return sum(inf if price is None else price.cycles for price in prices)


def _write(stays: Stays) -> None:
    """Writes the chosen addresses, and what they leave to tiles, as attributes of the layers."""
    addresses = {tensor.value: tensor.address for tensor in stays.tensors}
    for number, layer in enumerate(stays.steps):
        if isinstance(layer, LayerOp) and (rest := stays.rest(number)) is not None:
            home, offset = home_of(layer.outputs[0])
            put(layer, addresses[home] + offset if home in addresses else None, rest)
