"""The simulator: the right bits, the right cycles, and a fault wherever hardware would go wrong."""

import re
from dataclasses import replace

import numpy as np
import pytest

from qmlir.backends.npu.cycles import predicted_cycles
from qmlir.backends.npu.simulate import Function, Simulator
from qmlir.backends.npu.stream import Port, Program, Routine
from qmlir.device import load_device
from qmlir.device.blocks import Fault
from qmlir.isa.encoding import Place, StreamError
from tests.backends.npu.programs import DEVICE, DRAM, OUTPUT, Layer, image


def test_a_convolution() -> None:
    layer = Layer.random()
    simulator = Simulator(layer.program(), DEVICE)
    for seed in range(3):
        (y,) = simulator.run(image(seed))
        assert np.array_equal(y, layer.expected(image(seed)))


def test_what_it_costs() -> None:
    program = Layer.random().program()
    simulator = Simulator(program, DEVICE)
    simulator.run(image())
    report = simulator.report
    assert report is not None
    assert report.products == 6 * 5 * 8 * 36
    assert report.cycles == predicted_cycles(program, DEVICE)
    assert report.utilization == report.products / (512 * report.cycles)
    assert [layer.name for layer in report.layers] == ["conv"]
    # By hand: setup 40 behind none; 128 + 512 + 64 + 64 bytes in whole bursts of 64 at 16 a cycle, the convolution
    # after the third; 1 pass of 16 channels by 2 of 32 terms over 30 positions and 60 to fill and drain.
    loads = [40 + 8, 40 + 8 + 64, 40 + 8 + 64 + 4, 40 + 8 + 64 + 8]
    convolved = loads[2] + 60 + 2 * 30
    finished = convolved + 6 * 5 * 8 // 16
    assert report.cycles == finished + 40 + 240 // 16


def test_serial_gives_the_same_bytes() -> None:
    layer = Layer.random()
    lines = [line for line in layer.text().splitlines() if line.strip()]
    serial = "\n".join(step for line in lines for step in (line, "exec sync barrier=1"))
    serial = serial.rpartition("exec sync")[0]
    slow = Simulator(layer.program(_with_all_waits(serial)), DEVICE)
    fast = Simulator(layer.program(), DEVICE)
    assert np.array_equal(slow.run(image())[0], fast.run(image())[0])
    assert slow.report is not None
    assert fast.report is not None
    assert slow.report.cycles >= fast.report.cycles


def _with_all_waits(text: str) -> str:
    """Each command after a barrier waits for it: `exec` counts the barriers."""
    counts = {"exec": 0}
    lines: list[str] = []
    for line in text.splitlines():
        queue = line.split()[0]
        waits = line.partition(" after ")[2]
        if queue != "exec" and counts["exec"] and "exec:" not in waits:
            line = f"{line} exec:{counts['exec']}" if waits else f"{line} after exec:{counts['exec']}"
        elif queue != "exec":
            line = re.sub(r"exec:\d+", f"exec:{counts['exec']}", line)
        counts["exec"] += queue == "exec"
        lines.append(line)
    return "\n".join(lines)


WRONG = [
    (" after load:3", "", "convolve.*must wait for command 1, number 1 of queue load"),
    (" after load:3", " after load:2", "must wait for command 3, number 3 of queue load.*got a wait for 2 of it"),
    (" after exec:2 load:4", " after exec:2", "must wait for command 4, number 4 of queue load"),
    (" after post:2", " after post:1", "store move.*must wait for command 7, number 2 of queue post"),
    ("data=act:0x0", "data=act:0x3fff0", "must stay within a memory, got bytes 0x3fff0 to 0x40068 of act"),
    ("data=act:0x0", "data=act:0x800", "must read what was written before, got byte 0x800 of act"),
    ("data_bits=8", "data_bits=12", "integers must have 8, 16 bits, got 12"),
    ("data_bits=8", "data_bits=16", "must read what was written"),
    ("kernel_rows=3", "kernel_rows=0", "a window must have 1 to"),
    ("stride_rows=1", "stride_rows=0", "strides and dilations must be at least 1"),
    ("out_channels=8", "out_channels=0", "a convolution must have output channels, got none"),
    ("out_rows=6", "out_rows=0", "a window must have places, got 0 rows, 5 columns"),
    (
        "rows=6 columns=5 channels=4",
        "rows=6 columns=0 channels=4",
        "a tensor must have elements, got 6 rows, 0 columns",
    ),
    ("ctx=1 source", "ctx=2 source", "must use a context that was written, got context 2"),
    ("contract=4", "contract=77", "a contract must be one of single"),
    ("lower=0", "lower=200", "bounds must be in order and fit 8 bits"),
    ("target=act:0x0", "target=dram:0x0", "queue load must move data between its memories, got memory 3"),
    ("out_rows=6 out_columns=5", "out_rows=60000 out_columns=50000", "must meet at most"),
    ("exec mark layer=0", "exec host routine=0 read=0 written=0", "must call a routine of the host, got number 0 of 0"),
]


