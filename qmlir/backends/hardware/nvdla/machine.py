"""NVDLA small as its drivers see it: registers, interrupts, and layers that begin when their units are enabled."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from qmlir.backends.hardware.nvdla.cdp import Normalization, Tables
from qmlir.backends.hardware.nvdla.convolution import Convolution
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.pdp import Pooling
from qmlir.backends.hardware.nvdla.program import Command, Kind, Program
from qmlir.backends.hardware.nvdla.registers import BY_ADDRESS, DONE, UNITS, Register
from qmlir.backends.hardware.nvdla.sdp import READERS, PointProcessor
from qmlir.backends.hardware.nvdla.units import Unit
from qmlir.errors import QmlirError

CONVOLVERS = "CDMA", "CSC", "CMAC_A", "CMAC_B", "CACC"


@dataclass(frozen=True)
class Done:
    """A layer that was computed: the units that took part, or None."""

    convolution: Convolution | None = None
    sdp: PointProcessor | None = None
    pdp: Pooling | None = None
    cdp: Normalization | None = None


class Nvdla:
    """NVDLA small, as it is after a reset, and a memory.

    A layer is computed as soon as all units that it needs have been enabled, and its interrupt is there at once.

    memory    what it reads and writes
    computes  whether it computes layers; otherwise it checks them and leaves the memory as it is
    done      the layers that were computed, or checked, in order
    """

    def __init__(self, memory: Memory, computes: bool = True):
        self.memory = memory
        self.computes = computes
        self.done: list[Done] = []
        self._units = {name: Unit(name) for name in UNITS}
        self._pending = 0
        self._tables = Tables.empty()
        self._left: str | None = None
        self._begun = False
        self._flushed = False

    def execute(self, commands: Iterable[Command]) -> None:
        """Does what a driver does.

        Raises:
            QmlirError: There is no such register, nv_small does not have what a layer needs, or the device would wait
                for ever.
        """
        for command in commands:
            match command.kind:
                case Kind.WRITE:
                    self._write(_register(command), command.value)
                case Kind.POLL:
                    held = self._read(_register(command))
                    if held != command.value:
                        self._hang(f"until it is {command.value:#x}", str(command), f"{held:#x}")
                case Kind.WAIT:
                    missing = command.value & ~self._pending
                    if missing:
                        names = [f"{u} {g}" for u, bit in DONE.items() for g in (0, 1) if missing & bit << g]
                        self._hang(f"for the end of {', '.join(names) or hex(missing)}", str(command), self._enabled())
                    self._pending &= ~command.value

    def read(self, address: int) -> int:
        """Returns what a register holds, as a driver reads it.

        Raises:
            QmlirError: There is no register at the address.
        """
        return self._read(_register(Command(Kind.POLL, address, 0)))

    def _hang(self, what: str, where: str, got: str) -> NoReturn:
        raise QmlirError(f"the device waits {what} for ever", where=f"NVDLA {where}", got=got)

    def _enabled(self) -> str:
        """Returns which units are enabled and wait for others."""
        waiting = [unit.name for unit in self._units.values() if any(unit.enabled)]
        return f"{', '.join(waiting)} enabled, and no other unit" if waiting else "no unit enabled"

    def _read(self, register: Register) -> int:
        unit = self._units[register.unit]
        match register.unit, register.name:
            case _, "S_STATUS":
                # 0 is idle, 1 is running, 2 waits for the other group.
                states = [int(on) << (group != unit.consumer) for group, on in enumerate(unit.enabled)]
                return states[0] | states[1] << 16
            case _, "S_POINTER":
                return unit.producer | unit.consumer << 16
            case _, "S_CBUF_FLUSH_STATUS":
                self._flushed = True  # a driver that reads it waits until it is 1
                return 1
            case "GLB", "S_INTR_STATUS":
                return self._pending
            case _:
                return (unit.groups[unit.producer] if register.grouped else unit.shared)[register.name]

    def _write(self, register: Register, value: int) -> None:
        unit = self._units[register.unit]
        match register.unit, register.name:
            case "GLB", "S_INTR_STATUS":
                self._pending &= ~value
            case "GLB", "S_INTR_SET":
                self._pending |= value
            case _, "S_POINTER":
                unit.producer = value & 1
            case "CDP", "S_LUT_ACCESS_CFG":
                self._tables.choose(value)
            case "CDP", "S_LUT_ACCESS_DATA":
                self._tables.write(value)
            case _ if register.read_only:
                pass
            case _, name if not register.grouped:
                unit.shared[name] = value
            case _, name:
                if unit.enabled[unit.producer]:
                    got = f"a write to group {unit.producer}"
                    raise QmlirError("a group that is enabled takes no writes", where=_named(register), got=got)
                if name == "D_OP_ENABLE":
                    if register.unit == "CDMA" and value & 1 and not self._flushed:
                        need = "S_CBUF_FLUSH_STATUS must have been read until it is 1: a reset clears the buffer"
                        raise QmlirError(need, where=_named(register), got="no read of it since the reset")
                    unit.enabled[unit.producer] = bool(value & 1)
                    self._begin()
                else:
                    unit.groups[unit.producer][name] = value

    def _begin(self) -> None:
        """Computes every layer whose units are all enabled."""
        while self._points() or self._pools() or self._norms():
            pass

    def _ready(self, *names: str) -> bool:
        return all(self._units[name].ready for name in names)

    def _points(self) -> bool:
        """Computes a layer of SDP with what feeds it and what it feeds, if there is one that can begin."""
        if not self._ready("SDP"):
            return False
        sdp = self._units["SDP"].settings()
        layer = PointProcessor(sdp, self._units["SDP_RDMA"].settings() if self._ready("SDP_RDMA") else None)
        reads = not layer.flying or any(any(layer.reads(stage)) for stage in READERS)
        needs = (*(CONVOLVERS if layer.flying else ()), *(("PDP",) if layer.to_pdp else ()))
        if not self._ready(*needs, *(("SDP_RDMA",) if reads else ())):
            return False
        pooling = Pooling(self._units["PDP"].settings(), None) if layer.to_pdp else None
        if pooling is not None and not pooling.flying:
            return False
        convolution = self._convolution(layer) if layer.flying else None
        layer.check()
        if pooling is not None:
            self._check_pool(pooling)
            for name, theirs in (
                ("CUBE_IN_WIDTH", "WIDTH"),
                ("CUBE_IN_HEIGHT", "HEIGHT"),
                ("CUBE_IN_CHANNEL", "CHANNEL"),
            ):
                pooling.pdp.agrees(name, sdp, theirs)
        if self.computes:
            result = layer.run(self.memory, None if convolution is None else convolution.sums(self.memory))
            if pooling is not None:
                pooling.run(self.memory, result)
        if convolution is not None:
            self._finish("CDMA", "CDMA_DAT", "CDMA_WT")
            self._finish("CACC", "CACC")
            for name in ("CSC", "CMAC_A", "CMAC_B"):
                self._finish(name)
        if layer.rdma is not None:
            self._finish("SDP_RDMA")
        self._finish("SDP", "SDP")
        if pooling is not None:
            self._finish("PDP", "PDP")
        self.done.append(Done(convolution, layer, pooling))
        return True

    def _convolution(self, layer: PointProcessor) -> Convolution:
        """Returns the convolution whose units are enabled, checked.

        Raises:
            QmlirError: nv_small cannot compute it, or the layer before left data or weights in the buffer.
        """
        cdma, csc, cacc = (self._units[name].settings() for name in ("CDMA", "CSC", "CACC"))
        convolution = Convolution(cdma, csc, cacc)
        convolution.check()
        for name in ("CMAC_A", "CMAC_B"):
            self._units[name].settings().needs("CONV_MODE", 0, "nv_small has no Winograd")
        for name, theirs in (("DATAOUT_WIDTH", "WIDTH"), ("DATAOUT_HEIGHT", "HEIGHT"), ("DATAOUT_CHANNEL", "CHANNEL")):
            cacc.agrees(name, layer.sdp, theirs)
        if self._left is not None:
            need = (
                "the layer before must leave an empty buffer: all rows, and weights of a size in a multiple of 8 bytes"
            )
            raise QmlirError(need, where=cdma.where("OP_EN"), got=self._left)
        self._left = convolution.left
        return convolution

    def _pools(self) -> bool:
        """Computes a layer of PDP from memory, if there is one that can begin."""
        if not self._ready("PDP", "PDP_RDMA"):
            return False
        pooling = Pooling(self._units["PDP"].settings(), self._units["PDP_RDMA"].settings())
        if pooling.flying:
            return False
        self._check_pool(pooling)
        if self.computes:
            pooling.run(self.memory, None)
        self._finish("PDP_RDMA")
        self._finish("PDP", "PDP")
        self.done.append(Done(pdp=pooling))
        return True

    def _check_pool(self, pooling: Pooling) -> None:
        """Checks a layer of PDP.

        Raises:
            QmlirError: nv_small cannot compute it, or the layer before has begun a window that it did not end.
        """
        pooling.check()
        if self._begun:
            need = "the layer of PDP before must end all windows that it begins, or this one waits for ever"
            pooling.pdp.refuse(need, "OP_EN", "rows behind its last window")
        self._begun = pooling.begins_another

    def _norms(self) -> bool:
        """Computes a layer of CDP, if there is one that can begin."""
        if not self._ready("CDP", "CDP_RDMA"):
            return False
        cdp, rdma = self._units["CDP"].settings(), self._units["CDP_RDMA"].settings()
        layer = Normalization(cdp, rdma, self._tables.copy())
        layer.check()
        if self.computes:
            layer.run(self.memory)
        self._finish("CDP_RDMA")
        self._finish("CDP", "CDP")
        self.done.append(Done(cdp=layer))
        return True

    def _finish(self, unit: str, *interrupts: str) -> None:
        group = self._units[unit].finish()
        for interrupt in interrupts:
            self._pending |= DONE[interrupt] << group


def _register(command: Command) -> Register:
    """Returns the register that a command names.

    Raises:
        QmlirError: There is none at its address.
    """
    register = BY_ADDRESS.get(command.address)
    if register is None:
        raise QmlirError("NVDLA small has no register at this address", where="NVDLA", got=f"{command.address:#x}")
    return register


def _named(register: Register) -> str:
    return f"NVDLA {register.unit}.{register.name}"


def run(program: Program, memory: Memory | None = None) -> Memory:
    """Runs a program on NVDLA small after a reset, and returns the memory.

    program  what the driver does, and the memory before
    memory   the memory to use instead of an empty one; the program's segments are written to it first

    Raises:
        QmlirError: As `Nvdla.execute` says.
    """
    memory = Memory() if memory is None else memory
    for address, data in program.segments:
        memory.write(address, data)
    Nvdla(memory).execute(program.commands)
    return memory
