"""The C header of a bundle: sizes, inputs and outputs, and the functions; C99 and C++17 read it without a warning."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qmlir.cli.bundle import comment, requirements
from qmlir.cli.embedded.plan import Call, Plan, Port
from qmlir.cli.embedded.told import ToldLayer, layer_declarations, layer_macros
from qmlir.ir.arena import CACHE_LINE

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable


def bundle_header(plan: Plan, executable: "Executable", stack: int | None, layers: Sequence[ToldLayer] = ()) -> str:
    """Returns the text.

    Args:
        plan: The bundle.
        executable: The network's code.
        stack: The most bytes of stack that a call takes; None if not known.
        layers: The layers, if a function is told where they begin and end.
    """
    macro, weights, arena = plan.macro, executable.weights.nbytes, executable.arena_size
    called = "memcpy and memset only" if executable.machine.system.hosted else "no function of a library"
    stack_line = [f"#define {macro}_STACK_SIZE {stack}  /* the most bytes of stack that a call takes */"]
    macros = [
        f"#define {macro}_ALIGNMENT {CACHE_LINE}  /* of weights and arena */",
        f"#define {macro}_WEIGHTS_SIZE {weights}",
        f"#define {macro}_ARENA_SIZE {arena}  /* scratch memory of a call */",
        *(stack_line if stack is not None else []),
        *requirements(executable, macro, plan.first.symbol if len(plan.calls) == 1 else plan.name),
        *_state_sizes(plan),
        *layer_macros(plan, layers),
    ]
    ports = [
        *(line for call in plan.calls for port in call.ports for line in port_lines(plan, port)),
        *(_glow_macros(plan, weights, arena) if plan.api == "glow" else []),
    ]
    about = f"{plan.name}: a compiled network. It allocates nothing, and calls {called}."
    return whole_header(plan, about, ["#include <stdint.h>"], macros, ports, _functions(plan, layers))


def whole_header(
    plan: Plan, about: str, includes: Sequence[str], macros: Sequence[str], ports: Sequence[str],
    functions: Sequence[str],
) -> str:  # fmt: skip
    """Returns a header of its parts.

    Args:
        plan: The bundle.
        about: What the header is of, a sentence.
        includes: The lines of other headers.
        macros: The lines of sizes.
        ports: The lines of inputs and outputs.
        functions: The lines of declarations.
    """
    guard = f"QMLIR_{plan.macro}_H"
    return "\n".join(
        [
            f"/* {about} */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            *includes,
            "",
            *macros,
            "",
            *_aligned(plan.macro),
            "",
            *ports,
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *functions,
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif /* {guard} */",
            "",
        ]
    )


def _aligned(macro: str) -> list[str]:
    """The macro that aligns an array."""
    return [
        "#if defined(__cplusplus)",
        f"#define {macro}_ALIGNED alignas({macro}_ALIGNMENT)",
        "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L",
        f"#define {macro}_ALIGNED _Alignas({macro}_ALIGNMENT)",
        "#else",
        f"#define {macro}_ALIGNED __attribute__((aligned({macro}_ALIGNMENT)))",
        "#endif",
    ]


def port_lines(plan: Plan, port: Port) -> list[str]:
    """Returns the lines about an input or an output."""
    spec, prefix = port.spec, f"{plan.macro}_{port.label}"
    shape = "".join(f"[{size}]" for size in spec.shape)
    lines = [
        f"/* {port.argument}: {spec.dtype.name} {shape} {comment(spec.name)} */",
        f"#define {prefix}_ELEMENTS {port.elements}",
    ]
    if spec.quantization is not None:
        scale, zero_point = spec.quantization
        lines += [
            f"#define {prefix}_SCALE {scale!r}  /* a number is scale * (integer - zero point) */",
            f"#define {prefix}_ZERO_POINT ({zero_point})",
        ]
    return [*lines, ""]


def _state_sizes(plan: Plan) -> list[str]:
    """The lines of C that define the sizes of states; none if the network has no states."""
    if plan.block is None:
        return []
    macro, block = plan.macro, plan.block
    own = [f"#define {macro}_STATE_SIZE {block.size}  /* a block of states, one for each stream */"]
    exported = (
        f"#define {macro}_STATE_BYTES {block.exported_size}  /* exported states; manifest.json has their places */"
    )
    return [*(own if plan.api == "dynamic" else []), exported]


def _arguments(plan: Plan, call: Call) -> str:
    """The arguments of the call without tables."""
    given = ["const uint8_t *weights"] if plan.passes_weights else []
    given += [f"const {port.type} *{port.argument}" for port in call.inputs]
    return ", ".join([*given, *(f"{port.type} *{port.argument}" for port in call.outputs)])


TABLES = "const void *const *inputs, void *const *outputs"


def _functions(plan: Plan, layers: Sequence[ToldLayer]) -> list[str]:
    """The declarations of functions, and of the weights if they are linked."""
    name, macro = plan.name, plan.macro
    lines: list[str] = []
    if plan.weights != "file":
        lines += ["/* The weights. */", f"extern const uint8_t {name}_weights[];", ""]
    if plan.api == "static":
        kept = "arena and the states are parts" if plan.block else "arena is a part"
        lines += [f"/* Computes the outputs. The {kept} of the object, so one call runs at a time. */"]
        lines += [f"void {plan.called(call)}({_arguments(plan, call)});" for call in plan.calls]
        lines.append("")
    if plan.api == "glow":
        lines += [
            "/* Computes the outputs from the inputs, which lie at their offsets in `mutableWeight`; returns 0. */",
            f"int {name}(uint8_t *constantWeight, uint8_t *mutableWeight, uint8_t *activations);",
            "",
        ]
    lines += layer_declarations(plan, layers)
    return [*lines, *(_state_functions(plan) if plan.block else []), *_bare(plan, macro)]


def _state_functions(plan: Plan) -> list[str]:
    """The declarations of what keeps states."""
    macro, lines = plan.macro, list[str]()
    if plan.api == "dynamic":
        lines += [
            f"/* Calls that keep the states in a block of {macro}_STATE_SIZE bytes of the caller's, which starts on a",
            f"   multiple of {macro}_ALIGNMENT and which {plan.name}_reset prepares. The arena has {macro}_ARENA_SIZE;",
            "   tables have pointers to inputs and to outputs in the order of this file. */",
        ]
        lines += [
            f"void {plan.called(call)}(const uint8_t *weights, uint8_t *arena, uint8_t *state,\n    {TABLES});"
            for call in plan.calls
        ]
        lines.append("")
    return [*lines, *state_functions(plan)]


def state_functions(plan: Plan) -> list[str]:
    """Returns the declarations of the functions that reset, export and import states."""
    name = plan.name
    state, none = ("uint8_t *state, ", "uint8_t *state") if plan.api == "dynamic" else ("", "void")
    return [
        "/* Gives the states the values before the first call. */",
        f"void {name}_reset({none});",
        "",
        f"/* Writes the states as {plan.macro}_STATE_BYTES bytes, which are the same on all processors; goes on from",
        "   such bytes. */",
        f"void {name}_export_state({state}uint8_t *bytes);",
        f"void {name}_import_state({state}const uint8_t *bytes);",
        "",
    ]


def _bare(plan: Plan, macro: str) -> list[str]:
    """The declarations of the network's functions themselves, which keep nothing."""
    lines = [
        f"/* The same in memory of the caller's: {macro}_ARENA_SIZE bytes for each call that runs at a time, and",
        "   tables of pointers to the inputs and to the outputs, in the order of this file. */",
    ]
    if plan.block:
        lines = [
            "/* The functions of the network alone, which keep nothing: tables of pointers to inputs and outputs have",
            "   the states among them, in these places:",
            *(line for call in plan.calls for line in _places(call)),
            "*/",
        ]
    return [
        *lines,
        *(f"void {call.symbol}(const uint8_t *weights, uint8_t *arena, {TABLES});" for call in plan.calls),
    ]


