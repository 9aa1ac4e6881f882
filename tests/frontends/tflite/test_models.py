"""Trained models from real converters: they import whole and compute what LiteRT computes, bit for bit if quantized."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import refuse_opaque
from tests.conftest import THOROUGH
from tests.frontends.tflite.files import RESOLVERS, litert
from tests.frontends.tflite.trained import (
    FEWER,
    FLOAT,
    LARGE,
    QUANTIZED,
    differing_outputs,
    differing_tensors,
    first_of,
    inputs,
)

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

EPSILON = 1e-5

SMALL = tuple(name for name in QUANTIZED if name not in LARGE)


@pytest.mark.parametrize("name", FLOAT)
def test_float_networks(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/tflite/{name}.tflite")
    module = qmlir.load(path)
    refuse_opaque(module, name)
    machine, meaning = qmlir.compile(module), qmlir.reference(module)
    for index, x in enumerate(inputs(machine.signature.inputs[0], 3)):
        (want,), (got,) = litert(str(path), [x]), machine.run(x)
        assert np.abs(want - got).max() <= EPSILON * np.abs(want).max()
        if index == 0:
            assert np.array_equal(got, meaning.run(x)[0])


BY_REFERENCE = ("litert-reference",)
CASES = (
    *(pytest.param(name, numerics) for name in SMALL for numerics in RESOLVERS),
    *(
        pytest.param(name, n, marks=pytest.mark.slow)
        for name in LARGE
        for n in (RESOLVERS if THOROUGH else BY_REFERENCE)
    ),
)

SHARE = 1e-4
"""The most outputs that may differ from XNNPACK's, by one step."""


@pytest.mark.parametrize(("name", "numerics"), CASES)
def test_all_tensors_are_those_of_litert(name: str, numerics: str, shared: Callable[[str], Path]) -> None:
    """`make conformance` takes 20 inputs of each network, 2 of large ones, and compares the outputs of 200."""
    path = shared(f"models/tflite/{name}.tflite")
    refuse_opaque(qmlir.load(path), name)
    few, many = (1, 2) if name in LARGE else (4, 20)
    between = differing_tensors(path, numerics, many if THOROUGH else few)
    assert len(between) >= 3
    assert first_of(between) == "" or (THOROUGH and numerics == "litert-xnnpack")
    if THOROUGH:
        found = differing_outputs(path, numerics, FEWER.get(name, 200))
        sys.stderr.write(f"{name:34s} {numerics:17s}: {found} outputs differ; "
                         f"first tensor: {first_of(between) or 'none'}\n")  # fmt: skip
        assert found.differing <= (SHARE * found.compared if numerics == "litert-xnnpack" else 0)
        assert found.most <= 1


@pytest.mark.parametrize("numerics", [*RESOLVERS, "default"])
@pytest.mark.parametrize("name", ["kws_dscnn_i8", "resnet8_cifar_i8"])
def test_the_cpu_computes_the_reference(name: str, numerics: str, shared: Callable[[str], Path]) -> None:
    module = qmlir.load(shared(f"models/tflite/{name}.tflite"), numerics=numerics)
    machine, meaning = qmlir.compile(module), qmlir.reference(module)
    (x,) = inputs(machine.signature.inputs[0], 1)
    assert all(np.array_equal(a, b) for a, b in zip(machine.run(x), meaning.run(x), strict=True))


@pytest.mark.parametrize("name", QUANTIZED if THOROUGH else SMALL)
def test_default_numerics_stay_near(name: str, shared: Callable[[str], Path]) -> None:
    """What they are to LiteRT's own roundings on real data: tests/models/test_tflite.py."""
    found = differing_outputs(
        shared(f"models/tflite/{name}.tflite"), "default", FEWER.get(name, 200) if THOROUGH else 20
    )
    sys.stdout.write(f"\n{name}: {found} outputs differ from what LiteRT computes by default\n")
    assert found.far <= found.compared / 100


def test_a_network_with_int8_weights_beside_floats_imports(shared: Callable[[str], Path]) -> None:
    """LiteRT quantizes activations beside them at run time."""
    module = qmlir.load(shared("models/tflite/kws_dscnn_f32.tflite"))
    module.verify()
    refuse_opaque(module, "kws_dscnn_f32")


def test_no_model_is_left_out(shared: Callable[[str], Path]) -> None:
    """Those in floats and those that are quantized throughout are all the files there are, but for one."""
    files = {path.stem for path in shared("models/tflite").glob("*.tflite")}
    assert files == {*QUANTIZED, *FLOAT, "kws_dscnn_f32"}
