"""The pass `npu-cascade`: keeps tensors between layers inside the device (SRAM-resident) where that saves cycles.

Enters and leaves: functions of `npu.layer` and `npu.host`; layers get the attributes of stays.py. A tensor that stays
in the memory of the device that holds data and results is neither written to the external memory nor read from it.
During that time it takes room from tiles. It therefore stays only if the layers that run meanwhile are predicted to
take no more cycles. Layers with tensors between them that do not stay are split into bands of rows (stripes) if the
bands then can stay and take fewer cycles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from qmlir.devices.module import device_of
from qmlir.dialects import qint
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.ir.passes import option
from qmlir.transforms.npu.aliases import first_of, home_of, joins
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.layer_costs import CONTRACTIONS, LayerCosts
from qmlir.transforms.npu.residency import Stays, Tensor
from qmlir.transforms.npu.row_fusion import fuse_rows
from qmlir.transforms.npu.stays import put

COMPUTES = (
    *CONTRACTIONS, qint.GlobalSumPoolOp, qint.MaxPool2DOp, qint.AveragePool2DOp, qint.RequantizeOp, qint.LookupOp,
    qint.AddOp, qint.MulOp,
)  # fmt: skip
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

    bands: bool = option(True, "whether layers may be split into bands of rows")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        memory = Engines.of(device).staying
        if memory is None:
            return
        costs = LayerCosts(device, Engines.of(device), memory)
        for function in [f for f in op.body.block.ops if isinstance(f, func.FuncOp) and not f.is_declaration]:
            stays = _chosen(function.body.block, costs)
            _write(fuse_rows(stays) if self.bands else stays)


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
            if tensor is not None and tensor.size <= stays.costs.memory.bytes:
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
