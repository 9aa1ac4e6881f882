"""Trained networks compute the same bits in any number of threads, as integers and as floats."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.models.networks import NETWORKS, split

pytestmark = pytest.mark.models

WITHOUT_VNNI = "x86-64-v3"
"""A processor on which each of these networks has a layer that is worth sharing; the small ones have none with VNNI."""


NAMES = ("mnist-8", "kws", "resnet8", "mobilenet") if "QMLIR_MODELS_SHARE" in os.environ else ("mnist-8", "kws")
"""`make models` takes all of them, `make models-sample` the small ones."""


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_no_bit(name: str, shared: Callable[[str], Path]) -> None:
    network = NETWORKS[name]
    data = split(network, shared, 0.001)
    module = qmlir.load(shared(network.file))
    quantized = qmlir.quantize(module, qmlir.profile(module, data.profile[:4]))
    for level, cpu in itertools.product((quantized, module), ("native", WITHOUT_VNNI)):
        executables = [qmlir.compile(level, threads=threads, cpu=cpu) for threads in (1, 2, 3, 4)]
        if cpu == WITHOUT_VNNI:
            assert [executable.uses_pool for executable in executables] == [False, True, True, True]
        for x in data.score[:3]:
            expected, *others = (executable.run(x) for executable in executables)
            for other in others:
                for a, b in zip(expected, other, strict=True):
                    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
