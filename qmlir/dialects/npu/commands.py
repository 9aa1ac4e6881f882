"""Operations on buffers: the commands of a device, before and after buffers have addresses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from qmlir.errors import PipelineError, near_misses
from qmlir.ir.weights import WeightsAttr
from qmlir.isa.commands import MNEMONICS, Host
from qmlir.isa.encoding import WORD, Command, Place, Wait, field_kinds, mnemonic

# ---------------------------------------------------------------------------------------------------------------
# Commands on buffers: the instruction set (isa/commands.py) with SSA values instead of addresses.
#
#     %w = npu.buffer "wgt" 4096 {role = "weights"} : !npu.buffer
#     npu.issue "load" "move" source = %c[0] target = %w[0] size = 4096 … after "exec" 2
#
# A command field of kind `Place` names a buffer and a byte offset in it. The pass `npu-place` assigns addresses to the
# buffers, and the pass `npu-order` assigns waits to the commands. The commands in block order are a valid serial
# schedule.


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """The type of a buffer: a range of bytes in a memory of the device."""

    name = "npu.buffer"


@irdl_attr_definition
class PortAttr(ParametrizedAttribute):
    """Marks a buffer as a network input or output: `#npu.port<"input", 0, "x", [1, 28, 28, 1], "i8">`.

    A tensor between them has the direction "between".
    """

    name = "npu.port"
    direction: StringAttr
    index: IntegerAttr
    tensor: StringAttr
    shape: ArrayAttr[IntegerAttr]
    element: StringAttr


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A range of bytes in a memory of the device.

    memory    the memory's id in the device file
    bytes     the size of the buffer
    role      the kind of data, a role of the device file: `ifm`, `ofm`, `weights`, `acc`, `bias`, `scales`, `lut`
    tensor    the name of the network's tensor in the buffer, for reports; absent for a tile
    contents  the bytes in the buffer before the first command; absent if commands write the buffer
    port      present if the buffer is an input or an output of the network
    named     name, shape and type of the network's tensor in the buffer, for programs; absent without a name
    address   the byte address in the memory; absent until `npu-place` assigns it

    (C1) `contents` has the size of the buffer
    """

    name = "npu.buffer"
    memory = prop_def(StringAttr)
    bytes = prop_def(IntegerAttr)
    role = prop_def(StringAttr)
    tensor = opt_prop_def(StringAttr)
    contents = opt_prop_def(WeightsAttr)
    port = opt_prop_def(PortAttr)
    named = opt_prop_def(PortAttr)
    address = opt_prop_def(IntegerAttr)
    buffer = result_def(BufferType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$memory $bytes attr-dict `:` type($buffer)"

    def __init__(
        self,
        memory: str,
        size: int,
        role: str,
        *,
        tensor: str | None = None,
        contents: WeightsAttr | None = None,
        port: PortAttr | None = None,
        address: int | None = None,
    ):
        properties: dict[str, Attribute | None] = {
            "memory": StringAttr(memory),
            "bytes": IntegerAttr(size, i64),
            "role": StringAttr(role),
            "tensor": StringAttr(tensor) if tensor is not None else None,
            "contents": contents,
            "port": port,
            "address": IntegerAttr(address, i64) if address is not None else None,
        }
        super().__init__(result_types=[BufferType()], properties={k: v for k, v in properties.items() if v is not None})

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return self.bytes.value.data

    def verify_(self) -> None:
        if self.contents is not None and self.contents.array.nbytes != self.size:  # C1
            raise VerifyException(
                f"'{self.name}' of {self.size} bytes must hold as many, got {self.contents.array.nbytes}"
            )


@irdl_attr_definition
class CommandAttr(Data[Command]):
    """A command whose places number operands instead of memories: `Place(1, 64)` is byte 64 of the second operand.

    The queue and the waits are properties of the operation, not of this attribute.
    """

    name = "npu.command"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Command:
        with parser.in_angle_brackets():
            return parse_fields(parser, parser.parse_integer)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_fields(printer, self.data, lambda number: printer.print_string(str(number)))


@irdl_op_definition
class IssueOp(IRDLOperation):
    """Issues a command to a queue of the device.

    queue   the queue's id in the device file
    waits   queue → the number of its commands that must be finished before this command starts

    (C1) each place of the command refers to one of the operands
    """

    name = "npu.issue"
    buffers = var_operand_def(BufferType)
    queue = prop_def(StringAttr)
    command = prop_def(CommandAttr)
    waits = prop_def(DictionaryAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, queue: str, command: Command, buffers: Sequence[SSAValue], waits: dict[str, int] | None = None):
        super().__init__(
            operands=[list(buffers)],
            properties={
                "queue": StringAttr(queue),
                "command": CommandAttr(replace(command, queue=0, waits=())),
                "waits": waits_attribute(waits or {}),
            },
        )

    @property
    def waiting(self) -> dict[str, int]:
        """Queue → the number of its commands that must be finished before this command starts."""
        return {name: count.value.data for name, count in self.waits.data.items() if isinstance(count, IntegerAttr)}

    def verify_(self) -> None:
        for name, place in places(self.command.data):
            if place.memory >= len(self.buffers):  # C1
                raise VerifyException(f"'{self.name}' field {name} needs a buffer, got {len(self.buffers)} of them")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.queue.data)
        printer.print_string(" ")
        print_fields(printer, self.command.data, lambda number: printer.print_ssa_value(self.buffers[number]))
        if self.waits.data:
            printer.print_string(" after ")
            printer.print_string(", ".join(f'"{name}" {count}' for name, count in self.waiting.items()))

    @classmethod
    def parse(cls, parser: Parser) -> "IssueOp":
        queue = parser.parse_str_literal()
        buffers: list[SSAValue] = []

        def operand() -> int:
            value = parser.resolve_operand(parser.parse_unresolved_operand(), BufferType())
            if value not in buffers:
                buffers.append(value)
            return buffers.index(value)

        command = parse_fields(parser, operand)
        waits: dict[str, int] = {}
        if parser.parse_optional_keyword("after"):
            for name, count in parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _wait(parser)):
                waits[name] = count
        return cls(queue, command, buffers, waits)


