"""An artefact as plain Python data: operations in order, with their properties as integers, texts and lists."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.checker.reading import MOST_WEIGHTS, NEED, read_beside, read_plain
from qmlir.checker.unproven import UnprovenError
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, printable
from qmlir.ir.context import make_context
from qmlir.ir.facts import DECISION, NAME
from qmlir.ir.names import names_of
from qmlir.ir.side_file import SideFile, array_in, read_side_file
from qmlir.ir.source import parse_text
from qmlir.ir.verify import verify
from qmlir.ir.weights import WeightsAttr

MOST_CONSTANTS = 2048 << 20
"""The most bytes of all constants of a module together."""

MOST_ELEMENTS, MOST_POWER = 1 << 40, 127
"""The most elements of a tensor, and the largest power of two that a property may state."""

POWERS = ("shift", "shifts", "left", "fraction", "integer_bits", "bits")
"""The properties that are powers of two."""


@dataclass(frozen=True)
class Constant:
    """Constant data: its elements in row-major order, its shape, and the hash of its bytes.

    Integers stay as the bytes that they are stored in, of which weights have millions; floats have no elements here.
    """

    values: Sequence[Any]
    shape: tuple[int, ...]
    element: str
    sha256: str


@dataclass(frozen=True)
class Value:
    """A tensor.

    element  its element type as text
    bits     the width of its stored integers; 0 if it holds no integers
    stored   the range of its quantized type; None if its type is of plain integers or floats
    signed   whether its quantized type is signed
    float    whether it holds floats
    """

    element: str
    shape: tuple[int, ...]
    bits: int
    stored: tuple[int, int] | None
    signed: bool
    float: bool


@dataclass(frozen=True)
class Node:
    """An operation: its operands are numbers of values, and so are its results.

    name    the name of its nodes in the model, else that of its first result's tensor, else its kind
    tensor  the name of its first result's tensor, or ""
    why     why the quantizer left it in floats, or ""
    """

    index: int
    kind: str
    properties: dict[str, Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    name: str
    tensor: str
    why: str

    def number(self, name: str, default: int = 0) -> int:
        """An integer property."""
        return int(self.properties.get(name, default))

    @property
    def called(self) -> str:
        """The operation in words."""
        return f'{self.kind} "{self.name}"'


@dataclass(frozen=True)
class Network:
    """A function: its values by number, the names of those that are arguments, and its operations in order.

    strange  what a network's function does not have
    """

    name: str
    values: Mapping[int, Value]
    arguments: Mapping[int, str]
    nodes: tuple[Node, ...]
    strange: tuple[str, ...]

    @cached_property
    def makers(self) -> Mapping[int, Node]:
        """Value → the operation that makes it."""
        return {number: node for node in self.nodes for number in node.results}

    @cached_property
    def readers(self) -> Mapping[int, Sequence[Node]]:
        """Value → the operations that read it, an operation as often as it does."""
        found: dict[int, list[Node]] = {number: [] for number in self.values}
        for node in self.nodes:
            for number in node.operands:
                found[number].append(node)
        return found


@dataclass
class Files:
    """The files of an artefact, each read once: what is hashed is what is parsed.

    folder  where they lie
    stated  name → hash of each file that the certificate lists; None to read files for a certificate of one's own,
            whose sizes have no bounds then
    hashes  name → hash of each file that was read, in order
    """

    folder: Path
    stated: Mapping[str, str] | None
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    _side: dict[str, SideFile] = field(default_factory=dict[str, SideFile])
    _constants: int = 0

    def given(self, path: Path, most: int) -> bytes:
        """Reads a file that the user names."""
        return self._hashed(path.name, read_plain(path, *self._bounds(most)))

    def beside(self, name: str, most: int) -> bytes:
        """Reads another file of the folder."""
        return self._hashed(name, read_beside(self.folder, name, *self._bounds(most)))

    def _bounds(self, most: int) -> tuple[int, str]:
        return (sys.maxsize, NEED) if self.stated is None else (most, "must be the artefact of the certificate")

    def _hashed(self, name: str, data: bytes) -> bytes:
        self.hashes[name] = hashlib.sha256(data).hexdigest()
        if self.stated is None:
            return data
        if name not in self.stated:
            raise UnprovenError(f'a file "{name}", which the certificate does not list')
        if self.hashes[name] != self.stated[name]:
            raise UnprovenError(f"another hash of {name}")
        return data

    def fields(self) -> list[dict[str, str]]:
        """The field `artefact`."""
        return [{"file": name, "sha256": sha256} for name, sha256 in self.hashes.items()]

    def array(self, name: str, key: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Reads an array of a side file, for the parser."""
        if name not in self._side:
            self._side[name] = read_side_file(self.beside(name, MOST_WEIGHTS), self.folder / name)
        self._constants += prod(shape) * dtype.itemsize
        if self._constants > MOST_CONSTANTS:
            raise FileError(self.folder / name, f"must hold constants of at most {MOST_CONSTANTS} bytes", got="more")
        return array_in(self._side[name], self.folder / name, key, dtype, shape)


def read_module(files: Files, name: str, text: bytes) -> ModuleOp:
    """Reads and verifies a module.

    Args:
        files: The files of the artefact, among which are the module's side files.
        name: The module's file.
        text: Its content.

    Raises:
        QmlirError: The text is no MLIR, or does not verify.
    """
    context = make_context()
    context.read_weights = files.array
    try:
        module = parse_text(context, text.decode(), str(files.folder / name))
    except UnicodeDecodeError:
        raise FileError(files.folder / name, "must be MLIR text", got="bytes that are not UTF-8") from None
    verify(module)
    return module