@pytest.mark.parametrize(("text", "instead", "message"), WRONG)
def test_faults(text: str, instead: str, message: str) -> None:
    layer = Layer.random()
    changed = layer.text().replace(text, instead, 1)
    assert changed != layer.text()
    with pytest.raises(Fault, match=message):
        Simulator(layer.program(changed), DEVICE).run(image())


HALVES = Routine(
    "halves",
    (Port("y", Place(DRAM, OUTPUT), (6, 5, 8), "i8"),),
    (Port("z", Place(DRAM, 0x4000), (6, 5, 8), "f32"),),
)


def _with_host(after: str = " after store:1", read: int = 240) -> Program:
    """The layer, and then half of each of its numbers as a float."""
    layer = Layer.random()
    host = f"exec host routine=0 read={read} written=960{after}\n exec end"
    program = layer.program(layer.text().replace("exec end", host))
    return replace(program, routines=(HALVES,), outputs=HALVES.outputs)


def test_what_the_host_computes() -> None:
    simulator = Simulator(_with_host(), DEVICE, {"halves": lambda y: [y.astype(np.float32) / 2]})
    (z,) = simulator.run(image())
    assert np.array_equal(z, Layer.random().expected(image()) / np.float32(2))
    alone = Simulator(Layer.random().program(), DEVICE)
    alone.run(image())
    assert simulator.report is not None
    assert alone.report is not None
    assert simulator.report.cycles == alone.report.cycles + 500 + (240 + 960) // 4


WRONG_HOSTS = [
    (_with_host(""), {"halves": lambda y: [y / np.float32(2)]}, "must wait for command 8, number 1 of queue store"),
    (_with_host(read=8), {}, "must say that its routine reads 240 bytes and writes 960, got 8 and 960"),
    (_with_host(), {}, "must call a routine that the host has, got halves"),
    (_with_host(), {"halves": lambda y: []}, "routine halves must have 1 results, got 0"),
    (_with_host(), {"halves": lambda y: [y]}, r'result "z" must be float32\[6, 5, 8\], got int8\[6, 5, 8\]'),
]


@pytest.mark.parametrize(("program", "routines", "message"), WRONG_HOSTS)
def test_hosts_that_go_wrong(program: Program, routines: dict[str, Function], message: str) -> None:
    with pytest.raises(Fault, match=message):
        Simulator(program, DEVICE, routines).run(image())


def test_sums_that_overflow() -> None:
    """Wrapped on a device whose sums wrap, as its file says; a program for one is refused by another."""
    layer = Layer.random()
    extreme = Layer(layer.weights, np.full(8, 2**31 - 1, np.int32))
    (y,) = Simulator(extreme.program(), DEVICE).run(image())
    padded = np.pad(image().astype(np.int64), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    sums = np.einsum("rckij,oijk->rco", windows, layer.weights.astype(np.int64)) + 2**31 - 1
    wrapped = sums.astype(np.uint32).astype(np.int32).astype(np.int64)
    assert (sums != wrapped).any()
    assert np.array_equal(y, np.clip(wrapped + 64 >> 7, 0, 127).astype(np.int8))


def test_another_device() -> None:
    with pytest.raises(StreamError, match=r"must be made for this device, got name = nmp there, gemmini here"):
        Simulator(Layer.random().program(), load_device("gemmini"))


def test_inputs() -> None:
    simulator = Simulator(Layer.random().program(), DEVICE)
    with pytest.raises(Fault, match=r'input "x" must be int8\[6, 5, 4\], got int16\[6, 5, 4\]'):
        simulator.run(image().astype(np.int16))
    with pytest.raises(Fault, match="must be given 1 inputs, got 0"):
        simulator.run()
