"""Time: who overlaps with whom, and who waits."""

from dataclasses import replace

import numpy as np
import pytest

from qmlir.devices import Device, load_device
from qmlir.devices.model.costs import Demand, demand
from qmlir.devices.model.footprints import footprints
from qmlir.devices.model.timeline import Interval, Server, Timeline
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import Convolve, Host, Init, Move, Post, SetContext, Step
from qmlir.isa.encoding import Command, Place, Wait

SLOW = load_device("nvdla-small").with_(
    {"memory.dram.bytes_per_cycle": {"read": 1.0, "write": 1.0}, "queue.load.bytes_per_cycle": 1.0}
)
"""nvdla-small with a memory of a byte a cycle, for which commands wait."""


@pytest.mark.parametrize("seed", range(20))
def test_a_server(seed: int) -> None:
    """Each takes the first free cycles from its start on, as if marked one by one."""
    rng = np.random.default_rng(seed)
    server, taken = Server(), np.zeros(4000, np.bool_)
    for _ in range(60):
        start, cycles = int(rng.integers(0, 1000)), int(rng.integers(0, 40))
        free = start + np.flatnonzero(~taken[start:])[:cycles]
        taken[free] = True
        assert server.serve(start, cycles) == (free[-1] + 1 if cycles else start)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], taken.astype(int), [0]])))
        assert (server.starts, server.ends) == (edges[::2].tolist(), edges[1::2].tolist())


def intervals(device: Device, *commands: Command) -> list[Interval]:
    """When each command is busy."""
    timeline = Timeline(device)
    routines = [Footprint()]
    return [timeline.add(command, touched) for command, touched in footprints(commands, device, routines)]


def convolve(queue: int, places: tuple[Place, Place, Place, Place], waits: tuple[Wait, ...] = ()) -> Convolve:
    """64 positions of 64 channels to 64."""
    return Convolve(
        queue, waits, 0, *places, Init.ZERO, 8, 8, 32, 32, 0, 0, 0, 8, 8, 64, 512, 64, 8, 8, 1, 1, 1, 1, 1, 1, 0, 0, 64
    )  # fmt: skip


def context(queue: int, table: Place) -> SetContext:
    return SetContext(queue, (), 0, Step.REQUANTIZE, 8, 0, 0, 0, -128, 127, 0, table)


def post(queue: int, sums: Place, target: Place, waits: tuple[Wait, ...] = ()) -> Post:
    return Post(queue, waits, 0, sums, 32, 8, 8, 64, 8 * 256, 256, target, 8 * 64, 64)


def move(queue: int, size: int, source: Place, target: Place, waits: tuple[Wait, ...] = ()) -> Move:
    return Move(queue, waits, 0, source, target, size, 1, 1, 0, 0, 0, 0)


def test_a_pipelined_queue() -> None:
    """Sums take 64 · 8 · 8 cycles and 16, at once with it 4096 cycles for the results."""
    device = SLOW
    cbuf, cacc, dram = Place(0, 0), Place(1, 0), Place(2, 0)
    commands = context(1, dram), convolve(1, (cbuf, cbuf, cbuf, cacc)), post(1, cacc, dram), post(1, cacc, dram)
    assert intervals(device, *commands) == [
        Interval(0, 1), Interval(1, 1 + 4096 + 16), Interval(1, 1 + 4096 + 16), Interval(4105, 4105 + 4104),
    ]  # fmt: skip
    data = device.model_dump(by_alias=True)
    for queue in data["queue"]:
        queue["pipelined"] = False
    alone = Device.model_validate(data)
    assert [i.start for i in intervals(alone, *commands)] == [0, 1, 4113, 4113 + 4104]


def test_a_memory_is_shared() -> None:
    """Results and loads both pass its dram, a byte a cycle; the earlier command of the program first."""
    device = SLOW
    cbuf, cacc, dram = Place(0, 0), Place(1, 0), Place(2, 0)
    found = intervals(device, context(1, dram), post(1, cacc, dram), move(0, 100, dram, cbuf))
    assert found[1] == Interval(1, 1 + 4096 + 8)  # the results, and eight bytes of its table
    assert found[2] == Interval(32, 1 + 4096 + 8 + 100)
    before = intervals(device, context(1, dram), move(0, 100, dram, cbuf), post(1, cacc, dram))
    assert before[1] == Interval(32, 132)
    assert before[2] == Interval(1, 1 + 4096 + 8 + 100)


