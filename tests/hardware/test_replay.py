"""Files of programs: what is written runs on the functional model as any program, and what differs is named."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.hardware.nvdla.machine import run
from qmlir.backends.hardware.nvdla.program import Program
from tests.hardware.replay import differences, main, programs_of

pytestmark = [pytest.mark.models, pytest.mark.slow]


@pytest.fixture(scope="module")
def file(shared: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a network for one input."""
    path = tmp_path_factory.mktemp("replay") / "mnist.npz"
    np.savez(path, allow_pickle=False, **programs_of("mnist-8", shared, 1).arrays())
    return path


def test_a_file_of_programs(file: Path) -> None:
    """Each program gives its bytes after a reset."""
    with np.load(file) as z:
        assert len(z["name"]) == 6
        for n in range(len(z["name"])):
            at = np.flatnonzero(z["seg_program"] == n)
            segments = [(int(z["seg_addr"][s]), z["seg"][z["seg_at"][s] : z["seg_at"][s + 1]].tobytes()) for s in at]
            memory = run(Program.from_rows(z["op"][z["op_at"][n] : z["op_at"][n + 1]], segments))
            (out,) = np.flatnonzero(z["out_program"] == n)
            expected = z["out"][z["out_at"][out] : z["out_at"][out + 1]]
            assert (memory.read(int(z["out_addr"][out]), len(expected)) == expected).all()


def test_what_differs_is_named(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, wrong = tmp_path / "same.npz", tmp_path / "wrong.npz"
    shutil.copy(file, same)
    assert main(["--compare", str(file), str(same)]) == 0
    with np.load(file) as z:
        arrays = {name: z[name] for name in z.files}
    arrays["out"] = arrays["out"].copy()
    arrays["out"][arrays["out_at"][2] + 8 * (14 * 14 + 3 * 14 + 5) + 1] ^= 0x40  # the second surface of the third layer
    np.savez(wrong, allow_pickle=False, **arrays)
    assert main(["--compare", str(file), str(wrong)]) == 1
    (sentence,) = differences(file, wrong)
    assert "mnist-8_0_02: 1 of 3136 bytes differ, first at row 3, column 5, channel 9: 0x" in sentence
    assert sentence in capsys.readouterr().out
    arrays["name"] = np.array([f"other_{n}" for n in range(6)])
    np.savez(wrong, allow_pickle=False, **arrays)
    assert differences(file, wrong)[0].endswith("bytes expected, got none")
