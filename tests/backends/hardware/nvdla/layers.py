"""Small layers as writes of registers: what tests of refusals change in one place."""

from collections.abc import Iterator

from qmlir.backends.hardware.nvdla.program import Command, poll, wait, write

SOURCE, WEIGHTS, TARGET = 0x80000000, 0x80010000, 0x80020000

Registers = dict[tuple[str, str], int]
"""Values of fields by unit and name of the field's register and field, as `("CDMA", "D_BANK.DATA_BANK")`."""

CONVOLUTION: Registers = {
    ("CDMA", "D_MISC_CFG.IN_PRECISION"): 0,
    ("CDMA", "D_DATAIN_FORMAT.DATAIN_FORMAT"): 0,
    ("CDMA", "D_DATAIN_SIZE_0.DATAIN_WIDTH"): 3,
    ("CDMA", "D_DATAIN_SIZE_0.DATAIN_HEIGHT"): 2,
    ("CDMA", "D_DATAIN_SIZE_1.DATAIN_CHANNEL"): 7,
    ("CDMA", "D_DATAIN_SIZE_EXT_0.DATAIN_WIDTH_EXT"): 3,
    ("CDMA", "D_DATAIN_SIZE_EXT_0.DATAIN_HEIGHT_EXT"): 2,
    ("CDMA", "D_DAIN_RAM_TYPE.DATAIN_RAM_TYPE"): 1,
    ("CDMA", "D_DAIN_ADDR_LOW_0.DATAIN_ADDR_LOW_0"): SOURCE,
    ("CDMA", "D_LINE_STRIDE.LINE_STRIDE"): 32,
    ("CDMA", "D_SURF_STRIDE.SURF_STRIDE"): 96,
    ("CDMA", "D_DAIN_MAP.LINE_PACKED"): 1,
    ("CDMA", "D_ENTRY_PER_SLICE.ENTRIES"): 3,
    ("CDMA", "D_WEIGHT_SIZE_0.BYTE_PER_KERNEL"): 7,
    ("CDMA", "D_WEIGHT_SIZE_1.WEIGHT_KERNEL"): 7,
    ("CDMA", "D_WEIGHT_RAM_TYPE.WEIGHT_RAM_TYPE"): 1,
    ("CDMA", "D_WEIGHT_ADDR_LOW.WEIGHT_ADDR_LOW"): WEIGHTS,
    ("CDMA", "D_WEIGHT_BYTES.WEIGHT_BYTES"): 64,
    ("CDMA", "D_ZERO_PADDING.PAD_LEFT"): 0,
    ("CDMA", "D_BANK.DATA_BANK"): 0,
    ("CSC", "D_MISC_CFG.IN_PRECISION"): 0,
    ("CSC", "D_DATAIN_SIZE_EXT_0.DATAIN_WIDTH_EXT"): 3,
    ("CSC", "D_DATAIN_SIZE_EXT_0.DATAIN_HEIGHT_EXT"): 2,
    ("CSC", "D_DATAIN_SIZE_EXT_1.DATAIN_CHANNEL_EXT"): 7,
    ("CSC", "D_ENTRY_PER_SLICE.ENTRIES"): 3,
    ("CSC", "D_WEIGHT_SIZE_EXT_1.WEIGHT_CHANNEL_EXT"): 7,
    ("CSC", "D_WEIGHT_SIZE_EXT_1.WEIGHT_KERNEL"): 7,
    ("CSC", "D_WEIGHT_BYTES.WEIGHT_BYTES"): 64,
    ("CSC", "D_DATAOUT_SIZE_0.DATAOUT_WIDTH"): 3,
    ("CSC", "D_DATAOUT_SIZE_0.DATAOUT_HEIGHT"): 2,
    ("CSC", "D_DATAOUT_SIZE_1.DATAOUT_CHANNEL"): 7,
    ("CSC", "D_ATOMICS.ATOMICS"): 11,
    ("CSC", "D_RELEASE.RLS_SLICES"): 2,
    ("CMAC_A", "D_MISC_CFG.CONV_MODE"): 0,
    ("CMAC_B", "D_MISC_CFG.CONV_MODE"): 0,
    ("CACC", "D_DATAOUT_SIZE_0.DATAOUT_WIDTH"): 3,
    ("CACC", "D_DATAOUT_SIZE_0.DATAOUT_HEIGHT"): 2,
    ("CACC", "D_DATAOUT_SIZE_1.DATAOUT_CHANNEL"): 7,
    ("SDP", "D_DATA_CUBE_WIDTH.WIDTH"): 3,
    ("SDP", "D_DATA_CUBE_HEIGHT.HEIGHT"): 2,
    ("SDP", "D_DATA_CUBE_CHANNEL.CHANNEL"): 7,
    ("SDP", "D_DST_BASE_ADDR_LOW.DST_BASE_ADDR_LOW"): TARGET,
    ("SDP", "D_DST_LINE_STRIDE.DST_LINE_STRIDE"): 32,
    ("SDP", "D_FEATURE_MODE_CFG.FLYING_MODE"): 1,
    ("SDP", "D_DST_DMA_CFG.DST_RAM_TYPE"): 1,
    ("SDP", "D_CVT_SCALE.CVT_SCALE"): 1,
}
"""A convolution of 8 channels by 8 kernels of one element, over 3 rows of 4 columns."""

