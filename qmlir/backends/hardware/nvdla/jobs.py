"""Jobs of NVDLA: what its units compute at once, as writes of their registers.

A job is a convolution whose sums go through SDP, a pass of a tensor through SDP alone, or a pool by PDP. The driver
writes the registers of each unit that takes part, in the group that the unit takes next, enables the units, the one
that stores results first, and waits for the interrupt of that group.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from qmlir.backends.hardware.nvdla.layouts import ATOM, atoms
from qmlir.backends.hardware.nvdla.program import Command, poll, wait, write
from qmlir.backends.hardware.nvdla.registers import DONE

BANKS, BANK_BYTES = 32, 4096
"""The convolution buffer: banks that data and weights share, none of them both, and the bytes of each."""

MAX, MIN, SUM = range(3)
"""What the ALU of a stage of SDP computes."""


@dataclass(frozen=True)
class Cube:
    """A tensor in memory, or a part of one.

    address   of its first element, on the bus
    rows, columns, channels
    line      bytes from a row to the next
    surface   bytes from 8 channels to the next 8
    """

    address: int
    rows: int
    columns: int
    channels: int
    line: int
    surface: int

    @classmethod
    def whole(cls, address: int, rows: int, columns: int, channels: int) -> "Cube":
        """A tensor that lies without gaps."""
        return cls(address, rows, columns, channels, columns * ATOM, rows * columns * ATOM)

    def part(self, rows: range | None = None, columns: range | None = None, channels: range | None = None) -> "Cube":
        """A part of it; channels begin at a multiple of 8."""
        rows, columns = rows or range(self.rows), columns or range(self.columns)
        channels = channels or range(self.channels)
        at = rows.start * self.line + columns.start * ATOM + channels.start // ATOM * self.surface
        return replace(self, address=self.address + at, rows=len(rows), columns=len(columns), channels=len(channels))


@dataclass(frozen=True)
class Stage:
    """A stage of SDP, BS or BN: first the ALU, then the multiplier, then the rectifier.

    alu         what the ALU computes with its operand: `MAX`, `MIN` or `SUM`; None to leave it out
    alu_value   the operand of 16 bits; None if it comes from memory
    alu_left    by how many bits the operand is shifted left
    multiplies  whether values are multiplied
    multiplier  the factor of 16 bits; None if factors come from memory
    right       by how many bits products are shifted right, halves away from 0
    rectifies   whether negative values become 0
    address     of the operands in memory, a line of 8 channels after the other; 0 if none come from there
    line        bytes of a line, or of a row where each element has an operand
    surface     bytes from a surface of operands to the next
    elements    whether each element has an operand of its own, of 8 bits, instead of each channel
    """

    alu: int | None = None
    alu_value: int | None = None
    alu_left: int = 0
    multiplies: bool = False
    multiplier: int | None = None
    right: int = 0
    rectifies: bool = False
    address: int = 0
    line: int = 0
    surface: int = 0
    elements: bool = False

    @property
    def reads(self) -> bool:
        """Whether operands come from memory."""
        return self.alu_from_memory or self.multiplier_from_memory

    @property
    def alu_from_memory(self) -> bool:
        """Whether the operands of the ALU come from memory."""
        return self.alu is not None and self.alu_value is None

    @property
    def multiplier_from_memory(self) -> bool:
        """Whether the operands of the multiplier come from memory."""
        return self.multiplies and self.multiplier is None


OFF = Stage()
"""A stage that passes values on."""


@dataclass(frozen=True)
class Finish:
    """What SDP does to values before it stores them as 8 bits: two stages, then the conversion.

    addend  of the conversion, 32 bits: a zero point, or more where values are shifted
    right   by how many bits the conversion shifts right, halves away from 0
    """

    bs: Stage = OFF
    bn: Stage = OFF
    addend: int = 0
    right: int = 0


@dataclass(frozen=True)
class Convolution:
    """A convolution: its data fits the data banks, 8 of its kernels fit the weight banks.

    source, target  its data and its result
    weights         address of its weights, which take `weight_bytes`
    kernel          rows and columns of a window
    padding         rows above and below, columns left and right; each element counts as `padding_value`
    data_banks      banks for data; `weight_banks` are for weights
    """

    source: Cube
    target: Cube
    weights: int
    weight_bytes: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    padding_value: int
    data_banks: int
    weight_banks: int
    finish: Finish


@dataclass(frozen=True)
class Pass:
    """A pass of a tensor in memory through SDP."""

    source: Cube
    target: Cube
    finish: Finish


@dataclass(frozen=True)
class Pool:
    """A pool: the maximum, or the sum times two reciprocals of 16 fraction bits, each product rounded.

    reciprocals     of the columns and of the rows of a window; None for the maximum
    padding         rows above and below, columns left and right: exactly what the last windows reach
    padding_value   of each element of the padding in a sum
    """

    source: Cube
    target: Cube
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    reciprocals: tuple[int, int] | None = None
    padding_value: int = 0


Job = Convolution | Pass | Pool


class Driver:
    """Writes jobs, one after the other, from a reset on: each unit takes its two groups in turn."""

    def __init__(self) -> None:
        self._jobs: Counter[str] = Counter()

    def run(self, job: Job) -> list[Command]:
        """Returns the steps that compute a job and wait for its end."""
        match job:
            case Convolution():
                writes, units = [*_convolution(job), *_sdp(job.target, job.finish, None)], list(_CORE)
                units, done = [*_sdp_units(job.finish, False), *units], "SDP"
            case Pass():
                writes = [*_sdp(job.target, job.finish, job.source)]
                units, done = _sdp_units(job.finish, True), "SDP"
            case Pool():
                writes, units, done = [*_pool(job)], ["PDP", "PDP_RDMA"], "PDP"
        group = {unit: self._jobs[unit] % 2 for unit in units}
        self._jobs.update(units)
        steps = [write(unit, "S_POINTER", PRODUCER=number) for unit, number in group.items()]
        steps += writes
        if "CDMA" in units:
            steps.append(poll("CDMA", "S_CBUF_FLUSH_STATUS", 1))
        steps += [write(unit, "D_OP_ENABLE", OP_EN=1) for unit in units]
        return [*steps, wait(DONE[done] << group[done])]


_CORE = ("CACC", "CMAC_A", "CMAC_B", "CSC", "CDMA")
"""The units of a convolution in the order in which they are enabled: who reads begins last."""


def _sdp_units(finish: Finish, reads: bool) -> list[str]:
    return ["SDP", *(["SDP_RDMA"] if reads or finish.bs.reads or finish.bn.reads else [])]


def _convolution(job: Convolution) -> Iterator[Command]:
    """Yields the writes of the units that convolve."""
    data, out = job.source, job.target
    (kernel_rows, kernel_columns), (down, right) = job.kernel, job.stride
    top, bottom, left, after = job.padding
    entries = data.columns * atoms(data.channels) - 1
    padded = {"PAD_VALUE": job.padding_value & 0xFFFF}
    banks = {"DATA_BANK": job.data_banks - 1, "WEIGHT_BANK": job.weight_banks - 1}
    size = {"DATAIN_WIDTH_EXT": data.columns - 1, "DATAIN_HEIGHT_EXT": data.rows - 1}
    yield write("CDMA", "S_ARBITER", ARB_WEIGHT=1, ARB_WMB=1)
    yield write("CDMA", "D_MISC_CFG", 0)
    yield write("CDMA", "D_DATAIN_FORMAT", 0)
    yield write("CDMA", "D_DATAIN_SIZE_0", DATAIN_WIDTH=data.columns - 1, DATAIN_HEIGHT=data.rows - 1)
    yield write("CDMA", "D_DATAIN_SIZE_1", DATAIN_CHANNEL=data.channels - 1)
    yield write("CDMA", "D_DATAIN_SIZE_EXT_0", **size)
    yield write("CDMA", "D_PIXEL_OFFSET", 0)
    yield write("CDMA", "D_DAIN_RAM_TYPE", DATAIN_RAM_TYPE=1)
    yield write("CDMA", "D_DAIN_ADDR_HIGH_0", data.address >> 32)
    yield write("CDMA", "D_DAIN_ADDR_LOW_0", data.address)
    yield write("CDMA", "D_LINE_STRIDE", data.line)
    yield write("CDMA", "D_SURF_STRIDE", data.surface)
    lines = int(data.line == data.columns * ATOM)
    surfaces = int(data.surface == data.line * data.rows)
    yield write("CDMA", "D_DAIN_MAP", LINE_PACKED=lines, SURF_PACKED=surfaces)
    yield write("CDMA", "D_BATCH_NUMBER", 0)
    yield write("CDMA", "D_ENTRY_PER_SLICE", ENTRIES=entries)
    yield write("CDMA", "D_FETCH_GRAIN", 0)
    yield write("CDMA", "D_WEIGHT_FORMAT", 0)
    per_kernel = kernel_rows * kernel_columns * data.channels
    yield write("CDMA", "D_WEIGHT_SIZE_0", BYTE_PER_KERNEL=per_kernel - 1)
    yield write("CDMA", "D_WEIGHT_SIZE_1", WEIGHT_KERNEL=out.channels - 1)
    yield write("CDMA", "D_WEIGHT_RAM_TYPE", WEIGHT_RAM_TYPE=1)
    yield write("CDMA", "D_WEIGHT_ADDR_HIGH", job.weights >> 32)
    yield write("CDMA", "D_WEIGHT_ADDR_LOW", job.weights)
    yield write("CDMA", "D_WEIGHT_BYTES", job.weight_bytes)
    yield write("CDMA", "D_MEAN_FORMAT", 0)
    yield write("CDMA", "D_CVT_CFG", 0)
    yield write("CDMA", "D_CVT_OFFSET", 0)
    yield write("CDMA", "D_CVT_SCALE", CVT_SCALE=1)
    yield write("CDMA", "D_CONV_STRIDE", CONV_X_STRIDE=right - 1, CONV_Y_STRIDE=down - 1)
    yield write("CDMA", "D_ZERO_PADDING", PAD_LEFT=left, PAD_RIGHT=after, PAD_TOP=top, PAD_BOTTOM=bottom)
    yield write("CDMA", "D_ZERO_PADDING_VALUE", **padded)
    yield write("CDMA", "D_BANK", **banks)
    yield write("CDMA", "D_NAN_FLUSH_TO_ZERO", 0)
    yield write("CDMA", "D_PERF_ENABLE", 0)
    yield write("CSC", "D_MISC_CFG", 0)
    yield write("CSC", "D_DATAIN_FORMAT", 0)
    yield write("CSC", "D_DATAIN_SIZE_EXT_0", **size)
    yield write("CSC", "D_DATAIN_SIZE_EXT_1", DATAIN_CHANNEL_EXT=data.channels - 1)
    yield write("CSC", "D_BATCH_NUMBER", 0)
    yield write("CSC", "D_POST_Y_EXTENSION", 0)
    yield write("CSC", "D_ENTRY_PER_SLICE", ENTRIES=entries)
    yield write("CSC", "D_WEIGHT_FORMAT", 0)
    window = {"WEIGHT_WIDTH_EXT": kernel_columns - 1, "WEIGHT_HEIGHT_EXT": kernel_rows - 1}
    yield write("CSC", "D_WEIGHT_SIZE_EXT_0", **window)
    kernels = {"WEIGHT_CHANNEL_EXT": data.channels - 1, "WEIGHT_KERNEL": out.channels - 1}
    yield write("CSC", "D_WEIGHT_SIZE_EXT_1", **kernels)
    yield write("CSC", "D_WEIGHT_BYTES", job.weight_bytes)
    yield write("CSC", "D_WMB_BYTES", 0)
    yield write("CSC", "D_DATAOUT_SIZE_0", DATAOUT_WIDTH=out.columns - 1, DATAOUT_HEIGHT=out.rows - 1)
    yield write("CSC", "D_DATAOUT_SIZE_1", DATAOUT_CHANNEL=out.channels - 1)
    yield write("CSC", "D_ATOMICS", ATOMICS=out.rows * out.columns - 1)
    yield write("CSC", "D_RELEASE", RLS_SLICES=data.rows - 1)
    yield write("CSC", "D_CONV_STRIDE_EXT", CONV_X_STRIDE_EXT=right - 1, CONV_Y_STRIDE_EXT=down - 1)
    yield write("CSC", "D_DILATION_EXT", X_DILATION_EXT=job.dilation[1] - 1, Y_DILATION_EXT=job.dilation[0] - 1)
    yield write("CSC", "D_ZERO_PADDING", PAD_LEFT=left, PAD_TOP=top)
    yield write("CSC", "D_ZERO_PADDING_VALUE", **padded)
    yield write("CSC", "D_BANK", **banks)
    yield write("CSC", "D_PRA_CFG", 0)
    yield write("CMAC_A", "D_MISC_CFG", 0)
    yield write("CMAC_B", "D_MISC_CFG", 0)
    yield write("CACC", "D_MISC_CFG", 0)
    yield write("CACC", "D_DATAOUT_SIZE_0", DATAOUT_WIDTH=out.columns - 1, DATAOUT_HEIGHT=out.rows - 1)
    yield write("CACC", "D_DATAOUT_SIZE_1", DATAOUT_CHANNEL=out.channels - 1)
    yield write("CACC", "D_DATAOUT_ADDR", out.address)
    yield write("CACC", "D_BATCH_NUMBER", 0)
    yield write("CACC", "D_LINE_STRIDE", out.line)
    yield write("CACC", "D_SURF_STRIDE", out.surface)
    yield write("CACC", "D_DATAOUT_MAP", 0)
    yield write("CACC", "D_CLIP_CFG", CLIP_TRUNCATE=0)


def _sdp(out: Cube, finish: Finish, source: Cube | None) -> Iterator[Command]:
    """Yields the writes of SDP, which takes a tensor from memory, or from a convolution if `source` is None."""
    size = {"WIDTH": out.columns - 1}, {"HEIGHT": out.rows - 1}, {"CHANNEL": out.channels - 1}
    for place, fields in zip(("WIDTH", "HEIGHT", "CHANNEL"), size, strict=True):
        yield write("SDP", f"D_DATA_CUBE_{place}", **fields)
    yield write("SDP", "D_DST_BASE_ADDR_LOW", out.address)
    yield write("SDP", "D_DST_BASE_ADDR_HIGH", out.address >> 32)
    yield write("SDP", "D_DST_LINE_STRIDE", out.line)
    yield write("SDP", "D_DST_SURFACE_STRIDE", out.surface)
    yield from _stage("BS", finish.bs)
    yield from _stage("BN", finish.bn)
    yield write("SDP", "D_DP_EW_CFG", EW_BYPASS=1)
    yield write("SDP", "D_FEATURE_MODE_CFG", FLYING_MODE=int(source is None))
    yield write("SDP", "D_DST_DMA_CFG", DST_RAM_TYPE=1)
    yield write("SDP", "D_DATA_FORMAT", 0)
    yield write("SDP", "D_CVT_OFFSET", -finish.addend)
    yield write("SDP", "D_CVT_SCALE", CVT_SCALE=1)
    yield write("SDP", "D_CVT_SHIFT", CVT_SHIFT=finish.right)
    yield write("SDP", "D_PERF_ENABLE", 0)
    if "SDP_RDMA" not in _sdp_units(finish, source is not None):
        return
    for place, fields in zip(("WIDTH", "HEIGHT", "CHANNEL"), size, strict=True):
        yield write("SDP_RDMA", f"D_DATA_CUBE_{place}", **fields)
    yield from _operands("BS", finish.bs)
    yield from _operands("BN", finish.bn)
    yield write("SDP_RDMA", "D_FEATURE_MODE_CFG", FLYING_MODE=int(source is None))
    yield write("SDP_RDMA", "D_SRC_DMA_CFG", SRC_RAM_TYPE=1)
    yield write("SDP_RDMA", "D_ERDMA_CFG", ERDMA_DISABLE=1)
    yield write("SDP_RDMA", "D_PERF_ENABLE", 0)
    if source is not None:
        yield write("SDP_RDMA", "D_SRC_BASE_ADDR_LOW", source.address)
        yield write("SDP_RDMA", "D_SRC_BASE_ADDR_HIGH", source.address >> 32)
        yield write("SDP_RDMA", "D_SRC_LINE_STRIDE", source.line)
        yield write("SDP_RDMA", "D_SRC_SURFACE_STRIDE", source.surface)


def _stage(name: str, stage: Stage) -> Iterator[Command]:
    """Yields the writes of a stage of SDP, and of what reads its operands."""
    idle = stage.alu is None and not stage.multiplies and not stage.rectifies
    fields = {
        "BYPASS": int(idle), "ALU_BYPASS": int(stage.alu is None), "ALU_ALGO": stage.alu or 0,
        "MUL_BYPASS": int(not stage.multiplies), "RELU_BYPASS": int(not stage.rectifies),
    }  # fmt: skip
    if idle:
        fields = {"BYPASS": 1}
    yield write("SDP", f"D_DP_{name}_CFG", **{f"{name}_{field}": value for field, value in fields.items()})
    alu = {f"{name}_ALU_SRC": int(stage.alu_from_memory), f"{name}_ALU_SHIFT_VALUE": stage.alu_left}
    yield write("SDP", f"D_DP_{name}_ALU_CFG", **alu)
    yield write("SDP", f"D_DP_{name}_ALU_SRC_VALUE", (stage.alu_value or 0) & 0xFFFF)
    multiplier = {f"{name}_MUL_SRC": int(stage.multiplier_from_memory), f"{name}_MUL_SHIFT_VALUE": stage.right}
    yield write("SDP", f"D_DP_{name}_MUL_CFG", **multiplier)
    yield write("SDP", f"D_DP_{name}_MUL_SRC_VALUE", (stage.multiplier or 0) & 0xFFFF)


def _operands(name: str, stage: Stage) -> Iterator[Command]:
    """Yields the writes of what reads the operands of a stage."""
    reader = {"BS": "BRDMA", "BN": "NRDMA"}[name]
    if not stage.reads:
        yield write("SDP_RDMA", f"D_{reader}_CFG", **{f"{reader}_DISABLE": 1})
        return
    use = 2 if stage.alu_from_memory and stage.multiplier_from_memory else int(stage.alu_from_memory)
    cfg = {"DATA_USE": use, "DATA_SIZE": int(not stage.elements), "DATA_MODE": int(stage.elements), "RAM_TYPE": 1}
    yield write("SDP_RDMA", f"D_{reader}_CFG", **{f"{reader}_{field}": value for field, value in cfg.items()})
    yield write("SDP_RDMA", f"D_{name}_BASE_ADDR_LOW", stage.address)
    yield write("SDP_RDMA", f"D_{name}_BASE_ADDR_HIGH", stage.address >> 32)
    yield write("SDP_RDMA", f"D_{name}_LINE_STRIDE", stage.line)
    yield write("SDP_RDMA", f"D_{name}_SURFACE_STRIDE", stage.surface)
    yield write("SDP_RDMA", f"D_{name}_BATCH_STRIDE", 0)


def _pool(job: Pool) -> Iterator[Command]:
    """Yields the writes of PDP."""
    data, out = job.source, job.target
    (rows, columns), (down, right), (top, bottom, left, after) = job.window, job.stride, job.padding
    across, along = job.reciprocals or (0, 0)
    yield write("PDP", "D_DATA_CUBE_IN_WIDTH", data.columns - 1)
    yield write("PDP", "D_DATA_CUBE_IN_HEIGHT", data.rows - 1)
    yield write("PDP", "D_DATA_CUBE_IN_CHANNEL", data.channels - 1)
    yield write("PDP", "D_DATA_CUBE_OUT_WIDTH", out.columns - 1)
    yield write("PDP", "D_DATA_CUBE_OUT_HEIGHT", out.rows - 1)
    yield write("PDP", "D_DATA_CUBE_OUT_CHANNEL", out.channels - 1)
    yield write("PDP", "D_OPERATION_MODE_CFG", POOLING_METHOD=int(job.reciprocals is None), FLYING_MODE=1)
    yield write("PDP", "D_NAN_FLUSH_TO_ZERO", 0)
    yield write("PDP", "D_PARTIAL_WIDTH_IN", PARTIAL_WIDTH_IN_FIRST=data.columns - 1)
    yield write("PDP", "D_PARTIAL_WIDTH_OUT", PARTIAL_WIDTH_OUT_FIRST=out.columns - 1)
    yield write(
        "PDP", "D_POOLING_KERNEL_CFG", KERNEL_WIDTH=columns - 1, KERNEL_HEIGHT=rows - 1,
        KERNEL_STRIDE_WIDTH=right - 1, KERNEL_STRIDE_HEIGHT=down - 1,
    )  # fmt: skip
    yield write("PDP", "D_RECIP_KERNEL_WIDTH", RECIP_KERNEL_WIDTH=across)
    yield write("PDP", "D_RECIP_KERNEL_HEIGHT", RECIP_KERNEL_HEIGHT=along)
    yield write("PDP", "D_POOLING_PADDING_CFG", PAD_LEFT=left, PAD_TOP=top, PAD_RIGHT=after, PAD_BOTTOM=bottom)
    for n in range(1, 8):
        fields = {f"PAD_VALUE_{n}X": n * job.padding_value}
        yield write("PDP", f"D_POOLING_PADDING_VALUE_{n}_CFG", **fields)
    yield write("PDP", "D_SRC_BASE_ADDR_LOW", data.address)
    yield write("PDP", "D_SRC_BASE_ADDR_HIGH", data.address >> 32)
    yield write("PDP", "D_SRC_LINE_STRIDE", data.line)
    yield write("PDP", "D_SRC_SURFACE_STRIDE", data.surface)
    yield write("PDP", "D_DST_BASE_ADDR_LOW", out.address)
    yield write("PDP", "D_DST_BASE_ADDR_HIGH", out.address >> 32)
    yield write("PDP", "D_DST_LINE_STRIDE", out.line)
    yield write("PDP", "D_DST_SURFACE_STRIDE", out.surface)
    yield write("PDP", "D_DST_RAM_CFG", DST_RAM_TYPE=1)
    yield write("PDP", "D_DATA_FORMAT", 0)
    yield write("PDP", "D_PERF_ENABLE", 0)
    yield write("PDP_RDMA", "D_DATA_CUBE_IN_WIDTH", data.columns - 1)
    yield write("PDP_RDMA", "D_DATA_CUBE_IN_HEIGHT", data.rows - 1)
    yield write("PDP_RDMA", "D_DATA_CUBE_IN_CHANNEL", data.channels - 1)
    yield write("PDP_RDMA", "D_FLYING_MODE", FLYING_MODE=1)
    yield write("PDP_RDMA", "D_SRC_BASE_ADDR_LOW", data.address)
    yield write("PDP_RDMA", "D_SRC_BASE_ADDR_HIGH", data.address >> 32)
    yield write("PDP_RDMA", "D_SRC_LINE_STRIDE", data.line)
    yield write("PDP_RDMA", "D_SRC_SURFACE_STRIDE", data.surface)
    yield write("PDP_RDMA", "D_SRC_RAM_CFG", SRC_RAM_TYPE=1)
    yield write("PDP_RDMA", "D_DATA_FORMAT", 0)
    yield write("PDP_RDMA", "D_OPERATION_MODE_CFG", 0)
    yield write("PDP_RDMA", "D_POOLING_KERNEL_CFG", KERNEL_WIDTH=columns - 1, KERNEL_STRIDE_WIDTH=right - 1)
    yield write("PDP_RDMA", "D_POOLING_PADDING_CFG", PAD_WIDTH=left)
    yield write("PDP_RDMA", "D_PARTIAL_WIDTH_IN", PARTIAL_WIDTH_IN_FIRST=data.columns - 1)
    yield write("PDP_RDMA", "D_PERF_ENABLE", 0)


def fits(data: Sequence[int], weights: int, group: int) -> tuple[int, int] | None:
    """Returns the banks for data and for weights of a convolution; None if they do not fit.

    Weights get as many of the banks that data leaves as they fill.

    Args:
        data: Rows of the data, and the entries of 8 bytes of a row.
        weights: Bytes of the weights.
        group: Bytes of 8 kernels.
    """
    rows, entries = data
    data_banks = -(-rows * entries * ATOM // BANK_BYTES)
    weight_banks = min(-(-weights // BANK_BYTES), BANKS - data_banks)
    return (data_banks, weight_banks) if weight_banks * BANK_BYTES >= min(group, weights) > 0 else None
