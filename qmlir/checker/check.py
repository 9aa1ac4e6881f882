"""Compares a certificate with what follows from its artefact."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from qmlir.checker.code import read_code
from qmlir.checker.commands import Followed, follow
from qmlir.checker.deriver import Derived, Sums, UnprovenError
from qmlir.checker.errors import BOUNDS, largest_rounding_error
from qmlir.checker.functions import STORAGE, changes_storage, largest_error
from qmlir.checker.intervals import derive, interpolated, limit_slack, spread
from qmlir.checker.memory import ENTERING, LEAVING, UNKNOWN, Range
from qmlir.checker.network import Network, Node, read_network, read_routines
from qmlir.checker.program import Program, read_program
from qmlir.checker.rounding import rounded_off
from qmlir.errors import FileError, QmlirError
from qmlir.isa.commands import Host

FORMAT = "qmlir-certificate-1"

UNITS = 1 << 20
"""Errors are written as multiples of 2^−20 steps, rounded up."""

TOLERANCE = Fraction(4, UNITS)
"""How far an error that follows from a function may be from the one derived here, as a part of it if it is above 1: the
compiler computes functions in float64."""

MOVING = (
    *("nn.reshape", "nn.transpose", "nn.broadcast", "nn.concat", "nn.pad", "nn.dilate", "nn.slice"),
    *("nn.gather", "nn.gather_nd", "nn.scatter_nd"),
)
"""Operations that may move floats at the entry and at the exit."""


class CheckError(QmlirError):
    """Raised for a certificate that does not hold for its artefact."""

    def __init__(self, file: object, need: str, *, got: str | None = None, remedy: str | None = None):
        super().__init__(need, where=str(file), got=got, remedy=remedy)


def check_certificate(path: Path, artefact: Path | None = None) -> dict[str, int]:
    """Checks a certificate against its artefact.

    Args:
        path: The certificate.
        artefact: The network of integers; by default the file that the certificate names, in the same folder.

    Returns:
        How much was checked: the numbers of operations, sums, requantizations, operations that round by themselves,
        tables and constants, and of the tables whose function is not known; nothing for an object file.

    Raises:
        FileError: A file cannot be read, or is of another format.
        CheckError: The certificate does not hold.
    """
    certificate = read_certificate(path)
    try:
        wrong = list(_wrong(certificate, path, artefact))
        counts = counts_of(certificate)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        need = "must be a certificate as `qmlir certify` writes it"
        raise CheckError(
            path, need, got=f"a field that is missing or wrong ({type(error).__name__}: {error})"
        ) from None
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise CheckError(
            path, "must hold for its artefact", got=f"{wrong[0]}{more}", remedy="certify the network again"
        )
    return counts


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Reads a certificate.

    Raises:
        FileError: The file cannot be read, or is no certificate.
    """
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(path, "must be a certificate", got=error) from None
    except (ValueError, RecursionError):
        raise FileError(path, "must be a certificate", got="something that is no JSON") from None
    if not isinstance(found, dict) or cast(dict[str, Any], found).get("format") != FORMAT:
        raise FileError(path, f"must be a certificate of format {FORMAT}", got="something else")
    return cast(dict[str, Any], found)


def _wrong(certificate: Mapping[str, Any], path: Path, artefact: Path | None) -> Iterator[str]:
    """Yields what does not hold."""
    if certificate["verdict"] != "integer-only":
        yield f"the verdict {certificate['verdict']}"
    files: list[dict[str, str]] = certificate["artefact"]
    first = artefact or path.parent / files[0]["file"]
    yield from _stale(files, first)
    if certificate["about"] == "object":
        yield from _wrong_code(certificate["code"][0], first)
    elif certificate["about"] == "program":
        yield from _wrong_program(certificate, first)
    else:
        yield from _wrong_network(certificate, read_network(first))


def _wrong_network(certificate: Mapping[str, Any], network: Network) -> Iterator[str]:
    """What a certificate states wrongly about a function on integers."""
    yield from _wrong_floats(certificate, network)
    yield from _wrong_constants(certificate["weights"], network)
    try:
        derived = derive(network)
    except UnprovenError as error:
        yield str(error)
        return
    yield from _wrong_operations(certificate["operations"], network, derived)


