"""Packets of 64-bit words: the instructions of a made-up device, as an encoder of qmlir and a decoder.

A command is a packet of one to eight words. Read as one number, the first word lowest, a packet is

    op:6  words:4  queue:4  ctx:4  waits:2  then for each wait queue:4 count:20  then the fields in order

A place is memory:4 address:24. Any other field has the width of `BITS`, signed ones in two's complement. A packet has
no bits for dilations. So `refuses` refuses windows with dilations, and every number that does not fit its bits.
"""

from collections.abc import Iterator, Mapping, Sequence

from qmlir.devices.model.encoder import Encoder, Issued
from qmlir.isa.commands import BY_OP
from qmlir.isa.encoding import Command, Place, Signed, StreamError, Wait, field_kinds, mnemonic

WORD_BITS = 64
OP, WORDS, QUEUE, CTX, WAITS, COUNT, MEMORY, ADDRESS = 6, 4, 4, 4, 2, 20, 4, 24

_GROUPS: Mapping[int, str] = {
    1: "barrier per_channel step operation pooling count_padding",
    2: "init",
    3: "stride_rows stride_columns",
    4: "contract",
    5: "kernel_rows kernel_columns bias_shift",
    6: "shift",
    7: "bits data_bits weight_bits sum_bits bias_bits source_bits top left",
    8: "routine status value",
    9: "zero_point weight_zero_point input_zero_point lhs_zero_point rhs_zero_point",
    12: "layer rows columns channels planes out_rows out_columns out_channels",
    17: "lower upper",
    32: "read written constants work lhs_multiplier rhs_multiplier",
}
BITS = {name: bits for bits, names in _GROUPS.items() for name in names.split()}
"""Field → its bits; a field that is not listed, a size or a pitch, has as many as an address."""

DILATIONS = ("dilation_rows", "dilation_columns")
"""Fields that are not in a packet; they are 1."""


class Packet64(Encoder):
    """Encodes commands as packets of 64-bit words."""

    word_bits = WORD_BITS

    def refuses(self, command: Command) -> str | None:
        for name, kind in field_kinds(type(command)).items():
            value = getattr(command, name)
            if name in DILATIONS and value != 1:
                return f"a packet has no bits for dilations, got {value}"
            if name not in DILATIONS and not _fits(value, kind, name):
                return f"a packet has {_bits(name)} bits for {name} of {mnemonic(type(command))}, got {value}"
        if any(wait.finished >> COUNT for wait in command.waits):
            return (
                f"a packet waits for at most {(1 << COUNT) - 1} commands, got {max(w.finished for w in command.waits)}"
            )
        return None

    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        for issued in commands:
            yield _packet(issued.command)

    def decode(self, words: Sequence[int]) -> list[Command]:
        found: list[Command] = []
        at = 0
        while at < len(words):
            length = words[at] >> OP & (1 << WORDS) - 1
            if not 1 <= length <= len(words) - at:
                raise StreamError("a packet must lie whole in the words", where=f"word {at}", got=f"{length} words")
            found.append(_command(words[at : at + length], at))
            at += length
        return found


def _bits(name: str) -> int:
    return BITS.get(name, ADDRESS)


def _fits(value: int | Place, kind: object, name: str) -> bool:
    if isinstance(value, Place):
        return value.memory < 1 << MEMORY and value.address < 1 << ADDRESS
    bits = _bits(name)
    return -(1 << bits) <= 2 * value < 1 << bits if kind is Signed else 0 <= value < 1 << bits


def _packet(command: Command) -> list[int]:
    """The words of a command."""
    parts = [(command.queue, QUEUE), (command.ctx, CTX), (len(command.waits), WAITS)]
    for wait in command.waits:
        parts += [(wait.queue, QUEUE), (wait.finished, COUNT)]
    for name, kind in field_kinds(type(command)).items():
        value = getattr(command, name)
        if kind is Place:
            parts += [(value.memory, MEMORY), (value.address, ADDRESS)]
        elif name not in DILATIONS:
            parts.append((value % (1 << _bits(name)), _bits(name)))
    length = -(-(OP + WORDS + sum(bits for _, bits in parts)) // WORD_BITS)
    packet = at = 0
    for value, bits in [(command.OP, OP), (length, WORDS), *parts]:
        packet |= value << at
        at += bits
    return [packet >> WORD_BITS * n & (1 << WORD_BITS) - 1 for n in range(length)]


def _command(words: Sequence[int], at: int) -> Command:
    """The command of a packet whose first word is number `at`."""
    packet = sum(word << WORD_BITS * n for n, word in enumerate(words))

    def take(bits: int) -> int:
        nonlocal packet
        value = packet & (1 << bits) - 1
        packet >>= bits
        return value

    op = take(OP)
    if op not in BY_OP:
        raise StreamError("a packet must have a known op", where=f"word {at}", got=f"{op:#04x}")
    take(WORDS)
    queue, ctx = take(QUEUE), take(CTX)
    waits = tuple(Wait(take(QUEUE), take(COUNT)) for _ in range(take(WAITS)))
    fields = {}
    for name, kind in field_kinds(BY_OP[op]).items():
        if kind is Place:
            fields[name] = Place(take(MEMORY), take(ADDRESS))
        elif name in DILATIONS:
            fields[name] = 1
        else:
            value, bits = take(_bits(name)), _bits(name)
            fields[name] = value - (1 << bits) * (value >> bits - 1) if kind is Signed else kind(value)
    return BY_OP[op](queue, waits, ctx, **fields)
