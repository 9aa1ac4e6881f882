"""A board for the runtime in C whose device is the simulator's: a library by ctypes, with hooks in Python.

    board = Board(compiled.program, compiled.device, functions, order="late")
    outputs = board.run(inputs)

The memories lie at addresses that no process has, so that bytes get there by the hook `copy` alone.
"""

import ctypes
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import numpy as np
import pytest

from qmlir.backends.npu.execute import execute
from qmlir.backends.npu.firmware import extents, images, numbered, runtime_files
from qmlir.backends.npu.machine import Memories, Operands
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Port, Program
from qmlir.devices import Device
from qmlir.isa.blocks import Block
from qmlir.isa.commands import Host, encode
from qmlir.isa.encoding import Command, Place
from qmlir.numerics import Array

NONE = 0xFFFFFFFF
FAR = 1 << 56
"""Memory n lies at n · FAR, n counted from 1."""

Pointer, U32 = ctypes.c_void_p, ctypes.c_uint32
SUBMIT = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, U32, Pointer, U32, U32)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, U32, U32)
BARRIER = ctypes.CFUNCTYPE(ctypes.c_int, Pointer)
COPY = ctypes.CFUNCTYPE(None, Pointer, Pointer, Pointer, U32)
CACHE = ctypes.CFUNCTYPE(None, Pointer, Pointer, U32)
LAYER = ctypes.CFUNCTYPE(None, Pointer, U32, ctypes.c_int)
CALL = ctypes.CFUNCTYPE(None, Pointer)
HOST = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, U32)


class Hooks(ctypes.Structure):
    """struct qmlir_npu_hooks."""

    _fields_: ClassVar = [
        ("submit", SUBMIT),
        ("wait", WAIT),
        ("barrier", BARRIER),
        ("host", HOST),
        ("copy", COPY),
        ("clean", CACHE),
        ("invalidate", CACHE),
        ("layer", LAYER),
        ("waits", ctypes.c_int),
    ]


class Tensor(ctypes.Structure):
    """struct qmlir_npu_tensor, and struct qmlir_npu_image."""

    _fields_: ClassVar = [(name, U32) for name in ("memory", "address", "bytes", "last")]


class RoutineTable(ctypes.Structure):
    """struct qmlir_npu_routine."""

    _fields_: ClassVar = [("call", CALL), ("tensors", ctypes.POINTER(Tensor)), ("inputs", U32), ("outputs", U32)]


class Network(ctypes.Structure):
    """struct qmlir_npu_network."""

    _fields_: ClassVar = [
        ("program", U32), ("words", U32), ("images", ctypes.POINTER(Tensor)), ("image_count", U32),
        ("routines", ctypes.POINTER(RoutineTable)), ("routine_count", U32), ("inputs", ctypes.POINTER(Tensor)),
        ("input_count", U32), ("outputs", ctypes.POINTER(Tensor)), ("output_count", U32),
    ]  # fmt: skip


class Npu(ctypes.Structure):
    """struct qmlir_npu."""

    _fields_: ClassVar = [
        ("network", ctypes.POINTER(Network)), ("hooks", ctypes.POINTER(Hooks)), ("board", Pointer),
        ("memories", Pointer), ("weights", Pointer), ("arena", Pointer), ("command", U32), ("layer", U32),
        ("issued", U32 * 16), ("finished", U32 * 16),
    ]  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    """The runtime; the test is skipped where there is no compiler."""
    if (gcc := shutil.which("gcc")) is None:
        pytest.skip("there is no gcc here")
    folder = Path(mkdtemp(prefix="qmlir-runtime-"))
    for name, text in runtime_files().items():
        (folder / name).write_text(text)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-fPIC", "-shared"]
    subprocess.run([gcc, *strict, "-o", "runtime.so", "qmlir_npu.c"], cwd=folder, check=True)
    loaded = ctypes.CDLL(str(folder / "runtime.so"))
    shutil.rmtree(folder)
    return loaded


