"""SDP: two stages of addition, comparison, multiplication and ReLU on single elements, then a conversion to int8."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.arithmetic import Ints, rounded, saturated, signed, wrapped
from qmlir.backends.hardware.nvdla.memory import ATOM, Cube, Memory
from qmlir.backends.hardware.nvdla.units import Settings

MAXIMUM, MINIMUM, SUM = range(3)

_PRODUCT = 49
"""Bits of a product; a shift by more leaves 0."""


READERS = {"BS": "BRDMA", "BN": "NRDMA"}
"""The stages in the order of the data, and the part of SDP_RDMA that reads the operands of each."""


class Operands(NamedTuple):
    """What a stage reads from memory for its ALU and its MUL: int64 that fit [surfaces, rows, columns, 8], or None."""

    alu: Ints | None
    mul: Ints | None


@dataclass(frozen=True)
class PointProcessor:
    """A layer of SDP and, if it reads memory, of SDP_RDMA."""

    sdp: Settings
    rdma: Settings | None

    @property
    def flying(self) -> bool:
        """Whether the data come from CACC, not from memory."""
        return self.sdp["FLYING_MODE"] == 1

    @property
    def to_pdp(self) -> bool:
        """Whether the result goes to PDP, not to memory."""
        return self.sdp["OUTPUT_DST"] == 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns."""
        return self.sdp["CHANNEL"] + 1, self.sdp["HEIGHT"] + 1, self.sdp["WIDTH"] + 1

    def check(self) -> None:
        """Refuses what nv_small does not have, and units that were told differently.

        Raises:
            QmlirError: As said, naming the register.
        """
        sdp, rdma = self.sdp, self.rdma
        sdp.needs("EW_BYPASS", 1, "nv_small has no stage EW")
        sdp.needs("WINOGRAD", 0, "nv_small has no Winograd")
        sdp.needs("BATCH_NUMBER", 0, "nv_small has no batches")
        sdp.needs("PROC_PRECISION", 0, "nv_small has int8 only")
        sdp.needs("OUT_PRECISION", 0, "nv_small has int8 only")
        if not self.to_pdp:
            sdp.needs("DST_RAM_TYPE", 1, "nv_small has one memory")
        if rdma is not None:
            for name in ("WIDTH", "HEIGHT", "CHANNEL", "FLYING_MODE", "WINOGRAD", "PROC_PRECISION", "OUT_PRECISION"):
                rdma.agrees(name, sdp)
            rdma.needs("BATCH_NUMBER", 0, "nv_small has no batches")
            rdma.needs("IN_PRECISION", 0, "nv_small has int8 only")
            rdma.needs("ERDMA_DISABLE", 1, "nv_small has no stage EW")
            if not self.flying:
                rdma.needs("SRC_RAM_TYPE", 1, "nv_small has one memory")
            for stage in READERS:
                self._check_operands(stage, rdma)

    def _check_operands(self, stage: str, rdma: Settings) -> None:
        """Checks that a stage takes the operands that SDP_RDMA reads for it, all of them and no others."""
        needed = self.reads(stage)
        if rdma[f"{READERS[stage]}_DISABLE"]:
            if any(needed):
                rdma.refuse(f"{stage} waits for operands for ever", f"{READERS[stage]}_DISABLE")
            return
        rdma.needs(f"{READERS[stage]}_RAM_TYPE", 1, "nv_small has one memory")
        read = {0: (False, True), 1: (True, False), 2: (True, True)}.get(rdma[f"{READERS[stage]}_DATA_USE"])
        if read != needed:
            names = ("none", "MUL"), ("ALU", "ALU and MUL")
            need = f"what is read must be what {stage} takes, {names[needed[0]][needed[1]]}"
            rdma.refuse(need, f"{READERS[stage]}_DATA_USE")

    def reads(self, stage: str) -> tuple[bool, bool]:
        """Whether a stage takes operands of its ALU, and of its MUL, from memory."""
        sdp = self.sdp
        return tuple(
            not sdp[f"{stage}_BYPASS"] and not sdp[f"{stage}_{part}_BYPASS"] and bool(sdp[f"{stage}_{part}_SRC"])
            for part in ("ALU", "MUL")
        )  # pyright: ignore[reportReturnType]

    def run(self, memory: Memory, sums: Ints | None) -> NDArray[np.int8]:
        """Returns the result as int8 [surfaces, rows, columns, 8], and writes it unless it goes to PDP.

        memory  where operands, and data unless they come from CACC, are read
        sums    what comes from CACC: int64 [surfaces, rows, columns, 8], or None
        """
        x = self._source(memory) if sums is None else sums
        for stage in READERS:
            if not self.sdp[f"{stage}_BYPASS"]:
                x = self._stage(stage, x, self._operands(stage, memory))
        offset, scale = signed(self.sdp["CVT_OFFSET"], 32), signed(self.sdp["CVT_SCALE"], 16)
        y = saturated(_shifted((x - offset) * scale, self.sdp["CVT_SHIFT"]), 8).astype(np.int8)
        if not self.to_pdp:
            self.target().write(memory, y)
        return y

    def _source(self, memory: Memory) -> Ints:
        assert self.rdma is not None
        rdma, (channels, rows, columns) = self.rdma, self.shape
        address = rdma.address("SRC_BASE_ADDR_LOW", "SRC_BASE_ADDR_HIGH")
        line, surface = rdma["SRC_LINE_STRIDE"], rdma["SRC_SURFACE_STRIDE"]
        cube = Cube(address, columns, rows, channels, line, surface, rdma.where("SRC_LINE_STRIDE"))
        cube.check()
        return cube.read(memory).astype(np.int64)

    def target(self) -> Cube:
        """Returns where the result is written.

        Raises:
            QmlirError: The address or a stride is no multiple of 8.
        """
        sdp, (channels, rows, columns) = self.sdp, self.shape
        address = sdp.address("DST_BASE_ADDR_LOW", "DST_BASE_ADDR_HIGH")
        line, surface = sdp["DST_LINE_STRIDE"], sdp["DST_SURFACE_STRIDE"]
        cube = Cube(address, columns, rows, channels, line, surface, sdp.where("DST_LINE_STRIDE"))
        cube.check()
        return cube

    def _operands(self, stage: str, memory: Memory) -> Operands:
        alu, mul = self.reads(stage)
        if not (alu or mul):
            return Operands(None, None)
        assert self.rdma is not None
        rdma, (channels, rows, columns), name = self.rdma, self.shape, stage
        size, count = rdma[f"{READERS[stage]}_DATA_SIZE"] + 1, alu + mul
        line, surface = rdma[f"{name}_LINE_STRIDE"], rdma[f"{name}_SURFACE_STRIDE"]
        if not rdma[f"{READERS[stage]}_DATA_MODE"]:
            # One pixel for all: the atoms of the channels lie one behind the other.
            rows, columns, surface = 1, 1, ATOM * size * count
        address = rdma.address(f"{name}_BASE_ADDR_LOW", f"{name}_BASE_ADDR_HIGH")
        cube = Cube(
            *(address, columns, rows, channels, line, surface),
            where=rdma.where(f"{name}_LINE_STRIDE"),
            element=size * count,
        )
        cube.check()
        values = cube.read(memory).view(np.int8 if size == 1 else "<i2").astype(np.int64)
        if alu and mul:
            return Operands(values[..., 0::2], values[..., 1::2])
        return Operands(values, None) if alu else Operands(None, values)

    def _stage(self, stage: str, x: Ints, operands: Operands) -> Ints:
        sdp, name = self.sdp, stage
        if not sdp[f"{name}_ALU_BYPASS"]:
            operand = _operand(sdp, f"{name}_ALU_OPERAND", operands.alu)
            x = _alu(x, operand, sdp[f"{name}_ALU_SHIFT_VALUE"], sdp[f"{name}_ALU_ALGO"])
        # The shift of MUL has 6 bits, and is there without MUL too.
        shift = sdp[f"{name}_MUL_SHIFT_VALUE"] & 63
        if sdp[f"{name}_MUL_BYPASS"]:
            x = saturated(_shifted(x, shift), 32)
        else:
            products = x * _operand(sdp, f"{name}_MUL_OPERAND", operands.mul)
            y = saturated(_shifted(products, shift), 32)
            # PReLU passes what is not negative, 32 bits of it.
            x = np.where(x < 0, y, wrapped(x, 32)) if sdp[f"{name}_MUL_PRELU"] else y
        return x if sdp[f"{name}_RELU_BYPASS"] else np.maximum(x, 0)


def _operand(sdp: Settings, name: str, read: Ints | None) -> Ints:
    """Returns operands that were read, or the one that a register holds."""
    return np.array(signed(sdp[name], 16), np.int64) if read is None else read


def _alu(x: Ints, operand: Ints, shift: int, what: int) -> Ints:
    """Returns maximum, minimum or sum (exact, 33 bits) of x and an operand of 16 bits that is shifted to the left."""
    # A shift of more than 32 saturates whatever is not 0.
    operand = saturated(operand << min(shift, 32), 32)
    match what:
        case 0:
            return np.maximum(x, operand)
        case 1:
            return np.minimum(x, operand)
        case _:
            return x + operand


def _shifted(x: Ints, shift: int) -> Ints:
    """Returns x / 2^shift, rounded; 0 where a shift is as wide as the product."""
    return rounded(x, shift) if shift < _PRODUCT else np.zeros_like(x)
