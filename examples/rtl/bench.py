"""Drives unit.v from golden vectors, with cocotb: every `convolve` and `post` of a program, in the program's order.

Before each command the unit has to hold the bytes that the command reads, and behind it those that the command writes.
What the unit does not compute (transfers, pools, the host) is put into its memory from the vectors. Any difference is
an error that names the command and its layer. `VECTORS` in the environment names the folder.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

BASES = {"data": 0x00000, "weights": 0x10000}
"""Memory of the device → its first byte in the unit's memory; other memories are outside."""

CONVOLVE = (
    "data weights bias sums init zero_point weight_zero_point rows columns channels row_pitch pixel_pitch "
    "out_rows out_columns kernel_rows kernel_columns stride_rows stride_columns dilation_rows dilation_columns "
    "top left out_channels"
).split()
"""Fields of `convolve` in the order of the unit's registers."""

POST = "source source_bits source_row source_pixel target target_row target_pixel".split()
CONTEXT = "table per_channel input_zero_point zero_point lower upper".split()
"""Fields of `post` and of its context in the order of the unit's registers from 32 on."""

LONGEST = 1_000_000
"""The most cycles of a command."""

Image = dict[int, int]
"""Address in the unit's memory → byte."""


class DifferenceError(Exception):
    """Raised where the unit, or a file of the vectors, has other bytes than the vectors say; it names the command."""


