"""What a bundle has for Gemmini itself: the network's commands, and functions in C that issue them.

`NAME_gemmini.c` holds the commands that the encoder `gemmini` wrote, the constants, and calls of what the processor
computes between layers. Rocket issues each command as an instruction of the custom opcode 3: with Spike's extension, in
a simulation of Chipyard, or on a chip. Elsewhere a program defines what a command does. The commands were written for
a memory that begins at byte `BASE`; the code moves the registers that hold addresses to where its memory lies.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qmlir.backends.hardware.gemmini.encoder import BASE
from qmlir.backends.hardware.gemmini.words import FIELDS, Function
from qmlir.cli.bundle import comment
from qmlir.cli.embedded.accelerator import Firmware, routine_symbol
from qmlir.cli.embedded.plan import Plan
from qmlir.cli.embedded.selftest import COMPARING
from qmlir.errors import OptionError

if TYPE_CHECKING:
    from qmlir.backends.layered import LayerProgram
    from qmlir.devices.model.layer import Tensor

ENCODER = "gemmini"
"""The encoder whose commands a bundle holds."""


def require_plain(plan: Plan) -> None:
    """Refuses bundles in which no function of Gemmini's own could stand beside those of the runtime.

    Raises:
        OptionError: The bundle has another form.
    """
    if plan.api != "static" or plan.passes_weights or plan.block is not None or len(plan.calls) > 1:
        need = "is for Gemmini's own commands in the static form, of networks of one entry without states"
        raise OptionError("--bundle", need, remedy="leave --api and --weights-in out, or leave the key encoder out")


def gemmini_files(plan: Plan, firmware: Firmware, layered: "LayerProgram") -> dict[str, bytes]:
    """The files of a bundle that are Gemmini's own, by their names."""
    return {
        f"{plan.name}_gemmini.h": _header(plan, layered).encode(),
        f"{plan.name}_gemmini.c": _source(plan, firmware, layered).encode(),
        "selftest_gemmini.c": _selftest(plan).encode(),
    }


def _prototype(plan: Plan) -> str:
    ports = [f"const {port.type} *{port.argument}" for port in plan.first.inputs]
    ports += [f"{port.type} *{port.argument}" for port in plan.first.outputs]
    return f"void {plan.name}_gemmini_run({', '.join(['uint8_t *memory', *ports])})"


def _header(plan: Plan, layered: "LayerProgram") -> str:
    name, guard = plan.name, f"QMLIR_{plan.macro}_GEMMINI_H"
    return f"""\
/* {name} in Gemmini's own commands. */
#ifndef {guard}
#define {guard}

#include "{name}.h"

#define {plan.macro}_GEMMINI_MEMORY_SIZE {layered.size}  /* bytes of tensors and constants */
#define {plan.macro}_GEMMINI_ALIGNMENT 64  /* of the memory */

#ifdef __cplusplus
extern "C" {{
#endif

/* Copies the constants into the memory, which Gemmini sees at the addresses of the processor. */
void {name}_gemmini_init(uint8_t *memory);

/* Computes the outputs from the inputs. One call runs at a time. */
{_prototype(plan)};

#ifndef __riscv
/* Does what a command says, where the processor has no Gemmini: the program defines it. */
void {name}_gemmini_issue(uint64_t function, uint64_t first, uint64_t second);
#endif

#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _source(plan: Plan, firmware: Firmware, layered: "LayerProgram") -> str:
    name = plan.name
    words = layered.words.all or [0]  # C has no empty tables
    tables = [f"static const uint64_t commands[{len(words)}] = {{", *_rows(words), "};"]
    for number, (_, data) in enumerate(layered.constants.items()):
        tables += [f"static const uint8_t constants{number}[{len(data)}] = {{", *_rows(data), "};"]
    copies = [
        f"  qmlir_npu_bytes(memory + {address}, constants{number}, {len(data)});"
        for number, (address, data) in enumerate(layered.constants.items())
    ]
    routines = [
        f"void {routine_symbol(plan, n)}(const uint8_t *weights, uint8_t *arena, const void *const *inputs,\n"
        "    void *const *outputs);"
        for n in range(len(firmware.program.routines))
    ]
    arena = [f"{plan.macro}_ALIGNED static uint8_t arena[{plan.macro}_ARENA_SIZE + 1];"] if routines else []
    return "\n".join(
        [
            f"/* {name}: Gemmini's commands, constants, and the functions of {name}_gemmini.h. */",
            f'#include "{name}_gemmini.h"',
            "",
            *tables,
            "",
            *routines,
            *arena,
            "",
            _issuing(plan),
            f"void {name}_gemmini_init(uint8_t *memory) {{",
            *(copies or ["  (void)memory;"]),
            "}",
            "",
            f"{_prototype(plan)} {{",
            *_calls(plan, firmware, layered),
            "}",
            "",
        ]
    )


def _rows(values: Sequence[int], per_line: int = 24) -> Iterator[str]:
    wide = max(values, default=0) > 255
    per_line = 3 if wide else per_line
    for first in range(0, len(values), per_line):
        yield ", ".join(f"{value:#x}" if wide else str(value) for value in values[first : first + per_line]) + ","


def _calls(plan: Plan, firmware: Firmware, layered: "LayerProgram") -> Iterator[str]:
    """The statements of the function: the inputs, runs of commands, what the processor computes, the outputs."""
    from qmlir.backends.layered import Call

    def place(tensor: "Tensor") -> str:
        return f"memory + {layered.addresses[tensor.name]}"

    for port, tensor in zip(plan.first.inputs, layered.inputs, strict=True):
        yield f"  qmlir_npu_bytes({place(tensor)}, (const uint8_t *){port.argument}, {layered.sizes[tensor.name]});"
    done, issued, words, number = 0, 0, iter(layered.words.commands), 0
    for step in layered.steps:
        if not isinstance(step, Call):
            issued += len(next(words)) // 3
            continue
        yield f"  issue_all(memory, {done}, {issued});"
        done = issued
        inputs, outputs = (", ".join(map(place, some)) or "0" for some in (step.inputs, step.written))
        weights = f"{plan.name}_weights + {firmware.offsets[-2]}"
        yield f"  {{ /* {comment(step.name)} */"
        yield f"    const void *in[] = {{{inputs}}};"
        yield f"    void *out[] = {{{outputs}}};"
        yield f"    {routine_symbol(plan, number)}({weights}, arena, in, out);"
        yield "  }"
        number += 1
    yield f"  issue_all(memory, {done}, {issued});"
    for port, tensor in zip(plan.first.outputs, layered.outputs, strict=True):
        yield f"  qmlir_npu_bytes((uint8_t *){port.argument}, {place(tensor)}, {layered.sizes[tensor.name]});"


def _with_addresses() -> dict[Function, int]:
    """The functions whose registers hold addresses in memory: 1 for the first, 2 for the second, 3 for both."""
    found = dict[Function, int]()
    for function in Function:
        held = [f for name, f in FIELDS.get(function, {}).items() if f.bits == 64 and "stride" not in name]
        if held:
            found[function] = sum(1 << field.register for field in held)
    return found


def _issuing(plan: Plan) -> str:
    """Functions in C: one command, and a run of them with the addresses of a memory."""
    issued = "\n".join(f"    ISSUE({function})" for function in Function if function is not Function.FENCE)
    moved = "\n".join(f"    case {function}: return {which};" for function, which in _with_addresses().items())
    return f"""\
