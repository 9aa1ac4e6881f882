"""Plugins of packages and of programs: found, listed, loaded late, named in errors."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.cli import main as qmlir_main
from qmlir.cli import opt
from qmlir.errors import OptionError
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.numerics.calibration import Search, choose_quantization
from qmlir.numerics.histograms import Histogram
from qmlir.numerics.roundings import WeightsToRound
from qmlir.plugins import CALIBRATIONS, DIALECTS, PASSES, ROUNDINGS, PluginError, known_plugins
from qmlir.settings.policy import Policy, PolicyError
from tests.packages import install, site

__all__ = ["site"]

MODEL = "examples/digits/model.mlir"
COUNTS = np.array([1] + [100] * 98 + [1])

PASS = """
from dataclasses import dataclass
from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass
from qmlir.ir.passes import option

@dataclass(frozen=True)
class SignPass(ModulePass):
    '''Writes a name on the module. And nothing else.'''
    name = "sign"
    by: str = option("nobody", "whose name")

    def apply(self, ctx, op):
        op.attributes["signed"] = StringAttr(self.by)
"""

CALIBRATION = """
def half(search):
    return search.low / 2, search.high / 2
"""


def halves(search: Search) -> tuple[float, float]:
    return search.low / 2, search.high / 2


def test_passes_of_packages(site: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "signing", {PASSES: {"sign": "signing:SignPass"}}, {"signing": PASS})
    assert opt.main(["--sign=by=me", "--simplify", str(root / MODEL)]) == 0
    assert 'signed = "me"' in capsys.readouterr().out
    assert opt.main(["--pass-pipeline=builtin.module(simplify,sign)", str(root / MODEL)]) == 0
    assert 'signed = "nobody"' in capsys.readouterr().out
    assert opt.main(["--list-passes"]) == 0
    shown = capsys.readouterr().out
    assert "  --sign\n      Writes a name on the module (signing 1.0)\n      by=<text> (default: nobody)\n" in shown
    assert opt.main(["--help"]) == 0
    assert re.search(r"^  --sign +Writes a name on the module \(signing 1\.0\)$", capsys.readouterr().out, re.MULTILINE)
    assert opt.main(["--sign", "--help"]) == 0
    assert "  by=<text> (default: nobody)\n      whose name" in capsys.readouterr().out
    assert opt.main(["--sing", str(root / MODEL)]) == 1
    assert "did you mean --sign" in capsys.readouterr().err
    signed = qmlir.Pipeline("simplify", ("sign", {"by": "Python"}))
    assert str(signed) == "builtin.module(simplify,sign{by=Python})"
    assert "signed" in signed(qmlir.load(root / MODEL)).attributes


def test_versions_list_plugins_without_importing_them(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {CALIBRATIONS: {"half": "broken:half"}, PASSES: {"sign": "broken:SignPass"}}
    install(site, "broken-one", entries, {"broken": "raise RuntimeError('no licence')"})
    for main in (qmlir_main.main, opt.main):
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.endswith("plugins:\n  broken-one 1.0: pass sign, calibration half\n")
    assert "broken" not in sys.modules


def test_a_package_that_does_not_import_breaks_nothing_else(
    site: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {g: {"mine": "broken:it"} for g in (PASSES, DIALECTS, CALIBRATIONS, ROUNDINGS)}
    install(site, "broken-one", entries, {"broken": "raise RuntimeError('no licence')"})
    assert opt.main(["--quantize", str(root / MODEL)]) == 0
    assert opt.main(["--list-passes"]) == 0
    shown = capsys.readouterr().out
    assert "  --mine\n      cannot be used: broken-one 1.0: its entry point mine of qmlir.passes, broken:it," in shown
    where = "broken-one 1.0: its entry point mine of {}, broken:it, must be importable, got RuntimeError: no licence"
    assert opt.main(["--mine", str(root / MODEL)]) == 1
    assert where.format(PASSES) in capsys.readouterr().err
    with pytest.raises(PluginError, match=where.format(CALIBRATIONS)):
        choose_quantization(-1, 1, histogram=COUNTS, calibration="mine")
    with pytest.raises(PluginError, match=where.format(DIALECTS)):
        parse_text(make_context(), "mine.op", "x.mlir")


def test_names_that_are_taken_are_errors_where_they_are_used(
    site: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = {PASSES: {"simplify": "a:b"}, CALIBRATIONS: {"kl": "a:b", "two": "a:b"}, DIALECTS: {"nn": "a:b"}}
    install(site, "taker", taken)
    install(site, "other", {CALIBRATIONS: {"two": "a:b"}, ROUNDINGS: {"nearest": "a:b"}})
    assert opt.main(["--cse", "--allow-unregistered-dialect", "-o", str(site / "x.mlir"), _text(site, "")]) == 0
    assert opt.main(["--simplify", str(root / MODEL)]) == 1
    said = "error: taker 1.0: must not offer the pass simplify: qmlir itself has one of that name; rename or uninstall"
    assert said in capsys.readouterr().err
    assert opt.main([_text(site, "%c = nn.constant <tensor<1xf32>, [0.0]> : tensor<1xf32>")]) == 1
    assert "taker 1.0: must not offer the dialect nn" in capsys.readouterr().err
    for rule, said in (
        ({"calibration": "kl"}, "taker 1.0: must not offer the calibration kl"),
        ({"calibration": "two"}, "other 1.0: must not offer the calibration two: taker 1.0 offers one"),
        ({"rounding": "nearest"}, "other 1.0: must not offer the rounding nearest"),
    ):
        with pytest.raises(PluginError, match=said):
            Policy.of({"default": rule})


def _text(folder: Path, body: str) -> str:
    path = folder / "text.mlir"
    path.write_text(body, encoding="utf-8")
    return str(path)


def test_passes_and_dialects_are_of_their_kind_and_name(
    site: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = {"wrong": PASS + "\nother = SignPass\nnumber = 1"}
    install(
        site,
        "wrong",
        {PASSES: {"sing": "wrong:other", "one": "wrong:number"}, DIALECTS: {"d": "wrong:number"}},
        sources,
    )
    for flag, said in (
        ("--sing", "name = 'sign' in SignPass"),
        ("--one", "derived from xdsl.passes.ModulePass, got 1"),
    ):
        assert opt.main([flag, str(root / MODEL)]) == 1
        assert said in capsys.readouterr().err
    with pytest.raises(PluginError, match=r"dialect d of wrong 1\.0 must be an xdsl\.ir\.Dialect"):
        parse_text(make_context(), "d.op", "x.mlir")


def test_calibrations_of_packages(site: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "halving", {CALIBRATIONS: {"half": "halving:half"}}, {"halving": CALIBRATION})
    assert choose_quantization(-1, 1, "symmetric", histogram=COUNTS, calibration="half") == choose_quantization(
        -0.5, 0.5, "symmetric"
    )
    policy = Policy.of({"rules": [{"name": "conv1", "calibration": "half"}]})
    assert Policy.of(policy.as_dict()) == policy
    path = tmp_path / "policy.yaml"
    path.write_text(policy.text(), encoding="utf-8")
    assert Policy.load(path).as_dict() == policy.as_dict()
    with pytest.raises(PolicyError, match="did you mean half"):
        Policy.of({"default": {"calibration": "halv"}})
    with pytest.raises(SystemExit, match="0"):
        qmlir_main.main(["quantize", "--help"])
    assert "aciq,half" in "".join(capsys.readouterr().out.split())
    assert opt.main(["--quantize", "--help"]) == 0
    assert "aciq | half | percentile-N> (default: auto)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda search: None, r"must return the range to keep, \(lowest, highest\), got TypeError"),
        (lambda search: (1.0, -1.0), r"must return finite numbers in order, within \[-1.00787, 1\], got \(1, -1\)"),
        (lambda search: (float("nan"), 1.0), "must return finite numbers in order"),
        (lambda search: (2.0, 3.0), r"within \[-1.00787, 1\], got \(2, 3\)"),
        (lambda search: 1 / 0, "got ZeroDivisionError: division by zero"),
    ],
)
def test_calibrations_return_ranges(site: Path, function: Any, said: str) -> None:
    qmlir.register_calibration("mine", function)
    with pytest.raises(PluginError, match=said) as raised:
        choose_quantization(-1, 1, "symmetric", histogram=COUNTS, calibration="mine", where="conv1")
    assert str(raised.value).startswith("conv1: calibration mine of this program")
    assert "repair it" in str(raised.value)


def test_calibrations_need_histograms_and_have_limits(site: Path) -> None:
    qmlir.register_calibration("wide", lambda search: (search.low * 9, search.high * 9))
    whole = choose_quantization(-1, 1, "symmetric")
    assert choose_quantization(-1, 1, "symmetric", histogram=COUNTS, calibration="wide") == whole
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "calibration wide needs a histogram"),
        ({"histogram": [1, 2]}, "needs at least 64 bins"),
        ({"histogram": COUNTS, "glow_exact": True}, "Glow calibrates by minmax and kl only, got wide"),
    ]
    for options, said in wrong:
        with pytest.raises(qmlir.QmlirError, match=said):
            choose_quantization(-1, 1, "symmetric", calibration="wide", **options)


def test_programs_register_functions(site: Path) -> None:
    install(site, "halving", {CALIBRATIONS: {"half": "halving:half"}})

    @qmlir.register_calibration("mine")
    def mine(search: Search) -> tuple[float, float]:
        return search.low, search.high

    assert qmlir.register_calibration("mine", halves) is halves  # the later function replaces the earlier one
    assert [(p.called, p.load()) for p in known_plugins() if p.name == "mine"] == [("mine of this program", halves)]
    assert mine is not halves
    wrong: list[tuple[Any, Any, str]] = [
        ("kl", halves, "got one that qmlir has"),
        ("half", halves, r"got one that halving 1\.0 has"),
        ("two words", halves, "must be letters"),
        ("", halves, "must be letters"),
        (3, halves, "must be letters"),
        ("mine", 3, "must be a function, got 3 of type int"),
    ]
    for name, function, said in wrong:
        with pytest.raises(PluginError, match=said):
            qmlir.register_calibration(name, function)


class TestRoundings:
    """Rounding methods on the digits network."""

    @pytest.fixture
    def samples(self, root: Path) -> list[np.ndarray]:
        return list(np.load(root / "examples/digits/digits.npz")["calibration_images"][:8, None])

    @pytest.mark.slow
    def test_a_method_gives_the_integers(self, site: Path, root: Path, samples: list[np.ndarray]) -> None:
        seen: dict[str, WeightsToRound] = {}

        @qmlir.register_rounding("down")
        def down(layer: WeightsToRound) -> np.ndarray:
            seen[layer.layer] = layer
            return np.clip(np.floor(layer.weights), layer.lowest, layer.highest)

        model = root / "examples/digits/digits.onnx"
        policy = {"rules": [{"name": "dense2", "rounding": "nearest"}]}
        q = qmlir.quantize(model, data=samples, rounding="down", policy=policy)
        by_node = {entry.node: entry for entry in qmlir.decisions(q)}
        assert "rounding by down of this program" in by_node["conv1+relu1"].reason
        assert "rounding" not in by_node["dense2"].reason
        assert list(seen) == ["conv1+relu1", "conv2+norm2+relu2", "conv3+relu3", "dense1+relu4"]
        conv1 = seen["conv1+relu1"]
        assert conv1.weights.shape == conv1.nearest.shape == (1, 8, 9)
        assert conv1.data.shape == (1, 8 * 64, 9)
        assert (conv1.data == np.rint(conv1.data)).all()
        assert (np.abs(conv1.nearest - conv1.weights) <= 0.5 + 1e-6).all()
        (stored,) = [op for op in q.walk() if op.name == "nn.constant" and op.results[0].name_hint == "conv1.weight"]
        expected = np.clip(np.floor(conv1.weights), conv1.lowest, conv1.highest).reshape(8, 3, 3, 1)
        assert (stored.value.array == expected).all()  # pyright: ignore[reportAttributeAccessIssue]
        assert (qmlir.compile(q, cache=False)(samples[0]) == qmlir.reference(q)(samples[0])).all()

    def test_a_method_needs_samples(self, site: Path, root: Path, samples: list[np.ndarray]) -> None:
        qmlir.register_rounding("down", lambda layer: np.floor(layer.weights))
        for options in ({"rounding": "down"}, {"policy": {"rules": [{"kind": "conv2d", "rounding": "down"}]}}):
            with pytest.raises(OptionError, match="rounding down: needs samples, got none"):
                qmlir.quantize(root / MODEL, **options)  # pyright: ignore[reportArgumentType]
        images = [sample.reshape(1, 8, 8, 1) for sample in samples]
        with pytest.raises(OptionError, match="cannot give Glow's numbers"):
            qmlir.quantize(root / MODEL, data=images, rounding="down", glow_exact=True, calibration="minmax")

    @pytest.mark.parametrize(
        ("function", "said"),
        [
            (
                lambda layer: layer.weights,
                r"must return integers from -127 to 127, of shape \[1, 8, 9\], got -?[0-9.]+$",
            ),
            (lambda layer: layer.nearest * 1000, "must return integers from -127 to 127"),
            (lambda layer: layer.nearest[0], r"got shape \[8, 9\]"),
            (lambda layer: layer.missing, "got AttributeError: 'WeightsToRound' object has no attribute 'missing'"),
        ],
    )
    def test_results_are_checked(
        self, site: Path, root: Path, samples: list[np.ndarray], function: Any, said: str
    ) -> None:
        qmlir.register_rounding("mine", function)
        with pytest.raises(PluginError) as raised:
            qmlir.quantize(root / "examples/digits/digits.onnx", data=samples, rounding="mine")
        assert str(raised.value).startswith("conv1+relu1: rounding mine of this program must return")
        text = str(raised.value).removesuffix("; repair it, or choose another")
        assert re.search(said, text), text


def test_calibrations_reach_the_ledger(site: Path, root: Path) -> None:
    qmlir.register_calibration("half", halves)
    samples = list(np.load(root / "examples/digits/digits.npz")["calibration_images"][:8, None])
    q = qmlir.quantize(root / "examples/digits/digits.onnx", data=samples, rounding="nearest", calibration="half")
    reasons = {entry.node: entry.reason for entry in qmlir.decisions(q)}
    assert reasons["conv1+relu1"].endswith(", calibration by half of this program")
    assert 'qmlir.methods = {calibration = "half of this program"}' in str(q)


def test_a_histogram_is_what_a_calibration_sees(site: Path) -> None:
    seen: list[Search] = []
    qmlir.register_calibration("look", lambda search: seen.append(search) or (search.low, search.high))
    held = Histogram.over(-1.0, 1.0, COUNTS)
    choose_quantization(-1, 1, "symmetric", "int16", held, "look")
    (search,) = seen
    assert search.histogram is held
    assert (search.bits, search.symmetric, search.precision) == (16, True, "int16")


def test_installed_packages_are_listed_once(site: Path) -> None:
    """Listing takes a moment, so a process that uses no name of a plugin must not list them: `import qmlir`."""
    code = "import qmlir; qmlir.Policy; from qmlir.plugins import installed; print(installed.cache_info().misses)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
