"""A bundle for an accelerator in C: the network's tables for the runtime, the functions that programs call, the model.

`NAME_weights` holds three parts behind one another: the words of the program, the constants in the device's memories,
and the weights of what the host computes. `NAME.c` has tables of places in memories, and calls the runtime
(`qmlir_npu.c`). `NAME_model.c` is a device in software: memories, and hooks that execute each command on the processor.
A program for hardware leaves it out, and gives `NAME_init` hooks and memories of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qmlir.cli.bundle import comment, requirements
from qmlir.cli.embedded.header import port_lines, state_functions, whole_header
from qmlir.cli.embedded.plan import Plan, aligned
from qmlir.ir.arena import CACHE_LINE

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.npu.firmware import Extent
    from qmlir.backends.npu.stream import Port, Program, Routine, Segment
    from qmlir.devices import Device
    from qmlir.numerics import Array


@dataclass(frozen=True)
class Firmware:
    """A network on a device, beside the plan of its bundle.

    program  the program
    device   the device
    host     the code of the host's routines, an entry for each; None if the host computes nothing
    """

    program: "Program"
    device: "Device"
    host: "Executable | None"

    @cached_property
    def words(self) -> "Array":
        """The words of the program as a firmware counts waits, uint32."""
        from qmlir.backends.npu.firmware import numbered
        from qmlir.isa.commands import encode

        return np.array(encode(numbered(self.program.commands)), "<u4")

    @cached_property
    def images(self) -> "Sequence[Segment]":
        """The constants in memories."""
        from qmlir.backends.npu.firmware import images

        return images(self.program)

    @cached_property
    def memories(self) -> "Sequence[Extent]":
        """The bytes of each memory that the program needs."""
        from qmlir.backends.npu.firmware import extents

        return extents(self.program, self.device)

    @cached_property
    def offsets(self) -> Sequence[int]:
        """The places of the parts of the weights: of the program, of each image, of the host's weights, and the end."""
        sizes = [self.words.nbytes, *(len(image.data) for image in self.images)]
        sizes.append(0 if self.host is None else self.host.weights.nbytes)
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + aligned(size))
        return ends

    @property
    def weights(self) -> "Array":
        """The weights, uint8: program, constants, and the weights of the host's routines."""
        found = np.zeros(self.offsets[-1], np.uint8)
        parts = [self.words.tobytes(), *(image.data for image in self.images)]
        parts.append(b"" if self.host is None else self.host.weights.tobytes())
        for offset, part in zip(self.offsets, parts, strict=False):
            found[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
        return found

    @property
    def arena(self) -> int:
        """The bytes of scratch memory of the host's routines."""
        return 0 if self.host is None else self.host.arena_size


def routine_symbol(plan: Plan, number: int) -> str:
    """Returns the function in the object that computes a routine of the host."""
    return f"{plan.name}_host{number}"


# ---------------------------------------------------------------------------------------------------------------
# The header


def device_header(plan: Plan, firmware: Firmware, stack: int | None) -> str:
    """Returns the header of a bundle for a device.

    Args:
        plan: The bundle.
        firmware: The network on the device.
        stack: The most bytes of stack that a call takes beside hooks; None if not known.
    """
    from qmlir.backends.npu.firmware import MODEL_STACK

    macro, device = plan.macro, firmware.device
    about = f"{plan.name}: a network compiled for {comment(device.name)} and the processor that controls it."
    stack_line = [f"#define {macro}_STACK_SIZE {stack}  /* the most bytes of stack that a call takes beside hooks */"]
    host = requirements(firmware.host, macro, plan.name) if firmware.host is not None else []
    macros = [
        f"#define {macro}_ALIGNMENT {CACHE_LINE}  /* of weights and arena */",
        f"#define {macro}_WEIGHTS_SIZE {firmware.offsets[-1]}  /* the program, and all constants */",
        f"#define {macro}_ARENA_SIZE {firmware.arena}  /* scratch memory of what the processor computes */",
        *(stack_line if stack is not None else []),
        f"#define {macro}_MODEL_STACK_SIZE {MODEL_STACK}  /* the most that the model's hooks take */",
        *host,
        *([f"#define {macro}_STATE_BYTES {plan.state_size}  /* states; manifest.json has their places */"]
          if plan.block else []),
        f"#define {macro}_COMMANDS {len(firmware.program.commands)}",
        f"#define {macro}_LAYERS {len(firmware.program.layers)}",
        f"#define {macro}_DMA_QUEUES {_dma_queues(device):#x}  /* the queues that move bytes, a bit for each number */",
        "",
        f"/* Bytes of each memory of {comment(device.name)} that the program needs, from the memory's first one on. */",
        f"#define {macro}_MEMORIES {len(firmware.memories)}",
        *(line for number, _ in enumerate(firmware.memories) for line in _memory_macros(macro, number, firmware)),
    ]  # fmt: skip
    ports = [line for port in plan.first.ports for line in port_lines(plan, port)]
    return whole_header(plan, about, ['#include "qmlir_npu.h"'], macros, ports, _declarations(plan))


def _dma_queues(device: "Device") -> int:
    """The queues of a device whose engine is DMA, a bit for the number of each."""
    return sum(1 << number for number, queue in enumerate(device.queue) if queue.engine == "dma")


def _memory_macros(macro: str, number: int, firmware: Firmware) -> Iterator[str]:
    """The size of a memory, how many of its bytes are constants, and where these are if nothing else is in it."""
    memory = firmware.memories[number]
    kind = "read-only, outside" if memory.read_only else "outside" if memory.external else "inside"
    yield (
        f"#define {macro}_MEMORY{number}_SIZE {memory.bytes}  /* {comment(memory.name)}, {kind}; "
        f"{memory.constants} of constants; at a multiple of {memory.align} */"
    )
    if (offset := _contents(firmware, number)) is not None:
        yield f"#define {macro}_MEMORY{number}_OFFSET {offset}  /* the place of its contents in the weights */"


def _contents(firmware: Firmware, number: int) -> int | None:
    """The place among the weights of all that a read-only memory holds, if it lies there as in the memory; else None.

    A device reads such a memory where the weights are.
    """
    parts = zip(firmware.images, firmware.offsets[1:], strict=False)
    found = [(image, offset) for image, offset in parts if image.place.memory == number]
    if not firmware.memories[number].read_only or len(found) != 1 or found[0][0].place.address:
        return None
    return found[0][1]


def _init(plan: Plan) -> str:
    """The arguments of the function that prepares the device."""
    own = "struct qmlir_npu *npu, " if plan.api == "dynamic" else ""
    weights = "const uint8_t *weights, " if plan.passes_weights else ""
    return f"{own}{weights}uint8_t *const *memories,\n    const struct qmlir_npu_hooks *hooks, void *board"


def _run(plan: Plan) -> str:
    """The function that calls the network, with its arguments."""
    call = plan.first
    if plan.api == "static":
        given = [f"const {port.type} *{port.argument}" for port in call.inputs]
        given += [f"{port.type} *{port.argument}" for port in call.outputs]
        return f"int {plan.called(call)}({', '.join(given) or 'void'})"
    state = "uint8_t *state, " if plan.block else ""
    return (
        f"int {plan.called(call)}(struct qmlir_npu *npu, uint8_t *arena, {state}const void *const *inputs,\n"
        "    void *const *outputs)"
    )


def _declarations(plan: Plan) -> list[str]:
    """The declarations of the functions, and of what they take."""
    name, macro, static = plan.name, plan.macro, plan.api == "static"
    weights = ["/* The weights. */", f"extern const uint8_t {name}_weights[];", ""] if plan.weights != "file" else []
    own = [
        f"/* The device of {plan.called(plan.first)}; `command` is the number of the command that failed. */",
        f"extern struct qmlir_npu {name}_npu;",
        "",
    ]
    memory = f"The arena has {macro}_ARENA_SIZE bytes"
    if plan.block:
        memory += f", the states {macro}_STATE_BYTES, which {name}_reset prepares"
    given = [
        f"   {memory};",
        f"   both start on a multiple of {macro}_ALIGNMENT. Tables have pointers in the order of this file. */",
    ]
    about = "/* Computes the outputs from the inputs."
    return [
        *weights,
        "/* Copies the constants into the memories, which it gets by their numbers. Hooks work the device.",
        f"   {name}_model_memories, {name}_model_hooks and, as the board, {name}_model are a device in software.",
        "   Functions that return int return 0, a code of qmlir_npu.h or that of a hook. */",
        f"int {name}_init({_init(plan)});",
        "",
        *(own if static else []),
        *([f"{about} One call runs at a time. */"] if static else [about, *given]),
        f"{_run(plan)};",
        "",
        *(state_functions(plan) if plan.block else []),
        "/* Names of layers, by the numbers that the hook `layer` gets. */",
        f"extern const char *const {name}_layers[];",
        "",
        f"/* The network's tables, and the device in software of {name}_model.c. */",
        f"extern const struct qmlir_npu_network {name}_network;",
        f"extern uint8_t *const {name}_model_memories[];",
        f"extern const struct qmlir_npu_hooks {name}_model_hooks;",
        f"extern void *const {name}_model;",
    ]


# ---------------------------------------------------------------------------------------------------------------
# NAME.c: tables and functions


def network_text(plan: Plan, firmware: Firmware) -> str:
    """Returns the source of the network's tables and functions."""
    program = firmware.program
    offset_of_host = firmware.offsets[-2]
    states = [] if plan.block is None else list(zip(plan.block.states, plan.block.exported, strict=True))
    lines: list[str] = []
    for number, routine in enumerate(program.routines):
        lines += _routine(plan, number, routine, offset_of_host)
    if program.routines:
        entries = [
            f"{{host{n}, host{n}_tensors, {len(routine.inputs)}, {len(routine.outputs)}}},"
            for n, routine in enumerate(program.routines)
        ]
        lines += _table("struct qmlir_npu_routine", "routines", entries)
    images = [
        f"{{{image.place.memory}, {image.place.address}, {len(image.data)}, {offset}}},"
        for image, offset in zip(firmware.images, firmware.offsets[1:], strict=False)
    ]
    before, after = ({state.places[side]: offset for state, offset in states} for side in (0, 1))
    tables = {
        "images": ("struct qmlir_npu_image", images),
        "inputs_of": ("struct qmlir_npu_tensor", _tensors(program.inputs, before)),
        "outputs_of": ("struct qmlir_npu_tensor", _tensors(program.outputs, after)),
    }
    for table, (kind, entries) in tables.items():
        lines += _table(kind, table, entries) if entries else []
    rows = {table: f"{table if entries else '0'}, {len(entries)}" for table, (_, entries) in tables.items()}
    routines = f"{'routines' if program.routines else '0'}, {len(program.routines)}"
    return "\n".join(
        [
            f"/* {plan.name}: tables of the network for the runtime, and the functions of {plan.name}.h. */",
            f'#include "{plan.name}.h"',
            "",
            "#if QMLIR_NPU_VERSION != 1",
            "#error The runtime qmlir_npu.h is of another version.",
            "#endif",
            "",
            *lines,
            f"const struct qmlir_npu_network {plan.name}_network = {{",
            f"  {firmware.offsets[0]}, {len(firmware.words)}, {rows['images']}, {routines}, {rows['inputs_of']},",
            f"  {rows['outputs_of']}}};",
            "",
            f"const char *const {plan.name}_layers[] = {{",
            *(f'  "{comment(layer)}",' for layer in program.layers),
            "  0};",
            "",
            *_functions(plan, firmware),
            "",
        ]
    )


def _table(kind: str, name: str, entries: Sequence[str]) -> list[str]:
    return [f"static const {kind} {name}[] = {{", *(f"  {entry}" for entry in entries), "};", ""]


def _tensors(ports: "Sequence[Port]", states: Mapping[int, int]) -> list[str]:
    """The entries of tensors in memories; `states` has the places of those that are states."""
    return [
        f"{{{port.place.memory}, {port.place.address}, {port.block.bytes}, {states.get(n, 'QMLIR_NPU_NONE')}}},"
        for n, port in enumerate(ports)
    ]


def _routine(plan: Plan, number: int, routine: "Routine", weights: int) -> list[str]:
    """The function that calls a routine on tensors in memories, and the table of these."""
    symbol = routine_symbol(plan, number)
    places = [
        [f"qmlir_npu_at(npu, {port.place.memory}, {port.place.address})" for port in ports] or ["0"]
        for ports in (routine.inputs, routine.outputs)
    ]
    return [
        f"/* {comment(routine.name)} */",
        f"void {symbol}(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);",
        "",
        f"static void host{number}(struct qmlir_npu *npu) {{",
        f"  const void *in[{len(places[0])}];",
        f"  void *out[{len(places[1])}];",
        *(f"  in[{n}] = {place};" for n, place in enumerate(places[0])),
        *(f"  out[{n}] = {place};" for n, place in enumerate(places[1])),
        f"  {symbol}(npu->weights + {weights}, npu->arena, in, out);",
        "}",
        "",
        *_table("struct qmlir_npu_tensor", f"host{number}_tensors", _tensors((*routine.inputs, *routine.outputs), {})),
    ]


def _functions(plan: Plan, firmware: Firmware) -> list[str]:
    """The functions of the header."""
    name, macro, static = plan.name, plan.macro, plan.api == "static"
    weights = "weights" if plan.passes_weights else f"{name}_weights"
    npu = f"&{name}_npu" if static else "npu"
    lines: list[str] = []
    if static:
        lines += [f"struct qmlir_npu {name}_npu;", ""]
        lines += [f"{macro}_ALIGNED static uint8_t arena[{macro}_ARENA_SIZE + 1];"]
        lines += _first_states(plan)
        lines.append("")
    lines += [
        f"int {name}_init({_init(plan)}) {{",
        f"  return qmlir_npu_init({npu}, &{name}_network, {weights}, memories, hooks, board);",
        "}",
        "",
        f"{_run(plan)} {{",
    ]
    state = "state" if plan.block else "0"
    if static:
        inputs, outputs = ([port.argument for port in ports] for ports in (plan.first.inputs, plan.first.outputs))
        lines += [
            f"  const void *in[{max(len(inputs), 1)}];",
            f"  void *out[{max(len(outputs), 1)}];",
            *(f"  in[{n}] = {argument};" for n, argument in enumerate(inputs or ["0"])),
            *(f"  out[{n}] = {argument};" for n, argument in enumerate(outputs or ["0"])),
            f"  return qmlir_npu_run({npu}, arena, {state}, in, out);",
        ]
    else:
        lines.append(f"  return qmlir_npu_run(npu, arena, {state}, inputs, outputs);")
    return [*lines, "}", *(_state_texts(plan) if plan.block else [])]


def _reset_bytes(plan: Plan) -> bytes:
    """The states before the first call."""
    return b"" if plan.block is None else b"".join(state.reset.tobytes() for state in plan.block.states)


def _numbers(data: bytes, per_line: int = 24) -> list[str]:
    return [f"  {','.join(map(str, data[i : i + per_line]))}," for i in range(0, len(data), per_line)]


def _first_states(plan: Plan) -> list[str]:
    """The states of a static bundle."""
    if plan.block is None:
        return []
    data = _reset_bytes(plan)
    declared = f"{plan.macro}_ALIGNED static uint8_t state[{plan.macro}_STATE_BYTES]"
    return [f"{declared} = {{", *_numbers(data), "};"] if any(data) else [f"{declared};"]


def _state_texts(plan: Plan) -> list[str]:
    """The functions that reset, export and import states."""
    name, macro, static = plan.name, plan.macro, plan.api == "static"
    own, none = ("", "void") if static else ("uint8_t *state, ", "uint8_t *state")
    data = _reset_bytes(plan)
    size = f"{macro}_STATE_BYTES"
    if any(data):
        values = [f"static const uint8_t first[{size}] = {{", *_numbers(data), "};", ""]
        reset = [f"  qmlir_npu_bytes(state, first, {size});"]
    else:
        values = []
        reset = ["  volatile uint8_t *at = state;", "  uint32_t i;", f"  for (i = 0; i < {size}; ++i) at[i] = 0;"]
    return [
        "",
        *values,
        f"void {name}_reset({none}) {{",
        *reset,
        "}",
        "",
        f"void {name}_export_state({own}uint8_t *bytes) {{ qmlir_npu_bytes(bytes, state, {size}); }}",
        "",
        f"void {name}_import_state({own}const uint8_t *bytes) {{ qmlir_npu_bytes(state, bytes, {size}); }}",
    ]


# ---------------------------------------------------------------------------------------------------------------
# NAME_model.c: a device in software


def model_text(plan: Plan, firmware: Firmware, sources: Mapping[str, str]) -> str:
    """Returns the source of the device in software.

    Args:
        plan: The bundle.
        firmware: The network on the device.
        sources: The model's files in C, the headers among them, by their names.
    """
    name, macro = plan.name, plan.macro
    memories, places = list[str](), list[str]()
    for number, memory in enumerate(firmware.memories):
        held = None if plan.weights == "file" else _contents(firmware, number)
        if not memory.bytes:
            places.append("0")
        elif held is not None:
            places.append(f"(uint8_t *)({name}_weights + {macro}_MEMORY{number}_OFFSET)")
        else:
            memories.append(f"{macro}_ALIGNED static uint8_t memory{number}[{macro}_MEMORY{number}_SIZE];")
            places.append(f"memory{number}")
    return "\n".join(
        [
            f"/* A device in software for {name}: its memories, and hooks that execute each command at once. */",
            f'#include "{name}.h"',
            "",
            f"#define qmlir_npu_model {name}_npu_model",
            "",
            *(line for text in _in_order(sources) for line in _without_includes(text, sources)),
            "",
            *memories,
            "",
            f"uint8_t *const {name}_model_memories[] = {{{', '.join(places)}}};",
            "",
            f"static struct qmlir_npu_device device = {{{name}_model_memories, {{0}}}};",
            f"void *const {name}_model = &device;",
            "",
            "static int execute(struct qmlir_npu *npu, uint32_t queue, const uint32_t *words, uint32_t count,",
            "                   uint32_t commands) {",
            "  uint32_t at;",
            "  int error;",
            "  (void)queue;",
            "  (void)commands;",
            "  for (at = 0; at < count; at += words[at] >> 8 & 0xff, ++npu->command)",
            "    if ((error = qmlir_npu_model((struct qmlir_npu_device *)npu->board, words + at)) != 0) return error;",
            "  return 0;",
            "}",
            "",
            f"const struct qmlir_npu_hooks {name}_model_hooks = {{execute, 0, 0, 0, 0, 0, 0, 0, 0}};",
            "",
        ]
    )


def _in_order(sources: Mapping[str, str]) -> Iterator[str]:
    """Yields the texts of headers, then those of the other files."""
    for header in (True, False):
        yield from (text for name, text in sources.items() if name.endswith(".h") == header)


def _without_includes(text: str, sources: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of a text but those that include another of the files."""
    own = {f'#include "{name}"' for name in sources}
    yield from (line for line in text.splitlines() if line.strip() not in own)


def manifest_part(firmware: Firmware) -> dict[str, Any]:
    """Returns what the manifest says of the device and of its memories."""
    return {
        "name": firmware.device.name,
        "commands": len(firmware.program.commands),
        "layers": list(firmware.program.layers),
        "routines": [routine.name for routine in firmware.program.routines],
        "memories": [
            {
                "name": memory.name,
                "bytes": memory.bytes,
                "constants": memory.constants,
                "align": memory.align,
                "external": memory.external,
                "read_only": memory.read_only,
            }
            for memory in firmware.memories
        ],
    }