COPY: Registers = {
    ("SDP_RDMA", "D_DATA_CUBE_WIDTH.WIDTH"): 3,
    ("SDP_RDMA", "D_DATA_CUBE_HEIGHT.HEIGHT"): 2,
    ("SDP_RDMA", "D_DATA_CUBE_CHANNEL.CHANNEL"): 7,
    ("SDP_RDMA", "D_SRC_BASE_ADDR_LOW.SRC_BASE_ADDR_LOW"): SOURCE,
    ("SDP_RDMA", "D_SRC_LINE_STRIDE.SRC_LINE_STRIDE"): 32,
    ("SDP_RDMA", "D_SRC_DMA_CFG.SRC_RAM_TYPE"): 1,
    ("SDP_RDMA", "D_FEATURE_MODE_CFG.FLYING_MODE"): 0,
    **{key: value for key, value in CONVOLUTION.items() if key[0] == "SDP"},
    ("SDP", "D_FEATURE_MODE_CFG.FLYING_MODE"): 0,
}
"""A layer of SDP that copies 3 rows of 4 columns of 8 channels."""

POOLING: Registers = {
    ("PDP_RDMA", "D_DATA_CUBE_IN_WIDTH.CUBE_IN_WIDTH"): 3,
    ("PDP_RDMA", "D_DATA_CUBE_IN_HEIGHT.CUBE_IN_HEIGHT"): 2,
    ("PDP_RDMA", "D_DATA_CUBE_IN_CHANNEL.CUBE_IN_CHANNEL"): 7,
    ("PDP_RDMA", "D_SRC_BASE_ADDR_LOW.SRC_BASE_ADDR_LOW"): SOURCE,
    ("PDP_RDMA", "D_SRC_LINE_STRIDE.SRC_LINE_STRIDE"): 32,
    ("PDP_RDMA", "D_SRC_RAM_CFG.SRC_RAM_TYPE"): 1,
    ("PDP_RDMA", "D_POOLING_KERNEL_CFG.KERNEL_WIDTH"): 1,
    ("PDP", "D_DATA_CUBE_IN_WIDTH.CUBE_IN_WIDTH"): 3,
    ("PDP", "D_DATA_CUBE_IN_HEIGHT.CUBE_IN_HEIGHT"): 2,
    ("PDP", "D_DATA_CUBE_IN_CHANNEL.CUBE_IN_CHANNEL"): 7,
    ("PDP", "D_DATA_CUBE_OUT_WIDTH.CUBE_OUT_WIDTH"): 2,
    ("PDP", "D_DATA_CUBE_OUT_HEIGHT.CUBE_OUT_HEIGHT"): 1,
    ("PDP", "D_DATA_CUBE_OUT_CHANNEL.CUBE_OUT_CHANNEL"): 7,
    ("PDP", "D_OPERATION_MODE_CFG.POOLING_METHOD"): 1,
    ("PDP", "D_OPERATION_MODE_CFG.FLYING_MODE"): 1,
    ("PDP", "D_POOLING_KERNEL_CFG.KERNEL_WIDTH"): 1,
    ("PDP", "D_POOLING_KERNEL_CFG.KERNEL_HEIGHT"): 1,
    ("PDP", "D_DST_BASE_ADDR_LOW.DST_BASE_ADDR_LOW"): TARGET,
    ("PDP", "D_DST_LINE_STRIDE.DST_LINE_STRIDE"): 24,
    ("PDP", "D_DST_RAM_CFG.DST_RAM_TYPE"): 1,
}
"""Maxima of 2 x 2 over 3 rows of 4 columns of 8 channels."""

NORMALIZATION: Registers = {
    ("CDP_RDMA", "D_DATA_CUBE_WIDTH.WIDTH"): 1,
    ("CDP_RDMA", "D_DATA_CUBE_HEIGHT.HEIGHT"): 0,
    ("CDP_RDMA", "D_DATA_CUBE_CHANNEL.CHANNEL"): 9,
    ("CDP_RDMA", "D_SRC_BASE_ADDR_LOW.SRC_BASE_ADDR_LOW"): SOURCE,
    ("CDP_RDMA", "D_SRC_SURFACE_STRIDE.SRC_SURFACE_STRIDE"): 16,
    ("CDP_RDMA", "D_SRC_DMA_CFG.SRC_RAM_TYPE"): 1,
    ("CDP", "D_DST_BASE_ADDR_LOW.DST_BASE_ADDR_LOW"): TARGET,
    ("CDP", "D_DST_SURFACE_STRIDE.DST_SURFACE_STRIDE"): 16,
    ("CDP", "D_DST_DMA_CFG.DST_RAM_TYPE"): 1,
    ("CDP", "D_DATA_FORMAT.INPUT_DATA_TYPE"): 0,
}
"""Normalization of 10 channels of 2 pixels by 3 channels, with the tables that CDP has."""


def commands(layer: Registers, changes: Registers | None = None) -> Iterator[Command]:
    """Yields the writes of a layer's registers with some of its fields changed, then those that enable its units."""
    values: dict[tuple[str, str], dict[str, int]] = {}
    for (unit, place), value in {**layer, **(changes or {})}.items():
        register, field = place.split(".")
        values.setdefault((unit, register), {})[field] = value
    for (unit, register), fields in values.items():
        yield write(unit, register, **fields)
    for unit in dict.fromkeys(unit for unit, _ in layer):
        yield write(unit, "D_OP_ENABLE", OP_EN=1)


def convolution(changes: Registers | None = None) -> list[Command]:
    """Returns a convolution behind a reset, and the wait for its end."""
    return [poll("CDMA", "S_CBUF_FLUSH_STATUS", 1), *commands(CONVOLUTION, changes), wait(1)]
