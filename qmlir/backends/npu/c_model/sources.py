"""The C text of a device's model: the parts that a program needs, and what follows from the device file.

The loops of commands are C files in this folder. Three parts are generated: the numbers of commands and fields, from
isa/commands.py; the arithmetic of the rounding contracts, from the formulas in numerics/contracts.py; and the numbers
of the device.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from importlib.resources import files

from qmlir.backends.npu.c_model.formula import formula_in_c
from qmlir.backends.npu.c_model.rows import row_arithmetic
from qmlir.backends.npu.c_model.status import MEANING, Status
from qmlir.devices import Device
from qmlir.isa.commands import (
    COMMANDS,
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Move,
    Normalize,
    Pool,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Step,
    Unpack,
)
from qmlir.isa.encoding import Command, field_kinds, mnemonic
from qmlir.numerics.contracts import CONTRACTS, NUMBERED
from qmlir.numerics.elementary.lanes import F32, I64
from qmlir.numerics.fixed_point import LEAST_MULTIPLIER, MIN_SHIFT

HEADER, ENCODING, MODEL = "qmlir_npu_model.h", "qmlir_npu_commands.h", "qmlir_npu_model.c"
"""The names of the files: the header of the function, the numbers of commands and fields, and the code."""

EXECUTED: Mapping[type[Command], str] = {
    SetContext: "set_context(device, command)",
    Move: "move(device, fields)",
    Fill: "fill(device, fields)",
    Unpack: "unpack(device, fields)",
    Arrange: "arrange(device, fields)",
    Convolve: "convolve(device, fields)",
    ConvolveDepthwise: "convolve_depthwise(device, fields)",
    Post: "post(device, command)",
    Arithmetic: "arithmetic(device, command)",
    Pool: "pool(device, fields)",
    Reduce: "reduce(device, fields)",
    Softmax: "softmax(device, fields)",
    Normalize: "normalize(device, fields)",
}
"""Command → the call that executes it; a command that is not listed is the caller's."""


def model_sources(
    device: Device, contracts: Collection[str] | None = None, commands: Collection[type[Command]] | None = None
) -> Mapping[str, str]:
    """The C text of a device's model, by the names of its files.

    Args:
        device: The device.
        contracts: The rounding contracts that programs use, by name; None for every contract of command streams.
        commands: The commands that programs use; None for all. The model refuses others, and other contracts.
    """
    numbered = {n: name for n, name in NUMBERED.items() if contracts is None or name in contracts}
    chosen = [kind for kind in EXECUTED if commands is None or kind in commands]
    used = [kind for kind in chosen if kind in (Post, Arithmetic)]
    window = [kind for kind in chosen if kind in (Convolve, ConvolveDepthwise, Pool)]
    convolutions = [kind for kind in chosen if kind in (Convolve, ConvolveDepthwise)]
    parts = ["/* qmlir_npu_model.h says what this is. */", *_includes(), _part("integers")]
    parts += [_part(name) for kind, name in _ALONE.items() if kind in chosen]
    if used:
        floats = any(CONTRACTS[name].in_floats for name in numbered.values())
        parts += [_part("float32")] if floats else []
        parts += [_contracts(numbered), _part("context")]
        parts += [_part(mnemonic(kind)) for kind in used]
    parts += [_part("window")] if window else []
    if convolutions or Arrange in chosen:
        parts.append(_array(device))
    parts += [_part("arrange")] if Arrange in chosen else []
    if convolutions:
        parts += [_part("convolve"), *_products(device, convolutions)]
    parts += [_part("pool")] if Pool in chosen else []
    of_rows = [kind for kind in chosen if kind in (Softmax, Normalize)]
    parts += [*row_arithmetic(of_rows), _part("rows"), *(_part(mnemonic(kind)) for kind in of_rows)] if of_rows else []
    parts.append(_dispatch(chosen))
    status = _enumeration({_status(each): (each.value, MEANING[each]) for each in Status})
    return {
        HEADER: _part("model", "h").replace("@STATUS@", status),
        ENCODING: _encoding(),
        MODEL: "\n".join(parts),
    }


def needed(commands: Iterable[Command]) -> tuple[frozenset[str], frozenset[type[Command]]]:
    """The contracts and the kinds of commands of a program, which `model_sources` takes."""
    contracts, kinds = set[str](), set[type[Command]]()
    for command in commands:
        kinds.add(type(command))
        if isinstance(command, SetContext) and command.step is Step.REQUANTIZE:
            contracts.add(NUMBERED[command.contract])
    return frozenset(contracts), frozenset(kinds)


_ALONE: Mapping[type[Command], str] = {Move: "move", Fill: "fill", Unpack: "unpack", Reduce: "reduce"}
"""Commands whose parts of the text need no other parts but `integers`, and these parts."""


def _part(name: str, suffix: str = "c") -> str:
    return files(__name__.rpartition(".")[0]).joinpath(f"{name}.{suffix}").read_text(encoding="utf-8")


