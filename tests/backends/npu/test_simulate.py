"""The simulator: the right bits, the right cycles, and a fault wherever hardware would go wrong."""

from dataclasses import replace

import numpy as np
import pytest

from qmlir.backends.npu.execute import Function, Simulator
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.report import predicted_cycles
from qmlir.backends.npu.stream import Port, Program, Routine, Segment, assemble, flat
from qmlir.backends.simulated import serial
from qmlir.devices import load_device
from qmlir.devices.model.costs import demand
from qmlir.devices.model.footprints import footprints
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import Move
from qmlir.isa.encoding import Place, StreamError, Wait
from tests.backends.npu.programs import DEVICE, DRAM, OUTPUT, TABLE, WEIGHTS, Layer, image, tiled


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
    program = Layer.random().program()
    slow, fast = Simulator(serial(program, DEVICE), DEVICE), Simulator(program, DEVICE)
    assert np.array_equal(slow.run(image())[0], fast.run(image())[0])
    assert slow.report is not None
    assert fast.report is not None
    # The bias and the table come after the sums, instead of while weights come and while sums are computed.
    assert slow.report.cycles > fast.report.cycles
    one_by_one = [
        demand(command, DEVICE, touched).busy + (40 if isinstance(command, Move) else 0)
        for command, touched in footprints(program.commands, DEVICE)
    ]
    assert slow.report.cycles == sum(one_by_one)


@pytest.mark.parametrize("number", [n for n, c in enumerate(Layer.random().program().commands) if c.waits])
def test_every_wait_is_needed(number: int) -> None:
    program = Layer.random().program()
    command = program.commands[number]
    for place, wait in enumerate(command.waits):
        weaker = list(command.waits)
        weaker[place] = Wait(wait.queue, wait.finished - 1)
        commands = list(program.commands)
        commands[number] = replace(command, waits=tuple(weaker))
        with pytest.raises(Fault, match=f"^command {number}, .*must wait for command"):
            checked(replace(program, commands=commands), DEVICE)


def test_many_at_once() -> None:
    """Data, weights, tables and what the host makes of it: each run has its own."""
    layer = Layer.random()
    ports = (Port("w", Place(DRAM, WEIGHTS), (1024,), "i8"), Port("t", Place(DRAM, TABLE), (2,), "i32"))
    program = replace(_with_host(), inputs=(*layer.program().inputs, *ports))
    rng = np.random.default_rng(5)
    weights = [np.frombuffer(tiled(Layer.random(seed).weights, 16, 32), np.int8) for seed in range(4)]
    samples = [(image(n), w, np.array([1 << 30, -rng.integers(4, 9)], np.int32)) for n, w in enumerate(weights)]
    assert weights[0].size == 1024
    simulator = Simulator(program, DEVICE, {"halves": lambda y: [y.astype(np.float32) / 2]})
    together = simulator.run_all(samples)
    apart = [simulator.run(*sample) for sample in samples]
    assert all(np.array_equal(a, b) for many, one in zip(together, apart, strict=True) for a, b in zip(many, one))
    assert len({many[0].tobytes() for many in together}) == 4


def test_loops_of_a_transfer() -> None:
    """ethos-u55-like: its transfers are runs of bytes."""
    device = load_device("ethos-u55-like")
    text = """
        dma move source=flash:0x0 target=sram:0x0 size=16 rows=2 planes=1 source_row=32 source_plane=0 \
target_row=16 target_plane=0
        kernel end status=0
    """
    with pytest.raises(Fault, match="a transfer of queue dma must have at most 1 loops, got 2"):
        Simulator(Program(flat(device), assemble(text, device)), device)


def test_a_report_of_each_layer() -> None:
    """A layer of loads alone is bound by its bus, of a byte a cycle, and reads what it says from dram."""
    slow = {"memory.dram.bytes_per_cycle": {"read": 1.0, "write": 1.0}, "queue.load.bytes_per_cycle": 1.0}
    device = load_device("nvdla-small").with_(slow)
    text = """
        exec mark layer=1
        load move source=dram:0x0 target=cbuf:0x0 size=100 rows=1 planes=1 source_row=0 source_plane=0 \
target_row=0 target_plane=0
        exec mark layer=0
        load fill target=cbuf:0x0 size=50 rows=1 planes=1 target_row=0 target_plane=0 value=3
        exec end status=0
    """
    segments = (Segment(Place(2, 0), bytes(100)),)
    simulator = Simulator(Program(flat(device), assemble(text, device), segments, layers=("b", "a")), device)
    simulator.run()
    assert simulator.report is not None
    first, second = simulator.report.layers
    assert (first.name, first.cycles, first.bound, first.read, first.written) == ("a", 132, 100, {"dram": 100}, {})
    assert (second.name, second.cycles, second.bound, second.bound_by) == ("b", 50, 50, "load")
    assert simulator.report.cycles == 182


