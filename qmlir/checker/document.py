"""Derives a whole certificate from its artefact and from what is stated on trust.

These are the certificates that `qmlir certify` writes. A certificate holds if it is equal to the one that is derived
from its artefact anew. So whatever is no part of that is refused, and whatever is in it was derived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.checker.code import code_fields, require_casts
from qmlir.checker.commands import Followed, follow
from qmlir.checker.floats import MOVING, types_of
from qmlir.checker.functions import Budget
from qmlir.checker.intervals import derive
from qmlir.checker.memory import ENTERING, LEAVING, UNKNOWN
from qmlir.checker.network import Files, Network, entries_of, functions_of, network_of, read_module
from qmlir.checker.operations import Fields, network_fields
from qmlir.checker.program import Port, Program, Routine, parse_program
from qmlir.checker.ranges import Range
from qmlir.checker.reading import MOST_OBJECT, MOST_PROGRAM, MOST_TEXT
from qmlir.checker.unproven import RefusedError, UnprovenError
from qmlir.errors import FileError
from qmlir.isa.commands import Host

FORMAT, VERDICT = "qmlir-certificate-1", "integer-only"
"""The format of certificates with its version, and what they claim; what is not integer-only gets none."""

LARGEST = {"network": MOST_TEXT, "entries": MOST_TEXT, "program": MOST_PROGRAM, "object": MOST_OBJECT}
"""The kind of a certificate → the most bytes of the first file of its artefact."""


def derive_document(stated: Fields, folder: Path, artefact: Path | None) -> dict[str, Any]:
    """Derives the certificate that a certificate has to be.

    Args:
        stated: A certificate as its schema says; its statements on trust become part of the document.
        folder: The folder of the certificate.
        artefact: The first file of the artefact, if the user names it.

    Raises:
        QmlirError: A file of the artefact cannot be read, or nothing can be proved about it.
        UnprovenError: A file is another one.
    """
    about, (first, *_) = stated["about"], stated["artefact"]
    listed = {each["file"]: each["sha256"] for each in stated["artefact"]}
    if artefact is None:
        files, name = Files(folder, listed), first["file"]
        data = files.beside(name, LARGEST[about])
    else:
        name = artefact.name
        files = Files(artefact.parent, {**listed, name: first["sha256"]})
        data = files.given(artefact, LARGEST[about])
    found = {**_head(about, stated["qmlir"]), **_derived(about, stated, files, name, data)}
    found["artefact"][0]["file"] = first["file"]  # the user may have renamed what he names
    return found


def certificate_of_file(about: str, path: Path, qmlir: str) -> dict[str, Any]:
    """Derives the certificate of a `program` or an `object` from its file, with nothing on trust but the version.

    Args:
        about: The kind of the certificate.
        path: The file; those that belong to it lie beside it.
        qmlir: The version of qmlir.

    Raises:
        QmlirError: A file cannot be read, or nothing can be proved about it.
    """
    files = Files(path.parent, None)
    data = files.given(path, LARGEST[about])
    return {**_head(about, qmlir), **_derived(about, {"routines": ()}, files, path.name, data)}


def certificate_of_network(module: ModuleOp, stated: Fields, qmlir: str) -> dict[str, Any]:
    """Derives the certificate of a network on the qint level, without what tells its files and its code.

    Args:
        module: A verified module.
        stated: What is stated about it on trust: its `operations`, as far as something is.
        qmlir: The version of qmlir.

    Raises:
        RefusedError: An operation computes on floats, has no rule, or its integers may not fit; or its tables are more
            than a check compares.
    """
    return {**_head("network", qmlir), **_fields_of(network_of(module), stated, Budget())}


def certificate_of_entries(module: ModuleOp, stated: Mapping[str, Fields], qmlir: str) -> dict[str, Any]:
    """Derives the certificate of a network with several entries, each of which is a network on the qint level.

    Args:
        module: A verified module.
        stated: What is stated on trust about each entry, by its name: its `operations`, as far as something is.
        qmlir: The version of qmlir.

    Raises:
        RefusedError: As for one network.
    """
    return {**_head("entries", qmlir), "entries": _of_entries(module, stated)}


def _head(about: str, qmlir: str) -> dict[str, Any]:
    return {"format": FORMAT, "qmlir": qmlir, "verdict": VERDICT, "about": about}


def _derived(about: str, stated: Fields, files: Files, name: str, data: bytes) -> Fields:
    """The fields of a certificate behind its head, of an artefact whose first file has this name and content."""
    kinds = {"network": _network, "entries": _entries, "program": _program, "object": _object}
    own = kinds[about](stated, files, name, data)
    return {"artefact": files.fields(), **own}


def _network(stated: Fields, files: Files, name: str, text: bytes) -> Fields:
    """The fields of a certificate about a network."""
    require_casts(stated["code"])
    fields = _fields_of(network_of(read_module(files, name, text)), stated, Budget())
    return {**fields, "source": stated["source"], "code": stated["code"]}


def _entries(stated: Fields, files: Files, name: str, text: bytes) -> Fields:
    """The fields of a certificate about a network with several entries."""
    require_casts(stated["code"])
    given: dict[str, Fields] = {each["name"]: each for each in stated["entries"]}
    entries = _of_entries(read_module(files, name, text), given)
    return {"entries": entries, "source": stated["source"], "code": stated["code"]}


def _of_entries(module: ModuleOp, stated: Mapping[str, Fields]) -> list[Fields]:
    """The field `entries`; tables that entries have in common are compared once."""
    budget, found = Budget(), list[Fields]()
    for network in entries_of(module):
        try:
            own = _fields_of(network, stated.get(network.name, {"operations": ()}), budget)
        except RefusedError as error:
            error.entry = network.name
            raise
        found.append({"name": network.name, **own})
    return found


def _fields_of(network: Network, stated: Fields, budget: Budget) -> Fields:
    try:
        return network_fields(network, stated, budget)
    except UnprovenError as error:
        raise error.at("func.func", network.name) from None


def _object(stated: Fields, files: Files, name: str, data: bytes) -> Fields:
    """The fields of a certificate about an object file."""
    return {"code": [code_fields(data, files.folder / name)]}


# ---------------------------------------------------------------------------------------------------------------
# Programs of devices: their commands, and the routines that the host runs


def _program(stated: Fields, files: Files, name: str, data: bytes) -> Fields:
    """The fields of a certificate about a device's program."""
    path = files.folder / name
    try:
        program = parse_program(data)
    except ValueError as error:
        raise FileError(path, "must be a program that qmlir compiled", got=str(error)) from None
    networks, host = dict[str, Network](), PurePath(name).with_suffix(".host.mlir").name
    if program.routines:
        networks |= functions_of(read_module(files, host, files.beside(host, MOST_TEXT)))
    given: dict[str, Fields] = {each["routine"]: each for each in stated["routines"]}
    called, routines, budget = dict[str, list[Range | int]](), list[Fields](), Budget()
    for number, routine in enumerate(program.routines):
        if (found := networks.get(routine.name)) is None:
            need, remedy = f"must hold the routine {routine.name}", "compile the network again"
            raise FileError(files.folder / host, need, got=", ".join(networks), remedy=remedy)
        calls = [n for n, c in enumerate(program.commands) if isinstance(c, Host) and c.routine == number]
        try:
            network = _with_names(found, routine, program.inputs)
            fields = network_fields(network, given.get(routine.name, {"operations": ()}), budget)
        except UnprovenError as error:
            raise _of_routine(error, routine, calls) from None
        routines.append({"routine": routine.name, "commands": calls, "types": types_of(network), **fields})
        called[routine.name] = _returned(network)
    return {
        "device": program.device["name"],
        "constants": _segments(program),
        "routines": routines,
        "commands": [_command(index, each) for index, each in follow(program, called).items()],
    }


