"""Glow's Caffe2 nets: each imports and computes what Glow's importer makes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.compiler import main_function
from qmlir.errors import QmlirWarning
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.ir.signature import TensorSpec, signature_of
from tests.frontends.caffe2.glow_nets import EMPTY, INIT, NETS, RANDOM, GlowNet
from tests.frontends.caffe2.nets import results_of

FOLDER = "conformance/glow-tests-models/caffe2Models"
FILES = 140

Array = np.ndarray[Any, Any]


def drawn(spec: TensorSpec, random: np.random.Generator) -> Array:
    """Data of an input: floats between −3 and 3, or any byte."""
    if spec.dtype.kind == "f":
        return random.uniform(-3, 3, spec.shape).astype(spec.dtype)
    return random.integers(0, 256, spec.shape).astype(spec.dtype)


def loaded(folder: Path, name: str, net: GlowNet) -> Any:
    return load_caffe2(folder / f"{name}.pbtxt", folder / f"{net.init}.pbtxt", shapes=net.shapes)


def test_every_file_is_a_net_or_the_weights_of_one(shared: Callable[[str], Path]) -> None:
    files = {path.stem for path in shared(FOLDER).glob("*.pbtxt")}
    assert len(files) == FILES
    assert files == {*NETS, *RANDOM, *INIT, EMPTY}


@pytest.mark.parametrize("name", NETS)
def test_a_net_computes_what_glow_makes_of_it(name: str, shared: Callable[[str], Path]) -> None:
    net = NETS[name]
    module = loaded(shared(FOLDER), name, net)
    module.verify()
    random = np.random.default_rng(1)
    inputs = signature_of(main_function(module)).inputs
    data = {spec.name: net.data.get(spec.name, drawn(spec, random)) for spec in inputs}
    found = results_of(module, data)
    expected: Any = net.expected(*(data[n] for n in net.shapes)) if net.expected else ()
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    assert len(found) == len(expected)
    for own, wanted in zip(found, map(np.asarray, expected), strict=True):
        assert own.shape == wanted.shape
        if own.dtype.kind == "f":
            assert np.isfinite(own).all()
        allowed = net.step * max(float(np.abs(wanted.astype(np.float64)).max(initial=0)), 1e-9)
        assert np.abs(own.astype(np.float64) - wanted.astype(np.float64)).max(initial=0) <= allowed


@pytest.mark.parametrize("name", RANDOM)
def test_a_net_of_random_numbers_is_drawn_at_import(name: str, shared: Callable[[str], Path]) -> None:
    """Glow draws them at import, too, from a stream of its own."""
    net, shape, mean = RANDOM[name]
    with pytest.warns(QmlirWarning, match="its random numbers are drawn once and are the same in every call"):
        module = loaded(shared(FOLDER), name, net)
    data = {s.name: np.zeros(s.shape, s.dtype) for s in signature_of(main_function(module)).inputs}
    (found,) = results_of(module, data)
    assert found.shape == shape
    assert abs(float(found.mean()) - mean) < 0.5
    assert found.std() > 0.5
