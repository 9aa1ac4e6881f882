"""No channel of a trained network is further from float than its storage explains, and none has lost its multiplier."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.channels import survey
from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import LEAST_FACTOR
from qmlir.ir.interfaces import shape_of
from tests.conftest import crossed
from tests.models.networks import NETWORKS, split

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Array = npt.NDArray[Any]
Find = Callable[[str], Path]

WITHOUT_DATA = {"ad": "models/tflite/ad_fcae_f32.tflite", "sine": "models/tflite/hello_world_float.tflite"}
"""Float networks that have no samples: they get numbers at random."""

ON_DATA = {"super_resolution"}
"""Networks of flat pictures, where what rounding takes from single weights adds up: these are rounded together."""

STORAGE = {"int8": ("int8", "same"), "int16": ("int16", "same"), "16x8": ("int16", "int8")}


@lru_cache(maxsize=1)
def prepared(name: str, find: Find) -> tuple[ModuleOp, Any, Array]:
    """A float network, its profile, and the samples that made it: ranges that hold them, so that nothing saturates."""
    file = WITHOUT_DATA[name] if name in WITHOUT_DATA else NETWORKS[name].file
    module = Pipeline("simplify")(qmlir.load(find(file)))
    if name in WITHOUT_DATA:
        (x,) = main_function(module).args
        samples = np.random.default_rng(0).random((4, *shape_of(x)), np.float32)
    else:
        samples = split(NETWORKS[name], find, 0.02).profile[:2]
    return module, qmlir.profile(module, samples), samples


@crossed({"name": [*NETWORKS, *WITHOUT_DATA], "storage": STORAGE})
def test_every_channel_is_in_line(name: str, storage: str, shared: Find) -> None:
    module, profile, samples = prepared(name, shared)
    precision, weights = STORAGE[storage]
    options: dict[str, Any] = {"precision": precision, "weight_precision": weights, "calibration": "minmax"}
    quantized = qmlir.quantize(module, profile, data=samples if name in ON_DATA else None, **options)
    rows = survey(module, quantized, samples)
    assert rows
    assert [row for row in rows if row.is_out_of_line] == []
    layers = [op for op in quantized.walk() if isinstance(op, WeightedOp) and is_quantized(op.y)]
    assert all((op.factors() >= LEAST_FACTOR).all() for op in layers)
