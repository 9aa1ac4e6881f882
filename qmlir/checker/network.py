"""An artefact as plain Python data: operations in order, with their properties as integers, texts and lists."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.dialects.quant.types import UniformType
from qmlir.ir.source import read_mlir
from qmlir.ir.verify import verify
from qmlir.ir.weights import WeightsAttr


@dataclass(frozen=True)
class Constant:
    """Constant data: its elements in row-major order, its shape, and the hash of its bytes.

    Signed bytes, of which weights have millions, stay a memoryview; all else is a list.
    """

    values: Sequence[Any]
    shape: tuple[int, ...]
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
    """An operation: its operands are numbers of values, and so are its results."""

    index: int
    kind: str
    properties: dict[str, Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]

    def number(self, name: str, default: int = 0) -> int:
        """An integer property."""
        return int(self.properties.get(name, default))


@dataclass(frozen=True)
class Network:
    """A function: its values by number, those that are arguments, and its operations in order."""

    values: dict[int, Value]
    arguments: tuple[int, ...]
    nodes: tuple[Node, ...]
    floats: tuple[str, ...]


def read_network(path: Path) -> Network:
    """Reads an artefact.

    Raises:
        QmlirError: The file is no MLIR text, or does not verify.
    """
    module = read_mlir(path)
    verify(module)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    others = [op for op in module.body.block.ops if op not in functions]
    return _Reader().read(functions, others)


def read_routines(path: Path) -> dict[str, Network]:
    """Reads the functions that a host runs for a device, by name.

    Raises:
        QmlirError: The file is no MLIR text, or does not verify.
    """
    module = read_mlir(path)
    verify(module)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    return {op.sym_name.data: _Reader().read([op], []) for op in functions}


class _Reader:
    """Numbers the values of a function."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}
        self.values: dict[int, Value] = {}

    def read(self, functions: Sequence[FuncOp], others: Sequence[Operation]) -> Network:
        strange = [f"{op.name} beside the network's function" for op in (*functions[1:], *others)]
        if not functions:
            return Network({}, (), (), ("no function",))
        body = functions[0].body
        if len(body.blocks) != 1:
            strange.append("a function of several blocks")
        block: Block = body.blocks[0]
        arguments = tuple(map(self._number, block.args))
        nodes = tuple(self._node(index, op) for index, op in enumerate(block.ops))
        strange += [f"{op.name} with operations inside" for op in block.ops if op.regions]
        return Network(self.values, arguments, nodes, tuple(strange))

    def _node(self, index: int, op: Operation) -> Node:
        operands = tuple(map(self._number, op.operands))
        properties = {name: _plain(value) for name, value in op.properties.items()}
        return Node(index, op.name, properties, operands, tuple(map(self._number, op.results)))

    def _number(self, value: SSAValue) -> int:
        if value not in self.numbers:
            self.numbers[value] = len(self.numbers)
            self.values[self.numbers[value]] = _value(value.type)
        return self.numbers[value]


def _value(type: Attribute) -> Value:
    shape: tuple[int, ...] = ()
    element = type
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        shape, element = tuple(tensor.get_shape()), tensor.element_type
    bits, stored, signed = 0, None, True
    if isinstance(element, IntegerType):
        bits = int(cast("IntegerType", element).width.data)
    elif isinstance(element, UniformType):
        bits, signed = element.storage_width, element.is_signed
        stored = (element.storage_min, element.storage_max)
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


def _constant(attribute: WeightsAttr) -> Constant:
    array = attribute.array
    stored = array.astype(array.dtype.newbyteorder("<")).tobytes()
    values = memoryview(stored).cast("b") if str(array.dtype) == "int8" else array.reshape(-1).tolist()
    return Constant(values, tuple(array.shape), hashlib.sha256(stored).hexdigest())