def functions_of(module: ModuleOp) -> Mapping[str, Network]:
    """The functions of a verified module by name."""
    return {op.sym_name.data: _Reader().read(op) for op in _functions(module)[0]}


def _functions(module: ModuleOp) -> tuple[list[FuncOp], tuple[str, ...]]:
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    return functions, tuple(op.name for op in module.body.block.ops if op not in functions)


def network_of(module: ModuleOp) -> Network:
    """The network that a verified module is, which has to be its only function."""
    functions, others = _functions(module)
    if not functions:
        return Network("", {}, {}, (), ("no function",))
    network, *more = (_Reader().read(op) for op in functions)
    beside = [f"{each} beside the network's function" for each in (*("func.func" for _ in more), *others)]
    return replace(network, strange=(*network.strange, *beside))


def entries_of(module: ModuleOp) -> list[Network]:
    """The functions of a verified module in order, which has nothing beside them."""
    functions, others = _functions(module)
    if not functions:
        raise UnprovenError("no function", "must have functions").at("builtin.module", "entries")
    beside = tuple(f"{each} beside the network's functions" for each in others)
    return [replace(each, strange=(*each.strange, *beside)) for each in (_Reader().read(op) for op in functions)]


class _Reader:
    """Numbers the values of a function."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}
        self.values: dict[int, Value] = {}

    def read(self, function: FuncOp) -> Network:
        try:
            return self._read(function)
        except UnprovenError as error:
            raise error.at(function.name, function.sym_name.data) from None

    def _read(self, function: FuncOp) -> Network:
        body = function.body
        strange = [] if len(body.blocks) == 1 else ["a function of several blocks"]
        block: Block = body.blocks[0]
        arguments = {self._number(each): _argument(function, each.index, each.name_hint) for each in block.args}
        nodes = tuple(self._node(index, op) for index, op in enumerate(block.ops))
        strange += [f"{op.name} with operations inside" for op in block.ops if op.regions]
        return Network(function.sym_name.data, self.values, arguments, nodes, tuple(strange))

    def _node(self, index: int, op: Operation) -> Node:
        operands = tuple(map(self._number, op.operands))
        properties = {name: _plain(value) for name, value in op.properties.items()}
        for name in POWERS:
            _require_small(properties.get(name), f"{name} of {op.name}")
        names, decision = names_of(op), DECISION.of(op)
        tensor = next(iter(names.tensors), "") if op.results else ""
        why = decision.reason.data if decision is not None and decision.outcome.data == "float" else ""
        results = tuple(map(self._number, op.results))
        return Node(
            index, op.name, properties, operands, results, "+".join(names.nodes) or tensor or op.name, tensor, why
        )

    def _number(self, value: SSAValue) -> int:
        if value not in self.numbers:
            self.numbers[value] = len(self.numbers)
            self.values[self.numbers[value]] = _value(value.type)
        return self.numbers[value]


def _argument(function: FuncOp, index: int, hint: str | None) -> str:
    """The name of an argument: that of its tensor in the model, else that in the text."""
    name = None if function.arg_attrs is None else NAME.among(function.arg_attrs.data[index].data)
    return next(iter(() if name is None else name.tensors), "") or hint or ""


def _require_small(powers: Any, where: str) -> None:
    for each in powers if isinstance(powers, list) else [powers]:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(each, int) and abs(each) > MOST_POWER:
            raise UnprovenError(f"{each}", f"must have powers of two up to {MOST_POWER} as {where}")


def _value(type: Attribute) -> Value:
    shape: tuple[int, ...] = ()
    element = type
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        shape, element = tuple(tensor.get_shape()), tensor.element_type
    if any(size < 0 for size in shape) or prod(shape) > MOST_ELEMENTS:
        got = f"a tensor of shape {printable(str(list(shape)))}"
        raise UnprovenError(got, "must have tensors of known sizes that fit into memories")
    bits, stored, signed = 0, None, True
    if isinstance(element, IntegerType):
        bits = int(cast("IntegerType", element).width.data)
    elif isinstance(element, UniformType):
        bits, signed = element.storage_width, element.is_signed
        stored = (element.storage_min, element.storage_max)
    if bits > 64:
        raise UnprovenError(f"integers of {bits} bits")
    # Whatever is not known to be integers counts as floats.
    return Value(str(cast(Attribute, element)), shape, bits, stored, signed, float=bits == 0)


def _plain(attribute: Attribute) -> Any:
    match attribute:
        case IntegerAttr():
            return int(attribute.value.data)
        case FloatAttr():
            return float(attribute.value.data)
        case StringAttr():
            return attribute.data
        case DenseArrayBase():
            return list(cast("DenseArrayBase[IntegerType]", attribute).get_values())
        case ArrayAttr():
            return [_plain(each) for each in attribute.data]
        case WeightsAttr():
            return _constant(attribute)
        case _:
            return None


FORMATS = {
    **{f"int{8 * size}": letter for size, letter in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{f"uint{8 * size}": letter for size, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
    "bool": "?",
}
"""The name of an element type → the format in which Python reads it."""


def _constant(attribute: WeightsAttr) -> Constant:
    array = attribute.array
    little: Any = array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).view("u1")
    own: Any = array.reshape(-1).view("u1")
    letter = FORMATS.get(str(array.dtype))
    values: Sequence[Any] = ()
    if letter is not None and array.size:
        values = cast("Sequence[Any]", memoryview(own).cast(cast(Any, letter)))
    element = str(attribute.type.element_type)
    return Constant(values, tuple(array.shape), element, hashlib.sha256(little).hexdigest())