def _stale(files: list[dict[str, str]], first: Path) -> Iterator[str]:
    for index, each in enumerate(files):
        file = first if index == 0 else first.with_name(each["file"])
        try:
            found = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise FileError(file, "must be the artefact of the certificate", got=error) from None
        if found != each["sha256"]:
            yield f"another hash of {file.name}"


def _wrong_code(stated: Mapping[str, Any], path: Path) -> Iterator[str]:
    """What a certificate states wrongly about an object file."""
    found = read_code(path)
    yield from found.wrong()
    if {each["function"] for each in stated["floats"]} != found.floats:
        yield "another list of functions on floats"
    if {each["function"]: each["kernels"] for each in stated["casts"]} != found.casts:
        yield "another list of calls of casts"
    if stated["instructions"] != found.instructions:
        yield "another number of instructions"


def _wrong_constants(stated: list[Mapping[str, Any]], network: Network) -> Iterator[str]:
    own = {n.index: n.properties["value"] for n in network.nodes if n.kind == "nn.constant"}
    if [each["index"] for each in stated] != list(own):
        yield "another list of constants"
        return
    for each in stated:
        constant = own[each["index"]]
        if each["sha256"] != constant.sha256 or each["shape"] != list(constant.shape):
            yield f'another hash of the constant "{each["tensor"]}"'


# ---------------------------------------------------------------------------------------------------------------
# Programs of devices: their commands, and the routines that the host runs


def _wrong_program(certificate: Mapping[str, Any], path: Path) -> Iterator[str]:
    """What a certificate states wrongly about a device's program."""
    program = read_program(path)
    yield from _wrong_segments(certificate, program)
    networks = read_routines(path.with_suffix(".host.mlir")) if program.routines else {}
    called: dict[str, list[Range | int]] = {}
    stated = {each["routine"]: each for each in certificate["routines"]}
    if list(stated) != [routine.name for routine in program.routines]:
        yield "another list of routines"
        return
    for number, routine in enumerate(program.routines):
        if (network := networks.get(routine.name)) is None:
            yield f"no routine {routine.name}"
            return
        fields = stated[routine.name]
        wrong = list(_wrong_network(fields, network))
        calls = [n for n, c in enumerate(program.commands) if isinstance(c, Host) and c.routine == number]
        wrong += ["other commands that call it"] if fields["commands"] != calls else []
        wrong += ["other types"] if fields["types"] != _types(network) else []
        if wrong:
            yield from (f"routine {routine.name}: {each}" for each in wrong)
            return
        called[routine.name] = _returned(network)
    try:
        followed = follow(program, called)
    except UnprovenError as error:
        yield str(error)
        return
    yield from _wrong_commands(certificate["commands"], followed)


def _wrong_segments(certificate: Mapping[str, Any], program: Program) -> Iterator[str]:
    """What a certificate states wrongly about the device and the constants."""
    if certificate["device"] != program.device["name"]:
        yield "another device"
    own = [
        (program.device[f"memory.{area.memory}.id"], area.start, area.size, hashlib.sha256(data).hexdigest())
        for area, data in program.constants
    ]
    given = [(e["memory"], e["address"], e["bytes"], e["sha256"]) for e in certificate["constants"]]
    if given != own:
        yield "another hash of a constant"


def _wrong_commands(stated: list[Mapping[str, Any]], followed: Mapping[int, Followed]) -> Iterator[str]:
    if [each["index"] for each in stated] != list(followed):
        yield "another list of commands"
        return
    for each in stated:
        found = followed[each["index"]]
        own = {
            "kind": ("command", found.command),
            "layer": ("layer", found.layer),
            "range": ("range", list(found.range)),
            "interval of sums": ("accumulators", _sums(found.sums)),
            "requantization": (
                "requantization",
                None if found.contract is None else {"contract": found.contract, "slack": found.slack},
            ),
        }
        for field, (key, value) in own.items():
            if each.get(key) != value:
                yield f'another {field} of command {each["index"]}, {found.command} "{found.layer}"'


