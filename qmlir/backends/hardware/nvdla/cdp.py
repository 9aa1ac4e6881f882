"""CDP: normalization across channels, by two tables of the sum of squares of neighbouring channels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.arithmetic import Ints, rounded, saturated, signed, wrapped
from qmlir.backends.hardware.nvdla.memory import ATOM, Cube, Memory
from qmlir.backends.hardware.nvdla.units import Settings

LINEAR_ONLY, EXPONENTIAL = 257, 65
"""Entries of the table LO, which is linear, and of LE, which is linear or has a place for each power of two."""

_FRACTION = 16
"""Bits of a place between two entries."""

_SUM = 21
"""Bits of a sum of nine squares of 9 bits; bits above them of where a table starts are not compared."""


@dataclass
class Tables:
    """The two tables of CDP and the place in them that is written or read next."""

    le: Ints
    lo: Ints
    place: int = 0
    second: bool = False

    @classmethod
    def empty(cls) -> "Tables":
        """Returns tables of zeros."""
        return cls(np.zeros(EXPONENTIAL, np.int64), np.zeros(LINEAR_ONLY, np.int64))

    def copy(self) -> "Tables":
        """Returns tables of their own with the same entries."""
        return Tables(self.le.copy(), self.lo.copy(), self.place, self.second)

    def choose(self, access: int) -> None:
        """Takes what was written to `S_LUT_ACCESS_CFG`: a place, and which table."""
        self.place, self.second = access & 0x3FF, bool(access >> 16 & 1)

    def write(self, value: int) -> None:
        """Writes an entry of 16 bits; the next one is for the place behind it, or for the last place again."""
        table = self.lo if self.second else self.le
        if self.place < len(table):
            table[self.place] = signed(value, 16)
        if self.place != len(table) - 1:
            self.place += 1


@dataclass(frozen=True)
class Normalization:
    """A layer of CDP and CDP_RDMA, and the tables as they are when it begins."""

    cdp: Settings
    rdma: Settings
    tables: Tables

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns."""
        return self.rdma["CHANNEL"] + 1, self.rdma["HEIGHT"] + 1, self.rdma["WIDTH"] + 1

    def check(self) -> None:
        """Refuses what nv_small does not have.

        Raises:
            QmlirError: As said, naming the register.
        """
        self.cdp.needs("INPUT_DATA_TYPE", 0, "nv_small has int8 only")
        self.rdma.needs("INPUT_DATA", 0, "nv_small has int8 only")
        self.cdp.needs("DST_RAM_TYPE", 1, "nv_small has one memory")
        self.rdma.needs("SRC_RAM_TYPE", 1, "nv_small has one memory")

    def run(self, memory: Memory) -> None:
        """Computes and writes the result."""
        x = self._converted(self._cube(self.rdma, "SRC").read(memory).astype(np.int64))
        surfaces, rows, columns, _ = x.shape
        x = x.transpose(0, 3, 1, 2).reshape(-1, rows, columns)
        x[self.shape[0] :] = 0
        y = self._looked_up(self._sums(x))
        if not self.cdp["MUL_BYPASS"]:
            y = y * x
        scaled = (y - signed(self.cdp["DATOUT_OFFSET"], 25)) * signed(self.cdp["DATOUT_SCALE"], 16)
        result = saturated(rounded(scaled, self.cdp["DATOUT_SHIFTER"]), 8)
        lanes = result.reshape(surfaces, ATOM, rows, columns).transpose(0, 2, 3, 1)
        self._cube(self.cdp, "DST").write(memory, lanes.astype(np.int8))

    def _cube(self, unit: Settings, side: str) -> Cube:
        channels, rows, columns = self.shape
        address = unit.address(f"{side}_BASE_ADDR_LOW", f"{side}_BASE_ADDR_HIGH")
        line, surface = unit[f"{side}_LINE_STRIDE"], unit[f"{side}_SURFACE_STRIDE"]
        cube = Cube(address, columns, rows, channels, line, surface, unit.where(f"{side}_LINE_STRIDE"))
        cube.check()
        return cube

    def _converted(self, x: Ints) -> Ints:
        """Returns the data after the conversion, in 9 bits; the offset has 8."""
        products = (x - signed(self.cdp["DATIN_OFFSET"], 8)) * signed(self.cdp["DATIN_SCALE"], 16)
        return saturated(rounded(products, self.cdp["DATIN_SHIFTER"]), 9)

    def _sums(self, x: Ints) -> Ints:
        """Returns the sums of squares of 3, 5, 7 or 9 channels around each; outside of the data they are 0."""
        if self.cdp["SQSUM_BYPASS"]:
            return x
        reach, channels = self.cdp["NORMALZ_LEN"] + 1, len(x)
        squares = np.pad(x * x, ((reach, reach), (0, 0), (0, 0)))
        return np.sum([squares[n : n + channels] for n in range(2 * reach + 1)], axis=0)

    def _looked_up(self, sums: Ints) -> Ints:
        """Returns what the tables have for sums, from the one that the priorities name where both or none does."""
        cdp = self.cdp
        le, le_under, le_over = self._table("LE", self.tables.le, sums, exponential=not cdp["LUT_LE_FUNCTION"])
        lo, lo_under, lo_over = self._table("LO", self.tables.lo, sums, exponential=False)
        le_out, lo_out = le_under | le_over, lo_under | lo_over
        second = np.full(sums.shape, bool(cdp["LUT_HYBRID_PRIORITY"]))
        second = np.where(le_under & lo_under, bool(cdp["LUT_UFLOW_PRIORITY"]), second)
        second = np.where(le_over & lo_over, bool(cdp["LUT_OFLOW_PRIORITY"]), second)
        second = np.where(le_out != lo_out, le_out, second)
        return np.where(second, lo, le)

    def _table(
        self, name: str, table: Ints, sums: Ints, *, exponential: bool
    ) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns the values of one table for sums, and where they are before its start and past its end."""
        cdp, last = self.cdp, len(table) - 1
        start, end = (
            signed(cdp[f"LUT_{name}_{side}_LOW"] | cdp[f"LUT_{name}_{side}_HIGH"] << 32, 38)
            for side in ("START", "END")
        )
        distance = np.maximum(sums - int(wrapped(np.array(start), _SUM + 1)), 0)
        under = distance == 0
        if exponential:
            offset = signed(cdp["LUT_LE_INDEX_OFFSET"], 8)
            power = np.frexp(distance.astype(np.float64))[1].astype(np.int64) - 1
            place = power - offset
            under |= place < 0
            above = distance - (1 << np.maximum(power, 0))
            fraction = np.where(power > _FRACTION, above >> np.maximum(power - _FRACTION, 0), 0)
            fraction = np.where(power <= _FRACTION, above << np.clip(_FRACTION - power, 0, _FRACTION), fraction)
            # What lies below the first entry is measured from the first entry's place.
            begin = start + (1 << offset if offset >= 0 else 0)
        else:
            select = signed(cdp[f"LUT_{name}_INDEX_SELECT"], 6)
            place = distance >> select if select >= 0 else distance << -select
            below = distance & (1 << select) - 1 if select >= 0 else np.zeros_like(distance)
            fraction = below << _FRACTION - select if select <= _FRACTION else below >> select - _FRACTION
            begin = start
        over = ~under & (place >= last)
        place = np.where(under, 0, np.minimum(place, last))
        value, next_value = table[place], table[np.minimum(place + 1, last)]
        inside = rounded((next_value - value) * fraction, _FRACTION)
        before = self._slope(name, "UFLOW", sums - begin)
        behind = self._slope(name, "OFLOW", sums - end)
        return saturated(value + np.where(under, before, np.where(over, behind, inside)), 16), under, over

    def _slope(self, name: str, side: str, distance: Ints) -> Ints:
        """Returns what is added to the first or the last entry at a distance from it."""
        scale = signed(self.cdp[f"LUT_{name}_SLOPE_{side}_SCALE"], 16)
        shift = signed(self.cdp[f"LUT_{name}_SLOPE_{side}_SHIFT"], 5)
        products = distance * scale
        # Products of 40 bits and more than 23 bits to the left saturate in any case.
        return rounded(products, shift) if shift >= 0 else saturated(products, 40) << min(-shift, 16)
