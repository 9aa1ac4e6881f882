"""Readers of their own for the files of images: address → byte."""

import re


def intel_hex_bytes(text: str) -> dict[int, int]:
    """The bytes of a file in Intel HEX; checks the sum of each line, and that no line leaves its 64 KiB."""
    memory, base, ended = dict[int, int](), 0, False
    for line in text.splitlines():
        assert not ended
        assert line[0] == ":"
        record = bytes.fromhex(line[1:])
        assert sum(record) % 256 == 0
        size, address, kind, data = record[0], int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        assert len(data) == size
        if kind == 4:
            base = int.from_bytes(data, "big") << 16
        elif kind == 1:
            ended = True
        else:
            assert kind == 0
            assert address + size <= 1 << 16
            memory |= {base + address + n: byte for n, byte in enumerate(data)}
    assert ended
    return memory


def verilog_bytes(text: str) -> dict[int, int]:
    """The bytes of a file for `$readmemh` into a memory of bytes."""
    memory, at = dict[int, int](), 0
    for word in text.split():
        if word.startswith("@"):
            at = int(word[1:], 16)
        else:
            assert len(word) == 2
            memory[at], at = int(word, 16), at + 1
    return memory


def c_bytes(text: str, name: str) -> dict[int, int]:
    """The bytes of an array of C, from its address on."""
    address, size = (int(_one(rf"const uint32_t {name}_{what} = (\w+);", text), 0) for what in ("address", "size"))
    listed = _one(rf"const uint8_t {name}\[\] = \{{([^}}]*)\}};", text)
    data = [int(byte, 16) for byte in re.findall(r"0x(\w\w),", listed)]
    assert len(data) == size
    return {address + n: byte for n, byte in enumerate(data)}


def _one(pattern: str, text: str) -> str:
    (found,) = re.findall(pattern, text)
    return found