def _of_routine(error: UnprovenError, routine: Routine, calls: Sequence[int]) -> RefusedError:
    """The error about a routine as a whole, which names the commands that call it."""
    need, remedy = "must call a routine that computes on integers", "quantize it, or give the device file a key for it"
    where = f"command {', '.join(map(str, calls)) or 'none'}, host"
    return UnprovenError(error.got, need, remedy=remedy).at(where, routine.name)


def _with_names(network: Network, routine: Routine, inputs: Sequence[Port]) -> Network:
    """A routine whose arguments have the names of the program; floats have those of the network's inputs."""
    names = {(port.area.memory, port.area.start): port.name for port in inputs}
    if len(network.arguments) != len(routine.inputs):
        raise UnprovenError(f"one with {len(network.arguments)} arguments")
    own = (names.get((p.area.memory, p.area.start), p.name) if p.float else p.name for p in routine.inputs)
    return replace(network, arguments=dict(zip(network.arguments, own, strict=True)))


def _segments(program: Program) -> list[Fields]:
    """The field `constants`."""
    return [
        {
            "memory": program.device[f"memory.{area.memory}.id"],
            "address": area.start,
            "bytes": area.size,
            "sha256": sha256(data).hexdigest(),
        }
        for area, data in program.constants
    ]


def _command(index: int, found: Followed) -> Fields:
    """The fields of a command."""
    fields: dict[str, Any] = {
        "index": index,
        "command": found.command,
        "layer": found.layer,
        "range": list(found.range),
    }
    if found.sums is not None:
        fields["accumulators"] = found.sums.fields()
    if found.contract is not None:
        fields["requantization"] = {"contract": found.contract, "slack": found.slack}
    return fields


def _returned(network: Network) -> list[Range | int]:
    """What a function returns: the intervals of integers, and whether floats are those of its arguments."""
    derived, moved = derive(network), set(network.arguments)
    for node in network.nodes:
        if node.kind in MOVING and moved.issuperset(node.operands):
            moved.update(node.results)

    def result(number: int) -> Range | int:
        value = network.values[number]
        if value.float:
            return ENTERING if number in moved else LEAVING
        known = number in network.makers and value.bits > 1 and value.signed
        return derived[network.makers[number].index].range if known else UNKNOWN

    return [result(number) for node in network.nodes if node.kind == "func.return" for number in node.operands]
