"""The table of networks on models of hardware: its figures, what is left out of it, and bytes that differ."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.measurements.hardware import ACCELERATORS, NAMES, WIDTH, main
from qmlir.devices.model.layer import PlacedLayer
from tests.backends.hardware.boards import GemminiBoard

WORD_BYTES = {"nvdla-small": 8, "gemmini": 3 * 8, "vta": 16}
"""Device → bytes of what its driver issues at once."""


@pytest.mark.slow
@pytest.mark.parametrize("device", ACCELERATORS)
def test_digits_on_a_device(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digits", device, "--inputs", "2"]) == 0
    title, _, headings, figures, *host = capsys.readouterr().out.splitlines()
    assert title.startswith(device)
    assert headings.split()[:4] == ["network", "layers", "MACs", "differ"]
    assert all(len(line) <= WIDTH for line in (title, headings, figures, *host))
    network, layers, share, differ, cycles, used, issued, words, constants = figures.split()
    assert (network, share) == ("digits", "100")
    assert layers == ("8+1" if device == "nvdla-small" else "9+0")
    wrong, compared = map(int, differ.split("/"))
    assert (wrong, compared > 0) == (0, True)
    assert int(words) == int(issued) * WORD_BYTES[device]
    products = 160_896
    assert float(used) == pytest.approx(100 * products / (ACCELERATORS[device].lanes * int(cycles)), abs=0.051)
    assert int(constants) > 10_000
    assert (host != [""]) == (device == "nvdla-small")


@pytest.mark.slow
def test_bytes_that_differ_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plain = GemminiBoard.run

    def wrong(self: GemminiBoard, placed: PlacedLayer, words: Sequence[int]) -> None:
        plain(self, placed, words)
        if placed.layer.output.name == self.program.outputs[0].name:
            output = self.get(placed.layer.output)
            output.reshape(-1)[3] ^= 1
            self.put(placed.layer.output, output)

    monkeypatch.setattr(GemminiBoard, "run", wrong)
    assert main(["digits", "gemmini", "--inputs", "1"]) == 1
    assert capsys.readouterr().out.splitlines()[3].split()[3].startswith("2/"), "in the layer and in the output"


def test_networks_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mobilenetv2", "kws", "vta"], find=tmp_path.joinpath, peers=tmp_path) == 0
    printed = capsys.readouterr().out
    assert f"mobilenetv2 is left out: there is no {tmp_path / 'mobilenetv2.onnx'}" in printed
    assert f"kws         is left out: there is no {tmp_path / 'models' / 'tflite' / 'kws_dscnn_f32.tflite'}" in printed


def test_names_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "[]" not in printed
    assert all(name in printed for name in (*NAMES, *ACCELERATORS))
    with pytest.raises(SystemExit):
        main(["kws", "nvdla"])
    assert "a name must be one of digits, " in capsys.readouterr().err