def _includes() -> list[str]:
    return ["", "#include <stddef.h>", "#include <stdint.h>", "", f'#include "{ENCODING}"', f'#include "{HEADER}"', ""]


def _title(text: str) -> str:
    return "/* " + "-" * 111 + f"\n * {text} */\n"


def _status(status: Status) -> str:
    return f"QMLIR_NPU_{'' if status is Status.DONE else 'FAULT_'}{status.name}"


def _enumeration(members: Mapping[str, tuple[int, str]]) -> str:
    """The members of an enumeration, each with a comment, as the lines between its braces."""
    return "\n".join(f"  {name} = {value}, /* {meaning} */" for name, (value, meaning) in members.items())


def _c_name(kind: type[Command]) -> str:
    return "QMLIR_NPU_" + mnemonic(kind).replace("-", "_").upper()


def _encoding() -> str:
    """The header with the numbers of commands, of their fields, and of the values that fields have."""
    lines = [
        "/* The commands of qmlir's devices as words of 32 bits.",
        " *",
        " *   word 0       op:8 | words:8 | queue:4 | ctx:4 | waits:2 | zero:6, from the lowest bits on",
        " *   then waits   queue:4 | count:28, the queue in the highest bits",
        " *   then fields  one word each: an unsigned number, a signed number, or a place memory:4 | address:28",
        " *",
        " * Each command has its number, and behind it the numbers of its fields, counted behind the waits. */",
        "",
        "#ifndef QMLIR_NPU_COMMANDS_H",
        "#define QMLIR_NPU_COMMANDS_H",
        "",
    ]
    values: dict[str, int] = {}
    for kind in COMMANDS:
        name, kinds = _c_name(kind), field_kinds(kind)
        members = [f"{name} = {kind.OP}", *(f"{name}_{field.upper()} = {n}" for n, field in enumerate(kinds))]
        lines += ["enum {", *(f"  {member}," for member in members), f"  {name}_FIELDS = {len(kinds)}", "};", ""]
        for each in kinds.values():
            if isinstance(each, type) and issubclass(each, IntEnum):
                values |= {f"QMLIR_NPU_{each.__name__.upper()}_{value.name}": value.value for value in each}
    lines += ["enum {", ",\n".join(f"  {name} = {value}" for name, value in values.items()), "};", "", "#endif", ""]
    return "\n".join(lines)


def _contracts(numbered: Mapping[int, str]) -> str:
    """What the contracts take, and their arithmetic."""
    lines = [
        _title("The rounding contracts: what they take, and how they round a * multiplier * 2^(shift - 31)."),
        f"enum {{ LEAST_MULTIPLIER = {LEAST_MULTIPLIER}, LEAST_SHIFT = {MIN_SHIFT} }};",
        "",
        "/* The greatest magnitude of a, what multipliers are multiples of, and the greatest shift. */",
        "typedef struct rule {",
        "  int64_t limit;",
        "  int32_t step, most_shift;",
        "} rule;",
        "",
        "static inline const rule *rule_of(uint32_t contract) {",
        "  switch (contract) {",
    ]
    for number, name in numbered.items():
        c = CONTRACTS[name]
        rule = f"{{INT64_C({c.limit}), {c.step}, {c.max_shift}}}"
        lines += [
            f"  case {number}: {{",
            f"    static const rule {name}_rule = {rule};",
            f"    return &{name}_rule;",
            "  }",
        ]
    lines += [
        "  default:",
        "    return 0;",
        "  }",
        "}",
        "",
        "/* Rounds each number by the multiplier and the shift of its channel. */",
        "static inline void requantize(int64_t *restrict values, uint32_t contract,",
        "                              const int64_t *restrict multiplier, const int64_t *restrict shift,",
        "                              uint32_t count) {",
        "  uint32_t i;",
        "  switch (contract) {",
    ]
    for number, name in numbered.items():
        contract = CONTRACTS[name]
        parameters = [("multiplier[i]", I64), ("shift[i]", I64)]
        if contract.in_floats:
            parameters = [("float32_of_factor(multiplier[i], shift[i])", F32)]
        lines += [f"  case {number}: /* {name} */", "    for (i = 0; i < count; i++) {"]
        lines += formula_in_c(contract.formula, [("values[i]", I64), *parameters], "values[i]", "      ")
        lines += ["    }", "    break;"]
    lines += ["  default:", "    break;", "  }", "}", ""]
    return "\n".join(lines)


def _array(device: Device) -> str:
    """The numbers of the device's array: tiles of weights, types that it multiplies, and what becomes of long sums."""
    (n, k), overflows = device.layout.tile, ("wrap", "saturate", "trap")
    lines = [
        _title("The array of the device."),
        f"enum {{ TILE_N = {n}, TILE_K = {k}, WEIGHT_ZERO_POINTS = {int(device.quant.zero_point.weights)} }};",
        "",
        *(f"#define OVERFLOW_{name.upper()} {number}" for number, name in enumerate(overflows)),
        f"#define OVERFLOW OVERFLOW_{device.array.overflow.upper()}",
        "",
        "/* The bits of the sums of products of data by weights; 0 if the array does not multiply them. */",
        "static inline uint32_t accumulator_bits(uint32_t data_bits, uint32_t weight_bits) {",
    ]
    for mode in device.array.modes:
        if mode.a[0] == mode.w[0] == "i":
            widths = "weight_bits <= 8" if mode.w == "i8" else f"weight_bits == {mode.w[1:]}"
            lines.append(f"  if (data_bits == {mode.a[1:]} && {widths}) return {mode.acc[1:]};")
    return "\n".join([*lines, "  return 0;", "}", ""])