def _types(network: Network) -> list[str]:
    """The types of the elements that a function's operations read and write, without those of constants."""
    constants = {n for node in network.nodes if node.kind == "nn.constant" for n in node.results}
    used = {n for node in network.nodes for n in (*node.operands, *node.results)} - constants
    return sorted({network.values[n].element for n in used})


def _returned(network: Network) -> list[Range | int]:
    """What a function returns: the intervals of integers, and whether floats are those of its arguments."""
    derived, makers = derive(network), {n: node for node in network.nodes for n in node.results}
    moved = set(network.arguments)
    for node in network.nodes:
        if node.kind in MOVING and moved.issuperset(node.operands):
            moved.update(node.results)

    def result(number: int) -> Range | int:
        value = network.values[number]
        if value.float:
            return ENTERING if number in moved else LEAVING
        known = number in makers and value.bits > 1 and value.signed
        return derived[makers[number].index].range if known else UNKNOWN

    return [result(number) for node in network.nodes if node.kind == "func.return" for number in node.operands]


# ---------------------------------------------------------------------------------------------------------------
# Floats: none but casts of inputs and outputs, and what moves them


def _wrong_floats(certificate: Mapping[str, Any], network: Network) -> Iterator[str]:
    yield from network.floats
    entering = {n for n in network.arguments if network.values[n].float}
    found: dict[str, list[str]] = {"entry": [], "exit": []}
    leaving = _leaving(network)
    for node in network.nodes:
        floats = [n for n in node.operands if network.values[n].float]
        makes = any(network.values[n].float for n in node.results)
        if node.kind in ("func.return", "nn.constant") or not (floats or makes):
            continue
        if node.kind in ("quant.qcast", *MOVING) and floats and entering.issuperset(floats):
            entering.update(node.results)
            found["entry"].append(node.kind)
        elif node.index in leaving:
            found["exit"].append(node.kind)
        else:
            yield f"operation {node.index}, {node.kind}, computes on floats"
    for place, kinds in found.items():
        if [each["operation"] for each in certificate[place]] != kinds:
            yield f"other floats at the {place}"


def _leaving(network: Network) -> set[int]:
    """The operations whose floats come from integers and are only moved until they are returned, by their index."""
    makers = {result: maker for maker in network.nodes for result in maker.results}
    staying, leaving = set[int](), set[int]()  # values that something else reads; operations
    for node in reversed(network.nodes):
        floats = [n for n in node.operands if network.values[n].float]
        made = bool(floats) and all(n in makers and makers[n].kind in ("quant.dcast", *MOVING) for n in floats)
        from_integers = node.kind == "quant.dcast" or (node.kind in MOVING and made)
        if from_integers and staying.isdisjoint(node.results):
            leaving.add(node.index)
        if node.kind != "func.return" and not (node.kind in MOVING and node.index in leaving):
            staying.update(node.operands)
    return leaving


# ---------------------------------------------------------------------------------------------------------------
# Operations


def _wrong_operations(
    stated: list[Mapping[str, Any]], network: Network, derived: Mapping[int, Derived]
) -> Iterator[str]:
    own = {n.index: n for n in network.nodes if n.index in derived and n.kind != "nn.constant"}
    if [each["index"] for each in stated] != list(own):
        yield "another list of operations"
        return
    for each in stated:
        node, found = own[each["index"]], derived[each["index"]]
        where = f'operation {node.index}, {node.kind} "{each["node"]}"'
        for field, holds in _fields(each, node, found, network).items():
            if not holds():
                yield f"another {field} of {where}"


def _fields(each: Mapping[str, Any], node: Node, found: Derived, network: Network) -> dict[str, Callable[[], bool]]:
    """The fields of an operation, each with whether it holds."""
    return {
        "kind": lambda: each["operation"] == node.kind,
        "range": lambda: each["range"] == list(found.range),
        "interval of sums": lambda: each.get("accumulators") == _sums(found.sums),
        "requantization": lambda: _requantization_holds(each.get("requantization"), node, found),
        "rounding": lambda: _rounding_holds(each.get("rounding"), node, found, network),
        "table": lambda: _table_holds(each.get("table"), node),
    }


