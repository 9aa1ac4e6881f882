"""The model in C and the simulator in Python: the same bytes in every memory after every command, the same faults."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu.accesses import Accesses
from qmlir.backends.npu.c_model.library import Library, LoadedDevice, build, compiler
from qmlir.backends.npu.c_model.sources import model_sources
from qmlir.backends.npu.c_model.status import Status
from qmlir.backends.npu.execute import execute
from qmlir.backends.npu.machine import Memories, Operands
from qmlir.devices import Device, load_device
from qmlir.isa.blocks import Block, Fault
from qmlir.isa.commands import COMMANDS, Reduce, encode
from qmlir.isa.encoding import Command, Place
from qmlir.numerics.contracts import NUMBERED
from tests.backends.npu.c_model.random_commands import HALF, Commands, draw
from tests.conftest import THOROUGH

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")

NARROW = {"queue.load.unpacks": [2, 3, 5], "queue.exec.unpacks": [4, 6, 7]}
DEVICES = {
    "nmp": load_device("nmp").with_(NARROW),
    "saturating": load_device("nmp").with_({"array.overflow": "saturate", "layout.weights.k": 6}),
    "trapping": load_device("nmp").with_({"array.overflow": "trap"}),
    "gemmini": load_device("gemmini"),
    "nvdla-small": load_device("nvdla-small"),
    "vta": load_device("vta"),
    "ethos-u55-like": load_device("ethos-u55-like"),
}

SENTENCES = {
    Status.FACTOR: "contract .* needs multipliers 0 or",
    Status.ACCUMULATOR: "contract .* needs accumulators within",
    Status.INDEX: "a table must be looked up with numbers of 8 bits",
    Status.SUM: "sums must fit .. bits",
    Status.REDUCED: "sums must fit 32 bits",
    Status.MODE: "the array must multiply",
    Status.WEIGHT_ZERO_POINT: "weights must have the zero point 0",
    Status.EXPONENTIALS: "exponentials must be in",
}
"""What the simulator in Python says for each fault that a command of legal words can have."""

COUNT = 2000 if THOROUGH else 60
"""Programs, over all devices."""


def in_python(command: Command, accesses: Accesses, memories: Memories, device: Device) -> Status:
    """Executes a command in Python; returns the status that the model has to give."""
    try:
        execute(command, Operands(device, memories, accesses))
    except Fault as fault:
        right = [s for s, words in SENTENCES.items() if re.match(words, fault.need)]
        return Status.REDUCED if isinstance(command, Reduce) else next(iter(right))
    return Status.DONE


def difference(program: Commands, device: Device, model: Library) -> tuple[str | None, Counter[object]]:
    """What the model does otherwise than Python, if anything, and what was executed: commands, contracts, faults."""
    memories = Memories(device, [2 * HALF] * len(device.memory))
    for number, data in enumerate(program.memories):
        memories.load(Block(Place(number, 0), 2 * HALF), data.tobytes())
    ours = [memory.copy() for memory in program.memories]
    loaded = LoadedDevice(ours)
    words = np.array(encode(program.commands), np.uint32)
    seen, at = Counter[object](), 0
    for command, accesses in zip(program.commands, program.accesses, strict=True):
        expected = in_python(command, accesses, memories, device)
        end = at + int(words[at] >> 8 & 0xFF)
        found, at = model.run(loaded, words, at, end), end
        seen[expected] += 1
        if found != expected:
            return f"{found.name} instead of {expected.name}: {command}", seen
        if expected is not Status.DONE:
            return None, seen
        seen[type(command)] += 1
        if accesses.context is not None:
            seen[NUMBERED[accesses.context.contract]] += 1
        for number, memory in enumerate(ours):
            theirs = memories.read(Block(Place(number, 0), 2 * HALF)).reshape(-1)
            if not np.array_equal(memory, theirs):
                return f"memory {number} from byte {int((memory != theirs).argmax()):#x} on: {command}", seen
    return None, seen


def first_difference(seeds: range, models: dict[str, Library]) -> tuple[str | None, Counter[object]]:
    """The first difference of the programs of some seeds, each on the next device."""
    seen = Counter[object]()
    for seed in seeds:
        name = list(models)[seed % len(models)]
        found, executed = difference(draw(np.random.default_rng(seed), DEVICES[name]), DEVICES[name], models[name])
        seen += executed
        if found is not None:
            return f"seed {seed} on {name}: {found}", seen
    return None, seen


@pytest.mark.slow
def test_random_commands(tmp_path: Path) -> None:
    """On a library as `qmlir run` makes it, and on others with the blocks of firmware."""
    models: dict[str, Library] = {}
    for name, device in DEVICES.items():
        folder = tmp_path / name
        folder.mkdir()
        models[name] = Library(build(model_sources(device), folder, quick=name != "nmp"))
    found, seen = first_difference(range(COUNT), models)
    assert found is None
    if THOROUGH:
        assert seen.keys() >= {*SENTENCES, *NUMBERED.values()}
        assert len([kind for kind in COMMANDS if seen[kind]]) == len(COMMANDS) - 2  # the host, and the end
