"""Writes network.h for main.c: a network's commands for Gemmini, its memory, and what the output has to be.

python bundle.py digits.mlir image.npy network.h
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import qmlir
from qmlir.backends.hardware.gemmini.encoder import BASE
from qmlir.backends.layered import LayerProgram


def memory_of(program: LayerProgram, given: np.ndarray) -> np.ndarray:
    """The bytes of the memory before the first command: constants, and the input."""
    memory = np.zeros(program.size, np.uint8)
    for address, data in program.constants.items():
        memory[address : address + len(data)] = np.frombuffer(data, np.uint8)
    at = program.addresses[program.inputs[0].name]
    memory[at : at + given.size] = given.reshape(-1).view(np.uint8)
    return memory


def header(network: str, given: np.ndarray) -> str:
    """The text of network.h for an integer network, `given` of which is the int8 input."""
    module = qmlir.load(network)
    program = qmlir.compile(module, target=qmlir.load_device("gemmini").with_({"encoder": "gemmini"})).layered
    assert program is not None
    (expected,) = qmlir.reference(module).run(given)
    tables = {
        "const uint64_t WORDS": [f"{word:#x}" for word in program.words.all],
        "_Alignas(64) uint8_t MEMORY": memory_of(program, given).tolist(),
        "const uint8_t EXPECTED": expected.reshape(-1).view(np.uint8).tolist(),
    }
    lines = [f"static {name}[] = {{{', '.join(map(str, values))}}};" for name, values in tables.items()]
    output = program.addresses[program.outputs[0].name]
    return "\n".join([f"#define BASE {BASE}", f"#define OUTPUT {output}", *lines, ""])


def main(arguments: Sequence[str]) -> None:
    """Writes the header."""
    network, given, path = arguments
    Path(path).write_text(header(network, np.load(given)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
