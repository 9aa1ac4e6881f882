"""Derives a whole certificate from its artefact, with nothing of what it states but what is on trust.

A certificate holds if it is equal to the document that this module returns. So whatever is no part of the document is
refused, and whatever is in it was derived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from qmlir.checker.code import code_fields, require_casts
from qmlir.checker.commands import Followed, follow
from qmlir.checker.floats import MOVING, types_of
from qmlir.checker.functions import Budget
from qmlir.checker.intervals import derive
from qmlir.checker.memory import ENTERING, LEAVING, UNKNOWN, Range
from qmlir.checker.network import Files, Network, read_functions, read_network
from qmlir.checker.operations import Fields, network_fields, sums_fields
from qmlir.checker.program import Port, Program, Routine, parse_program
from qmlir.checker.reading import MOST_OBJECT, MOST_PROGRAM, MOST_TEXT
from qmlir.checker.unproven import UnprovenError
from qmlir.errors import FileError
from qmlir.isa.commands import Host

FORMAT, VERDICT = "qmlir-certificate-1", "integer-only"

LARGEST = {"network": MOST_TEXT, "program": MOST_PROGRAM, "object": MOST_OBJECT}
"""The kind of a certificate → the most bytes of the first file of its artefact."""


def derive_document(stated: Fields, folder: Path, artefact: Path | None) -> dict[str, Any]:
    """Derives the certificate of an artefact.

    Args:
        stated: A certificate as its schema says; its statements on trust become part of the document.
        folder: The folder of the certificate.
        artefact: The first file of the artefact, if the user names it.

    Raises:
        QmlirError: A file of the artefact cannot be read.
        UnprovenError: A file is another one, or there is no certificate of the artefact.
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
    own = {"network": _network, "program": _program, "object": _object}[about](stated, files, name, data)
    head = {"format": FORMAT, "qmlir": stated["qmlir"], "verdict": VERDICT, "about": about}
    hashes = files.fields()
    hashes[0]["file"] = first["file"]  # the user may have renamed what he names
    return {**head, "artefact": hashes, **own}


def _network(stated: Fields, files: Files, name: str, text: bytes) -> Fields:
    """The fields of a certificate about a network."""
    require_casts(stated["code"])
    fields = network_fields(read_network(files, name, text), stated, Budget())
    return {**fields, "source": stated["source"], "code": stated["code"]}


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
    networks: Mapping[str, Network] = {}
    if program.routines:
        host = PurePath(name).with_suffix(".host.mlir").name
        networks, _ = read_functions(files, host, files.beside(host, MOST_TEXT))
    given: dict[str, Fields] = {each["routine"]: each for each in stated["routines"]}
    called, routines, budget = dict[str, list[Range | int]](), list[Fields](), Budget()
    for number, routine in enumerate(program.routines):
        if (found := networks.get(routine.name)) is None:
            raise UnprovenError(f"no routine {routine.name}")
        network = _with_names(found, routine, program.inputs)
        calls = [n for n, c in enumerate(program.commands) if isinstance(c, Host) and c.routine == number]
        try:
            fields = network_fields(network, given.get(routine.name, {"operations": ()}), budget)
        except UnprovenError as error:
            raise UnprovenError(f"routine {routine.name}: {error}") from None
        routines.append({"routine": routine.name, "commands": calls, "types": types_of(network), **fields})
        called[routine.name] = _returned(network)
    return {
        "device": program.device["name"],
        "constants": _segments(program),
        "routines": routines,
        "commands": [_command(index, each) for index, each in follow(program, called).items()],
    }


def _with_names(network: Network, routine: Routine, inputs: Sequence[Port]) -> Network:
    """A routine whose arguments have the names of the program; floats have those of the network's inputs."""
    names = {(port.area.memory, port.area.start): port.name for port in inputs}
    if len(network.arguments) != len(routine.inputs):
        raise UnprovenError(f"routine {routine.name} with {len(network.arguments)} arguments")
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
        fields["accumulators"] = sums_fields(found.sums)
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
