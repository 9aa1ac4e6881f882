"""What it costs that the host computes a part of a network: to cross there and back, and to compute at its speed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

from xdsl.ir import Operation, SSAValue

from qmlir.device.blocks import Footprint
from qmlir.device.copies import copies
from qmlir.device.costs import demand
from qmlir.device.description import Device
from qmlir.device.products import products, work_of
from qmlir.device.stored import constant_bytes, stored_bytes, stored_dtype
from qmlir.dialects import qint
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.contraction import ContractionOp
from qmlir.isa.commands import Host


@dataclass(frozen=True)
class Call:
    """Cycles of one routine of the host.

    crossing   to begin it, and to read and write its tensors
    computing  beyond that, where the host reads constants, or is slower at computing than at reading and writing
    """

    crossing: int
    computing: int

    @property
    def cycles(self) -> int:
        """Of the whole call."""
        return self.crossing + self.computing


def call(operations: Sequence[Operation], inputs: Iterable[SSAValue], outputs: Iterable[SSAValue], on: Device) -> Call:
    """What it costs that the host computes operations.

    Args:
        operations: What it computes.
        inputs: Tensors that it reads, constants apart.
        outputs: Tensors that it writes.
        on: The device whose host it is.
    """
    read, written = (sum(map(stored_bytes, values)) for values in (inputs, outputs))
    crossing, whole = (
        demand(Host(0, (), 0, 0, read, written, constants, work), on, Footprint())
        for constants, work in ((0, 0), (constant_bytes(operations), work_of(operations)))
    )
    return Call(crossing.setup + crossing.engine, whole.engine - crossing.engine)


def least_cycles(
    operations: Sequence[Operation], inputs: Iterable[SSAValue], outputs: Iterable[SSAValue], device: Device
) -> int:
    """Cycles that the device takes at least: each engine works all the time, and nothing is loaded twice."""
    array = sum((_on_the_array(op, device) for op in operations), Fraction(0))
    after = sum((_after_the_array(op, device) for op in operations), Fraction(0))
    moved = sum(map(stored_bytes, [*inputs, *outputs])) + constant_bytes(operations)
    return ceil(max(array, after, _moving(moved, device)))


def least_moving(op: Operation, device: Device, reads: bool) -> int:
    """Cycles that the device takes at least to move what the host has written, or will read.

    That side lies in external memory, of which a transfer moves whole bursts of each run of bytes; the other may lie
    inside the device and take nothing of it.

    Args:
        op: What only moves data.
        device: The device.
        reads: Whether the host has written what is moved; else it will read it.
    """
    size, burst = stored_dtype(op.results[0]).itemsize, _least_burst(device, reads)
    runs = [(prod(copy.sizes), copy.run(reads)) for copy in copies(op)]
    return ceil(_moving(sum(count // run * ceil(run * size / burst) * burst for count, run in runs), device))


def _on_the_array(op: Operation, device: Device) -> Fraction:
    """Of the array: products by all its lanes."""
    if not isinstance(op, ContractionOp):
        return Fraction(0)
    depthwise, lanes = device.array.depthwise, device.peak_macs
    if isinstance(op, qint.DepthwiseConv2DOp) and depthwise is not None:
        lanes = depthwise.lanes.c * depthwise.lanes.taps * depthwise.lanes.m
    types = tuple(f"i{width_of(operand)}" for operand in op.operands[:2])
    rates = [mode.rate for mode in device.array.modes if (mode.a, mode.w) == types]
    return Fraction(products(op), lanes) / _exact(max(rates, default=1.0))


def _after_the_array(op: Operation, device: Device) -> Fraction:
    """Of what follows the array, and pools: elements by those of the fastest engine."""
    if isinstance(op, ContractionOp):
        return Fraction(0)
    rates = [q.elements_per_cycle for q in device.queue if q.elements_per_cycle is not None]
    return work_of([op]) / _exact(max(rates, default=1.0))


def _moving(moved: int, device: Device) -> Fraction:
    """Of the fastest external memory: bytes by those that it serves."""
    rates = [m.bytes_per_cycle for m in device.memory if m.external and m.bytes_per_cycle is not None]
    if not rates:
        return Fraction(0)
    return moved / _exact(max(max(r.read, r.write or 0.0) for r in rates))


def _least_burst(device: Device, reads: bool) -> int:
    """Of the ways from external memories into the device, or out of it; engines that are such a way have none."""
    if any(("load" if reads else "store") in queue.fused for queue in device.queue):
        return 1
    outside = {memory.id for memory in device.memory if memory.external}
    ways = [queue for queue in device.queue if queue.engine == "dma"]
    return min((q.burst for q in ways if outside.intersection(q.source if reads else q.target)), default=1)


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