def _places(call: Call) -> list[str]:
    """The places of states among the inputs and outputs of a function."""
    return [
        f"     {call.symbol}: {comment(state.argument.name)} at inputs[{state.places[0]}], outputs[{state.places[1]}]"
        for state in call.signature.states
    ]


def _glow_macros(plan: Plan, weights: int, arena: int) -> list[str]:
    """Sizes and offsets under the names of Glow's bundles."""
    macro = plan.macro
    offsets = [f"#define {macro}_{port.argument} {port.offset}" for port in plan.first.ports]
    return [
        "/* Names of Glow's bundles. */",
        "#ifndef GLOW_MEM_ALIGN",
        "#define GLOW_MEM_ALIGN(size) __attribute__((aligned(size)))",
        "#endif",
        "#ifndef GLOW_GET_ADDR",
        "#define GLOW_GET_ADDR(mutableBaseAddr, placeholderOff) (((uint8_t *)(mutableBaseAddr)) + (placeholderOff))",
        "#endif",
        f"#define {macro}_CONSTANT_MEM_SIZE {weights}",
        f"#define {macro}_MUTABLE_MEM_SIZE {plan.mutable}",
        f"#define {macro}_ACTIVATIONS_MEM_SIZE {arena}",
        f"#define {macro}_MEM_ALIGN {CACHE_LINE}",
        *offsets,
        "",
    ]
