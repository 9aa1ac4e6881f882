"""Tokens where they are scarce: forwarders between queues that are no neighbours, and FIFOs that hold few tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.npu.races import beyond_tokens, checked
from qmlir.backends.npu.report import predicted_cycles
from qmlir.backends.npu.stream import Program, flat
from qmlir.backends.simulated import Simulated
from qmlir.devices import load_device
from qmlir.devices.model.timeline import Timeline
from qmlir.devices.model.token_forwarding import with_forwarding
from qmlir.devices.model.waits import Tokens, tokens
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.isa.blocks import Fault, Footprint
from qmlir.isa.commands import End, Mark, Move, Sync
from qmlir.isa.encoding import Command, Place, Wait
from tests.backends.npu.test_compiled import NETWORK, image
from tests.backends.npu.test_interleave import found
from tests.conftest import ROOT

TARGETS = ROOT / "qmlir" / "targets"
WATERMARK = 'kind = "watermark"\nmax_waits = 3'
PLENTY = "tokens = 255"
EDGES = 'between = [["load", "exec"], ["exec", "store"]]'


def variant(folder: Path, device: str, before: str, after: str) -> str:
    """A device file that comes with qmlir, with other words in it."""
    text = (TARGETS / f"{device}.toml").read_text("utf-8")
    assert before in text
    path = folder / "variant.toml"
    path.write_text(text.replace(before, after), "utf-8")
    return str(path)


@cache
def quantized(device: str) -> ModuleOp:
    module = parse_text(make_context(), NETWORK, "network")
    return qmlir.quantize(module, qmlir.profile(module, [image(seed) for seed in range(4)]), target=device)


def right(device: str, like: str) -> Simulated:
    """The network on a device: the reference's bits in every order, in as many cycles as predicted."""
    executable = qmlir.compile(quantized(like), target=device)
    for seed in range(2):
        assert np.array_equal(executable(image(seed)), qmlir.reference(quantized(like))(image(seed)))
    assert executable.report is not None
    assert executable.report.cycles == executable.predicted_cycles
    assert found(executable.program, executable.device) == ""
    return executable


CASES = [
    ("vta", PLENTY, "tokens = 1"),
    ("vta", PLENTY, "tokens = 2"),
    ("vta", "depth = 512", "depth = 2"),
    ("vta", "max_waits = 2", "max_waits = 1"),
    ("vta", EDGES, 'between = [["store", "load"], ["exec", "store"]]'),
    ("nmp", WATERMARK, 'kind = "tokens"'),
    ("nmp", WATERMARK, 'kind = "tokens"\nmax_waits = 1\ntokens = 1'),
    ("nmp", WATERMARK, 'kind = "tokens"\nbetween = [["load", "store"], ["load", "post"], ["load", "exec"]]'),
    ("gemmini", 'kind = "interlock"\ncompares = ["spad", "acc"]', 'kind = "tokens"\ntokens = 3'),
]


@pytest.mark.parametrize(("device", "before", "after"), CASES)
def test_few_tokens(tmp_path: Path, device: str, before: str, after: str) -> None:
    executable = right(variant(tmp_path, device, before, after), device)
    names = [queue.id for queue in executable.device.queue]
    neighbours = executable.device.sync.neighbours(names)
    given = tokens(executable.program.commands, executable.device)
    for command, own in zip(executable.program.commands, given, strict=True):
        assert {*own.pops, *own.pushes} <= neighbours[command.queue]
        assert len(command.waits) <= executable.device.sync.max_waits


