"""The C header of a bundle: sizes, inputs and outputs, and the functions; C99 and C++17 read it without a warning."""

from typing import TYPE_CHECKING

from qmlir.cli.bundle import comment, requirements
from qmlir.cli.embedded.plan import Plan, Port
from qmlir.ir.arena import CACHE_LINE

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable


def bundle_header(plan: Plan, executable: "Executable", stack: int | None) -> str:
    """Returns the text.

    Args:
        plan: The bundle.
        executable: The network's code.
        stack: The most bytes of stack that a call takes; None if not known.
    """
    macro, sizes = plan.macro, executable.sizes
    called = "memcpy and memset only" if executable.machine.system.hosted else "no function of a library"
    guard = f"QMLIR_{macro}_H"
    stack_line = [f"#define {macro}_STACK_SIZE {stack}  /* the most bytes of stack that a call takes */"]
    return "\n".join(
        [
            f"/* {plan.name}: a compiled network. It allocates nothing, and calls {called}. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            f"#define {macro}_ALIGNMENT {CACHE_LINE}  /* of weights and arena */",
            f"#define {macro}_WEIGHTS_SIZE {sizes.weights}",
            f"#define {macro}_ARENA_SIZE {sizes.arena}  /* scratch memory of a call */",
            *(stack_line if stack is not None else []),
            *requirements(executable, macro),
            "",
            *(_aligned(macro)),
            "",
            *(line for port in plan.ports for line in _port(plan, port)),
            *(_glow_macros(plan, sizes.weights, sizes.arena) if plan.api == "glow" else []),
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *_functions(plan),
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


def _port(plan: Plan, port: Port) -> list[str]:
    """The fields of the manifest for an input or an output."""
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


def arguments(plan: Plan) -> str:
    """The arguments of the call without tables."""
    given = ["const uint8_t *weights"] if plan.passes_weights else []
    given += [f"const {port.type} *{port.argument}" for port in plan.inputs]
    return ", ".join([*given, *(f"{port.type} *{port.argument}" for port in plan.outputs)])


def _functions(plan: Plan) -> list[str]:
    """The declarations of functions, and of the weights if they are linked."""
    name, macro = plan.name, plan.macro
    lines: list[str] = []
    if plan.weights != "file":
        lines += ["/* The weights. */", f"extern const uint8_t {name}_weights[];", ""]
    if plan.api == "static":
        lines += [
            "/* Computes the outputs. The arena is a part of the object, so one call runs at a time. */",
            f"void {name}_run({arguments(plan)});",
            "",
        ]
    if plan.api == "glow":
        lines += [
            "/* Computes the outputs from the inputs, which lie at their offsets in `mutableWeight`; returns 0. */",
            f"int {name}(uint8_t *constantWeight, uint8_t *mutableWeight, uint8_t *activations);",
            "",
        ]
    return [
        *lines,
        f"/* The same in memory of the caller's: {macro}_ARENA_SIZE bytes for each call that runs at a time, and",
        "   tables of pointers to the inputs and to the outputs, in the order of this file. */",
        f"void {plan.entry}(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);",
    ]


def _glow_macros(plan: Plan, weights: int, arena: int) -> list[str]:
    """Sizes and offsets under the names of Glow's bundles."""
    macro = plan.macro
    offsets = [f"#define {macro}_{port.argument} {port.offset}" for port in plan.ports]
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
