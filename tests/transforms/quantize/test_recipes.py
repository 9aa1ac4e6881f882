"""Recipes: each kind of network is recognised by its graph, and no other; what a recipe sets can be overridden."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis import auto_precision
from qmlir.analysis.scores import sqnr
from qmlir.errors import QmlirError
from qmlir.settings.policy import Policy, PolicyError
from qmlir.settings.quant_config import RecipeName
from qmlir.settings.recorded import recorded_config
from qmlir.settings.resolve import resolve
from qmlir.transforms.quantize.prepare.recipes import RECIPES, recipe_to_try, recognized, with_recipe
from tests.cli.small import run
from tests.models.transformers import TRANSFORMERS
from tests.transforms.quantize.calibrated import calibrated, quantized, text_of


def network(folder: Path, graph: str, **weights: tuple[int, ...]) -> ModuleOp:
    """A network in ONNX's text form, with seeded weights of some shapes."""
    rng = np.random.default_rng(0)
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> network {graph}')
    for name, shape in weights.items():
        drawn = rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        model.graph.initializer.append(numpy_helper.from_array(drawn.astype(np.float32), name))
    onnx.save(model, str(folder / "net.onnx"))
    return qmlir.load(folder / "net.onnx")


def detector(folder: Path, blocks: int = 1) -> ModuleOp:
    """Results for 8 × 8 and 4 × 4 places, of two stages of residual blocks."""
    nodes, weights = list[str](), dict[str, tuple[int, ...]]()

    def conv(given: str, name: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        weights[f"w_{name}"] = (outputs, inputs, size, size)
        pad = size // 2
        options = f"kernel_shape=[{size},{size}], strides=[{stride},{stride}], pads=[{pad},{pad},{pad},{pad}]"
        nodes.append(f"{name} = Conv<{options}>({given}, w_{name})")
        return name

    def stage(given: str, name: str, inputs: int) -> str:
        x = conv(given, f"{name}_down", inputs, 8, 3, 2)
        for k in range(blocks):
            inner = conv(x, f"{name}_{k}_in", 8, 8, 3)
            nodes.append(f"{inner}_active = Relu({inner})")
            branch = conv(f"{inner}_active", f"{name}_{k}_out", 8, 8, 3)
            nodes.append(f"{name}_{k} = Add({x}, {branch})")
            x = f"{name}_{k}"
        nodes.append(f"{name}_head_turned = Transpose<perm=[0,2,3,1]>({conv(x, f'{name}_head', 8, 5, 1)})")
        nodes.append(f"{name}_rows = Reshape({name}_head_turned, rows)")
        return x

    stage(stage("x", "fine", 3), "coarse", 8)
    nodes.append("y = Concat<axis=1>(fine_rows, coarse_rows)")
    inside = "\n".join(nodes)
    graph = f"(float[1,3,16,16] x) => (float[1,80,5] y) <int64[3] rows = {{1, -1, 5}}> {{ {inside} }}"
    return network(folder, graph, **weights)


def pairs(folder: Path) -> ModuleOp:
    """Scores beside boxes for each place of one map."""
    return network(folder, """(float[1,3,16,16] x) => (float[1,64,4] b, float[1,64,1] s)
      <int64[3] four = {1, 64, 4}, int64[3] one = {1, 64, 1}> {
        m = Conv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x, w)
        r = Relu(m)
        p = Conv<kernel_shape=[1,1]>(r, boxes)
        q = Conv<kernel_shape=[1,1]>(r, scores)
        pt = Transpose<perm=[0,2,3,1]>(p)
        qt = Transpose<perm=[0,2,3,1]>(q)
        b = Reshape(pt, four)
        z = Reshape(qt, one)
        s = Sigmoid(z)
      }""", w=(8, 3, 3, 3), boxes=(4, 8, 1, 1), scores=(1, 8, 1, 1))  # fmt: skip


def suppressing(folder: Path) -> ModuleOp:
    """Boxes and scores are inputs; the network chooses among them."""
    return network(folder, """(float[1,6,4] boxes, float[1,2,6] scores) => (int64[n,3] chosen, float[1,6,4] grown)
      <int64[1] most = {3}, float one = {1.0}> {
        chosen = NonMaxSuppression(boxes, scores, most)
        grown = Add(boxes, one)
      }""")  # fmt: skip


def larger(folder: Path) -> ModuleOp:
    """A picture becomes twice as wide and high by DepthToSpace."""
    return network(folder, """(float[1,3,16,16] x) => (float[1,3,32,32] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, first)
        r = Relu(a)
        m = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(r, last)
        y = DepthToSpace<blocksize=2>(m)
      }""", first=(16, 3, 3, 3), last=(12, 16, 3, 3))  # fmt: skip


def spectrum(folder: Path, joined: bool = False) -> ModuleOp:
    """The logarithm of a waveform's energies; `joined`: real and imaginary parts are one tensor, summed by an axis."""
    sums = "sum = Add(p, q)" if not joined else """
        up = Unsqueeze(p, axis)
        uq = Unsqueeze(q, axis)
        both = Concat<axis=2>(up, uq)
        sum = ReduceSum<keepdims=0>(both, axis)"""  # fmt: skip
    return network(folder, f"""(float[1,256] x) => (float[1,33] y) <float least = {{0.001}}, int64[1] axis = {{2}}> {{
        a = MatMul(x, real)
        b = MatMul(x, imaginary)
        p = Mul(a, a)
        q = Mul(b, b)
        {sums}
        e = Add(sum, least)
        y = Log(e)
      }}""", real=(256, 33), imaginary=(256, 33))  # fmt: skip


def norm(folder: Path) -> ModuleOp:
    """The length of what a layer computes: squares are summed, but over 33 elements."""
    return network(folder, """(float[1,256] x) => (float[1,1] y) <int64[1] axis = {1}> {
        a = MatMul(x, w)
        p = Mul(a, a)
        s = ReduceSum<keepdims=1>(p, axis)
        y = Sqrt(s)
      }""", w=(256, 33))  # fmt: skip


def segmenting(folder: Path) -> ModuleOp:
    """A class for each pixel: maps of two sizes meet at one."""
    return network(folder, """(float[1,3,16,16] x) => (float[1,2,16,16] y) <float[4] twice = {1.0, 1.0, 2.0, 2.0}> {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, fine)
        b = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x, coarse)
        u = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(b, "", twice)
        j = Concat<axis=1>(a, u)
        y = Conv<kernel_shape=[1,1]>(j, last)
      }""".replace('""', ""), fine=(4, 3, 3, 3), coarse=(4, 3, 3, 3), last=(2, 8, 1, 1))  # fmt: skip


def classifying(folder: Path) -> ModuleOp:
    """Two maps of different sizes are joined in front of a layer."""
    return network(folder, """(float[1,3,16,16] x) => (float[1,10] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[4,4]>(x, fine)
        b = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[8,8]>(x, coarse)
        fa = Flatten(a)
        fb = Flatten(b)
        j = Concat<axis=1>(fa, fb)
        y = MatMul(j, last)
      }""", fine=(4, 3, 3, 3), coarse=(4, 3, 3, 3), last=(80, 10))  # fmt: skip


def of_transformers(name: str) -> Callable[[Path], ModuleOp]:
    """A network of tests/models/transformers.py."""

    def made(folder: Path) -> ModuleOp:
        onnx.save(TRANSFORMERS[name].model(), str(folder / "net.onnx"))
        return qmlir.load(folder / "net.onnx")

    return made


@pytest.mark.parametrize(
    ("made", "kind", "why"),
    [
        (detector, "detector", "joined results for maps of 8 × 8, 4 × 4"),
        (pairs, "detector", "2 outputs with 64 rows each, for maps of 8 × 8"),
        (suppressing, "detector", "non-maximum suppression"),
        (larger, "super-resolution", "a picture becomes 2 times as high and wide"),
        (spectrum, "audio-front-end", "energies of what layers without functions compute from an input"),
        (lambda f: spectrum(f, joined=True), "audio-front-end", "energies of what layers without functions"),
        (of_transformers("decoder"), "decoder", "3 attentions under a causal mask"),
        (of_transformers("vit"), "transformer", "3 attentions"),
        (of_transformers("bert"), "text-encoder", "a table of "),
        (norm, None, ""),
        (segmenting, None, ""),
        (classifying, None, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_kind_is_told_by_its_graph(
    tmp_path: Path, made: Callable[[Path], ModuleOp], kind: str | None, why: str
) -> None:
    found = recognized(made(tmp_path))
    assert (None if found is None else found.name) == kind
    assert found is None or found.why.startswith(why)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("models/onnx/ultraface_RFB-320_simplified.onnx", "detector"),
        ("models/onnx/super_resolution.onnx", "super-resolution"),
        ("models/more/cct_2_32_128.onnx", "transformer"),
        ("models/onnx/mnist-8.onnx", None),
        ("models/tflite/resnet8_cifar_f32.tflite", None),
        ("models/tflite/resnet8_cifar_i8.tflite", None),
        ("models/tflite/vww_mbv1_f32.tflite", None),
        ("models/more/mp_hand_recrop.onnx", None),
    ],
)
def test_real_networks(shared: Callable[[str], Path], file: str, kind: str | None) -> None:
    found = recognized(qmlir.load(shared(file)))
    assert (None if found is None else found.name) == kind


def test_a_front_end_of_a_real_network(shared: Callable[[str], Path]) -> None:
    module = qmlir.load(shared("models/more/oww_melspectrogram.onnx"), bind={"batch_size": 1, "samples": 16000})
    found = recognized(module)
    assert found is not None
    assert found.name == "audio-front-end"


def test_options_are_the_recipes() -> None:
    assert get_args(RecipeName) == ("auto", "none", *RECIPES)
    for recipe in RECIPES.values():
        assert recipe.widens != recipe.here if recipe.policy != Policy() else not recipe.widens


SAMPLES = np.random.default_rng(1).standard_normal((16, 1, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """A detector with ranges."""
    return calibrated(qmlir.Pipeline("simplify")(detector(tmp_path_factory.mktemp("detector"))), list(SAMPLES[:8]))


def test_int8_stays_int8_and_a_named_recipe_is_its_options(learnt: ModuleOp) -> None:
    texts = {name: text_of(quantized(learnt, recipe=name)) for name in ("auto", "none", "detector")}
    assert texts["auto"] == texts["none"] == text_of(quantized(learnt))
    assert texts["detector"] == text_of(quantized(learnt, residuals="int16"))
    assert texts["detector"] != texts["auto"]


def test_what_a_user_gives_wins(learnt: ModuleOp, tmp_path: Path) -> None:
    assert text_of(quantized(learnt, recipe="detector", residuals="same")) == text_of(quantized(learnt))
    policy = tmp_path / "net.yaml"
    policy.write_text("default: {residuals: same, recipe: detector}")
    assert text_of(quantized(learnt, policy=str(policy))) == text_of(quantized(learnt))
    module = calibrated(qmlir.Pipeline("simplify")(larger(tmp_path)), list(SAMPLES[:4]))
    wide = text_of(quantized(module, recipe="super-resolution"))
    kept = text_of(quantized(module, recipe="super-resolution", rules="layer=last precision=int8"))
    assert "i16:f32" in wide
    assert "i16:f32" not in kept


def test_what_a_device_asks_for_stays(tmp_path: Path) -> None:
    """A recipe sets what is left open when the device has had its say."""
    module = detector(tmp_path)
    settings = resolve(Policy(), {"recipe": "detector"}, target="ethos-u55-like")
    _, found = with_recipe(module, Policy(), settings, ranged=False)
    assert found.settings["residuals"].origin == "recipe"
    assert {n for n, s in settings.settings.items() if s.origin == "device"} == {
        n for n, s in found.settings.items() if s.origin == "device"
    }


def test_a_recipe_that_serves_not_all_is_tried_or_named(tmp_path: Path) -> None:
    """It can still be overridden; a network that was recognised says which recipe there is."""
    module = of_transformers("bert")(tmp_path)

    def options(**given: Any) -> tuple[Any, ...]:
        settings = with_recipe(module, Policy(), resolve(Policy(), given), ranged=False)[1].settings
        return tuple(settings[name].value for name in ("recipe", "activations", "rotate"))

    assert options() == ("none", "static", "none")
    assert options(recipe="text-encoder") == ("text-encoder", "dynamic", "all")
    assert options(recipe="text-encoder", rotate="none") == ("text-encoder", "dynamic", "none")
    given: list[dict[str, Any]] = [
        {},
        {"bias": "int32"},
        {"recipe": "none"},
        {"rotate": "none"},
        {"precision": "int16"},
    ]
    trials = [recipe_to_try(module, resolve(Policy(), each)) for each in given]
    assert trials == ["text-encoder", "text-encoder", None, None, None]
    assert recipe_to_try(module, resolve(Policy(), {}, runtime="onnxruntime")) is None
    assert recipe_to_try(of_transformers("vit")(tmp_path), resolve(Policy(), {})) == "transformer"
    assert recipe_to_try(of_transformers("decoder")(tmp_path), resolve(Policy(), {})) is None
    assert recipe_to_try(detector(tmp_path), resolve(Policy(), {})) is None
    kind = recognized(module)
    assert kind is not None
    assert "--recipe text-encoder would set a scale for each row that layers read, and rotations" in kind.text("none")


def test_a_recipe_is_of_a_whole_network_and_known(
    learnt: ModuleOp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    larger(tmp_path)
    with pytest.raises(PolicyError, match="is for the whole network, got detector; put it under default"):
        Policy.of({"rules": [{"name": "y", "recipe": "detector"}]})
    assert Policy.of({"default": {"recipe": "detector"}}).default == {"recipe": "detector"}
    with pytest.raises(QmlirError, match="must be one of auto, none, detector"):
        qmlir.quantize(learnt, recipe="detektor")
    assert run("quantize", tmp_path / "net.onnx", "--recipe", "detektor", "-o", tmp_path / "q.mlir") == 1
    assert "detector" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_says_the_kind_and_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detector(tmp_path)
    np.save(tmp_path / "x.npy", SAMPLES)
    command = ("quantize", tmp_path / "net.onnx", "--data", tmp_path / "x.npy", "--no-measure", "-o")
    why = "recognized as a detector (joined results for maps of 8 × 8, 4 × 4): "
    for options, said in (
        ((), "--recipe detector would set 16 bits for residual streams"),
        (("--recipe", "detector"), "16 bits for residual streams"),
    ):
        assert run(*command, tmp_path / "q.mlir", *options) == 0
        assert why + said in " ".join(capsys.readouterr().out.split())
    assert recorded_config(qmlir.load(tmp_path / "q.mlir")).recipe == "detector"


def test_a_detector_gains(learnt: ModuleOp) -> None:
    """33.3 dB with the recipe, 31.4 without, on samples that the ranges have not seen."""

    def results(module: ModuleOp) -> Any:
        network = qmlir.reference(module)
        return np.stack([np.ravel(network(x)) for x in SAMPLES[8:]])

    found = [sqnr(results(learnt), results(quantized(learnt, recipe=name))) for name in ("none", "detector")]
    assert found[1] > found[0] + 1


@pytest.mark.slow
def test_auto_begins_with_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where int8 does not suffice, the recipe is tried before single tensors, unless the user says none."""
    module = detector(tmp_path)
    monkeypatch.setattr("qmlir.analysis.target.TARGET", 300.0)
    monkeypatch.setattr(auto_precision, "STEPS", 0)
    options: dict[str, Any] = {"precision": "auto", "weight_precision": "int8", "rounding": "nearest"}
    recipes = {
        asked: recorded_config(qmlir.quantize(module, data=list(SAMPLES), recipe=asked, **options)).recipe
        for asked in ("auto", "none")
    }
    assert recipes == {"auto": "detector", "none": "none"}
