"""The fields of a certificate that follow from a function on integers: its constants and its operations.

What integers stand for follows from the network before its lowering, which is no part of the artefact. It is stated, as
factors, weights or functions: by the compiler when a certificate is written, and by the certificate when it is checked.
This part of a certificate is on trust, and errors are derived from it.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from qmlir.checker.deriver import Derived
from qmlir.checker.errors import BOUNDS, largest_rounding_error, meaning_of
from qmlir.checker.floats import float_fields
from qmlir.checker.functions import CHANGES_STORAGE, Budget, changes_storage, largest_error
from qmlir.checker.intervals import derive, interpolated
from qmlir.checker.network import Constant, Network, Node
from qmlir.checker.ranges import spread
from qmlir.checker.rounding import rounded_off
from qmlir.checker.unproven import MISSTATED, UnprovenError, misstated

UNITS = 1 << 20
"""Errors are written as multiples of 2^−20 steps, rounded up."""

TOLERANCE = Fraction(4, UNITS)
"""How far an error that follows from a function may be from the one derived here, as a part of it if it is above 1:
certificates of before state errors that were computed in float64."""

Fields = Mapping[str, Any]


def network_fields(network: Network, stated: Fields, budget: Budget) -> dict[str, Any]:
    """The fields of a certificate about a function: floats at the entry and exit, constants, operations.

    Args:
        network: The function.
        stated: What is stated of it on trust: operations with their `index` and some of a certificate's fields.
        budget: The entries of tables that may still be compared.

    Raises:
        UnprovenError: An operation computes on floats, or the function is none of a network.
        RefusedError: An operation has no rule, or its integers may not fit.
    """
    floats, derived = float_fields(network), derive(network)
    nodes = [node for node in network.nodes if node.index in derived and node.kind != "nn.constant"]
    given: dict[int, Fields] = {each["index"]: each for each in stated["operations"]}
    return {
        **floats,
        "weights": [_constant(node) for node in network.nodes if node.kind == "nn.constant"],
        "operations": [
            _operation(node, derived[node.index], network, given.get(node.index, {}), budget) for node in nodes
        ],
    }


def _constant(node: Node) -> Fields:
    held: Constant = node.properties["value"]
    fields = {"index": node.index, "tensor": node.tensor, "type": held.element}
    return {**fields, "shape": list(held.shape), "sha256": held.sha256}


def _operation(node: Node, found: Derived, network: Network, stated: Fields, budget: Budget) -> Fields:
    """The fields of an operation."""
    fields: dict[str, Any] = {"index": node.index, "operation": node.kind, "node": _named(node, network)}
    fields["types"] = [network.values[n].element for n in (*node.operands, *node.results)]
    fields["range"] = list(found.range)
    try:
        if found.sums is not None:
            fields["accumulators"] = found.sums.fields()
        if found.accumulators is not None:
            fields["requantization"] = _requantization(node, found, stated.get("requantization", {}))
        if node.kind in BOUNDS:
            fields["rounding"] = _rounding(node, found, network, stated.get("rounding", {}), budget)
        if node.kind in TABLES:
            fields["table"] = _table(node, stated.get("table", {}), budget)
    except UnprovenError as error:
        raise error.at(node.kind, node.name, node.index) from None
    except MISSTATED as error:
        raise misstated(error).at(node.kind, node.name, node.index) from None
    return fields


def _named(node: Node, network: Network) -> str:
    """The name of an operation; sums have that of the requantization behind them."""
    readers = network.readers[node.results[0]]
    behind = node.name == node.kind and len(readers) == 1 and readers[0].results
    return readers[0].name if behind else node.name


def _in_steps(error: Fraction) -> float:
    return math.ceil(error * UNITS) / UNITS


def _settled(own: Fraction, stated: Any) -> float:
    """An error that follows from a function: the stated one if it is as near as float64 allows."""
    near = isinstance(stated, float) and abs(own - Fraction(stated)) <= TOLERANCE * max(1, own)
    return stated if near and (stated * UNITS).is_integer() else _in_steps(own)


def _requantization(node: Node, found: Derived, stated: Fields) -> Fields:
    assert found.accumulators is not None
    contract, channels = node.properties["contract"], found.accumulators
    count, factors = len(channels), cast("Sequence[float] | None", stated.get("factors"))
    if factors is not None and len(factors) not in (1, count):
        raise UnprovenError(str(len(factors)), f"must have 1 or {count} factors in the certificate")
    point, low, high = node.number("zero_point"), node.properties["min"], node.properties["max"]
    reach, worst = max(abs(low - point), abs(high - point)) + 1, Fraction(0)
    ms, ss = (spread(node.properties[key], count) for key in ("multiplier", "shift"))
    reals = spread(factors or [None], count)
    for (a, b), m, s, given in zip(channels, ms, ss, reals, strict=True):
        stored, magnitude = m * Fraction(2) ** (s - 31), max(-a, b)
        real = stored if given is None else Fraction(given)
        if min(stored, real) > 0:
            magnitude = min(magnitude, math.ceil(reach / min(stored, real)))
        worst = max(worst, rounded_off(contract, m, s, magnitude) + magnitude * abs(stored - real))
    return {"contract": contract, "slack": found.slack, "factors": factors, "error": _in_steps(worst)}


def _rounding(node: Node, found: Derived, network: Network, stated: Fields, budget: Budget) -> Fields:
    meaning = meaning_of(node, stated)
    own = largest_rounding_error(node, found, network, meaning, budget)
    if own is None:
        return {**meaning, "error": None}
    computed = node.kind in ("qint.softmax", "qint.log_softmax", "qint.exponentials")
    return {**meaning, "error": _settled(own, stated.get("error")) if computed else _in_steps(own)}


TABLES = ("qint.lookup", "qint.interpolated_lookup", "qint.pair_lookup")


def _table(node: Node, stated: Fields, budget: Budget) -> Fields:
    """The number of entries, the function that is stated, and the error that follows from it.

    A table that changes how integers are stored is told by its entries, where no function is stated.
    """
    table, function = node.properties["table"].values, stated.get("function")
    wide = node.kind == "qint.interpolated_lookup"
    results = [interpolated(table, x) for x in range(-(1 << 15), 1 << 15)] if wide else table
    if function in (None, CHANGES_STORAGE):
        flips = changes_storage(results)
        if function is not None and not flips:
            raise UnprovenError("another", "must have a table that flips the highest bits of bytes")
        return {"entries": len(table), "function": CHANGES_STORAGE if flips else None, "error": 0.0 if flips else None}
    error = largest_error(function, results, budget, pairs=node.kind == "qint.pair_lookup")
    return {"entries": len(table), "function": function, "error": _settled(error, stated.get("error"))}
