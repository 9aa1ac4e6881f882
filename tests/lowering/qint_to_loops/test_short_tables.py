"""Tables of words where constants should be small: the same entries from a tenth of the bytes or less."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, TensorType, i8, i16, i64

import qmlir
from qmlir.dialects.qint import ExponentialsOp, LookupOp, SoftmaxOp
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Array, tables
from tests.backends.cpu import programs
from tests.backends.cpu.test_elsewhere import machine_of
from tests.conftest import THOROUGH
from tests.lowering.both import assert_same, compiled, features_of, network, referred, to_loops

EVERY = np.roll(np.arange(1 << 16, dtype=np.uint16).view(np.int16), 1 << 15)
"""Every word, in the order of a table's entries."""

FALLING = np.exp(-np.arange(1 << 16) * 3e-4)

HANDS = ("cortex-m4", "rv32imc", *(("cortex-m7", "cortex-m55") if THOROUGH else ()))
"""Microcontrollers; those without vectors take a table's short form whatever memory is."""


def lookup(dtype: type[np.integer[Any]]) -> ModuleOp:
    """tanh on [−8, 8] for every word, in words or in bytes."""
    bits = np.iinfo(dtype)
    table = tables.lookup_table(
        np.tanh, 8 / 32768, 0, 1 / bits.max, 0, in_range=(-32768, 32767), out_range=(bits.min, bits.max), dtype=dtype
    )
    return network(lambda x: LookupOp.make([x], {"table": WeightsAttr(table)}).y, TensorType(i16, [1 << 16]))


def softmax(division: str = "exact") -> ModuleOp:
    """A softmax of words along the last axis; the sums of `interpolated` are of 32 exponentials of 2^15 at most."""
    inverse = np.rint(2.0**15 / (1 + np.arange(513) / 512)).clip(0, 32767).astype(np.int16)
    interpolated = division == "interpolated"
    properties = {
        "axis": IntegerAttr(1, i64),
        "table": WeightsAttr(np.rint(FALLING * (32767 if interpolated else 1 << 30)).astype(np.int32)),
        "inverse": WeightsAttr(inverse) if interpolated else None,
        "unit": IntegerAttr(1 << 27, i64),
        "division": StringAttr(division),
        "zero_point": int32(0),
        "min": int32(-32768),
        "max": int32(32767),
    }
    return network(lambda x: SoftmaxOp.make([x], properties, element=i16).y, TensorType(i16, [2048, 32]))


def exponentials() -> ModuleOp:
    """Exponentials of rows of words, of a table that ends before the differences do."""
    properties = {"axis": IntegerAttr(1, i64), "table": WeightsAttr(np.rint(FALLING[:30000] * 32767).astype(np.int16))}
    return network(lambda x: ExponentialsOp.make([x], properties).y, TensorType(i16, [2048, 32]))


NETWORKS: dict[str, Callable[[], ModuleOp]] = {
    "words": lambda: lookup(np.int16),
    "bytes": lambda: lookup(np.int8),
    "softmax": softmax,
    "interpolated softmax": lambda: softmax("interpolated"),
    "exponentials": exponentials,
}


def data(module: ModuleOp) -> Array:
    shape = qmlir.reference(module).signature.inputs[0].shape
    return EVERY.reshape(shape)


def constants(module: ModuleOp, **how: Any) -> int:
    return qmlir.compile(module, cache=False, **how).sizes.weights


@pytest.mark.parametrize("name", NETWORKS)
def test_small_memory(name: str) -> None:
    """The same bits on this processor, from less than a sixth of the constants' bytes."""
    module = NETWORKS[name]()
    x = data(module)
    np.testing.assert_array_equal(qmlir.compile(module, memory="small")(x), qmlir.reference(module)(x))
    assert constants(module, memory="small") < constants(module) / 6


@pytest.mark.slow
@pytest.mark.parametrize("cpu", HANDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_microcontrollers(name: str, cpu: str) -> None:
    module = NETWORKS[name]()
    machine = machine_of(cpu)
    signature, named, expected = referred(module, [data(module)])
    executable = compiled(to_loops(module, features=features_of(machine), verify=False), signature, machine)
    assert_same(expected, programs.run(executable, [signature.arrays(named)])[0])
    assert constants(module, cpu=cpu) < constants(module) / 6


def test_short_tables_of_bytes_stay() -> None:
    """256 entries are looked up as they are."""
    table = np.arange(-128, 128).astype(np.int8)
    module = network(lambda x: LookupOp.make([x], {"table": WeightsAttr(table)}).y, TensorType(i8, [16]))
    assert constants(module, cpu="cortex-m4") == 256