def tables(ports: Sequence[Port], states: Mapping[int, int]) -> Any:
    """An array of tensors; `states` has the places of those that are states."""
    entries = [Tensor(*port.place, port.block.bytes, states.get(n, NONE)) for n, port in enumerate(ports)]
    return (Tensor * max(len(entries), 1))(*entries)


class Board:
    """A program on a board.

    order     when commands run: "once", as they come; "late", when something waits for them; or "device": when the
              waits in their words allow it, in an order drawn at random
    fails     the number of a command that the device refuses, with status 7
    log       what the hooks were called with
    """

    def __init__(
        self, program: Program, device: Device, functions: Mapping[str, Callable[..., Sequence[Array]]], *,
        order: str = "once", fails: int = -1, words: Sequence[int] | None = None, layers: bool = False,
    ):  # fmt: skip
        self.program, self.device, self.functions = program, device, functions
        self.order, self.fails, self.log = order, fails, list[tuple[Any, ...]]()
        self.commands = numbered(program.commands)
        self.starts = {at: n for n, at in enumerate(np.cumsum([0, *(len(c.words()) for c in self.commands)])[:-1])}
        self.accesses = checked(program, device)
        self.memories = Memories(device, [extent.bytes for extent in extents(program, device)])
        self.pending = [deque[int]() for _ in range(16)]
        self.done, self.submitted = [0] * 16, [0] * 16
        self.random = np.random.default_rng(1)
        self._prepare(encode(self.commands) if words is None else words, layers=layers)

    def _prepare(self, words: Sequence[int], *, layers: bool) -> None:
        program = self.program
        found = images(program)
        data = b"".join(image.data for image in found)
        self.weights = np.frombuffer(np.array(words, "<u4").tobytes() + data, np.uint8).copy()
        offsets = 4 * len(words) + np.cumsum([0, *(len(image.data) for image in found)])
        entries = [Tensor(*image.place, len(image.data), int(at)) for image, at in zip(found, offsets, strict=False)]
        self._images = (Tensor * max(len(entries), 1))(*entries)
        self._tensors = [tables((*routine.inputs, *routine.outputs), {}) for routine in program.routines]
        self._call = CALL(lambda npu: None)
        routines = [
            RoutineTable(self._call, tensors, len(routine.inputs), len(routine.outputs))
            for routine, tensors in zip(program.routines, self._tensors, strict=True)
        ]
        self._routines = (RoutineTable * max(len(routines), 1))(*routines)
        sizes = np.cumsum([0, *(program.inputs[kept.input].block.bytes for kept in program.states)])
        befores = {kept.input: int(at) for kept, at in zip(program.states, sizes, strict=False)}
        afters = {kept.output: int(at) for kept, at in zip(program.states, sizes, strict=False)}
        self.state = np.zeros(max(int(sizes[-1]), 1), np.uint8)
        self._inputs, self._outputs = tables(program.inputs, befores), tables(program.outputs, afters)
        self._network = Network(
            0, len(words), self._images, len(entries), self._routines, len(routines), self._inputs,
            len(program.inputs), self._outputs, len(program.outputs),
        )  # fmt: skip
        self._hooks = Hooks(
            SUBMIT(self._submit), WAIT(self._wait), BARRIER(self._barrier), HOST(self._host), COPY(self._copy),
            CACHE(lambda npu, at, size: self.log.append(("clean", at, size))),
            CACHE(lambda npu, at, size: self.log.append(("invalidate", at, size))),
            LAYER(lambda npu, layer, begins: self.log.append(("layer", layer, begins))) if layers else LAYER(),
            self.order == "device",
        )  # fmt: skip
        places = [(n + 1) * FAR for n, _ in enumerate(extents(program, self.device))]
        self._places = (Pointer * len(places))(*places)
        self.npu = Npu()
        weights = self.weights.ctypes.data_as(Pointer)
        given = (ctypes.byref(self._network), weights, self._places, ctypes.byref(self._hooks), None)
        assert library().qmlir_npu_init(ctypes.byref(self.npu), *given) == 0

    def run(self, inputs: Sequence[Array]) -> tuple[int, list[Array]]:
        """Runs the program on inputs without states; returns the status, and outputs without states."""
        kept = ({each.input for each in self.program.states}, {each.output for each in self.program.states})
        ports = [port for n, port in enumerate(self.program.outputs) if n not in kept[1]]
        outputs = [np.zeros(port.shape, port.dtype) for port in ports]
        given = [np.ascontiguousarray(array) for array in inputs]
        self.pending = [deque() for _ in range(16)]
        self.done, self.submitted = [0] * 16, [0] * 16
        addresses = ((Pointer * max(len(arrays), 1))(*(a.ctypes.data for a in arrays)) for arrays in (given, outputs))
        status = library().qmlir_npu_run(ctypes.byref(self.npu), None, self.state.ctypes.data_as(Pointer), *addresses)
        return status, outputs

    # -- hooks --------------------------------------------------------------------------------------------------

    def _submit(self, npu: int, queue: int, words: int, count: int, commands: int) -> int:
        first = self.starts[(words - self.weights.ctypes.data) // 4]
        assert sum(len(command.words()) for command in self.commands[first : first + commands]) == count
        self.log.append(("submit", queue, commands))
        for number in range(first, first + commands):
            assert self.commands[number].queue == queue
            if number == self.fails:
                self.npu.command += number - first
                return 7
            self.pending[queue].append(number)
            self.submitted[queue] += 1
        if self.order == "once":
            self._finish(queue, self.submitted[queue])
        return 0

    def _wait(self, npu: int, queue: int, finished: int) -> int:
        assert finished <= self.submitted[queue]
        self.log.append(("wait", queue, finished))
        if self.order == "device":
            self._work(lambda: self.done[queue] >= finished)
        else:
            self._finish(queue, finished)
        return 0

    def _barrier(self, npu: int) -> int:
        self.log.append(("barrier",))
        if self.order == "device":
            self._work(lambda: not any(self.pending))
        else:
            for queue in reversed(range(16)):
                self._finish(queue, self.submitted[queue])
        return 0

    def _finish(self, queue: int, finished: int) -> None:
        """Executes commands of a queue, whatever the others do."""
        while self.done[queue] < finished:
            self._execute(self.pending[queue].popleft())
            self.done[queue] += 1

    def _work(self, enough: Callable[[], bool]) -> None:
        """Executes commands, the next of a queue whose waits are over, until it is enough."""
        while not enough():
            heads = [queue for queue in self.pending if queue and self._may_start(self.commands[queue[0]])]
            chosen = heads[self.random.integers(len(heads))]
            command = chosen.popleft()
            self._execute(command)
            self.done[self.commands[command].queue] += 1

    def _may_start(self, command: Command) -> bool:
        return all(self.done[wait.queue] >= wait.finished for wait in command.waits)

    def _execute(self, number: int) -> None:
        command = self.commands[number]
        if not isinstance(command, Host):
            execute(command, Operands(self.device, self.memories, self.accesses[number]))

    def _host(self, npu: int, number: int) -> int:
        routine = self.program.routines[number]
        inputs = [self.memories.read(p.block).reshape(-1).view(p.dtype).reshape(p.shape) for p in routine.inputs]
        for port, array in zip(routine.outputs, self.functions[routine.name](*inputs), strict=True):
            self.memories.load(port.block, np.ascontiguousarray(array).tobytes())
        self.log.append(("host", number))
        return 0

    def _copy(self, npu: int, to: int, source: int, size: int) -> None:
        if to >= FAR:
            data = ctypes.string_at(source, size) if source < FAR else self._read(source, size)
            self.memories.load(_block(to, size), data)
        else:
            ctypes.memmove(to, self._read(source, size), size)

    def _read(self, at: int, size: int) -> bytes:
        return self.memories.read(_block(at, size)).tobytes()


def _block(at: int, size: int) -> Block:
    return Block(Place(at // FAR - 1, at % FAR), size)
