"""What NVDLA small waits for for ever, or does not have, is refused; registers and interrupts are the device's."""

import numpy as np
import pytest

from qmlir.backends.hardware.nvdla.machine import Nvdla, run
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Command, Kind, Program, poll, wait, write
from qmlir.backends.hardware.nvdla.registers import BY_NAME, register
from qmlir.errors import QmlirError
from tests.backends.hardware.nvdla.layers import (
    CONVOLUTION,
    COPY,
    NORMALIZATION,
    POOLING,
    SOURCE,
    TARGET,
    WEIGHTS,
    Registers,
    commands,
    convolution,
)

RNG = np.random.default_rng(44)


def _both(place: str, value: int) -> Registers:
    """A field of CDMA and of CSC."""
    return {("CDMA", place): value, ("CSC", place): value}


def test_the_layers_that_tests_change() -> None:
    data = RNG.integers(-128, 128, (3, 4, 8)).astype(np.int8)
    weights = RNG.integers(-3, 4, (8, 8)).astype(np.int8)
    memory = Memory([(SOURCE, data.tobytes()), (WEIGHTS, weights.tobytes())])
    nvdla = Nvdla(memory)
    nvdla.execute(convolution())
    expected = (data.astype(int) @ weights.astype(int).T).clip(-128, 127)
    assert (memory.read(TARGET, 96).view(np.int8).reshape(3, 4, 8) == expected).all()
    # Each unit takes its groups in turn: the next layers are of group 1.
    flip = [write(unit, "S_POINTER", PRODUCER=1) for unit in ("SDP", "SDP_RDMA", "PDP", "PDP_RDMA")]
    nvdla.execute([flip[0], *commands(COPY), wait(2)])
    assert (memory.read(TARGET, 96).view(np.int8).reshape(3, 4, 8) == data).all()
    nvdla.execute([*commands(POOLING), wait(0x10)])
    pairs = np.maximum(data[1:], data[:-1])
    expected = np.maximum(pairs[:, 1:], pairs[:, :-1])
    assert (memory.read(TARGET, 48).view(np.int8).reshape(2, 3, 8) == expected).all()
    assert [(d.convolution is not None, d.sdp is not None, d.pdp is not None) for d in nvdla.done] == [
        (True, True, False),
        (False, True, False),
        (False, False, True),
    ]


def test_sums_that_are_shortened_by_more_than_16_bits() -> None:
    """The RTL looks at 16 bits below the point: a negative sum that is a half in them counts as one."""
    results = {65535: 0, 65536: 1, 65537: 1, -65534: 0, -65535: -1, -65536: -1, -65537: -1, -66000: -1}
    x, weights = np.array([-128, -128, -128, -128, 127, 1, 0, 0], np.int8), np.zeros((8, 8), np.int8)
    for kernel, total in zip(weights, results, strict=True):
        kernel[:4] = round(np.clip(total / -512, -128, 127))
        rest = total - int(kernel.astype(int) @ x)
        kernel[4] = np.fix(rest / 127)
        kernel[5] = rest - 127 * int(kernel[4])
        assert kernel.astype(int) @ x == total
    memory = Memory([(SOURCE, np.tile(x, 12).tobytes()), (WEIGHTS, weights.tobytes())])
    Nvdla(memory).execute(convolution({("CACC", "D_CLIP_CFG.CLIP_TRUNCATE"): 17}))
    assert memory.read(TARGET, 8).view(np.int8).tolist() == list(results.values())


