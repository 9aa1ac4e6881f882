"""A recipe that serves some networks of a kind is tried where outputs lack decibels, and the better network is kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper, parser
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.quality import OutputQuality, Quality
from qmlir.analysis.recipe_trial import tried
from qmlir.compiler import main_function
from qmlir.errors import QmlirError
from qmlir.settings.recorded import recorded_config
from tests.cli.small import run, write_small

Array = npt.NDArray[Any]

WORDS, WIDTH, PLACES = 40, 32, 16

SAMPLES = np.random.default_rng(5).integers(0, WORDS, (24, 1, PLACES))

ENCODER = f"""<ir_version: 8, opset_import: ["" : 17]>
network (int64[1,{PLACES}] ids) => (float[1,{PLACES},{WIDTH}] y) {{
  x = Gather(table, ids)
  n = LayerNormalization<axis=-1>(x, gain)
  q = MatMul(n, wq)
  k = MatMul(n, wk)
  v = MatMul(n, wv)
  kt = Transpose<perm=[0,2,1]>(k)
  s = MatMul(q, kt)
  p = Softmax<axis=-1>(s)
  a = MatMul(p, v)
  m = Mul(x, half)
  f = MatMul(m, up)
  r = Relu(f)
  d = MatMul(r, down)
  h = Add(x, d)
  t = Add(h, a)
  y = LayerNormalization<axis=-1>(t, gain)
}}"""
"""An encoder whose rows, those of its table, differ by a factor of a thousand in magnitude."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("encoder")
    model = parser.parse_model(ENCODER)
    shapes: dict[str, tuple[int, ...]] = {"wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
    weights = {name: rng.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    weights["table"] = rng.normal(size=(WORDS, WIDTH)) * 10.0 ** rng.uniform(-1.5, 1.5, (WORDS, 1))
    weights |= {"gain": np.ones(WIDTH), "half": np.array(0.5)}
    model.graph.initializer.extend(numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items())
    onnx.save(model, str(folder / "net.onnx"))
    np.save(folder / "ids.npy", SAMPLES)
    return folder / "net.onnx"


def quantized(network: Path, **options: Any) -> ModuleOp:
    return qmlir.quantize(network, data=list(SAMPLES), **options)


def decibels(module: ModuleOp) -> float:
    found = qmlir.quality(module).sqnr
    assert found is not None
    return found


@pytest.mark.slow
def test_an_encoder_that_static_scales_ruin_gets_its_recipe(encoder: Path) -> None:
    plain, kept, named = (quantized(encoder, recipe=name) for name in ("none", "auto", "text-encoder"))
    assert decibels(plain) < 30 < decibels(kept)
    assert recorded_config(kept).recipe == "text-encoder"
    assert str(main_function(kept)) == str(main_function(named))
    assert decibels(kept) == decibels(named)
    assert {entry.outcome for entry in qmlir.decisions(kept)} == {"quantized"}
    np.testing.assert_array_equal(qmlir.compile(kept)(SAMPLES[0]), qmlir.reference(kept)(SAMPLES[0]))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The recipes of the quantizations that `qmlir.quantize` makes, in order."""
    from qmlir.analysis import measured

    found: list[str | None] = []
    original = measured.quantized_by

    def counted(*given: Any, **options: Any) -> ModuleOp:
        found.append(options.get("recipe"))
        return original(*given, **options)

    monkeypatch.setattr("qmlir.analysis.measured.quantized_by", counted)
    return found


@pytest.mark.parametrize("options", [
    {"recipe": "none"}, {"activations": "static"}, {"rotate": "none"}, {"precision": "int16"}, {"measure": False},
    {"schema": "symmetric_with_power2_scale"}, {"policy": {"default": {"activations": "static"}}},
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore::qmlir.errors.QualityWarning")
def test_who_says_otherwise_gets_no_trial(encoder: Path, made: list[str | None], options: dict[str, Any]) -> None:
    quantized(encoder, rounding="nearest", **options)
    assert len(made) == 1


@pytest.mark.filterwarnings("ignore::qmlir.errors.QualityWarning")
def test_ranges_that_are_known_already_stay(encoder: Path, made: list[str | None]) -> None:
    """They are of a network that is not rotated."""
    qmlir.quantize(encoder, qmlir.profile(encoder, SAMPLES), data=list(SAMPLES), rounding="nearest")
    assert len(made) == 1


def test_outputs_that_are_good_enough_need_no_trial(
    encoder: Path, made: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmlir.analysis.target.TARGET", -10.0)
    kept = quantized(encoder, rounding="nearest")
    assert made == [None]
    assert recorded_config(kept).recipe == "none"


@pytest.mark.slow
def test_the_command_says_what_the_recipe_gains_and_costs(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("quantize", encoder, "--data", encoder.parent / "ids.npy", "--rounding", "nearest", "-o")
    assert run(*command, tmp_path / "q.mlir", "--json", tmp_path / "q.json") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the network is quantized once more, by --recipe text-encoder" in told
    said = next(line for line in json.loads((tmp_path / "q.json").read_text())["remarks"] if "without it" in line)
    assert told.count(said) == 1
    assert said.startswith("recipe text-encoder: ")
    assert "ms a call on this CPU" in said
    assert said.endswith("; --recipe none leaves it out")
    assert run(*command, tmp_path / "named.mlir", "--recipe", "text-encoder") == 0
    assert run(*command, tmp_path / "none.mlir", "--recipe", "none") == 0
    assert "once more" not in capsys.readouterr().out
    bits = {name: (tmp_path / f"{name}.safetensors").read_bytes() for name in ("q", "named", "none")}
    assert bits["q"] == bits["named"] != bits["none"]
    python = quantized(encoder, rounding="nearest")
    assert qmlir.quality(python) == qmlir.quality(tmp_path / "q.mlir")


@pytest.mark.slow
def test_auto_tries_the_recipe_before_it_raises_operations(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its policy names the recipe, and makes the same network, whose ranges are of rotated tensors."""
    data = ("--data", encoder.parent / "ids.npy")
    options = ("--precision", "auto", "--save-policy", tmp_path / "a.yaml", "-o", tmp_path / "a.mlir")
    assert run("quantize", encoder, *data, *options) == 0
    assert "auto: " in capsys.readouterr().out
    kept = qmlir.load(tmp_path / "a.mlir")
    assert recorded_config(kept).recipe == "text-encoder"
    assert decibels(kept) > 30
    assert run("quantize", encoder, *data, "--policy", tmp_path / "a.yaml", "-o", tmp_path / "b.mlir") == 0
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    python = quantized(encoder, precision="auto")
    assert recorded_config(python).recipe == "text-encoder"
    assert decibels(python) > 30


# ---------------------------------------------------------------------------------------------------------------
# Which network is kept


def of_decibels(decibels: float) -> Quality:
    return Quality(8, True, (OutputQuality("y", decibels, None, 45.0),))


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleOp]:
    small = write_small(tmp_path_factory.mktemp("small"))
    data = [each[None] for each in small.samples]
    left = {"rules": [{"layer": "last", "keep_float": True}]}
    whole, partly = (qmlir.quantize(small.onnx, data=data, policy=p, measure=False) for p in (None, left))
    return {"whole": whole, "partly": partly}


@pytest.mark.parametrize(("before", "after", "keeps"), [(20.0, 29.0, True), (29.0, 20.0, False), (25.0, 25.0, False)])
def test_the_better_network_is_kept(networks: dict[str, ModuleOp], before: float, after: float, keeps: bool) -> None:
    plain, other = networks["whole"], networks["whole"].clone()
    trial = tried("text-encoder", (plain, of_decibels(before)), lambda: other, lambda _: of_decibels(after))
    assert trial.is_kept == keeps
    assert trial.quantized is (other if keeps else plain)
    assert trial.quality == of_decibels(after if keeps else before)
    assert f"{before:.1f} dB without it, {after:.1f} dB with it" in trial.line("1 ms")
    assert ("1 ms" in trial.line("1 ms")) == keeps


def test_a_network_with_more_floats_is_left_out(networks: dict[str, ModuleOp]) -> None:
    plain = networks["whole"], of_decibels(20.0)
    trial = tried("text-encoder", plain, lambda: networks["partly"], lambda _: of_decibels(90.0))
    assert trial.quantized is networks["whole"]
    assert "so it is left out; --recipe none leaves out the trial" in trial.line()


def _refused() -> ModuleOp:
    raise QmlirError("the recipe cannot be followed")


@pytest.mark.parametrize("made", [_refused, None])
def test_what_is_refused_or_not_measured_is_left_out(
    networks: dict[str, ModuleOp], made: Callable[[], ModuleOp] | None
) -> None:
    plain = networks["whole"], of_decibels(20.0)
    trial = tried("text-encoder", plain, made or (lambda: networks["partly"]), lambda _: None)
    assert trial.quantized is networks["whole"]
    assert trial.quality == of_decibels(20.0)
    assert "20.0 dB without it, it is refused" in trial.line()
