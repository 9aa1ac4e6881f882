"""Queues in every order: nothing races and nothing hangs, and whoever leaves out a wait or a token is found."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program
from qmlir.backends.simulated import serial
from qmlir.devices import Device, shipped_devices
from qmlir.devices.model.waits import Descriptor, Tokens, descriptors, tokens
from qmlir.isa.blocks import Fault
from tests.backends.npu.interleave import Adversary, Fifos, Links, Rules
from tests.backends.npu.test_compiled import compiled, weakened

DRAWN = 20


def found(program: Program, device: Device, rules: Callable[[], Rules] | None = None) -> str:
    """What goes wrong in some order; nothing if nothing does in any."""
    adversary = Adversary(program, device, rules)
    try:
        for held in range(len(program.commands)):
            adversary.run(held=held)
        for seed in range(DRAWN):
            adversary.run(np.random.default_rng(seed))
    except Fault as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize("device", shipped_devices())
def test_every_order_is_safe(device: str) -> None:
    executable = compiled(device)
    assert found(executable.program, executable.device) == ""
    assert found(serial(executable.program, executable.device), executable.device) == ""


@pytest.mark.parametrize("device", shipped_devices())
def test_whoever_leaves_out_a_wait_is_found(device: str) -> None:
    executable = compiled(device)
    weaker = list(weakened(executable.program))
    for program in weaker:
        assert "must start after" in found(program, executable.device)
        with pytest.raises(Fault):
            checked(program, executable.device)
    assert len(weaker) > (0 if executable.device.sync.kind == "interlock" else 5)


def test_whoever_leaves_out_a_token_is_found() -> None:
    """vta: without a push the queue that pops hangs; without a pop, or behind a push twice, one runs too early."""
    executable = compiled("vta")
    given = tokens(executable.program.commands, executable.device)
    queues = [command.queue for command in executable.program.commands]
    tried = {"popped": 0, "pushed": 0, "twice": 0}

    def wrong(number: int, mutant: Tokens) -> str:
        changed = [*given[:number], mutant, *given[number + 1 :]]
        rules = partial(Fifos, executable.program.commands, changed, executable.device.sync.tokens)
        return found(executable.program, executable.device, rules)

    for number, own in enumerate(given):
        for queue in own.pops:
            assert "must start after" in wrong(number, replace(own, pops=tuple(q for q in own.pops if q != queue)))
            tried["popped"] += 1
        for queue in own.pushes:
            assert "all wait" in wrong(number, replace(own, pushes=tuple(q for q in own.pushes if q != queue)))
            tried["pushed"] += 1
            pops = [n for n, other in enumerate(given) if queues[number] in other.pops and queues[n] == queue]
            pushes = [n for n, other in enumerate(given) if queue in other.pushes and queues[n] == queues[number]]
            if pops[pushes.index(number)] != pops[-1]:
                assert "must start after" in wrong(number, replace(own, pushes=(*own.pushes, queue)))
                tried["twice"] += 1
    assert min(tried.values()) > 5


def test_whoever_leaves_out_a_link_is_found() -> None:
    """nvdla-small: with a consumer too few one hangs, with a count too low one runs too early."""
    executable = compiled("nvdla-small")
    commands = executable.program.commands
    given = descriptors(commands, executable.device)
    tried = {"count": 0, "consumers": 0}

    def wrong(number: int, mutant: Descriptor) -> str:
        changed = [*given[:number], mutant, *given[number + 1 :]]
        return found(executable.program, executable.device, partial(Links, commands, changed))

    for number, own in enumerate(given):
        queues = [commands[consumer].queue for consumer in own.consumers]
        assert len(set(queues)) == len(queues)
        assert own.count == len(commands[number].waits)
        if own.count:
            assert "must start after" in wrong(number, replace(own, count=own.count - 1))
            tried["count"] += 1
        for place in range(len(own.consumers)):
            fewer = (*own.consumers[:place], *own.consumers[place + 1 :])
            assert "all wait" in wrong(number, replace(own, consumers=fewer))
            tried["consumers"] += 1
    assert min(tried.values()) > 5