WRONG = [
    (" after load:3", "", "convolve.*must wait for command 1, number 1 of queue load"),
    (" after load:3", " after load:2", "must wait for command 3, number 3 of queue load.*got a wait for 2 of it"),
    (" after exec:2 load:4", " after exec:2", "must wait for command 4, number 4 of queue load"),
    (" after post:2", " after post:1", "store move.*must wait for command 7, number 2 of queue post"),
    ("data=act:0x0", "data=act:0x3fff0", "must stay within a memory, got bytes 0x3fff0 to 0x40068 of act"),
    ("data=act:0x0", "data=act:0x800", "must read what was written before, got byte 0x800 of act"),
    ("data_bits=8", "data_bits=12", "integers must have 8, 16 bits, got 12"),
    ("data_bits=8", "data_bits=16", "must read what was written"),
    ("weight_bits=8", "weight_bits=4", "queue exec unpacks weights of no width, got weights of 4 bits"),
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
    ("exec convolve", "post convolve", "must be for a queue with an array, got queue post, engine vector"),
    ("post post ctx=1", "exec post ctx=1", "must be for a vector engine, or an array with post fused, got queue exec"),
    ("weights=wgt:0x0", "weights=act:0x0", "weights must be in a memory that holds weights, got act"),
    ("data=act:0x0", "data=dram:0x0", "data must be brought in by a transfer, got a place in dram"),
    ("bias=acc:0x4000 sums", "bias=dram:0x2000 sums", "bias must be brought in by a transfer, got a place in dram"),
    ("target=act:0x1000 target_row", "target=dram:0x3000 target_row", "target must be taken out by a transfer, got"),
    ("table=acc:0x4040", "table=act:0x4040", "table must be in a memory that holds scales or lut or bias, got act"),
    ("weight_zero_point=0", "weight_zero_point=3", "weights must have the zero point 0, got 3"),
    ("weight_zero_point=0", "weight_zero_point=300", "the zero point must fit the weights, got 300 of 8 bits"),
    ("out_rows=6 out_columns=5", "out_rows=60000 out_columns=50000", "must meet at most"),
    (
        "exec mark layer=0",
        "exec host routine=0 read=0 written=0 constants=0 work=0",
        "must call a routine of the host, got number 0 of 0",
    ),
]


@pytest.mark.parametrize(("text", "instead", "message"), WRONG)
def test_faults(text: str, instead: str, message: str) -> None:
    layer = Layer.random()
    changed = layer.text().replace(text, instead, 1)
    assert changed != layer.text()
    with pytest.raises(Fault, match=message):
        Simulator(layer.program(changed), DEVICE).run(image())


UNPACKING = DEVICE.with_({"queue.load.unpacks": [3, 4], "queue.exec.unpacks": [5]})
PACKED = """
    load unpack source=dram:0x0 target=wgt:0x0 count=5 bits=3
    exec end status=0
"""


def _unpacking(text: str) -> Simulator:
    segments = (Segment(Place(DRAM, 0), bytes([0b11_101_001, 0b0_111_100_0])),)
    return Simulator(Program(flat(UNPACKING), assemble(text, UNPACKING), segments, layers=()), UNPACKING)