def test_what_comes_later_fills_gaps() -> None:
    """nmp: a load that stands behind a store in the program, but need not wait as that must, uses the bus before it."""
    device = load_device("nmp")
    act, wgt, acc, dram = (Place(n, 0) for n in range(4))
    commands = (
        move(0, 1600, dram, act),
        convolve(1, (act, wgt, acc, acc), (Wait(0, 1),)),
        move(3, 1600, acc, dram, (Wait(1, 1),)),
        move(0, 1600, dram, act),
    )
    loaded, summed, stored, later = intervals(device, *commands)
    assert later == Interval(loaded.end, loaded.end + 100)
    assert stored == Interval(summed.end + 40, summed.end + 140)


def test_setups_hide_behind_so_many() -> None:
    """gemmini: 16 loads may have begun; 20 cycles of setup are seen where loads are shorter than a 16th of that."""
    device = load_device("gemmini")
    spad, dram = Place(0, 0), Place(2, 0)
    loads = intervals(device, *[move(0, 64, dram, spad)] * 40)
    assert loads[0] == Interval(20, 24)
    assert loads[-1].end == 20 + 40 * 4
    data = device.model_dump(by_alias=True)
    data["queue"][0]["outstanding"] = 2
    slower = intervals(Device.model_validate(data), *[move(0, 64, dram, spad)] * 40)
    assert slower[-1].end == 20 * (20 + 4) + 4


def test_a_full_queue_holds_up_the_program() -> None:
    """gemmini with room for two commands in a queue: the third load waits for the first to end, and so does the sum."""
    data = load_device("gemmini").model_dump(by_alias=True)
    data["sync"]["depth"] = 2
    spad, elsewhere, acc, dram = Place(0, 0), Place(0, 65536), Place(1, 0), Place(2, 0)
    commands = *[move(0, 640, dram, spad)] * 3, convolve(1, (elsewhere, elsewhere, acc, acc))
    *loads, summed = intervals(Device.model_validate(data), *commands)
    assert [load.start for load in loads] == [20, 60, 100]
    assert summed.start == loads[0].end
    assert intervals(load_device("gemmini"), *commands)[-1].start == 0


def test_an_interlock() -> None:
    """gemmini: sums wait for the loads of what they read, a load for the sums that read what it overwrites."""
    device = load_device("gemmini")
    spad, weights, acc, dram = Place(0, 0), Place(0, 65536), Place(1, 0), Place(2, 0)
    loaded, summed, again = intervals(
        device, move(0, 640, dram, spad), convolve(1, (spad, weights, acc, acc)), move(0, 640, dram, spad)
    )
    assert summed.start == loaded.end
    assert again.start == summed.end + 20
    elsewhere = intervals(device, move(0, 640, dram, weights), convolve(1, (spad, spad, acc, acc)))
    assert elsewhere[1].start == 0


def test_the_host() -> None:
    """A call takes as long as its bytes, or as what it computes: 4 bytes and 16 products a cycle."""
    found = intervals(load_device("nmp"), Host(1, (), 0, 0, 0, 0, 0, 0), Host(1, (Wait(1, 1),), 0, 0, 0, 0, 0, 0))
    assert found == [Interval(500, 500), Interval(1000, 1000)]
    for work, cycles in ((320, 20), (321, 21)):
        assert demand(Host(1, (), 0, 0, 50, 20, 10, work), load_device("nmp"), Footprint()) == Demand(cycles, {}, 500)


def test_a_command_alone() -> None:
    device = SLOW
    cbuf, cacc, dram = Place(0, 0), Place(1, 0), Place(2, 0)
    commands = context(1, dram), post(1, cacc, dram), replace(post(1, cacc, dram), source=Place(2, 0))
    cycles = [demand(command, device, touched).busy for command, touched in footprints(commands, device)]
    assert cycles == [1, 4096 + 8, 4 * 4096 + 4096 + 8]
    assert demand(commands[1], device, Footprint()).busy == 4096
    ((transfer, touched),) = footprints([move(0, 100, dram, cbuf)], device)
    assert demand(transfer, device, touched).busy == 100
