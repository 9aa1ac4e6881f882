"""The benchmark beside peers measures, leaves out what is not there and says so; its figures go to standard output."""

import json
from pathlib import Path

import pytest

from docs.measurements.contender import Turn
from docs.measurements.peers import MODELS, Contender, Effort, Model, NotThere, Spread, main, measured, show, shown
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def test_a_network_beside_peers(capsys: pytest.CaptureFixture[str]) -> None:
    row = measured(Model("digits", DIGITS, ("onnxruntime", "absent")), 1, Effort(2, 1, 0.02))
    assert list(row.ratios) == ["onnxruntime"]
    assert row.fastest == row.ratios["onnxruntime"].median > 0
    assert row.fastest_bound == row.to_bound["onnxruntime"].median > 0
    assert row.latency.low <= row.latency.median <= row.latency.high
    assert row.cold.median > row.cached.median > 0
    assert row.notes[0].startswith("without absent: ended with 2")
    show([row])
    printed = capsys.readouterr().out
    assert printed.startswith("network")
    assert "digits, 1 threads: without absent" in printed


def test_only_rounds_that_count_are_measured() -> None:
    clean = Spread.of([(3.0, True), (1.0, True), (9.0, False), (2.0, True)])
    assert (clean.median, clean.low, clean.high, clean.is_clean) == (2.0, 1.0, 3.0, True)
    disturbed = Spread.of([(3.0, True), (1.0, True), (9.0, False)])
    assert (disturbed.median, disturbed.high, disturbed.is_clean) == (3.0, 9.0, False)
    assert shown(disturbed, "{:.1f}".format) == "~3.0 [1.0–9.0]"


def test_a_turn_counts_if_nothing_else_used_the_machine() -> None:
    contender = Contender.__new__(Contender)
    alone, beside = (Turn(1.0, 1.0, 9, own, others, 0.0) for own, others in ((1.0, 0.5), (0.9, 0.01)))
    contender.threads = 1
    assert [contender.counts(turn) for turn in (alone, beside)] == [True, False]
    contender.threads = 2
    assert [contender.counts(turn) for turn in (alone, beside)] == [False, True]
    assert not contender.counts(Turn(1.0, 1.0, 9, 1.0, 0.0, 0.5))


def test_files_that_are_missing_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "absent", Model("absent", tmp_path / "absent.onnx", ()))
    main(["--models", "absent", "--threads", "1,4096", "--json", str(tmp_path / "found.json")])
    printed = capsys.readouterr().out
    assert "absent, 1 threads: there is no" in printed
    assert "absent, 4096 threads: this machine has" in printed
    assert json.loads((tmp_path / "found.json").read_text())["rows"] == []


def test_a_file_that_we_do_not_read_is_an_error_of_its_row(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no network")
    with pytest.raises(NotThere, match=r"broken\.onnx"):
        measured(Model("broken", broken, ()), 1, Effort(1, 0, 0.01))
