"""On random graphs every pass keeps the function: bit for bit where it moves data, else within rounding."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.reference import evaluate
from qmlir.dialects.nn import FullyConnectedOp
from qmlir.ir.signature import main_function
from qmlir.ir.verify import verify
from qmlir.transforms.nn.cancel_transposes import cancel_transposes
from qmlir.transforms.nn.drop_bounds import DropBoundsPass
from qmlir.transforms.nn.fold_batch_norm import FoldBatchNormPass
from qmlir.transforms.nn.fold_constants import fold_constants
from qmlir.transforms.nn.fold_pads import FoldPadsPass
from qmlir.transforms.nn.fold_slices import FoldSlicesPass
from qmlir.transforms.nn.fuse_activation import FuseActivationPass
from qmlir.transforms.nn.fuse_bias import FuseBiasPass
from qmlir.transforms.nn.global_pools import GlobalPoolsPass
from qmlir.transforms.nn.simplify import simplify
from tests.conftest import THOROUGH
from tests.graphs import frontend_network, inputs_of
from tests.steps import PARTS

SEEDS = range(60 if THOROUGH else 20)
EXACT = (
    fold_constants, DropBoundsPass.run, FoldPadsPass.run, FoldSlicesPass.run, FuseActivationPass.run, cancel_transposes,
)  # fmt: skip
ROUNDED = (FoldBatchNormPass.run, FuseBiasPass.run, GlobalPoolsPass.run, simplify)


@pytest.mark.parametrize("run", [*EXACT, *ROUNDED], ids=lambda f: getattr(f, "__self__", f).__name__)
def test_pass_keeps_function(run: Callable[[ModuleOp], bool]) -> None:
    for seed in SEEDS:
        module = frontend_network(seed, steps=PARTS)
        verify(module)
        # A transpose that folds into a layer's columns changes the order of its sums.
        reorders = run is cancel_transposes and any(isinstance(op, FullyConnectedOp) for op in module.walk())
        exact = run in EXACT and not reorders
        inputs = inputs_of(module, seed)
        before = evaluate(main_function(module), inputs)
        run(module)
        verify(module)
        after = evaluate(main_function(module), inputs)
        for a, b in zip(before, after, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            if exact:
                assert np.array_equal(a, b), f"seed {seed}"
            else:
                assert np.abs(a - b).max() <= 1e-5 * max(1.0, np.abs(a).max()), f"seed {seed}"
        if run is cancel_transposes:  # one that a softmax has moved folds into a layer in a second run only
            run(module)
        assert not run(module), f"seed {seed}: a second run still changes something"
