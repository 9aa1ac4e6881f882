"""The table of runtimes, and how a module says which it follows."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.target import load_target
from qmlir.errors import OptionError, PipelineError
from qmlir.ir.facts import NUMERICS
from qmlir.numerics.additions import ADDITIONS
from qmlir.numerics.contracts import CONTRACTS
from qmlir.numerics.fixed_point import DEQUANTIZATIONS, QUANTIZATIONS
from qmlir.policies.runtimes import RUNTIMES, Rounding, follow, rounding_of, runtime_of


def test_the_table_names_operations_and_contracts() -> None:
    known = {*load_target("cpu").integer, "quant.qcast", "quant.dcast", "nn.reduce_prod"}
    for table in RUNTIMES.values():
        assert {operation.partition("/")[0] for operation in table} <= known
        contracts = {operation: rounding.contract for operation, rounding in table.items()}
        assert contracts.pop("quant.qcast", "exact") in QUANTIZATIONS
        assert contracts.pop("quant.dcast/8 bits", "exact") in DEQUANTIZATIONS
        on_floats = {operation for operation in contracts if operation.endswith("/f32")}
        assert {contracts.pop(operation) for operation in on_floats} <= set(ADDITIONS)
        assert set(contracts.values()) <= set(CONTRACTS)


def test_what_is_not_listed_follows_the_target() -> None:
    assert rounding_of("nn.conv2d", "default", "double") == Rounding("double")
    assert rounding_of("nn.reshape", "onnxruntime", "single") == Rounding("single")
    assert rounding_of("nn.conv2d", "onnxruntime", "single") == Rounding("float_even", float32=True, pairs=True)
    assert not rounding_of("nn.conv2d", "onnxruntime-vnni", "single").pairs


def test_unsigned_data_may_have_a_rounding_of_their_own() -> None:
    for storage, contract in (("i8", "upup"), ("u8", "double")):
        assert rounding_of("nn.depthwise_conv2d", "litert-builtin", "single", storage).contract == contract


def test_a_module_says_what_it_follows() -> None:
    module = ModuleOp([])
    assert runtime_of(module) == "default"
    follow(module, "onnxruntime")
    assert runtime_of(module) == "onnxruntime"
    follow(module, "default")
    assert not NUMERICS.on(module)


def test_refuses_what_it_does_not_know() -> None:
    module = ModuleOp([])
    with pytest.raises(OptionError, match=r"numerics: must be one of default, onnxruntime.*got onnxrt; .*onnxruntime"):
        follow(module, "onnxrt")
    NUMERICS.put(module, "tvm")
    with pytest.raises(PipelineError, match=r"litert-builtin as qmlir.numerics, got tvm"):
        runtime_of(module)