#ifdef __riscv
/* An instruction of the custom opcode 3 reads two registers; the function is a part of it. */
#define ISSUE(function) \\
  case function: \\
    __asm__ volatile(".insn r CUSTOM_3, 3, " #function ", x0, %0, %1" : : "r"(first), "r"(second) : "memory"); \\
    break;

static void issue(uint64_t function, uint64_t first, uint64_t second) {{
  switch (function) {{
{issued}
    default: /* {Function.FENCE}: what Gemmini has written is in memory from here on */
      __asm__ volatile("fence" : : : "memory");
  }}
}}
#else
#define issue {plan.name}_gemmini_issue
#endif

/* Which of the two registers of a command hold addresses: 1 the first, 2 the second, 3 both. */
static int addresses(uint64_t function) {{
  switch (function) {{
{moved}
    default: return 0;
  }}
}}

/* Issues commands `from` to `end`. 0 is no address: Gemmini reads zeros, or leaves out. */
static void issue_all(const uint8_t *memory, uint32_t from, uint32_t end) {{
  const uint64_t moved = (uint64_t)(uintptr_t)memory - {BASE};
  uint32_t n;
  for (n = from; n < end; ++n) {{
    const uint64_t *command = commands + 3 * n;
    const int which = addresses(command[0]);
    issue(command[0], command[1] + (which & 1 && command[1] ? moved : 0),
          command[2] + (which & 2 && command[2] ? moved : 0));
  }}
}}
"""


def _selftest(plan: Plan) -> str:
    """The self-test on Gemmini, a program whose exit status is the number of samples that differ."""
    name, macro = plan.name, plan.macro
    given = [
        f"(const {p.type} *)(const void *)({name}_{p.label.lower()} + sample * {p.bytes})" for p in plan.first.inputs
    ]
    outputs = plan.first.outputs
    buffers = "\n".join(f"{macro}_ALIGNED static {p.type} {p.argument}[{p.elements}];" for p in outputs)
    checks = " && ".join(
        f"same((const uint8_t *){p.argument}, {name}_{p.label.lower()} + sample * {p.bytes}, {p.bytes})"
        for p in outputs
    )
    arguments = ", ".join(["memory", *given, *(port.argument for port in outputs)])
    return f"""\
/* Runs {name} on Gemmini and compares every bit of the outputs with what they have to be. */
#include "{name}_gemmini.h"
#include "{name}_vectors.h"

{macro}_ALIGNED static uint8_t memory[{macro}_GEMMINI_MEMORY_SIZE];
{buffers}

{COMPARING}
int main(void) {{
  int different = 0;
  unsigned long sample;
  {name}_gemmini_init(memory);
  for (sample = 0; sample < {macro}_SAMPLES; ++sample) {{
    {name}_gemmini_run({arguments});
    if (!({checks or "1"})) ++different;
  }}
  return different;
}}
"""
