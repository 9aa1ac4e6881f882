"""Writes the words of a language model's tokens, which the C program and the page show: each one's bytes in turn.

    pip install gguf
    python words.py model.gguf my.words

The file holds, for each token, the number of its bytes in one byte, and behind it the bytes. Words are those in the
GGUF file: of tokenizers on bytes (`gpt2`), whose words spell each byte as a printable character, and of others, which
write a space as ▁ and single bytes as <0x0A>.
"""

import argparse
import re
from functools import cache
from pathlib import Path

from gguf import GGUFReader

MOST = 255


@cache
def spelled() -> dict[str, int]:
    """The characters by which tokenizers on bytes spell each byte: printable ones themselves, others from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def bytes_of(word: str, kind: str) -> bytes:
    """The bytes that a token stands for."""
    if kind == "gpt2":
        known = spelled()
        return bytes(known[c] for c in word) if all(c in known for c in word) else word.encode()
    if single := re.fullmatch(r"<0x([0-9A-F]{2})>", word):
        return bytes([int(single[1], 16)])
    return word.replace("▁", " ").encode()


def main() -> None:
    """Reads the words of a file, and writes them."""
    parser = argparse.ArgumentParser(description="Writes the words of a language model's tokens.")
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("words", type=Path, help="the file to write")
    arguments = parser.parse_args()
    fields = GGUFReader(arguments.model).fields
    kind, tokens = fields["tokenizer.ggml.model"].contents(), fields["tokenizer.ggml.tokens"].contents()
    words = [bytes_of(token, kind)[:MOST] for token in tokens]
    arguments.words.write_bytes(b"".join(bytes([len(word)]) + word for word in words))


if __name__ == "__main__":
    main()
