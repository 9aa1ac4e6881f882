"""The pass `npu-fit`: splits layers into stripes of rows if a network's tensors exceed their memory.

Enters and leaves: functions of `npu.layer` and `npu.host`. While more bytes are live at once than the memory has for
tensors, consecutive layers around the fullest moment are split into stripes (stripes.py), so that the tensors between
them never exist as a whole. Among the splits that fit, the pass takes the split that computes the least twice. If
tensors still do not fit, `npu-place` reports them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from qmlir.devices import Device
from qmlir.devices.model.engines import Engines, regions, staged_from
from qmlir.devices.model.module import device_of
from qmlir.devices.model.properties import work_of
from qmlir.devices.model.stored import constant_bytes, stored_bytes
from qmlir.dialects.npu import LayerOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.signature import defined_functions
from qmlir.transforms.npu.cascade.stripes import Step, runs, split
from qmlir.transforms.npu.tile.aliases import home_of, root_of

LONGEST = 8
"""The most consecutive layers that are split into stripes together."""


class NPUFitPass(ModulePass):
    """Splits layers into stripes of rows until the tensors of the network fit their memory.

    ```mlir
    %1 = npu.layer "expand" (%0) { … }           // 16 rows of 96 channels
    %2 = npu.layer "project" (%1) { … }          // 16 rows of 8 channels
    // becomes
    %a = npu.layer "expand" (%0) { nn.slice … }
    %b = npu.layer "expand" (%a) { … }           // 8 rows
    %c = npu.layer "project" (%b) { … }          // 8 rows
    …
    %2 = npu.layer "project" (%c, %f) { nn.concat … }
    ```
    """

    name = "npu-fit"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        for function in defined_functions(op):
            _Fit(function.body.block, device).run()


@dataclass
class _Lives:
    """The lifetimes of tensors: for each, the first and the last step that touch it; inputs begin at step -1."""

    first: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    last: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def touch(self, tensor: SSAValue, step: int) -> None:
        self.first.setdefault(tensor, step)
        self.last[tensor] = step

    def full(self, steps: int, align: int) -> list[int]:
        """Live bytes at each step."""
        changes = [0] * (steps + 2)
        for tensor, first in self.first.items():
            size = -(-stored_bytes(tensor) // align) * align
            changes[max(first, 0)] += size
            changes[min(self.last[tensor], steps) + 1] -= size
        return list(accumulate(changes))[:steps]


class _Fit:
    """Splits the layers of one function."""

    def __init__(self, block: Block, device: Device):
        self.block, self.memory = block, Engines.of(device).external
        self.room = _room(block, device)

    def run(self) -> None:
        """Splits layers until all tensors fit, or no split helps."""
        steps = [op for op in self.block.ops if isinstance(op, Step)]
        full = self._full(steps)
        while max(full, default=0) > self.room:
            best = min(self._splits(steps, full), key=lambda s: (max(s.full, self.room), s.twice), default=None)
            if best is None:
                return
            stripes = split(best.layers, best.rows)
            steps = stripes.instead_of(best.layers, steps)
            stripes.put(best.layers)
            full = self._full(steps)

    def _full(self, steps: Sequence[Step], renamed: dict[SSAValue, SSAValue] | None = None) -> list[int]:
        """Live bytes in the memory at each step.

        Args:
            steps: The layers and host parts, in order.
            renamed: Results → the results that are to be read instead.
        """
        lives, instead = _Lives(), renamed or {}
        for argument in self.block.args:
            lives.touch(argument, -1)
        for number, step in enumerate(steps):
            for value in (*step.inputs, *step.outputs):
                tensor, _ = home_of(root_of(instead.get(value, value)))
                lives.touch(tensor, number)
        returned = self.block.last_op
        for value in () if returned is None else returned.operands:
            lives.touch(root_of(instead.get(value, value)), len(steps))
        return lives.full(len(steps), self.memory.align)

    def _splits(self, steps: list[Step], full: Sequence[int]) -> Iterator["_Split"]:
        """Yields splits of the layers around the fullest step, with more and more stripes while that saves memory."""
        for layers in _around(steps, full.index(max(full))):
            whole, best, first = layers[-1].outputs[0], max(full), steps.index(layers[0])
            for rows in _heights(shape_of(whole)[1]):
                stripes = split(layers, rows)
                after = self._full(stripes.instead_of(layers, steps), {whole: stripes.joined.outputs[0]})
                fullest = max(after[first : first + len(stripes.operations)])
                twice = _work(layer for stripe in stripes.layers for layer in stripe) - _work(layers)
                stripes.erase()
                if fullest >= best:
                    break
                best = fullest
                yield _Split(layers, rows, best, twice)
                if best <= self.room:
                    break


@dataclass(frozen=True)
class _Split:
    """Consecutive layers with a number of rows for their stripes.

    full   the most bytes that are live at once while the stripes run
    twice  how much is computed more than once, in products and element operations
    """

    layers: Sequence[LayerOp]
    rows: int
    full: int
    twice: int


def _room(block: Block, device: Device) -> int:
    """Bytes of the external memory that are left for tensors, without tiles and constants."""
    engines = Engines.of(device)
    memory = engines.external
    tiled = any(memory_id == memory.id for memory_id, _ in regions(device))
    layers = [op for op in block.ops if isinstance(op, LayerOp)]
    here = engines.constants("weights") is memory
    constants = sum(constant_bytes(layer.operations()) for layer in layers) if here else 0
    return (staged_from(memory, device) if tiled else memory.addressable) - constants


def _around(steps: Sequence[Step], fullest: int) -> Iterator[list[LayerOp]]:
    """Yields the splittable runs of consecutive layers that contain the layer at a step."""
    for first in range(max(fullest - LONGEST + 1, 0), fullest + 1):
        yield from (layers for layers in runs(steps[first : first + LONGEST]) if first + len(layers) > fullest)


def _heights(rows: int) -> list[int]:
    """The heights of stripes to try: half of the rows, a third, … down to one row."""
    found: list[int] = []
    count = 2
    while not found or found[-1] > 1:
        if (height := -(-rows // count)) not in found:
            found.append(height)
        count = max(count + 1, count * 4 // 3)
    return found


def _work(layers: Iterable[LayerOp]) -> int:
    """How much layers compute, in products and element operations."""
    return sum(work_of(layer.operations()) for layer in layers)