@irdl_op_definition
class CallOp(IRDLOperation):
    """Issues the command that makes the host run a routine, which is a function of the module.

    inputs, outputs  the buffers of the routine's arguments and results, which are dense
    constants        the size in bytes of the constants that the routine reads
    work             the number of products and other operations on single elements that the routine computes
    waits            as for `npu.issue`
    """

    name = "npu.call"
    inputs = var_operand_def(BufferType)
    outputs = var_operand_def(BufferType)
    queue = prop_def(StringAttr)
    routine = prop_def(FlatSymbolRefAttrConstr)
    constants = prop_def(IntegerAttr)
    work = prop_def(IntegerAttr)
    waits = prop_def(DictionaryAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$queue $routine `(` $inputs `:` type($inputs) `)` `->` `(` $outputs `:` type($outputs) `)` attr-dict"
    )

    def __init__(
        self,
        queue: str,
        routine: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        constants: int,
        work: int,
    ):
        super().__init__(
            operands=[list(inputs), list(outputs)],
            properties={
                "queue": StringAttr(queue), "routine": SymbolRefAttr(routine), "constants": IntegerAttr(constants, i64),
                "work": IntegerAttr(work, i64), "waits": waits_attribute({}),
            },
        )  # fmt: skip


def waits_attribute(waits: dict[str, int]) -> DictionaryAttr:
    """Waits, queue → number of finished commands, as an attribute."""
    return DictionaryAttr({name: IntegerAttr(count, i64) for name, count in waits.items()})


def places(command: Command) -> list[tuple[str, Place]]:
    """The fields of a command that hold places, as (name, place)."""
    return [(n, getattr(command, n)) for n, kind in field_kinds(type(command)).items() if kind is Place]


