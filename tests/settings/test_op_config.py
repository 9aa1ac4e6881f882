"""Configs: what an operation says for itself, over the pass's options."""

import pytest
from xdsl.dialects.builtin import ArrayAttr, UnitAttr

from qmlir.dialects.calib import ObserveOp
from qmlir.errors import OptionError
from qmlir.ir.facts import CONFIG, POLICY
from qmlir.settings.quant_config import (
    NetworkConfig,
    OpConfig,
    QuantConfig,
    config_of,
    op_config_of,
    policy_attribute,
    settings_of,
    write_config,
)
from tests.transforms.quantize.calibrated import operation, parsed

SETTINGS = {"precision": "int16", "per_channel": False, "range": (-1.0, 1.0), "parameters": (0.5, 3)}
DEFAULT = OpConfig(schema="symmetric", weight_precision="int8")


def test_settings_come_back() -> None:
    assert settings_of(policy_attribute(SETTINGS)) == SETTINGS


def test_an_operation_says_some_of_it() -> None:
    module = parsed("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  calib.observe %x {name = "x", qmlir.policy = {precision = "int16", range = [-1.0, 1.0]}} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
""")
    observer = operation(module, "calib.observe")
    assert isinstance(observer, ObserveOp)
    expected = OpConfig(schema="symmetric", precision="int16", weight_precision="int8", range=(-1.0, 1.0))
    assert op_config_of(observer, DEFAULT) == expected
    assert op_config_of(operation(module, "nn.relu"), DEFAULT) == DEFAULT


def test_a_module_states_the_settings_of_its_network() -> None:
    module = parsed("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n")
    (function,) = module.ops
    assert config_of(function) == NetworkConfig()
    write_config(module, QuantConfig(calibration="kl"), "samples.npy")
    assert CONFIG.of(module) == policy_attribute({"calibration": "kl", "data": "samples.npy"})
    assert config_of(function) == NetworkConfig(calibration="kl", data="samples.npy")
    write_config(module, QuantConfig())
    assert not CONFIG.on(module)


def test_refusals() -> None:
    with pytest.raises(OptionError, match=r"has no field precison.*precision"):
        DEFAULT.with_settings({"precison": "int8"})
    with pytest.raises(OptionError, match="strings, numbers"):
        policy_attribute({"precision": [1]})
    with pytest.raises(OptionError, match="strings, numbers"):
        settings_of(policy_attribute({}).__class__({POLICY.key: ArrayAttr([UnitAttr()])}))
