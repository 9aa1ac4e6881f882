"""What a firmware needs of a program: words for its runtime, constants as they lie in memory, the bytes of each memory.

The runtime in C (runtime/qmlir_npu.c) walks the words. `Host`, `Mark`, `Sync` and `End` are its own, and queues get
all other commands. A queue counts what it has been given, so that waits in a firmware's words count these commands
only. A wait for one of the runtime's own commands is one for what comes before it in its queue, because the runtime
goes on when its command has ended.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from qmlir.backends.npu.machine import sizes_of
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Port, Program, Segment
from qmlir.devices import Device
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import End, Host, Mark, SetContext, Sync
from qmlir.isa.encoding import Command, Wait
from qmlir.numerics.contracts import NUMBERED

OWN = (End, Host, Mark, Sync)
"""The commands of the runtime, which queues do not get."""

RUNTIME = ("qmlir_npu.h", "qmlir_npu.c")
"""The files of the runtime."""

GAP = 64
"""The most bytes between two constants of a memory that are filled, so that both are one image."""


def runtime_files() -> dict[str, str]:
    """The texts of the runtime's files in C, by their names."""
    folder = files("qmlir.backends.npu") / "runtime"
    return {name: (folder / name).read_text(encoding="utf-8") for name in RUNTIME}


STACK = 256
"""The most bytes of stack that the runtime takes beside hooks and tables of pointers, in code of gcc."""

MODEL_STACK = 8192
"""The most bytes of stack that a hook of the model takes, in such code."""


def stack_bytes(program: Program, word: int) -> int:
    """The most bytes of stack that the runtime takes for a program, with its tables of pointers of `word` bits."""
    tensors = [[*routine.inputs, *routine.outputs] for routine in program.routines]
    return STACK + word // 8 * (len(program.inputs) + len(program.outputs) + max(map(len, tensors), default=0))


def model_files(program: Program, device: Device) -> dict[str, str]:
    """The files in C of the device in software, by their names; they compute the commands of the program."""
    from qmlir.backends.npu.c_model.sources import model_sources

    contracts = {NUMBERED[command.contract] for command in program.commands if isinstance(command, SetContext)}
    return dict(model_sources(device, contracts, set(map(type, program.commands))))


def numbered(commands: Sequence[Command]) -> list[Command]:
    """The commands with waits that count what queues are given: all commands but those of the runtime.

    A command keeps its place. A wait for none is left out.
    """
    counted: dict[int, list[int]] = {}  # queue → of its first n commands, how many it is given
    found: list[Command] = []
    for command in commands:
        waits = [Wait(wait.queue, counted.get(wait.queue, [0])[wait.finished]) for wait in command.waits]
        found.append(replace(command, waits=tuple(wait for wait in waits if wait.finished)))
        own = counted.setdefault(command.queue, [0])
        own.append(own[-1] + (not isinstance(command, OWN)))
    return found


def images(program: Program) -> list[Segment]:
    """The constants of a program, those that follow one another in a memory as one, with zeros in the gaps."""
    found: list[Segment] = []
    for segment in sorted(program.segments, key=lambda segment: segment.place):
        last = found[-1] if found else None
        gap = segment.place.address - last.block.end if last and last.place.memory == segment.place.memory else -1
        if last is not None and 0 <= gap <= GAP:
            found[-1] = Segment(last.place, last.data + bytes(gap) + segment.data)
        elif segment.data:
            found.append(segment)
    return found


@dataclass(frozen=True)
class Extent:
    """The bytes of a memory that a program needs.

    name       its id in the device file
    bytes      from the memory's first byte to behind the last that the program touches
    constants  bytes of constants among them
    external   whether it lies outside the device
    read_only  whether it holds constants alone
    align      what its first byte's address must be a multiple of
    """

    name: str
    bytes: int
    constants: int
    external: bool
    read_only: bool
    align: int


def extents(program: Program, device: Device) -> list[Extent]:
    """The bytes of each memory of a device, by its number, that a program needs."""
    held, constants = images(program), Counter[int]()
    for image in held:
        constants[image.place.memory] += len(image.data)
    touched = [block for each in checked(program, device) for block in each.blocks]
    ports = [port.block for port in (*program.inputs, *program.outputs)]
    ends = sizes_of(device, [*ports, *touched, *(image.block for image in held)])
    return [
        Extent(memory.id, ends[n], constants[n], memory.external, memory.read_only, memory.align)
        for n, memory in enumerate(device.memory)
    ]


def require_aligned(program: Program) -> None:
    """Refuses a program whose host's routines would read or write elements at odd addresses.

    Raises:
        UnsupportedError: A tensor of a routine lies at no multiple of the size of its elements.
    """
    for name, port in _of_the_host(program):
        size = port.dtype.itemsize
        if port.place.address % size:
            need = f"must lie at a multiple of {size} bytes where the host computes on it, as an align of {size} in the"
            need += f" table of memory {port.place.memory} of the device file has it"
            raise UnsupportedError(need, f"address {port.place.address:#x}", where=f'tensor "{port.name}" of {name}')


def _of_the_host(program: Program) -> Iterator[tuple[str, Port]]:
    """Yields the tensors of the host's routines, each with the routine's name."""
    for routine in program.routines:
        yield from ((routine.name, port) for port in (*routine.inputs, *routine.outputs))