_NARROW = {
    "NAMED(name)": "name##_narrow", "DATA": "uint8_t", "WEIGHT": "int8_t", "OFFSET": "128",
    "NUMBER": "int16_t", "SUM": "int32_t", "TOTAL": "int64_t", "PRODUCT(a, b)": "(int16_t)((SUM)(a) * (b))",
}  # fmt: skip
_WIDE = {
    "NAMED(name)": "name##_wide", "DATA": "int32_t", "WEIGHT": "int32_t", "OFFSET": "0",
    "NUMBER": "int32_t", "SUM": "int64_t", "TOTAL": "int64_t", "PRODUCT(a, b)": "((SUM)(a) * (b))",
}  # fmt: skip
"""The types with which convolutions compute: of bytes, and of integers of 16 bits.

The product of an unsigned by a signed byte has 16 bits. Said so, gcc finds an instruction for each of several products.
"""


def _wraps_at_32_bits(device: Device) -> bool:
    """Whether the lowest 32 bits of sums of products of bytes are all that the array keeps of them."""
    bits = [int(mode.acc[1:]) for mode in device.array.modes if (mode.a, mode.w) == ("i8", "i8")]
    return device.array.overflow == "wrap" and max(bits, default=0) <= 32


def _products(device: Device, kinds: Collection[type[Command]]) -> list[str]:
    """The loops of the convolutions: of bytes, and of wider integers if the array multiplies any."""
    names = {Convolve: "dense", ConvolveDepthwise: "depthwise"}
    narrow = _NARROW | {"TOTAL": "uint32_t"} if _wraps_at_32_bits(device) else _NARROW
    widths = (narrow, _WIDE) if any("16" in mode.a + mode.w for mode in device.array.modes) else (narrow,)
    parts = ["#define NAME_OF_LOAD(type) load_##type", "#define LOAD(type) NAME_OF_LOAD(type)", ""]
    for number in sorted({each[key] for each in widths for key in ("DATA", "WEIGHT", "NUMBER")}):
        parts += [f"#define NUMBER {number}", _part("load"), "#undef NUMBER", ""]
    for each in widths:
        parts += [f"#define {key} {value}" for key, value in each.items()]
        parts += ["", _part("sums"), *(_part(part) for kind, part in names.items() if kind in kinds)]
        parts += [f"#undef {key.partition('(')[0]}" for key in each]
    parts.append("")
    for kind in names:
        if kind in kinds:
            function = mnemonic(kind).replace("-", "_")
            outputs = "FIELD(CONVOLVE, OUT_CHANNELS)" if kind is Convolve else "c.channels"
            parts += [
                f"static int {function}(const qmlir_npu_device *device, const uint32_t *fields) {{",
                "  convolution c;",
                "  const int status = convolution_of(&c, device, fields);",
                "  if (status) return status;",
                f"  c.outputs = {outputs};",
            ]
            if len(widths) > 1:
                parts.append(f"  if (c.data_bits > 8 || c.weight_bits > 8) return {function}_wide(&c);")
            parts += [f"  return {function}_narrow(&c);", "}", ""]
    return parts


def _dispatch(kinds: Collection[type[Command]]) -> str:
    """The function that executes a command."""
    lines = [_title("The command.")]
    if SetContext in kinds:
        lines += [
            "static int set_context(qmlir_npu_device *device, const uint32_t *command) {",
            "  device->contexts[command[0] >> 20 & 15] = command;",
            "  return QMLIR_NPU_DONE;",
            "}",
            "",
        ]
    lines += [
        "int qmlir_npu_model(qmlir_npu_device *device, const uint32_t *command) {",
        "  const uint32_t *fields = fields_of(command);",
        "  const uint32_t count = (command[0] >> 8 & 0xFF) - (uint32_t)(fields - command);",
        "  (void)device, (void)count; /* a model of no commands needs neither */",
        "  switch (command[0] & 0xFF) {",
    ]
    for kind in kinds:
        name = _c_name(kind)
        lines += [f"  case {name}:", f"    return count == {name}_FIELDS ? {EXECUTED[kind]} : QMLIR_NPU_FAULT_WORDS;"]
    lines += [f"  case {_c_name(kind)}:" for kind in COMMANDS if kind not in EXECUTED]
    lines += ["    return QMLIR_NPU_DONE;", "  default:", "    return QMLIR_NPU_FAULT_COMMAND;", "  }", "}", ""]
    return "\n".join(lines)
