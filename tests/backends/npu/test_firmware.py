"""The runtime in C: it walks programs by hooks whose device is the simulator's; commands run at once, or late."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects import func

from qmlir.backends.npu.firmware import extents, images, numbered, require_aligned
from qmlir.backends.npu.stream import Port, Program, Routine, Segment, flat
from qmlir.backends.simulated import Simulated
from qmlir.devices import load_device, shipped_devices
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import End, Fill, Host, Mark, Move, Sync, encode
from qmlir.isa.encoding import Command, Place, Wait
from qmlir.numerics import Array
from qmlir.running.machine_code import to_machine_code
from tests.backends.npu.board import Board
from tests.backends.npu.test_compiled import compiled, image


def functions_of(executable: Simulated) -> dict[str, Callable[..., Sequence[Array]]]:
    """The routines of the host, by name."""
    found: dict[str, Callable[..., Sequence[Array]]] = {}
    for function in executable.routines.ops:
        assert isinstance(function, func.FuncOp)
        public = function.clone()
        public.properties.pop("sym_visibility", None)
        run = to_machine_code(type(executable.routines)([public])).run_in_order
        found[function.sym_name.data] = lambda *inputs, run=run: run(inputs)
    return found


def board_of(device: str, **options: object) -> Board:
    executable = compiled(device)
    return Board(executable.program, executable.device, functions_of(executable), **options)  # pyright: ignore


@pytest.mark.parametrize("device", shipped_devices())
@pytest.mark.parametrize("order", ["once", "late", "device"])
def test_a_network_has_the_same_outputs_through_the_runtime(device: str, order: str) -> None:
    """Where hardware compares addresses, it does so in either order; the board here does not."""
    if order != "once" and load_device(device).sync.kind == "interlock":
        pytest.skip("the board has no interlock")
    board = board_of(device, order=order)
    for seed in range(3):
        status, outputs = board.run([image(seed)])
        assert status == 0
        np.testing.assert_array_equal(outputs, [compiled(device)(image(seed))])
    assert all(count == done for count, done in zip(board.submitted, board.done, strict=True))
    assert {entry[0] for entry in board.log} >= {"submit", "barrier", "clean", "invalidate"}


@pytest.mark.parametrize("device", [name for name in shipped_devices() if name != "gemmini"])
def test_runs_of_commands_are_as_long_as_waits_allow(device: str) -> None:
    """Each command is submitted once, in its order; with waits in the device, runs end where the queue changes."""
    given = {order: board_of(device, order=order) for order in ("once", "device")}
    runs: dict[str, int] = {}
    for order, board in given.items():
        board.run([image()])
        submitted = [entry for entry in board.log if entry[0] == "submit"]
        own = [c for c in board.commands if not isinstance(c, End | Host | Mark | Sync)]
        assert sum(entry[2] for entry in submitted) == len(own)
        assert [entry[1] for entry in submitted for _ in range(entry[2])] == [c.queue for c in own]
        runs[order] = len(submitted)
    assert runs["device"] <= runs["once"] < len(given["once"].commands)


def test_a_failure_names_the_command() -> None:
    board = board_of("nmp")
    given = [n for n, command in enumerate(board.commands) if not isinstance(command, End | Host | Mark | Sync)]
    for number in (given[0], given[len(given) // 2], given[-1]):
        board.fails = number
        status, outputs = board.run([image()])
        assert (status, board.npu.command) == (7, number)
        assert not any(map(np.any, outputs))
    board.fails = -1
    assert board.run([image()])[0] == 0


def test_layers_begin_and_end_when_all_before_is_done() -> None:
    board = board_of("nmp", order="late", layers=True)
    assert board.run([image()])[0] == 0
    layers = [entry[1:] for entry in board.log if entry[0] == "layer"]
    marks = [c.layer for c in board.commands if isinstance(c, Mark)]
    assert layers == [(layer, begins) for layer in marks for begins in (1, 0)]
    for at, entry in enumerate(board.log):
        if entry[0] == "layer" and entry[2] == 1:
            assert ("barrier",) in board.log[max(at - 2, 0) : at]


NMP = load_device("nmp")
LOAD, EXEC, POST, STORE = range(4)
DRAM = 3


def fill(queue: int, *waits: Wait, at: int = 0) -> Fill:
    return Fill(queue, waits, 0, Place(0, at), 4, 1, 1, 4, 4, 1)


def end(*waits: Wait) -> End:
    return End(LOAD, waits, 0, 0)


def waits_of(commands: Sequence[Command]) -> list[list[tuple[int, int]]]:
    return [[(wait.queue, wait.finished) for wait in command.waits] for command in numbered(commands)]


def test_waits_count_what_queues_are_given() -> None:
    commands = [
        Mark(LOAD, (), 0, 0),
        fill(LOAD),
        Sync(LOAD, (), 0, 0),
        fill(LOAD),
        fill(STORE, Wait(LOAD, 2)),
        fill(STORE, Wait(LOAD, 4)),
        Sync(LOAD, (Wait(STORE, 1),), 0, 0),
        fill(STORE, Wait(LOAD, 5), Wait(EXEC, 0)),
        fill(EXEC, Wait(LOAD, 1)),
        end(),
    ]
    assert waits_of(commands) == [[], [], [], [], [(LOAD, 1)], [(LOAD, 2)], [(STORE, 1)], [(LOAD, 2)], [], []]


def program(commands: Sequence[Command], routines: Sequence[Routine] = (), segments: Sequence[Segment] = ()) -> Program:
    return Program(flat(NMP), commands, segments, routines=routines)


DAMAGED = -1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (encode([end()]), 0),
        ([], DAMAGED),
        (encode([fill(LOAD)]), DAMAGED),  # no end
        ([encode([end()])[0]], DAMAGED),  # an end without its word
        (encode([Sync(LOAD, (), 0, 0)])[:1] + encode([end()]), DAMAGED),
        ([encode([end()])[0] & ~0xFF00, 0], DAMAGED),  # a command of no words
        (encode([fill(LOAD, Wait(STORE, 1)), end()]), DAMAGED),
        (encode([fill(LOAD), end(Wait(LOAD, 2))]), DAMAGED),
        (encode([Host(LOAD, (), 0, 0, 0, 0, 0, 0), end()]), DAMAGED),  # no such routine
        (encode([Host(LOAD, (), 0, 0, 0, 0, 0, 0), end()])[:4], DAMAGED),
    ],
)
def test_words_that_are_no_program_are_refused(words: Sequence[int], status: int) -> None:
    board = Board(program([fill(LOAD), end()]), NMP, {}, words=words)
    assert board.run([])[0] == status


def test_constants_become_images() -> None:
    def at(memory: int, address: int, size: int) -> Segment:
        return Segment(Place(memory, address), bytes([address % 250 + 1]) * size)

    given = [at(DRAM, 64, 10), at(DRAM, 0, 60), at(DRAM, 200, 5), at(2, 8, 3), at(2, 11, 0)]
    found = images(program([end()], segments=given))
    assert [(image.place, len(image.data)) for image in found] == [
        (Place(2, 8), 3), (Place(DRAM, 0), 74), (Place(DRAM, 200), 5),
    ]  # fmt: skip
    assert found[1].data == bytes([1]) * 60 + bytes(4) + bytes([65]) * 10


def test_extents_reach_to_the_last_byte_that_is_touched() -> None:
    move = Move(LOAD, (), 0, Place(DRAM, 100), Place(0, 32), 8, 2, 1, 50, 0, 8, 0)
    given = program([move, end()], segments=[Segment(Place(DRAM, 100), bytes(58))])
    found = {extent.name: extent for extent in extents(given, NMP)}
    assert {name: extent.bytes for name, extent in found.items()} == {"act": 48, "wgt": 0, "acc": 0, "dram": 158}
    assert (found["dram"].constants, found["act"].constants) == (58, 0)
    assert (found["dram"].external, found["act"].external, found["act"].align) == (True, False, 32)


def test_elements_at_odd_addresses_are_refused_where_the_host_computes() -> None:
    routine = Routine("softmax", (Port("x", Place(DRAM, 2), (4,), "f32"),), ())
    with pytest.raises(UnsupportedError, match=r'tensor "x" of softmax: must lie at a multiple of 4 bytes'):
        require_aligned(program([end()], [routine]))
    require_aligned(program([end()], [replace(routine, inputs=(Port("x", Place(DRAM, 2), (4,), "i16"),))]))
