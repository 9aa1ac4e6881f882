"""What a driver of VTA needs of a network in layers, and what it does, on the functional model.

The memory holds constants and streams before the first layer. A layer runs when the driver gives the device the address
of its stream and the number of its instructions; between two layers, the host may compute.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qmlir.backends.hardware.vta.instructions import WORD_BITS
from qmlir.backends.hardware.vta.layout import LANES, from_vectors, to_vectors, vectors_of
from qmlir.backends.hardware.vta.machine import Machine
from qmlir.backends.layered import LayerProgram
from qmlir.devices.model.layer import PlacedLayer, Tensor
from qmlir.errors import QmlirError
from qmlir.numerics import Array

INSTRUCTION = WORD_BITS // 8
"""Bytes of an instruction."""


class Stream(NamedTuple):
    """The stream of a layer: its byte address, and how many instructions it has."""

    address: int
    instructions: int


@dataclass(frozen=True)
class Image:
    """The memory of a network before its first layer.

    memory   bytes from address 0 on: room for tensors, constants, and streams behind them
    streams  of each layer
    """

    memory: bytes
    streams: tuple[Stream, ...]


def image_of(program: LayerProgram) -> Image:
    """Returns the memory of a network whose words are streams of the encoder `vta`.

    Raises:
        QmlirError: The words are those of another encoder.
    """
    if program.words.bits != WORD_BITS:
        need, got = "the network must be compiled for VTA", f"words of {program.words.bits} bits"
        raise QmlirError(need, got=got)
    memory, streams = bytearray(program.size), list[Stream]()
    for address, data in program.constants.items():
        memory[address : address + len(data)] = data
    memory += bytes(-len(memory) % INSTRUCTION)
    for words in program.words.commands:
        streams.append(Stream(len(memory), len(words)))
        memory += b"".join(word.to_bytes(INSTRUCTION, "little") for word in words)
    return Image(bytes(memory), tuple(streams))


class Driver:
    """A network on the functional model.

    Args:
        program: The network in layers, whose words are streams of the encoder `vta`.

    The layers run one after the other; between them, a program computes what `program.steps` leaves to the host.

    Raises:
        QmlirError: The words are those of another encoder.
    """

    def __init__(self, program: LayerProgram):
        image = image_of(program)
        self.program, self.streams = program, image.streams
        self.machine = Machine(len(image.memory))
        self.machine.memory[:] = np.frombuffer(image.memory, np.uint8)

    def put(self, tensor: Tensor, values: Array) -> None:
        """Writes a tensor's int8 values to its place."""
        held = to_vectors(values.astype(np.int8).reshape(tensor.shape)).view(np.uint8).reshape(-1)
        at = self.program.addresses[tensor.name]
        self.machine.memory[at : at + held.size] = held

    def get(self, tensor: Tensor) -> Array:
        """Reads a tensor's int8 values [images, rows, columns, channels] from its place."""
        at = self.program.addresses[tensor.name]
        held = self.machine.memory[at : at + vectors_of(tensor.shape) * LANES]
        return from_vectors(held.view(np.int8), tensor.shape)

    def run(self, layer: PlacedLayer) -> None:
        """Runs the stream of a layer, which the device reads from memory.

        Raises:
            InstructionError: The model cannot carry it out.
        """
        address, count = self.streams[layer.number]
        held = self.machine.memory[address : address + count * INSTRUCTION].tobytes()
        self.machine.run(
            int.from_bytes(held[at : at + INSTRUCTION], "little") for at in range(0, len(held), INSTRUCTION)
        )