class Vectors:
    """A folder of vectors."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.index: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self.commands: list[dict[str, Any]] = self.index["commands"]

    def name(self, command: Mapping[str, Any]) -> str:
        """What errors call a command: its number, its kind, and its layer."""
        layer = "" if command["layer"] is None else f" of layer {self.index['layers'][command['layer']]['name']}"
        return f"command {command['number']} {command['mnemonic']}{layer}"

    def image(self, files: list[dict[str, Any]], name: str) -> Image:
        """The bytes of files in the memories that the unit has; each file has to have its checksum."""
        found: Image = {}
        for file in files:
            held = dict(_read(self.folder / file["path"]))
            checksum = f"{zlib.crc32(bytes(held.values())):08x}"
            for what, got, wanted in (("checksum", checksum, file["crc32"]), ("size", len(held), file["bytes"])):
                if got != wanted:
                    raise DifferenceError(f"{name}: {file['path']} has the {what} {got}, not {wanted}")
            if file["memory"] in BASES:
                found |= {BASES[file["memory"]] + address: byte for address, byte in held.items()}
        return found


def _read(path: Path) -> Iterator[tuple[int, int]]:
    """Yields the addresses and bytes of a file for `$readmemh`."""
    address = 0
    for word in path.read_text(encoding="ascii").split():
        if word.startswith("@"):
            address = int(word[1:], 16)
        else:
            yield address, int(word, 16)
            address += 1


class Unit:
    """The unit behind its ports."""

    def __init__(self, dut: Any):
        self.dut = dut

    async def reset(self) -> None:
        for port in (
            "field",
            "field_value",
            "field_write",
            "start",
            "command",
            "host_address",
            "host_write",
            "host_in",
        ):
            getattr(self.dut, port).value = 0
        self.dut.reset.value = 1
        cocotb.start_soon(Clock(self.dut.clk, 10, units="ns").start())
        for _ in range(2):
            await RisingEdge(self.dut.clk)
        await FallingEdge(self.dut.clk)
        self.dut.reset.value = 0

    async def write(self, image: Image) -> None:
        """Writes bytes, eight in a cycle."""
        for first in sorted({address & ~7 for address in image}):
            held = [image.get(first + n) for n in range(8)]
            self.dut.host_address.value = first
            self.dut.host_in.value = sum((byte or 0) << 8 * n for n, byte in enumerate(held))
            self.dut.host_write.value = sum((byte is not None) << n for n, byte in enumerate(held))
            await FallingEdge(self.dut.clk)
        self.dut.host_write.value = 0

    async def read(self, addresses: Any) -> Image:
        """Reads bytes, eight at a time."""
        found: dict[int, str] = {}
        for first in sorted({address & ~7 for address in addresses}):
            self.dut.host_address.value = first
            await FallingEdge(self.dut.clk)
            eight = self.dut.host_out.value.binstr
            found |= {first + n: eight[56 - 8 * n : 64 - 8 * n] for n in range(8)}
        return {address: int(found[address], 2) if found[address].isdigit() else -1 for address in addresses}

    async def run(self, kind: int, registers: Mapping[int, int]) -> int:
        """Executes a command; returns how many bytes the unit has written.

        Raises:
            TimeoutError: The command has not ended after `LONGEST` cycles.
        """
        for number, value in registers.items():
            self.dut.field.value, self.dut.field_value.value, self.dut.field_write.value = number, value & 0xFFFFFFFF, 1
            await FallingEdge(self.dut.clk)
        self.dut.field_write.value, self.dut.command.value, self.dut.start.value = 0, kind, 1
        await FallingEdge(self.dut.clk)
        self.dut.start.value = 0
        for _ in range(LONGEST):
            if not int(self.dut.busy.value):
                return int(self.dut.written.value)
            await FallingEdge(self.dut.clk)
        raise TimeoutError


def registers_of(command: Mapping[str, Any], commands: list[dict[str, Any]]) -> tuple[int, dict[int, int]] | None:
    """The kind and the registers of a command; None if the unit does not compute it."""
    fields = command["fields"]
    if command["mnemonic"] == "convolve":
        wide = fields["data_bits"], fields["weight_bits"], fields["sum_bits"], fields["bias_bits"], fields["bias_shift"]
        if wide == (8, 8, 32, 32, 0):
            return 1, {number: _value(fields[name]) for number, name in enumerate(CONVOLVE)}
    if command["mnemonic"] == "post":
        context = commands[command["context"]]["fields"]
        if (context["step"], context["bits"]) == (0, 8) and fields["source_bits"] in (8, 32):
            values = [fields[name] for name in POST] + [context[name] for name in CONTEXT]
            sizes = {number: fields[name] for number, name in ((7, "rows"), (8, "columns"), (9, "channels"))}
            return 2, sizes | {32 + number: _value(value) for number, value in enumerate(values)}
    return None


def _value(field: Any) -> int:
    return BASES.get(field[0], 0) + field[1] if isinstance(field, list) else field


def require_same(got: Image, wanted: Image, name: str, what: str) -> None:
    """Fails with the name of a command where bytes differ."""
    wrong = [address for address, byte in wanted.items() if got[address] != byte]
    if wrong:
        at = wrong[0]
        memory, base = max(((m, b) for m, b in BASES.items() if b <= at), key=lambda each: each[1])
        byte = "nothing" if got[at] < 0 else f"{got[at]:#04x}"
        place = f"byte {at - base:#x} of {memory}"
        raise DifferenceError(
            f"{name}: {what} {len(wrong)} bytes that differ: {place} is {byte}, not {wanted[at]:#04x}"
        )


@cocotb.test()
async def commands(dut: Any) -> None:
    """Every command computes what the vectors say; the answer goes to the file that `ANSWER` names."""
    try:
        answer = await follow(Vectors(Path(os.environ["VECTORS"])), Unit(dut))
    except DifferenceError as error:
        Path(os.environ["ANSWER"]).write_text(f"error: {error}\n", encoding="utf-8")
        raise
    Path(os.environ["ANSWER"]).write_text(f"{answer}\n", encoding="utf-8")


async def follow(vectors: Vectors, unit: Unit) -> str:
    """Follows a program; returns how many commands the unit has computed.

    Raises:
        DifferenceError: A command reads or writes other bytes than the vectors say; the error names it.
    """
    driven = 0
    await unit.reset()
    for memory in vectors.index["memories"]:
        if memory["initial"] is not None:
            await unit.write(vectors.image([memory["initial"]], f"the beginning of {memory['name']}"))
    for command in vectors.commands:
        name = vectors.name(command)
        before, after = (vectors.image(command[when], name) for when in ("before", "after"))
        require_same(await unit.read(before), before, name, "reads")
        registers = registers_of(command, vectors.commands)
        if registers is None:
            await unit.write(after)
            continue
        driven += 1
        try:
            written = await unit.run(*registers)
        except TimeoutError:
            raise DifferenceError(f"{name}: has not ended after {LONGEST} cycles") from None
        require_same(await unit.read(after), after, name, "writes")
        if written != len(after):
            raise DifferenceError(f"{name}: writes {written} bytes, not {len(after)}")
    for memory in vectors.index["memories"]:
        if memory["final"] is not None:
            final = vectors.image([memory["final"]], f"the end of {memory['name']}")
            require_same(await unit.read(final), final, f"the end of {memory['name']}", "holds")
    if not driven:
        raise DifferenceError("the unit must compute some command of the program, got none")
    return f"{driven} of {len(vectors.commands)} commands computed by the unit"
