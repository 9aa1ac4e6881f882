"""`device check` and `compile` agree: what the one says is the device's, the other makes layers of."""

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.devices import shipped_devices
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.errors import PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import TensorOp
from qmlir.stages import to_layers
from tests.fuzz.devices import options_for
from tests.graphs import network


def divided(module: ModuleOp, name: str) -> tuple[Counter[str], Counter[str]]:
    """The kinds of the operations that the compiler gives to the device, and to its host."""
    from qmlir.compiler import Pipeline, to_integers

    to_npu, _ = to_layers(name)
    lowered = Pipeline(to_npu)(to_integers(module, name), make_context())
    found = (Counter[str](), Counter[str]())
    for part in lowered.walk():
        if isinstance(part, LayerOp | HostOp):
            found[isinstance(part, HostOp)].update(
                op.name
                for op in part.operations()
                if isinstance(op, TensorOp) and not isinstance(op, ConstantOp | StorageCastOp)
            )
    return found


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize("seed", range(40, 52))
def test_the_check_says_what_the_compiler_does(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    drawn = network(rng)
    options = options_for(rng, name)
    try:
        quantized = qmlir.quantize(drawn.observed(options.simplified), **options.quantizer)
        device, host = divided(quantized, name)
    except PipelineError:  # nothing of this network is the device's
        return
    judged = judge(quantized, name)
    assert Counter(v.operation for v in judged if not v.refusals) == device
    assert Counter(v.operation for v in judged if v.refusals) == host
