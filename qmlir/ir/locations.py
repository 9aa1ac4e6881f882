"""Locations of the source model: which node of which file an operation comes from, as MLIR's `loc`.

    loc("conv1"("net.onnx":12:0))                                     the twelfth node of a file, called conv1
    loc(fused["conv1"("net.onnx":12:0), "relu1"("net.onnx":13:0)])     an operation that stands for two nodes
    loc("conv1.weight")                                               a constant of the file

An importer gives each operation the location of its node. `replace` (rewriting.py) passes locations on as it passes on
names, lowerings give a call of a kernel the location of its layer, and the CPU's back end makes debug lines of them.
Operations of MLIR text have the place of their text instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

from qmlir.ir.names import names_of

UNKNOWN = UnknownLoc()

MOST_PARTS = 16
"""The most locations in a fused location: an operation may stand for a thousand nodes, and others for it."""


@dataclass(frozen=True)
class Place:
    """Where an operation comes from.

    name  the name of the node, or of the nodes that the operation stands for; empty if unknown
    file  the name of the file
    line  the number of the first node in the file, or the line of the text, from 1 on; 0 if unknown
    """

    name: str
    file: str
    line: int


def node_location(name: str, file: str, number: int) -> NameLoc:
    """Returns the location of a node of a model file, which is its `number`th node, counted from 1; 0 is unknown."""
    return NameLoc(StringAttr(name), FileLineColLoc(StringAttr(Path(file).name), IntAttr(number), IntAttr(0)))


def tensor_location(name: str) -> NameLoc:
    """Returns the location of what stands for a tensor of the model and for no node, such as a constant."""
    return NameLoc(StringAttr(name), NoneAttr())


def locate(operations: Iterable[Operation], location: Attribute) -> None:
    """Gives a location to operations that have none."""
    for op in operations:
        if op.location == UNKNOWN:
            op.location = cast(Any, location)


def inherit(news: Iterable[Operation], olds: Iterable[Operation]) -> None:
    """Gives operations without a location the locations of the operations that they replace."""
    locate(news, _fused(map(named_location, olds)))


def join(op: Operation, olds: Iterable[Operation]) -> None:
    """Adds the locations of operations that an operation replaces to its own."""
    if olds := [*olds]:
        op.location = _fused(map(named_location, (op, *olds)))


def named_location(op: Operation) -> Any:
    """Returns the location of an operation; a place in a text with the operation's name in the source model."""
    names = names_of(op)
    if isinstance(op.location, FileLineColLoc) and names.data:
        name = "+".join(names.nodes) or next(filter(None, names.tensors), "")
        return NameLoc(StringAttr(name), op.location) if name else op.location
    return op.location


def _fused(locations: Iterable[Attribute]) -> Any:
    """One location for several: the first parts of them all."""
    parts = list(dict.fromkeys(part for location in locations for part in _parts(location)))[:MOST_PARTS]
    return FusedLoc(tuple(parts), NoneAttr()) if len(parts) > 1 else parts[0] if parts else UNKNOWN


def _parts(location: Attribute) -> Iterator[Attribute]:
    """Yields the locations that a fused location joins; any other known location is a part itself."""
    if isinstance(location, FusedLoc):
        yield from cast("ArrayAttr[Attribute]", location.locations)
    elif location != UNKNOWN:
        yield location


def place_of(location: Attribute) -> Place | None:
    """Returns where an operation with a location comes from; None if nothing is known."""
    names: dict[str, None] = {}
    first: FileLineColLoc | None = None
    for part in _parts(location):
        while isinstance(part, NameLoc):
            names[part.desc.data] = None
            part = part.location
        if isinstance(part, FileLineColLoc) and first is None:
            first = part
    if first is None and not names:
        return None
    file, line = ("", 0) if first is None else (first.filename.data, first.line.data)
    return Place("+".join(names), file, line)