def _sums(sums: Sums | None) -> Mapping[str, Any] | None:
    if sums is None:
        return None
    return {"lowest": sums.whole[0], "highest": sums.whole[1], "bits": sums.bits, "slack": sums.slack}


def _requantization_holds(stated: Mapping[str, Any] | None, node: Node, found: Derived) -> bool:
    if found.accumulators is None or stated is None:
        return found.accumulators is None and stated is None
    contract, channels = node.properties["contract"], found.accumulators
    ms, ss = (spread(node.properties[key], len(channels[0])) for key in ("multiplier", "shift"))
    factors: list[float] | None = stated["factors"]
    point, low, high = node.number("zero_point"), node.properties["min"], node.properties["max"]
    reach, worst = max(abs(low - point), abs(high - point)) + 1, Fraction(0)
    for channel, (a, b, m, s) in enumerate(zip(*channels, ms, ss, strict=True)):
        stored, magnitude = m * Fraction(2) ** (s - 31), max(-a, b)
        real = stored if factors is None else Fraction(factors[channel if len(factors) > 1 else 0])
        if min(stored, real) > 0:
            magnitude = min(magnitude, math.ceil(reach / min(stored, real)))
        error = rounded_off(contract, m, s, magnitude) + magnitude * abs(stored - real)
        worst = max(worst, error)
    own = contract, limit_slack(contract, channels), math.ceil(worst * UNITS) / UNITS
    return (stated["contract"], stated["slack"], stated["error"]) == own


def _rounding_holds(stated: Mapping[str, Any] | None, node: Node, found: Derived, network: Network) -> bool:
    if node.kind not in BOUNDS or stated is None:
        return node.kind not in BOUNDS and stated is None
    own = largest_rounding_error(node, found, network, stated)
    if own is None or stated["error"] is None:
        return own is None and stated["error"] is None
    if node.kind in ("qint.softmax", "qint.log_softmax"):
        return _is_near(own, stated["error"])
    return Fraction(stated["error"]) == Fraction(math.ceil(own * UNITS), UNITS)


def _is_near(own: Fraction, stated: float) -> bool:
    return abs(own - Fraction(stated)) <= TOLERANCE * max(1, own)


def _table_holds(stated: Mapping[str, Any] | None, node: Node) -> bool:
    if node.kind not in ("qint.lookup", "qint.interpolated_lookup", "qint.pair_lookup"):
        return stated is None
    table = node.properties["table"].values
    if stated is None or stated["entries"] != len(table):
        return False
    if (function := stated["function"]) is None:
        return stated["error"] is None
    wide = node.kind == "qint.interpolated_lookup"
    results = [interpolated(table, x) for x in range(-(1 << 15), 1 << 15)] if wide else table
    if function["name"] == STORAGE:
        return stated["error"] == 0 and changes_storage(results)
    if stated["error"] is None:
        return False
    error = largest_error(function, results)
    return error is None or _is_near(error, stated["error"])


def counts_of(certificate: Mapping[str, Any]) -> dict[str, int]:
    """How much a certificate states, as `check_certificate` returns it."""
    if certificate["about"] == "object":
        return {}
    if certificate["about"] == "program":
        commands: list[Mapping[str, Any]] = certificate["commands"]
        return {
            "commands": len(commands),
            "calls": sum(len(each["commands"]) for each in certificate["routines"]),
            "operations": sum(len(each["operations"]) for each in certificate["routines"]),
            "sums": sum("accumulators" in each for each in commands),
            "requantizations": sum("requantization" in each for each in commands),
            "constants": len(certificate["constants"]),
        }
    operations: list[Mapping[str, Any]] = certificate["operations"]
    tables = [each["table"]["function"] for each in operations if "table" in each]
    return {
        "operations": len(operations),
        "sums": sum("accumulators" in each for each in operations),
        "requantizations": sum("requantization" in each for each in operations),
        "roundings": sum("rounding" in each for each in operations),
        "tables": len(tables),
        "tables_without_function": sum(function is None for function in tables),
        "constants": len(certificate["weights"]),
    }
