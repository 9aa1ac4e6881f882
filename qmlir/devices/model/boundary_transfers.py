"""The offload cost of a part of a network: what it costs that the host computes it instead of the device.

A boundary transfer is that the host begins a routine, reads its tensors and writes its results. On top of the transfer
comes the computation at the host's speed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.model.costs import demand, exact
from qmlir.devices.model.properties import products, work_of
from qmlir.devices.model.stored import constant_bytes, copies, stored_bytes, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.contraction import ContractionOp, WeightedOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import Host
from qmlir.numerics.packing import BYTE, fit, packed_bytes


@dataclass(frozen=True)
class Call:
    """Cycles of one call of a host routine.

    transfer   cycles to begin the routine, and to read and write its tensors
    computing  cycles beyond the transfer: the host reads constants, or computes more slowly than it reads and writes
    """

    transfer: int
    computing: int

    @property
    def cycles(self) -> int:
        """Cycles of the whole call."""
        return self.transfer + self.computing


def call(operations: Sequence[Operation], inputs: Iterable[SSAValue], outputs: Iterable[SSAValue], on: Device) -> Call:
    """The cost of a host routine that computes the given operations.

    Args:
        operations: The operations that the host computes.
        inputs: Tensors that the routine reads, without constants.
        outputs: Tensors that the routine writes.
        on: The device to which the host belongs.
    """
    read, written = (sum(map(stored_bytes, values)) for values in (inputs, outputs))
    transfer, whole = (
        demand(Host(0, (), 0, 0, read, written, constants, work), on, Footprint())
        for constants, work in ((0, 0), (constant_bytes(operations), work_of(operations)))
    )
    return Call(transfer.setup + transfer.engine, whole.engine - transfer.engine)


def least_cycles(
    operations: Sequence[Operation], inputs: Iterable[SSAValue], outputs: Iterable[SSAValue], device: Device
) -> int:
    """A lower bound on the device's cycles: each engine works all the time, and no byte is loaded twice."""
    array = sum((_on_the_array(op, device) for op in operations), Fraction(0))
    after = sum((_after_the_array(op, device) for op in operations), Fraction(0))
    moved = sum(map(stored_bytes, [*inputs, *outputs])) + constant_bytes(operations) - _saved(operations, device)
    return ceil(max(array, after, _moving(moved, device)))


def _saved(operations: Iterable[Operation], device: Device) -> int:
    """The bytes that a device saves at most where it packs weights of few bits."""
    widths = sorted({bits for queue in device.queue for bits in queue.unpacks})
    saved = 0
    for weights in {op.w.owner for op in operations if isinstance(op, WeightedOp)} if widths else ():
        if isinstance(weights, ConstantOp) and (array := weights.value.array).dtype == np.int8:
            bits = next((bits for bits in widths if fit(array, bits)), BYTE)
            saved += array.size - packed_bytes(array.size, bits)
    return saved


def least_moving(op: Operation, device: Device, reads: bool) -> int:
    """A lower bound on the device's cycles to move a tensor that the host has written or will read.

    The host's side of the tensor lies in external memory, where a transfer moves whole bursts of each run of bytes. The
    other side may lie inside the device, and then costs no external bandwidth.

    Args:
        op: An operation that only moves data.
        device: The device.
        reads: Whether the host has written the tensor that is moved; otherwise the host will read the result.
    """
    size, burst = stored_dtype(op.results[0]).itemsize, _least_burst(device, reads)
    runs = [(prod(copy.sizes), copy.run(reads)) for copy in copies(op)]
    return ceil(_moving(sum(count // run * ceil(run * size / burst) * burst for count, run in runs), device))


def _on_the_array(op: Operation, device: Device) -> Fraction:
    """Cycles of the array if all its lanes multiply, at the rate of the operation's types."""
    if not isinstance(op, ContractionOp):
        return Fraction(0)
    depthwise, lanes = device.array.depthwise, device.peak_macs
    if isinstance(op, qint.DepthwiseConv2DOp) and depthwise is not None:
        lanes = depthwise.lanes.c * depthwise.lanes.taps * depthwise.lanes.m
    types = tuple(f"i{width_of(operand)}" for operand in op.operands[:2])
    rates = [mode.rate for mode in device.array.modes if (mode.a, mode.w) == types]
    return Fraction(products(op), lanes) / exact(max(rates, default=1.0))


def _after_the_array(op: Operation, device: Device) -> Fraction:
    """Cycles of the work after the array, and of pools, at the rate of the fastest engine."""
    if isinstance(op, ContractionOp):
        return Fraction(0)
    rates = [q.elements_per_cycle for q in device.queue if q.elements_per_cycle is not None]
    return work_of([op]) / exact(max(rates, default=1.0))


def _moving(moved: int, device: Device) -> Fraction:
    """Cycles to move bytes at the bandwidth of the fastest external memory."""
    rates = [m.bytes_per_cycle for m in device.memory if m.external and m.bytes_per_cycle is not None]
    if not rates:
        return Fraction(0)
    return moved / exact(max(max(r.read, r.write or 0.0) for r in rates))


def _least_burst(device: Device, reads: bool) -> int:
    """The smallest burst, in bytes, of the queues between external memories and the device.

    It is 1 if a queue has `load` (for reads) or `store` (for writes) fused: that engine moves the bytes itself.
    """
    if any(("load" if reads else "store") in queue.fused for queue in device.queue):
        return 1
    outside = {memory.id for memory in device.memory if memory.external}
    ways = [queue for queue in device.queue if queue.engine == "dma"]
    return min((q.burst for q in ways if outside.intersection(q.source if reads else q.target)), default=1)
