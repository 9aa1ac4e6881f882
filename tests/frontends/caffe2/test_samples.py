"""Each operator with a converter has a sample, which imports."""

import pytest

from qmlir.compiler import main_function
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.walk import CONVERTERS, UNCONVERTED
from qmlir.frontends.opaque import opaque_report
from tests.frontends.caffe2.nets import U8
from tests.frontends.caffe2.samples import BOTH, samples

SAMPLES = samples()


def test_every_operator_has_a_sample() -> None:
    assert sorted(SAMPLES) == CONVERTERS.operators()
    assert not UNCONVERTED.keys() & SAMPLES.keys()


@pytest.mark.filterwarnings("ignore:.*its random numbers are drawn once")
@pytest.mark.parametrize("kind", SAMPLES)
def test_a_sample_imports(kind: str) -> None:
    net, shapes = SAMPLES[kind]
    module = load_caffe2(net, shapes=shapes)
    module.verify()
    assert not opaque_report(module)


@pytest.mark.parametrize("kind", sorted(BOTH - {"Shape", "Size", "IsEmpty"}))
def test_an_operator_that_moves_elements_moves_integers(kind: str) -> None:
    net, shapes = SAMPLES[kind]
    type = U8.format("0.5", 7)
    first = next(iter(shapes))
    sizes = shapes[first].removesuffix("xf32")
    module = load_caffe2(net, shapes={**shapes, first: f"{sizes}x{type}"})
    module.verify()
    assert not opaque_report(module)
    assert "u8:f32, 5.000000e-01:7" in str(main_function(module).function_type.outputs)