def waiting(commands: Sequence[Move]) -> list[Command]:
    """Commands with waits for all that they must not overtake, whoever else has waited for these."""
    issued, found = Counter[int](), list[Command]()
    touched: dict[Place, list[tuple[bool, Wait]]] = {}
    for command in commands:
        places = ((True, command.target), (False, command.source))
        needed = Counter[int]()
        for writes, place in places:
            for wrote, wait in touched.get(place, ()):
                if (writes or wrote) and wait.queue != command.queue:
                    needed[wait.queue] = max(needed[wait.queue], wait.finished)
        issued[command.queue] += 1
        for writes, place in places:
            touched.setdefault(place, []).append((writes, Wait(command.queue, issued[command.queue])))
        found.append(replace(command, waits=tuple(Wait(*wait) for wait in needed.items())))
    return [*found, End(1, (), 0, 0)]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(tmp_path: Path, seed: int) -> None:
    """Whatever waits for whatever, through however few tokens: each order keeps to what the waits said."""
    rng = np.random.default_rng(seed)
    names = ["load", "exec", "post", "store"]
    tree = [[names[n], names[int(rng.integers(0, n))]] for n in range(1, 4)]
    sync = f'kind = "tokens"\nmax_waits = {rng.integers(1, 4)}\ntokens = {rng.integers(1, 4)}\nbetween = {tree}'
    device = load_device(variant(tmp_path, "nmp", WATERMARK, sync))
    weights = rng.dirichlet(np.ones(4))
    moves = [
        Move(int(rng.choice(4, p=weights)), (), 0, Place(0, 64 * a), Place(0, 64 * b), 64, 1, 1, 0, 0, 0, 0)
        for a, b in rng.integers(0, 12, (40, 2)).tolist()
    ]
    program = Program(flat(device), with_forwarding(waiting(moves), device))
    assert not list(beyond_tokens(program.commands, device))
    assert [replace(c, waits=()) for c in program.commands if not isinstance(c, Sync)] == [*moves, End(1, (), 0, 0)]
    assert found(program, device) == ""


def test_a_token_is_popped_early(tmp_path: Path) -> None:
    """Three loads, then a sum for each: where two tokens fit between them, a forwarder takes the first early."""
    device = load_device(variant(tmp_path, "vta", PLENTY, "tokens = 2"))
    program = [*[Sync(0, (), 0, 0)] * 3, *(Mark(1, (Wait(0, n),), 0, n) for n in (1, 2, 3)), End(1, (), 0, 0)]
    forwarded = with_forwarding(program, device)
    assert [(type(c).__name__, c.queue, c.waits) for c in forwarded[:5]] == [
        ("Sync", 0, ()), ("Sync", 0, ()), ("Sync", 1, (Wait(0, 1),)), ("Sync", 0, ()), ("Mark", 1, ()),
    ]  # fmt: skip
    assert [c.waits for c in forwarded[5:7]] == [(Wait(0, 2),), (Wait(0, 3),)]


def test_who_has_no_room_waits(tmp_path: Path) -> None:
    """By hand: the second of two loads, each with a token, ends when the first token is popped."""
    device = load_device(variant(tmp_path, "vta", PLENTY, "tokens = 1"))
    load, held, late = Sync(0, (), 0, 0), Sync(1, (), 0, 0), Sync(1, (Wait(0, 1),), 0, 0)
    program = [load, held, late, load, replace(late, waits=(Wait(0, 2),))]
    given = tokens(program, device)
    assert given == [Tokens((), (1,)), Tokens(), Tokens((0,)), Tokens((), (1,)), Tokens((0,))]
    timeline = Timeline(device, given)
    for command in program[:2]:
        timeline.add(command, Footprint())
    timeline.finished[1][-1] = 100  # as if it were busy till then
    ends = [timeline.add(command, Footprint()).end for command in program[2:]]
    assert ends == [100, 100, 100]


def test_waits_that_are_no_tokens() -> None:
    executable = right("vta", "vta")
    commands = list(executable.program.commands)
    far = next(n for n, c in enumerate(commands) if c.queue == 0 and any(d.queue == 2 for d in commands[:n]))
    commands[far] = replace(commands[far], waits=(*commands[far].waits[:1], Wait(2, 1)))
    with pytest.raises(Fault, match=rf"command {far}, .*: queue load must wait for neighbours, exec, got a wait for"):
        checked(replace(executable.program, commands=commands), executable.device)
    assert predicted_cycles(executable.program, executable.device)


def test_more_tokens_than_a_fifo_holds(tmp_path: Path) -> None:
    device = load_device(variant(tmp_path, "vta", PLENTY, "tokens = 1"))
    waits = (Mark(1, (Wait(0, n),), 0, n) for n in (1, 2))
    program = Program(flat(device), [*[Sync(0, (), 0, 0)] * 2, *waits, End(1, (), 0, 0)])
    with pytest.raises(Fault, match=r"command 1, .*: at most 1 tokens must be on the way from load to exec, got 2"):
        checked(program, device)


def test_the_end_has_tokens_of_all() -> None:
    device = load_device("vta")
    program = Program(flat(device), [Sync(2, (), 0, 0), End(1, (), 0, 0)])
    with pytest.raises(Fault, match=r"must wait for command 0, number 1 of queue store, as all before it"):
        checked(program, device)
