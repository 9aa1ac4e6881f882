"""Random layers on devices that unpack weights: the reference's bits, and footprints that two derivations agree on."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, seed

from qmlir.backends.npu.accesses import accesses_of
from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.report import predicted_cycles
from qmlir.backends.reference import evaluate
from qmlir.backends.simulated import assemble, serial
from qmlir.compiler import Pipeline, main_function
from qmlir.devices import Device, load_device, text_of
from qmlir.devices.model.footprints import footprints
from qmlir.isa.commands import Unpack, Window
from qmlir.stages import TO_COMMANDS, to_layers
from tests.conftest import THOROUGH
from tests.graphs import drawn
from tests.lowering.qint_to_npu.layers import Layer, legal

VARIANTS = [
    ("nmp", "exec", [4]),
    ("nmp", "load", [4]),
    ("nmp", "load", [3, 5, 6, 7]),
    ("ethos-u55-like", "kernel", [2, 3, 4, 5, 6, 7]),
    ("ethos-u55-like", "dma", [2, 3, 4, 5, 6]),
    ("gemmini", "load", [4]),
    ("nvdla-small", "exec", [2, 4]),
    ("vta", "exec", [3, 4, 6]),
]
"""Device, queue, and the widths of the weights that the queue unpacks."""

KINDS = ("conv2d", "depthwise", "fc")

EACH = 200 if THOROUGH else 12


def computes(layer: Layer, device: Device, seen: Counter[str]) -> None:
    """The layer gives the reference's bits, in order and side by side; counts how its weights are held."""
    program = assemble(Pipeline(*to_layers(text_of(device)), *TO_COMMANDS)(layer.module))
    assert not program.routines, "the host computes a part"
    (expected,) = evaluate(main_function(layer.module), layer.inputs)
    for each in (program, serial(program, device)):
        simulator = Simulator(each, device)
        (got,) = simulator.run(*layer.inputs)
        np.testing.assert_array_equal(got, expected)
        assert simulator.report is not None
        assert simulator.report.cycles == predicted_cycles(each, device)
    theirs = [touched for _, touched in footprints(program.commands, device)]
    assert theirs == [found.footprint for found in accesses_of(program.commands, device, [])]
    seen.update("unpacked" for command in program.commands if isinstance(command, Unpack))
    seen.update("read" for command in program.commands if isinstance(command, Window) and command.weight_bits < 8)
    seen.update("bytes" for command in program.commands if isinstance(command, Window) and command.weight_bits == 8)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "queue", "widths"), VARIANTS)
def test_random_layers(name: str, queue: str, widths: list[int]) -> None:
    device = load_device(name).with_({f"queue.{queue}.unpacks": widths})
    seen = Counter[str]()
    drawn(EACH)(seed(0)(given(legal(device, KINDS))(lambda layer: computes(layer, device, seen))))()
    by_array = any(q.engine == "array" and q.unpacks for q in device.queue)
    assert seen["read" if by_array else "unpacked"], "some weights are packed"
    assert not seen["unpacked" if by_array else "read"]
    assert seen["bytes"], "and some are not"
