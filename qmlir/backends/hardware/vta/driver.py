"""What a driver of VTA does with a network in layers, on the functional model: it places tensors and runs streams."""

import numpy as np

from qmlir.backends.hardware.vta.layout import blocks, from_vectors, to_vectors
from qmlir.backends.hardware.vta.machine import Machine
from qmlir.backends.layered import LayerProgram
from qmlir.devices.model.layer import PlacedLayer, Tensor
from qmlir.numerics import Array


class Driver:
    """A network on the functional model, its constants in memory.

    Args:
        program: The network in layers, whose words are streams of the encoder `vta`.

    The layers run one after the other; between them, a program computes what `program.steps` leaves to the host.
    """

    def __init__(self, program: LayerProgram):
        self.program, self.machine = program, Machine(program.size)
        for address, data in program.constants.items():
            self.machine.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def put(self, tensor: Tensor, values: Array) -> None:
        """Writes a tensor's int8 values to its place."""
        held = to_vectors(values.reshape(tensor.shape)).view(np.uint8).reshape(-1)
        at = self.program.addresses[tensor.name]
        self.machine.memory[at : at + held.size] = held

    def get(self, tensor: Tensor) -> Array:
        """Reads a tensor's int8 values [images, rows, columns, channels] from its place."""
        _, rows, columns, channels = tensor.shape
        at = self.program.addresses[tensor.name]
        held = self.machine.memory[at : at + blocks(channels) * rows * columns * 16]
        return from_vectors(held, tensor.shape)

    def run(self, layer: PlacedLayer) -> None:
        """Runs the stream of a layer.

        Raises:
            InstructionError: The model cannot carry it out.
        """
        self.machine.run(self.program.words.commands[layer.number])