def print_fields(printer: Printer, command: Command, print_buffer: Callable[[int], object]) -> None:
    """Prints a command as `"move" source = %a[64] size = 3 …`; a context that is not 0 comes first."""
    printer.print_string(f'"{mnemonic(type(command))}"')
    if command.ctx:
        printer.print_string(f" ctx = {command.ctx}")
    for name in field_kinds(type(command)):
        value = getattr(command, name)
        printer.print_string(f" {name} = ")
        if isinstance(value, Place):
            print_buffer(value.memory)
            printer.print_string(f"[{value.address}]")
        else:
            printer.print_string(value.name.lower() if isinstance(value, IntEnum) else str(value))


def parse_fields(parser: AttrParser, buffer_number: Callable[[], int]) -> Command:
    """Parses a command from the syntax that `print_fields` prints; `buffer_number` parses and numbers a buffer."""
    word = parser.parse_str_literal()
    if word not in MNEMONICS:
        parser.raise_error(f"there is no command {word}; known: {', '.join(MNEMONICS)}")
    kind = MNEMONICS[word]

    ctx = 0
    if parser.parse_optional_keyword("ctx"):
        parser.parse_punctuation("=")
        ctx = parser.parse_integer()
    values: dict[str, Any] = {}
    for name, field in field_kinds(kind).items():
        parser.parse_keyword(name)
        parser.parse_punctuation("=")
        if field is Place:
            at = buffer_number()
            parser.parse_punctuation("[")
            values[name] = Place(at, parser.parse_integer())
            parser.parse_punctuation("]")
        elif isinstance(field, type) and issubclass(field, IntEnum):
            member = parser.parse_identifier()
            known = {m.name.lower(): m for m in field}
            if member not in known:
                parser.raise_error(f"{name} must be one of {', '.join(known)}, got {member}")
            values[name] = known[member]
        else:
            values[name] = parser.parse_integer()
    return kind(0, (), ctx, **values)


def _wait(parser: Parser) -> tuple[str, int]:
    return parser.parse_str_literal(), parser.parse_integer()


# ---------------------------------------------------------------------------------------------------------------
# Translates placed buffers and ordered commands to the instruction set, which has numbers instead of names.


@dataclass(frozen=True)
class Numbers:
    """Numbers the names of a device and a module: the number of a name is its index in the sequence here.

    memories   the ids of the device's memories
    queues     the ids of the device's queues
    routines   the names of the module's functions that the host runs
    """

    memories: Sequence[str]
    queues: Sequence[str]
    routines: Sequence[str]

    def place(self, buffer: SSAValue) -> Place:
        """The memory and the address of a buffer.

        Raises:
            PipelineError: The buffer has no address yet.
        """
        owner = buffer.owner
        assert isinstance(owner, BufferOp)
        if owner.address is None:
            raise PipelineError(owner.name, "must have an address", got="none", remedy="run npu-place first")
        return Place(_number(self.memories, owner.memory.data, "memory"), owner.address.value.data)

    def command(self, step: IssueOp | CallOp) -> Command:
        """The ISA command of an operation, with its queue, waits and addresses.

        Raises:
            PipelineError: The operation names an unknown queue, memory or function, or a buffer without an address.
        """
        queue = _number(self.queues, step.queue.data, "queue")
        waits = tuple(
            Wait(_number(self.queues, name, "queue"), count.value.data)
            for name, count in step.waits.data.items()
            if isinstance(count, IntegerAttr)
        )
        if isinstance(step, CallOp):
            read, written = (sum(_size(buffer) for buffer in buffers) for buffers in (step.inputs, step.outputs))
            routine = _number(self.routines, step.routine.string_value(), "routine")
            constants, work = step.constants.value.data, min(step.work.value.data, WORD - 1)
            return Host(queue, waits, 0, routine, read, written, constants, work)
        command = step.command.data
        placed = {name: self._moved(place, step.buffers) for name, place in places(command)}
        return replace(command, queue=queue, waits=waits, **placed)

    def _moved(self, place: Place, buffers: Sequence[SSAValue]) -> Place:
        memory, address = self.place(buffers[place.memory])
        return Place(memory, address + place.address)


def _size(buffer: SSAValue) -> int:
    assert isinstance(buffer.owner, BufferOp)
    return buffer.owner.size


def _number(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise PipelineError("npu", f"must name a {what} that there is", got=name, remedy=near_misses(name, names))
    return names.index(name)