CONVOLUTIONS: list[tuple[Registers, str]] = [
    (_both("D_MISC_CFG.CONV_MODE", 1), r"CDMA.D_MISC_CFG: CONV_MODE must be 0: nv_small has no Winograd"),
    (_both("D_MISC_CFG.IN_PRECISION", 1), r"IN_PRECISION must be 0: nv_small has int8 only"),
    (_both("D_BATCH_NUMBER.BATCHES", 1), r"nv_small has no batches, got BATCHES = 1"),
    (_both("D_WEIGHT_FORMAT.WEIGHT_FORMAT", 1), r"nv_small has no compressed weights"),
    (_both("D_MISC_CFG.DATA_REUSE", 1), r"data and weights of the layer before are not modelled"),
    ({("CSC", "D_POST_Y_EXTENSION.Y_EXTENSION"): 1}, r"rows that are computed together are not modelled"),
    ({("CDMA", "D_DAIN_RAM_TYPE.DATAIN_RAM_TYPE"): 0}, r"nv_small has one memory, got DATAIN_RAM_TYPE = 0"),
    (
        {("CSC", "D_WEIGHT_BYTES.WEIGHT_BYTES"): 56},
        r"WEIGHT_BYTES must be what NVDLA CSC.D_WEIGHT_BYTES says, got 64 and 56",
    ),
    (
        _both("D_WEIGHT_BYTES.WEIGHT_BYTES", 56),
        r"64 bytes of weights need as many, in a multiple of 8, got WEIGHT_BYTES = 56",
    ),
    (_both("D_BANK.WEIGHT_BANK", 31), r"the buffer has 32 banks, got 1 for data and 32 for weights"),
    (_both("D_ENTRY_PER_SLICE.ENTRIES", 4), r"ENTRIES must be 3: a row takes 4 entries"),
    ({("CDMA", "D_LINE_STRIDE.LINE_STRIDE"): 40}, r"packed lines are 32 bytes apart, got LINE_STRIDE = 40"),
    ({("CDMA", "D_DAIN_ADDR_LOW_0.DATAIN_ADDR_LOW_0"): 4}, r"the address must be a multiple of 8 bytes, got 0x4"),
    (
        {("CDMA", "D_DAIN_ADDR_HIGH_0.DATAIN_ADDR_HIGH_0"): 1},
        r"nv_small has addresses of 32 bits|NVDLA small has addresses",
    ),
    ({("CDMA", "D_WEIGHT_ADDR_LOW.WEIGHT_ADDR_LOW"): 12}, r"the address must be a multiple of 8, got 0xc"),
    ({("CDMA", "D_WEIGHT_SIZE_0.BYTE_PER_KERNEL"): 8}, r"BYTE_PER_KERNEL must be 7: a kernel has 8 bytes"),
    ({("CSC", "D_ATOMICS.ATOMICS"): 12}, r"ATOMICS must be 11: it is the number of pixels of the result, less one"),
    (
        {("CACC", "D_DATAOUT_SIZE_0.DATAOUT_WIDTH"): 4},
        r"DATAOUT_WIDTH must be what NVDLA CACC.D_DATAOUT_SIZE_0 says, got 3 and 4",
    ),
    (
        {("SDP", "D_DATA_CUBE_WIDTH.WIDTH"): 4},
        r"DATAOUT_WIDTH must be what NVDLA SDP.D_DATA_CUBE_WIDTH says, got 3 and 4",
    ),
    ({("CSC", "D_CONV_STRIDE_EXT.CONV_X_STRIDE_EXT"): 1}, r"windows reach 3 past the data, got PAD_RIGHT = 0"),
    ({("CMAC_B", "D_MISC_CFG.CONV_MODE"): 1}, r"NVDLA CMAC_B.D_MISC_CFG: CONV_MODE must be 0"),
    ({("SDP", "D_DP_EW_CFG.EW_BYPASS"): 0}, r"nv_small has no stage EW"),
    ({("SDP", "D_DATA_FORMAT.OUT_PRECISION"): 1}, r"OUT_PRECISION must be 0: nv_small has int8 only"),
    ({("SDP", "D_DST_DMA_CFG.DST_RAM_TYPE"): 0}, r"nv_small has one memory"),
    ({("SDP", "D_DST_LINE_STRIDE.DST_LINE_STRIDE"): 24}, r"rows that are written must not overlap"),
    ({("SDP", "D_DST_LINE_STRIDE.DST_LINE_STRIDE"): 36}, r"the line stride must be a multiple of 8 bytes, got 0x24"),
    (
        _both("D_DATAIN_FORMAT.DATAIN_FORMAT", 1) | {("CDMA", "D_DATAIN_FORMAT.PIXEL_FORMAT"): 20},
        r"pixels must be of one byte \(0x0\) or of four",
    ),
    (
        _both("D_DATAIN_FORMAT.DATAIN_FORMAT", 1) | {("CDMA", "D_DATAIN_FORMAT.PIXEL_FORMAT"): 12},
        r"DATAIN_CHANNEL must be 3",
    ),
]


@pytest.mark.parametrize(("changes", "message"), CONVOLUTIONS)
def test_convolutions_that_are_refused(changes: Registers, message: str) -> None:
    with pytest.raises(QmlirError, match=message):
        run(Program(convolution(changes)))


