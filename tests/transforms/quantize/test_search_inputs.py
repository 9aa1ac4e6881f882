"""Exponents of inputs: what counts is the error of the results, and whoever has a say keeps it."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.target import load_target
from qmlir.ir.facts import POLICY
from qmlir.settings.quant_config import OpConfig, policy_attribute, settings_of
from qmlir.transforms.quantize.adjust.search_inputs import search_inputs
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from tests.transforms.quantize.calibrated import Array, learnt, parsed, sqnr

RNG = np.random.default_rng(31)
POWERS = OpConfig(schema="symmetric_with_power2_scale")

WEIGHTS = RNG.standard_normal((4, 8)).astype(np.float32)
WEIGHTS[:, 0] = 1e-3


def network(before: str = "nn.reshape %x {shape = array<i64: 1, 8>} : tensor<1x8xf32> -> tensor<1x8xf32>") -> Any:
    """Eight numbers, of which the first hardly counts, through a layer."""
    return parsed(f"""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x4xf32> {{
  %w = nn.constant <tensor<4x8xf32>, "0x{WEIGHTS.tobytes().hex()}"> : tensor<4x8xf32>
  %0 = {before}
  %1 = nn.fully_connected %0, %w : tensor<1x8xf32>, tensor<4x8xf32> -> tensor<1x4xf32>
  func.return %1 : tensor<1x4xf32>
}}
""")


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    """The first number is up to 100, the others about 1."""
    drawn = [RNG.standard_normal((1, 8)).astype(np.float32) for _ in range(40)]
    for x in drawn:
        x[0, 0] = RNG.uniform(-100, 100)
    return drawn


def searched(module: Any, samples: list[Array], op_config: OpConfig = POWERS, said: Any = None) -> Any:
    """What the observer of the input has for a policy then."""
    apply_profile(module, learnt(module, samples))
    observer = next(o for o in module.walk() if isinstance(o, ObserveOp))
    if said is not None:
        POLICY.put(observer, policy_attribute(said))
    network = main_function(module)
    search_inputs(network, [[x] for x in samples], OpConfigs(network.body.block, op_config, load_target()))
    policy: Any = POLICY.of(observer)
    return None if policy is None else settings_of(policy)


def test_what_hardly_counts_saturates(samples: list[Array]) -> None:
    assert searched(network(), samples) == {"parameters": (0.125, 0)}


def test_all_fits_where_all_counts() -> None:
    drawn = [RNG.uniform(-100, 100, (1, 8)).astype(np.float32) for _ in range(40)]
    assert searched(network(), drawn) == {"parameters": (1.0, 0)}


@pytest.mark.parametrize(
    "op_config",
    [OpConfig(), OpConfig(schema="symmetric"), OpConfig("symmetric_with_power2_scale", calibration="minmax")],
)
def test_who_is_not_searched(samples: list[Array], op_config: OpConfig) -> None:
    assert searched(network(), samples, op_config) is None


def test_what_is_said_stays(samples: list[Array]) -> None:
    assert searched(network(), samples, said={"range": (-4.0, 4.0)}) == {"range": (-4.0, 4.0)}


def test_what_others_read_stays(samples: list[Array]) -> None:
    added = "nn.add %x, %x : tensor<1x8xf32>, tensor<1x8xf32> -> tensor<1x8xf32>"
    assert searched(network(added), samples) is None


def test_results_lose_less(samples: list[Array]) -> None:
    module = network()
    profile = learnt(module, samples)
    truth = np.concatenate([x @ WEIGHTS.T for x in samples])

    def decibels(data: list[Array] | None) -> float:
        run = qmlir.reference(qmlir.quantize(module, profile, schema="symmetric_with_power2_scale", data=data))
        return sqnr(truth, np.concatenate([run(x) for x in samples]))

    assert decibels(samples) > decibels(None) + 10
