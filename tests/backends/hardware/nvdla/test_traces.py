"""NVIDIA's traces of registers give its own checksums on the functional model.

They are read from a clone of nvdla/hw, branch nv_small, that QMLIR_NVDLA names, or from any folder with such traces.
"""

import os
from pathlib import Path

import pytest

from qmlir.backends.hardware.nvdla.machine import run
from qmlir.backends.hardware.nvdla.trace import read
from qmlir.errors import FileError, QmlirError

FOLDER = "verif/tests/trace_tests/nv_small"

ELEMENT_WISE = (
    "sdp_3x3x32_ew_lo_lin_int8",
    "sdp_3x3x33_ew_int8_reg_0",
    "sdp_3x3x33_ew_le_exp_int8",
    "sdp_3x3x33_ew_le_lin_int8",
)
"""Traces of the stage EW, which nv_small does not have: its RTL does not give their checksums either."""


def _traces() -> list[Path]:
    if "QMLIR_NVDLA" not in os.environ:
        return []
    folder = Path(os.environ["QMLIR_NVDLA"])
    return sorted((folder / FOLDER if (folder / FOLDER).is_dir() else folder).glob("*/*.cfg"))


def _whole(path: Path) -> bool:
    """Whether the files are there that a trace loads: copies of the repository may lack the largest ones."""
    try:
        read(path)
    except FileError as error:
        if "no such file" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("path", _traces(), ids=lambda path: path.stem)
def test_checksums_are_those_of_nvidia(path: Path) -> None:
    if not _whole(path):
        pytest.skip("a file of memory that the trace loads is missing")
    trace = read(path)
    if path.stem in ELEMENT_WISE:
        with pytest.raises(QmlirError, match=r"SDP\.D_DP_EW_CFG: EW_BYPASS must be 1: nv_small has no stage EW"):
            run(trace.program)
        return
    memory = run(trace.program)
    assert trace.checks
    assert [check.holds(memory) for check in trace.checks] == [True] * len(trace.checks)


COPY = """\
// a layer of SDP that copies one atom
mem_init(pri_mem, 0x80000000, 0x40, ALL_ZERO);
mem_load(pri_mem, 0x80000000, "data.dat");
reg_write(NVDLA_SDP.D_FEATURE_MODE_CFG_0, 0x0);
reg_write(NVDLA_SDP.D_DATA_FORMAT_0, 0x0);  // int8
reg_write(NVDLA_SDP.D_DST_BASE_ADDR_LOW_0, 0x80000020);
reg_write(NVDLA_SDP.D_DST_DMA_CFG_0, 0x1);
reg_write(NVDLA_SDP.D_CVT_SCALE_0, 0x1);
reg_write(NVDLA_SDP_RDMA.D_FEATURE_MODE_CFG_0, 0x0);
reg_write(NVDLA_SDP_RDMA.D_SRC_BASE_ADDR_LOW_0, 0x80000000);
reg_write(NVDLA_SDP_RDMA.D_SRC_DMA_CFG_0, 0x1);
poll_reg_equal(NVDLA_CDMA.S_CBUF_FLUSH_STATUS_0, 0x1);
reg_write(NVDLA_SDP.D_OP_ENABLE_0, 0x1);
reg_write(NVDLA_SDP_RDMA.D_OP_ENABLE_0, 0x1);
intr_notify(SDP_0, sync_id_0);
check_crc(sync_id_0, 1, 0x80000020, 0x8, 0x{crc:x});
"""

DATA = (
    "{\n{offset:0x0, size:4, payload:0x01 0x02 0x03 0x04} ,\n{offset:0x4, size:4, payload:0x05 0x06 0x07 0xf8} ,\n}\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace with its memory; the checksum was computed by another program (`gzip -c`)."""
    (tmp_path / "data.dat").write_text(DATA)
    path = tmp_path / "copy.cfg"
    path.write_text(COPY.format(crc=0x82777AD9))
    return path


def test_a_trace_and_its_checksum(trace: Path) -> None:
    memory = run(read(trace).program)
    assert bytes(memory.read(0x80000020, 8)) == bytes([1, 2, 3, 4, 5, 6, 7, 0xF8])
    (check,) = read(trace).checks
    assert check.holds(memory)
    memory.write(0x80000021, b"\x12")
    assert not check.holds(memory)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mem_load", "mem_copy", r"copy.cfg:3: must be a statement of a trace, got mem_copy\(pri_mem, 0x80000000"),
        ("NVDLA_SDP.D_CVT_SCALE_0, 0x1", "NVDLA_SDP.D_CVT_SCALE_0, one", r"copy.cfg:8: must be a number, got one"),
        ("NVDLA_SDP.D_CVT_SCALE_0", "SDP.D_CVT_SCALE", r"copy.cfg:8: must name a register as NVDLA_UNIT.REGISTER_0"),
        ("NVDLA_SDP.D_CVT_SCALE_0", "NVDLA_SDP.D_CVT_SCALES_0", r"no register of this name, got SDP.D_CVT_SCALES; did"),
        ("NVDLA_SDP.D_CVT_SCALE_0", "NVDLA_BDMA.D_X_0", r"NVDLA small has no register of this name, got BDMA.D_X"),
        ("intr_notify(SDP_0", "intr_notify(BDMA_0", r"copy.cfg:15: must name an interrupt, a unit with its group"),
        (
            "intr_notify(SDP_0, sync_id_0);",
            "intr_notify SDP_0;",
            r"copy.cfg:15: must be a statement of a trace, got intr",
        ),
        ("data.dat", "date.dat", r"date.dat: must be readable, got no such file"),
    ],
)
def test_what_is_no_trace_is_refused(trace: Path, old: str, new: str, message: str) -> None:
    text = trace.read_text()
    assert old in text
    trace.write_text(text.replace(old, new))
    with pytest.raises(QmlirError, match=message):
        read(trace)


def test_pieces_of_memory_have_the_size_that_they_say(trace: Path) -> None:
    (trace.parent / "data.dat").write_text(DATA.replace("size:4, payload:0x05", "size:5, payload:0x05"))
    with pytest.raises(FileError, match=r"data.dat: a piece must have the 5 bytes that it says, got 4"):
        read(trace)
