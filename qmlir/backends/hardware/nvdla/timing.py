"""The cycles that NVDLA small takes for a network, predicted from the words of its layers."""

from qmlir.backends.hardware.nvdla.cost import cycles
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.words import step_of
from qmlir.backends.layered import LayerProgram


def layer_cycles(program: LayerProgram) -> list[int]:
    """Returns the cycles of each layer of a program; those of its jobs together.

    Between jobs the driver writes registers, which takes as long as its bus does and is not among them. Nothing is
    computed: no memory is needed.

    Raises:
        QmlirError: As `Nvdla.execute` says.
    """
    device, found = Nvdla(Memory(), computes=False), list[int]()
    for words in program.words.commands:
        before = len(device.done)
        device.execute(map(step_of, words))
        found.append(sum(map(cycles, device.done[before:])))
    return found
