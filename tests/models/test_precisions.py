"""Real networks on 16-bit data, with weights of 8 and of 16 bits: whole in integers, exact on the CPU, and how near."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.policies.ledger import decisions
from tests.models.networks import NETWORKS, Split, split

pytestmark = pytest.mark.models

SAMPLES = 40

DECIBELS = {"int8": 40.0, "int16": 78.0}
"""Signal to quantization noise that the logits must reach, by the precision of the weights."""


@pytest.mark.parametrize("weights", DECIBELS)
@pytest.mark.parametrize("name", ["mnist-8", "cifar"])
def test_16_bit_networks_stay_in_integers(name: str, weights: str, shared: Callable[[str], Path]) -> None:
    network = NETWORKS[name]
    module = qmlir.load(shared(network.file))
    data: Split = split(network, shared, 0.02)
    quantized = qmlir.quantize(
        module,
        qmlir.profile(module, data.profile),
        schema="symmetric",
        precision="int16",
        weight_precision=weights,
        fail_on_float=True,
    )
    assert {e.outcome for e in decisions(quantized)} == {"quantized"}
    floats, integers, meaning = qmlir.compile(module), qmlir.compile(quantized), qmlir.reference(quantized)
    noise = power = 0.0
    for number, sample in enumerate(data.score[:SAMPLES]):
        (want,), (got,) = floats.run(sample), integers.run(sample)
        if number < 3:
            np.testing.assert_array_equal(meaning.run(sample)[0], got)
        noise += float(np.square(want - got, dtype=np.float64).sum())
        power += float(np.square(want, dtype=np.float64).sum())
    assert 10 * np.log10(power / noise) > DECIBELS[weights]
