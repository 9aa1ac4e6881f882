"""The checker catches every mutant of a certified network: ten of each kind, from seeds.

The forger signs again whatever the test is not about: a network that is changed gets a certificate with the hashes of
its new files, so that the proof has to catch the change, not the hash.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, TensorType, f16, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.checker import CheckError, check_certificate
from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32s
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.signature import main_function
from qmlir.ir.weights import WeightsAttr
from tests.checker.networks import Certified, small
from tests.conftest import THOROUGH

Random = np.random.Generator

Mutation = Callable[[Certified, Random], "tuple[Certified, bool, str]"]
"""(certified network, random numbers) → the mutant, whether its files' hashes are made fresh, what the checker says."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return small(tmp_path_factory.mktemp("certified"))


@pytest.mark.slow
def test_the_original_holds(original: Certified) -> None:
    assert check_certificate(original.path)["operations"] == 18


def _changed(original: Certified) -> Certified:
    """A copy to change."""
    return Certified(original.folder, original.integers.clone(), deepcopy(original.certificate))


def _ops(network: Certified, *names: str) -> list[Operation]:
    return [op for op in main_function(network.integers).body.block.ops if op.name in names]


def _pick(rng: Random, choices: list[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


# ---------------------------------------------------------------------------------------------------------------
# Floats that slip in, at five kinds of places


def _between(value: SSAValue, ops: list[Operation]) -> None:
    """Inserts operations behind a value; its readers then read the last of them."""
    readers, owner = [use for use in value.uses if use.operation not in ops], value.owner
    Rewriter.insert_op(ops, InsertPoint.after(owner) if isinstance(owner, Operation) else InsertPoint.at_start(owner))
    for use in readers:
        use.operation.operands[use.index] = ops[-1].results[0]


def _cast(value: SSAValue, element: Attribute) -> nn.CastOp:
    return nn.CastOp.make([value], element=element)


def half_of_the_input(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The input passes through f16 before it is quantized."""
    mutant = _changed(original)
    (argument,) = main_function(mutant.integers).body.block.args
    narrow = _cast(argument, f16)
    _between(argument, [narrow, _cast(narrow.y, f32)])
    return mutant, True, "computes on floats"


def half_between_layers(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """Integers between two layers become f16 and integers again."""
    mutant = _changed(original)
    value = _pick(rng, _ops(mutant, "qint.requantize", "qint.lookup", "qint.add")).results[0]
    wide = _cast(value, f16)
    _between(value, [wide, _cast(wide.y, element_of(value))])
    return mutant, True, "computes on floats"


def sums_in_floats(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """Accumulators become f32 and integers again."""
    mutant = _changed(original)
    value = _pick(rng, _ops(mutant, "qint.conv2d", "qint.depthwise_conv2d", "qint.fully_connected")).results[0]
    wide = _cast(value, f32)
    _between(value, [wide, _cast(wide.y, i32)])
    return mutant, True, "computes on floats"


def a_fallback(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """Integers are dequantized, computed and quantized again."""
    mutant = _changed(original)
    value = _pick(rng, _ops(mutant, "qint.requantize", "qint.lookup")).results[0]
    type = TensorType(UniformType.per_tensor(element_of(value), 0.5), shape_of(value))  # pyright: ignore[reportArgumentType]
    stored = StorageCastOp(value, type)
    real = DequantizeCastOp(stored.result, TensorType(f32, shape_of(value)))
    computed = nn.TanhOp.make([real.result])
    again = QuantizeCastOp(computed.y, type)
    _between(value, [stored, real, computed, again, StorageCastOp(again.result, value.type)])
    return mutant, True, "computes on floats"


def a_contract_in_floats(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A requantization rounds in float32; nothing but its contract says so."""
    mutant = _changed(original)
    op = _pick(rng, _ops(mutant, "qint.requantize"))
    op.properties["contract"] = StringAttr("float_even")
    op.properties["multiplier"] = int32s([m >> 7 << 7 for m in op.multiplier.get_values()])
    return mutant, True, "rounds in float32"


# ---------------------------------------------------------------------------------------------------------------
# Numbers that are wrong


def _set(mutant: Certified, op: nn.ConstantOp, array: np.ndarray[Any, Any], *, signed: bool) -> None:
    op.value = WeightsAttr(array)
    index = list(main_function(mutant.integers).body.block.ops).index(op)
    for each in mutant.certificate["weights"] if signed else ():
        if each["index"] == index:
            each["sha256"] = sha256(array.tobytes()).hexdigest()


def an_overflowing_channel(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The bias of one channel leaves no room for its products."""
    mutant = _changed(original)
    op = _pick(rng, [o for o in _ops(mutant, "qint.conv2d", "qint.fully_connected") if len(o.operands) == 3])
    bias = op.operands[2].owner
    array = bias.value.array.copy()
    channel = int(rng.integers(array.size))
    array[channel] = np.iinfo(np.int32).max - 5 if rng.integers(2) else np.iinfo(np.int32).min + 5
    _set(mutant, bias, array, signed=True)
    return mutant, True, f"in channel {channel}"


def a_wrong_entry(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """One entry of a table is a step off."""
    mutant = _changed(original)
    op = _pick(rng, _ops(mutant, "qint.lookup"))
    entries = op.table.array.copy()
    place = int(rng.integers(entries.size))
    entries[place] += 1 if entries[place] < 127 else -1
    op.table = WeightsAttr(entries)
    return mutant, True, "operations["


def a_stale_hash(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The artefact has other bytes than those that were signed."""
    mutant = _changed(original)
    op = _pick(rng, list(main_function(mutant.integers).body.block.ops)[:-1])
    op.attributes["note"] = StringAttr(str(rng.integers(1 << 30)))
    return mutant, False, "another hash of net"


def a_swapped_weight(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """Two different weights change places."""
    mutant = _changed(original)
    op = _pick(rng, _ops(mutant, "qint.conv2d", "qint.depthwise_conv2d", "qint.fully_connected"))
    weights = op.operands[1].owner
    array = weights.value.array.copy()
    first = int(rng.integers(array.size))
    second = _pick(rng, np.flatnonzero(array.reshape(-1) != array.reshape(-1)[first]).tolist())
    array.reshape(-1)[[first, second]] = array.reshape(-1)[[second, first]]
    _set(mutant, weights, array, signed=False)
    return mutant, True, "weights["


def a_false_bound(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """One number of the certificate is another."""
    mutant = _changed(original)
    places: list[tuple[Any, Any]] = []
    for each in mutant.certificate["operations"]:
        places += [(each["range"], 0), (each["range"], 1)]
        if (sums := each.get("accumulators")) is not None:
            places += [(sums[end], c) for end in ("lowest", "highest") for c in range(len(sums[end]))]
            places += [(sums, "bits"), (sums, "slack")]
        if (requantization := each.get("requantization")) is not None:
            places += [(requantization, "slack"), (requantization, "error")]
        if (rounding := each.get("rounding")) is not None:
            places += [(rounding, "error")]
        if (table := each.get("table")) is not None:
            places += [(table, "error"), (table, "entries")]
    where, key = _pick(rng, places)
    where[key] += _pick(rng, [-1, 1])
    return mutant, True, "operations["


ERRORS = ("requantization", "rounding", "table")


def a_false_error(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """An error is stated a little smaller, or is left out."""
    mutant = _changed(original)
    field = _pick(rng, list(ERRORS))
    each = _pick(rng, [e for e in mutant.certificate["operations"] if field in e])
    change = int(rng.integers(3))
    if change == 0:
        each.pop(field)
    else:
        each[field]["error"] = None if change == 1 else each[field]["error"] * 0.999 - 2.0**-17
    return mutant, True, f".{field}"


def a_false_meaning(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A real number that integers stand for is a thousandth off, so that errors are others than those stated."""
    mutant, places = _changed(original), list[tuple[Any, Any]]()
    for each in mutant.certificate["operations"]:
        for field in ("requantization", "rounding"):
            factors = each.get(field, {}).get("factors") or []
            places += [(factors, place) for place in range(len(factors))]
        function = each.get("table", {}).get("function") or {}
        places += [(stored, "scale") for stored in (*function.get("inputs", ()), function.get("output")) if stored]
    where, key = _pick(rng, places)
    where[key] *= _pick(rng, [0.999, 1.001])
    return mutant, True, "operations["


def a_wrong_pair(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """One entry of a table of pairs is a step off, away from the others' range or within it."""
    mutant = _changed(original)
    (op,) = cast("list[qint.PairLookupOp]", _ops(mutant, "qint.pair_lookup"))
    entries = op.table.array.copy()
    place = tuple(rng.integers(entries.shape))
    entries[place] += 1 if entries[place] < 127 else -1
    op.table = WeightsAttr(entries)
    return mutant, True, "operations["


MUTATIONS: tuple[Mutation, ...] = (
    half_of_the_input,
    half_between_layers,
    sums_in_floats,
    a_fallback,
    a_contract_in_floats,
    an_overflowing_channel,
    a_wrong_entry,
    a_stale_hash,
    a_swapped_weight,
    a_false_bound,
    a_false_error,
    a_false_meaning,
    a_wrong_pair,
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_every_mutant_is_caught(mutation: Mutation, original: Certified, tmp_path: Path) -> None:
    for seed in range(10 if THOROUGH else 3):
        mutant, fresh, said = mutation(original, np.random.default_rng(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        written = mutant.write(folder, fresh=fresh)
        with pytest.raises(CheckError) as caught:
            check_certificate(written.path)
        assert said in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------
# Files that are no certificates


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("operations"), "operations is missing"),
        (lambda c: c.update(verdict="fine"), "verdict is none of integer-only"),
        (lambda c: c["operations"].pop(), "operations of 17 elements, where 18 follow"),
        (lambda c: c["weights"].pop(), "weights of 5 elements, where 6 follow"),
        (lambda c: c.update(exit=[]), "exit of 0 elements, where 1 follow"),
        (lambda c: c.update(weights=5), "weights is not of type array"),
        (lambda c: c["operations"][2]["accumulators"].update(lowest="x"), "lowest is not of type array"),
    ],
)
def test_damaged_certificates_are_refused(
    change: Callable[[dict[str, Any]], Any], said: str, original: Certified, tmp_path: Path
) -> None:
    mutant = _changed(original)
    change(mutant.certificate)
    with pytest.raises(CheckError) as caught:
        check_certificate(mutant.write(tmp_path).path)
    assert said in str(caught.value)


def test_a_certificate_without_its_artefact(original: Certified, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(original.certificate))
    with pytest.raises(Exception, match="must be the artefact of the certificate"):
        check_certificate(tmp_path / "c.json")