def test_what_does_not_fit_into_banks_is_refused() -> None:
    rows = {
        **_both("D_DATAIN_SIZE_EXT_0.DATAIN_HEIGHT_EXT", 128),
        ("CDMA", "D_DATAIN_SIZE_0.DATAIN_HEIGHT"): 128,
    }
    with pytest.raises(
        QmlirError, match=r"all rows must fit into the banks of data, or the device waits for ever, got 129"
    ):
        run(Program(convolution(rows)))
    wide = {
        **_both("D_WEIGHT_BYTES.WEIGHT_BYTES", 8 * 32 * 32 * 8),
        ("CSC", "D_WEIGHT_SIZE_EXT_0.WEIGHT_WIDTH_EXT"): 31,
        ("CSC", "D_WEIGHT_SIZE_EXT_0.WEIGHT_HEIGHT_EXT"): 31,
        ("CDMA", "D_WEIGHT_SIZE_0.BYTE_PER_KERNEL"): 32 * 32 * 8 - 1,
    }
    with pytest.raises(
        QmlirError, match=r"8 kernels must fit into the banks of weights, or the device waits for ever, got"
    ):
        run(Program(convolution(wide)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({("CSC", "D_RELEASE.RLS_SLICES"): 1}, r"RLS_SLICES = 1 for 3 rows in the layer before"),
        (_both("D_MISC_CFG.SKIP_WEIGHT_RLS", 1), r"SKIP_WEIGHT_RLS in the layer before"),
        (_both("D_WEIGHT_BYTES.WEIGHT_BYTES", 128), r"WEIGHT_BYTES = 128 for 64 in the layer before"),
    ],
)
def test_what_a_layer_leaves_in_the_buffer_is_for_no_other(changes: Registers, message: str) -> None:
    nvdla = Nvdla(Memory())
    nvdla.execute(convolution(changes))
    units = dict.fromkeys(unit for unit, _ in CONVOLUTION)
    nvdla.execute(write(unit, "S_POINTER", PRODUCER=1) for unit in units)
    with pytest.raises(QmlirError, match=rf"the layer before must leave an empty buffer.*{message}"):
        nvdla.execute(commands(CONVOLUTION))