def test_what_unpacking_costs() -> None:
    """Two bytes in a whole burst of 64, at 16 a cycle; or weight by weight where the queue says so."""
    simulator = _unpacking(PACKED)
    simulator.run()
    assert simulator.report is not None
    assert simulator.report.cycles == 40 + 4
    slow = UNPACKING.with_({"queue.load.elements_per_cycle": 0.5})
    assert predicted_cycles(Program(flat(slow), assemble(PACKED, slow), ()), slow) == 40 + 10


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ("bits=3", "bits=5", "queue load unpacks weights of 3, 4 bits, got weights of 5 bits"),
        ("bits=3", "bits=8", "queue load unpacks weights of 3, 4 bits, got weights of 8 bits"),
        ("load unpack", "exec unpack", "queue exec must move data between its memories, got memory 3"),
        ("load unpack", "store unpack", "queue store must move data between its memories, got memory 3"),
        ("count=5", "count=0", "a command must unpack 1 to 16777216 weights, got 0"),
        ("count=5", "count=6", "must read what was written before, got byte 0x2 of dram, which never was"),
        ("target=wgt:0x0", "target=wgt:0x3ffff", "must stay within a memory"),
        ("target=wgt:0x0", "target=act:0x0", "weights must be unpacked to a memory that holds weights, got act"),
        ("source=dram:0x0", "source=acc:0x0", "queue load must move data between its memories, got memory 2"),
    ],
)
def test_faults_of_unpacking(text: str, instead: str, message: str) -> None:
    assert text in PACKED
    with pytest.raises(Fault, match=message):
        _unpacking(PACKED.replace(text, instead)).run()


ARRANGING = DEVICE.with_({"queue.load.arranges": True, "queue.load.elements_per_cycle": 16.0})
MATRIX = """
    load arrange source=dram:0x0 target=wgt:0x0 bits=8 rows=2 columns=3 pitch=4 transposed=0
    exec end status=0
"""


def _arranging(text: str) -> Simulator:
    segments = (Segment(Place(DRAM, 0), bytes([1, 2, 3, 0xFF, 4, 5, 6])),)
    return Simulator(Program(flat(ARRANGING), assemble(text, ARRANGING), segments, layers=()), ARRANGING)


@pytest.mark.parametrize(("transposed", "rows"), [(0, [[1, 2, 3], [4, 5, 6]]), (1, [[1, 4], [2, 5], [3, 6]])])
def test_a_matrix_in_tiles(transposed: int, rows: list[list[int]]) -> None:
    """A tile of 16 by 32 bytes with zeros around the matrix; two bursts of 64 at 16 a cycle, 16 elements a cycle."""
    simulator = _arranging(MATRIX.replace("transposed=0", f"transposed={transposed}"))
    images: list[bytes] = []
    simulator.run_all([()], watch=lambda number, memories: images.append(bytes(memories.image(1)[0][0])))
    expected = np.zeros((16, 32), np.uint8)
    expected[: len(rows), : len(rows[0])] = rows
    assert images[-1] == expected.tobytes()
    assert simulator.report is not None
    assert simulator.report.cycles == 40 + max(2 * 64 // 16, 16 * 32 // 16)


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        (
            "load arrange source=dram:0x0",
            "exec arrange source=act:0x0",
            "a matrix must be arranged by a queue that arranges, got queue exec",
        ),
        ("bits=8", "bits=32", "integers must have 8, 16 bits, got 32"),
        ("rows=2", "rows=0", "a matrix must have 1 to 16777216 elements, got 0"),
        ("transposed=0", "transposed=2", "a matrix must be transposed once or not at all, got 2"),
        ("columns=3", "columns=4", "must read what was written before, got byte 0x7 of dram, which never was"),
        ("target=wgt:0x0", "target=wgt:0x3fff0", "must stay within a memory"),
        ("target=wgt:0x0", "target=act:0x0", "weights must be arranged to a memory that holds weights, got act"),
        ("source=dram:0x0", "source=acc:0x0", "queue load must move data between its memories, got memory 2"),
    ],
)
def test_faults_of_arranging(text: str, instead: str, message: str) -> None:
    assert text in MATRIX
    with pytest.raises(Fault, match=message):
        _arranging(MATRIX.replace(text, instead)).run()


HALVES = Routine(
    "halves",
    (Port("y", Place(DRAM, OUTPUT), (6, 5, 8), "i8"),),
    (Port("z", Place(DRAM, 0x4000), (6, 5, 8), "f32"),),
)


def _with_host(after: str = " after store:1", read: int = 240) -> Program:
    """The layer, and then half of each of its numbers as a float."""
    layer = Layer.random()
    host = f"exec host routine=0 read={read} written=960 constants=0 work=9{after}\n exec end"
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