BRDMA = "D_BRDMA_CFG.BRDMA_"
BS = "D_DP_BS_CFG.BS_"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {("SDP_RDMA", "D_DATA_CUBE_WIDTH.WIDTH"): 4},
            r"WIDTH must be what NVDLA SDP.D_DATA_CUBE_WIDTH says, got 4 and 3",
        ),
        ({("SDP_RDMA", "D_SRC_DMA_CFG.SRC_RAM_TYPE"): 0}, r"nv_small has one memory"),
        (
            {("SDP_RDMA", "D_SRC_BASE_ADDR_LOW.SRC_BASE_ADDR_LOW"): 9},
            r"the address must be a multiple of 8 bytes, got 0x9",
        ),
        (
            {("SDP", BS + "BYPASS"): 0, ("SDP", BS + "ALU_BYPASS"): 0, ("SDP", "D_DP_BS_ALU_CFG.BS_ALU_SRC"): 1},
            r"SDP_RDMA.D_BRDMA_CFG: BS waits for operands for ever, got BRDMA_DISABLE = 1",
        ),
        (
            {
                ("SDP_RDMA", BRDMA + "DISABLE"): 0,
                ("SDP_RDMA", BRDMA + "DATA_USE"): 2,
                ("SDP_RDMA", BRDMA + "RAM_TYPE"): 1,
            },
            r"what is read must be what BS takes, none, got BRDMA_DATA_USE = 2",
        ),
        ({("SDP_RDMA", "D_ERDMA_CFG.ERDMA_DISABLE"): 0}, r"nv_small has no stage EW"),
    ],
)
def test_layers_of_sdp_that_are_refused(changes: Registers, message: str) -> None:
    with pytest.raises(QmlirError, match=message):
        run(Program([*commands(COPY, changes), wait(1)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({("PDP", "D_OPERATION_MODE_CFG.POOLING_METHOD"): 3}, r"the method must be 0 \(average\), 1 \(maximum\) or 2"),
        ({("PDP", "D_POOLING_KERNEL_CFG.KERNEL_HEIGHT"): 8}, r"windows have at most 8 rows and columns"),
        (
            {("PDP", "D_POOLING_PADDING_CFG.PAD_RIGHT"): 1},
            r"the windows end 0 past the data, and padding must be just that",
        ),
        ({("PDP", "D_DATA_CUBE_OUT_WIDTH.CUBE_OUT_WIDTH"): 3}, r"the windows end 1 past the data.*, got PAD_RIGHT = 0"),
        (
            {("PDP", "D_DATA_CUBE_OUT_HEIGHT.CUBE_OUT_HEIGHT"): 0},
            r"rows and columns behind the last window must be too few for another, got 1 behind windows that are 1",
        ),
        ({("PDP", "D_POOLING_PADDING_CFG.PAD_TOP"): 2}, r"padding must be less than the window of 2, got PAD_TOP = 2"),
        ({("PDP", "D_DATA_CUBE_OUT_CHANNEL.CUBE_OUT_CHANNEL"): 6}, r"CUBE_OUT_CHANNEL must be what"),
        (
            {("PDP_RDMA", "D_DATA_CUBE_IN_WIDTH.CUBE_IN_WIDTH"): 4},
            r"CUBE_IN_WIDTH must be what NVDLA PDP.* got 4 and 3",
        ),
        ({("PDP_RDMA", "D_POOLING_KERNEL_CFG.KERNEL_WIDTH"): 2}, r"KERNEL_WIDTH must be what"),
        ({("PDP", "D_DATA_FORMAT.INPUT_DATA"): 1}, r"int8 only"),
        ({("PDP", "D_DST_RAM_CFG.DST_RAM_TYPE"): 0}, r"nv_small has one memory"),
    ],
)
def test_pools_that_are_refused(changes: Registers, message: str) -> None:
    with pytest.raises(QmlirError, match=message):
        run(Program([*commands(POOLING, changes), wait(0x10)]))


BEGINS_ANOTHER: Registers = {
    ("PDP", "D_POOLING_KERNEL_CFG.KERNEL_HEIGHT"): 3,
    ("PDP", "D_POOLING_KERNEL_CFG.KERNEL_STRIDE_HEIGHT"): 1,
    ("PDP", "D_POOLING_PADDING_CFG.PAD_TOP"): 2,
    ("PDP", "D_DATA_CUBE_OUT_HEIGHT.CUBE_OUT_HEIGHT"): 0,
}
"""A window of 4 rows over 3 rows with 2 above; the next one would begin in the first row."""


def test_a_window_that_is_begun_and_not_ended() -> None:
    """The RTL computes it for 8 channels, takes the window into further ones, and never ends a next layer of PDP."""
    more: Registers = {
        (unit, place): 15
        for unit, place in POOLING
        if place in ("D_DATA_CUBE_IN_CHANNEL.CUBE_IN_CHANNEL", "D_DATA_CUBE_OUT_CHANNEL.CUBE_OUT_CHANNEL")
    }
    with pytest.raises(QmlirError, match=r"CUBE_OUT_HEIGHT: rows behind the last window .* CUBE_OUT_HEIGHT = 0"):
        run(Program([*commands(POOLING, {**BEGINS_ANOTHER, **more}), wait(0x10)]))
    nvdla = Nvdla(Memory())
    nvdla.execute([*commands(POOLING, BEGINS_ANOTHER), wait(0x10)])
    flip = [write(unit, "S_POINTER", PRODUCER=1) for unit in ("PDP", "PDP_RDMA")]
    with pytest.raises(QmlirError, match=r"the layer of PDP before must end all windows that it begins"):
        nvdla.execute([*flip, *commands(POOLING), wait(0x20)])


def test_results_of_pools_that_are_too_wide_are_refused() -> None:
    wide: Registers = {
        (unit, place): value
        for place, value in (("D_DATA_CUBE_IN_WIDTH.CUBE_IN_WIDTH", 65), ("D_DATA_CUBE_OUT_WIDTH.CUBE_OUT_WIDTH", 64))
        for unit in ("PDP", "PDP_RDMA")
        if (unit, place) in POOLING
    }
    with pytest.raises(
        QmlirError, match=r"at most 64 columns of a result fit into the buffer for 2 windows above each"
    ):
        run(Program([*commands(POOLING, wide), wait(0x10)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({("CDP", "D_DATA_FORMAT.INPUT_DATA_TYPE"): 1}, r"INPUT_DATA_TYPE must be 0: nv_small has int8 only"),
        ({("CDP_RDMA", "D_SRC_DMA_CFG.SRC_RAM_TYPE"): 0}, r"nv_small has one memory"),
        ({("CDP", "D_DST_SURFACE_STRIDE.DST_SURFACE_STRIDE"): 8}, r"rows that are written must not overlap"),
    ],
)
def test_normalizations_that_are_refused(changes: Registers, message: str) -> None:
    with pytest.raises(QmlirError, match=message):
        run(Program([*commands(NORMALIZATION, changes), wait(4)]))


def test_waits_for_ever_are_refused() -> None:
    started = [command for command in convolution() if command != write("CSC", "D_OP_ENABLE", OP_EN=1)]
    with pytest.raises(
        QmlirError, match=r"wait 0x1: the device waits for the end of SDP 0 for ever, got .*CACC.*SDP enabled"
    ):
        run(Program(started))
    with pytest.raises(QmlirError, match=r"waits for the end of PDP 1 for ever, got no unit enabled"):
        run(Program([wait(0x20)]))
    with pytest.raises(
        QmlirError, match=r"poll SDP.D_CVT_SHIFT 0x7: the device waits until it is 0x7 for ever, got 0x0"
    ):
        run(Program([poll("SDP", "D_CVT_SHIFT", 7)]))


def test_a_convolution_in_a_buffer_that_is_being_cleared_is_refused() -> None:
    """The RTL gives zeros, and no error."""
    flushed, *rest = convolution()
    assert flushed == poll("CDMA", "S_CBUF_FLUSH_STATUS", 1)
    with pytest.raises(QmlirError, match=r"CDMA.D_OP_ENABLE: S_CBUF_FLUSH_STATUS must .*, got no read of it since"):
        run(Program(rest))
    nvdla = Nvdla(Memory())
    nvdla.execute([flushed, *rest])
    # A read is enough for all convolutions until the next reset; the second one is of group 1.
    units = {unit for unit, _ in CONVOLUTION}
    nvdla.execute([*(write(unit, "S_POINTER", PRODUCER=1) for unit in units), *rest[:-1], wait(2)])
    assert len(nvdla.done) == 2


def test_addresses_that_no_unit_has_are_refused() -> None:
    for address in (0x2000, 0x10000, 0x3FFC):
        with pytest.raises(QmlirError, match=rf"NVDLA small has no register at this address, got {address:#x}"):
            run(Program([Command(Kind.WRITE, address, 0)]))


def test_groups_that_are_enabled_take_no_writes() -> None:
    started = [write("SDP", "D_OP_ENABLE", OP_EN=1), write("SDP", "D_CVT_SHIFT", CVT_SHIFT=3)]
    with pytest.raises(
        QmlirError, match=r"SDP.D_CVT_SHIFT: a group that is enabled takes no writes, got a write to group 0"
    ):
        run(Program(started))


def test_status_pointers_and_interrupts_are_read_as_the_device_has_them() -> None:
    nvdla = Nvdla(Memory())
    status = register("GLB", "S_INTR_STATUS").address
    nvdla.execute([poll("CDMA", "S_CBUF_FLUSH_STATUS", 1), poll("SDP", "S_POINTER", 0), poll("SDP", "S_STATUS", 0)])
    nvdla.execute([write("SDP", "D_OP_ENABLE", OP_EN=1), poll("SDP", "S_STATUS", 1)])
    nvdla.execute([write("SDP", "S_POINTER", PRODUCER=1), write("SDP", "D_OP_ENABLE", OP_EN=1)])
    nvdla.execute([poll("SDP", "S_STATUS", 0x20001)])

    nvdla = Nvdla(Memory())
    nvdla.execute([*convolution()[:-1], poll("GLB", "S_INTR_STATUS", 0x150001), poll("SDP", "S_POINTER", 0x10000)])
    nvdla.execute([Command(Kind.WRITE, status, 0x150000), poll("GLB", "S_INTR_STATUS", 1), wait(1)])
    nvdla.execute([poll("GLB", "S_INTR_STATUS", 0), write("GLB", "S_INTR_SET", PDP_DONE_SET1=1), wait(0x20)])


def test_read_only_registers_keep_their_values() -> None:
    nvdla = Nvdla(Memory())
    for place in BY_NAME.values():
        if place.read_only and place.name not in ("S_CBUF_FLUSH_STATUS", "S_STATUS"):
            nvdla.execute([write(place.unit, place.name, 0x55), poll(place.unit, place.name, place.reset)])
