"""C and CMake texts of a bundle: a self-test that compares vectors, an example, a build file.

Networks with states or several entries have a self-test and an example of their own (steps.py).
"""

from collections.abc import Sequence

from qmlir.cli.embedded.plan import Call, Plan, Port


def memory_lines(plan: Plan) -> list[str]:
    """The memory that a program provides: outputs, and what the API asks for."""
    macro, name = plan.macro, plan.name
    lines: list[str] = []
    if plan.weights == "file":
        lines += ["/* The weights are in a file: the program reads it, or links it in, and defines this pointer. */"]
        lines += [f"extern const uint8_t *{name}_weights;", ""]
    if plan.api == "glow":
        lines += [f"GLOW_MEM_ALIGN({macro}_MEM_ALIGN) static uint8_t memory[{macro}_MUTABLE_MEM_SIZE];"]
        return [
            *lines,
            f"GLOW_MEM_ALIGN({macro}_MEM_ALIGN) static uint8_t activations[{macro}_ACTIVATIONS_MEM_SIZE + 1];",
        ]
    if plan.api == "dynamic":
        lines += [f"{macro}_ALIGNED static uint8_t arena[{macro}_ARENA_SIZE + 1];"]
        lines += ["static struct qmlir_npu npu;"] if plan.device is not None else []
    return lines


def _buffer(plan: Plan, port: Port) -> str:
    return f"{plan.macro}_ALIGNED static {port.type} {port.argument}[{plan.macro}_{port.label}_ELEMENTS];"


def call_lines(plan: Plan, call: Call, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Returns the lines that call a function on inputs, into the arrays of its outputs.

    A call of a device sets `failed` to its status, which is not 0 where it fails.
    """
    failed = "" if plan.device is None else "failed = "
    if plan.api == "static":
        given = [f"{plan.name}_weights"] if plan.passes_weights and plan.device is None else []
        return [f"{failed}{plan.called(call)}({', '.join([*given, *inputs, *outputs])});"]
    memory = f"{plan.name}_weights, arena" if plan.device is None else "&npu, arena"
    memory += ", state" if plan.block else ""
    return [
        "{",
        f"  const void *in[] = {{{', '.join(inputs) or '0'}}};",
        f"  void *out[] = {{{', '.join(outputs) or '0'}}};",
        f"  {failed}{plan.called(call)}({memory}, in, out);",
        "}",
    ]


def counted_if(plan: Plan, checks: Sequence[str]) -> str:
    """Returns the line that counts a call whose outputs are not as they have to be, or which failed."""
    failed = "" if plan.device is None else "failed || "
    return f"if ({failed}!({' && '.join(checks) or '1'})) ++different;"


def device_lines(plan: Plan) -> tuple[list[str], list[str]]:
    """Returns the lines that declare the status of calls, and those that prepare the device in software, if any."""
    if plan.device is None:
        return [], []
    name, weights = plan.name, f"{plan.name}_weights, " if plan.passes_weights else ""
    npu = "&npu, " if plan.api == "dynamic" else ""
    return (
        ["int failed;"],
        [f"if ({name}_init({npu}{weights}{name}_model_memories, &{name}_model_hooks, {name}_model)) return 1;"],
    )


def selftest_text(plan: Plan) -> str:
    """Returns the self-test, a program whose exit status is the number of samples that differ."""
    name, macro = plan.name, plan.macro
    body: list[str] = []
    if plan.api == "glow":
        for port in plan.first.inputs:
            given = f"{name}_{port.label.lower()} + sample * {port.bytes}"
            body.append(f"copy(GLOW_GET_ADDR(memory, {macro}_{port.argument}), {given}, {port.bytes});")
        body.append(f"if ({name}((uint8_t *)(uintptr_t){name}_weights, memory, activations) != 0) return 1;")
        places = [f"GLOW_GET_ADDR(memory, {macro}_{port.argument})" for port in plan.first.outputs]
    else:
        inputs = [
            f"(const {p.type} *)(const void *)({name}_{p.label.lower()} + sample * {p.bytes})"
            for p in plan.first.inputs
        ]
        body += call_lines(plan, plan.first, inputs, [port.argument for port in plan.first.outputs])
        places = [f"(const uint8_t *){port.argument}" for port in plan.first.outputs]
    checks = [
        f"same(expected + {at}, {name}_{port.label.lower()} + sample * {port.bytes}, {port.bytes})".replace(
            f"expected + {at}", place
        )
        for at, (place, port) in enumerate(zip(places, plan.first.outputs, strict=True))
    ]
    copying = [
        "static void copy(uint8_t *to, const uint8_t *from, unsigned long size) {",
        "  unsigned long i;",
        "  for (i = 0; i < size; ++i) to[i] = from[i];",
        "}",
        "",
    ]
    memory = [
        *memory_lines(plan),
        *([] if plan.api == "glow" else [_buffer(plan, port) for port in plan.first.outputs]),
        "",
        *(copying if plan.api == "glow" else []),
        COMPARING,
    ]
    calls = [
        "unsigned long sample;",
        f"for (sample = 0; sample < {macro}_SAMPLES; ++sample) {{",
        *(f"  {line}" for line in body),
        f"  {counted_if(plan, checks)}",
        "}",
    ]
    about = f"Runs {name} on samples and compares every bit of the outputs with what they have to be."
    return program_of(plan, about, "samples", memory, calls)


COMPARING = """\
static int same(const uint8_t *a, const uint8_t *b, unsigned long size) {
  unsigned long i;
  for (i = 0; i < size; ++i)
    if (a[i] != b[i]) return 0;
  return 1;
}
"""


def program_of(plan: Plan, about: str, counted: str, before: Sequence[str], body: Sequence[str]) -> str:
    """Returns a self-test, a program whose exit status is how many of something differ.

    Args:
        plan: The bundle.
        about: What the self-test does, a sentence.
        counted: What is counted.
        before: The lines of C in front of the function: memory, and functions that it calls.
        body: The statements of the function, which raise `different`.
    """
    name = plan.name
    return "\n".join(
        [
            f"/* {about} */",
            f'#include "{name}.h"',
            f'#include "{name}_vectors.h"',
            "",
            *before,
            "#ifdef __cplusplus",
            'extern "C"',
            "#endif",
            f"int {name}_selftest(void);",
            "",
            f"/* Returns how many {counted} differ. */",
            f"int {name}_selftest(void) {{",
            "  int different = 0;",
            *(f"  {line}" for lines in [*device_lines(plan), body] for line in lines),
            "  return different;",
            "}",
            "",
            "#ifndef QMLIR_NO_MAIN",
            f"int main(void) {{ return {name}_selftest(); }}",
            "#endif",
            "",
        ]
    )


def example_text(plan: Plan) -> str:
    """Returns a program that calls the network once."""
    name, macro, first = plan.name, plan.macro, plan.first.outputs[0]
    inputs = [port.argument for port in plan.first.inputs]
    if plan.api == "glow":
        memory = [*memory_lines(plan), ""]
        call = [f"{name}((uint8_t *)(uintptr_t){name}_weights, memory, activations);"]
        held = f"const {first.type} *{first.argument} = (const {first.type} *)(const void *)"
        result = [f"{held}GLOW_GET_ADDR(memory, {macro}_{first.argument});"]
        place = f"{macro}_{inputs[0] if inputs else ''}"
        filling = f"/* Write the inputs to GLOW_GET_ADDR(memory, {place}). */"
    else:
        memory = [*memory_lines(plan), *(_buffer(plan, port) for port in plan.first.ports), ""]
        outputs = [port.argument for port in plan.first.outputs]
        call, result = call_lines(plan, plan.first, inputs, outputs), []
        filling = f"/* Fill {', '.join(inputs) or 'nothing'} with what a sensor gives. */"
    return "\n".join(
        [
            f"/* An example: calls {name} once, and finds the greatest element of {first.argument}. */",
            f'#include "{name}.h"',
            "",
            *memory,
            "int main(void) {",
            *(f"  {line}" for line in result),
            "  unsigned long i, best = 0;",
            *(f"  {line}" for lines in device_lines(plan) for line in lines),
            f"  {filling}",
            *(f"  {line}" for line in call),
            *(["  if (failed) return 1;"] if plan.device is not None else []),
            f"  for (i = 1; i < {macro}_{first.label}_ELEMENTS; ++i)",
            f"    if ({first.argument}[i] > {first.argument}[best]) best = i;",
            f"  return best < {macro}_{first.label}_ELEMENTS ? 0 : 1;",
            "}",
            "",
        ]
    )


def cmake_text(plan: Plan) -> str:
    """Returns the build file: a library for other projects, and self-test and example where it is built by itself.

    Networks on devices share the library of their runtime, and have one of the device in software.
    """
    name, here = plan.name, "${CMAKE_CURRENT_LIST_DIR}"
    linked = f"{here}/{plan.linked}"
    needed = name if plan.device is None else f"{name}_model"
    programs = [] if plan.weights == "file" else [
        "if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)",
        "  enable_testing()",
        f"  add_executable({name}_selftest selftest.c)",
        f"  target_link_libraries({name}_selftest {needed})",
        f"  add_test(NAME {name}_selftest COMMAND {name}_selftest)",
        f"  add_executable({name}_example main.c)",
        f"  target_link_libraries({name}_example {needed})",
        "endif()",
    ]  # fmt: skip
    device = [] if plan.device is None else [
        "",
        "if(NOT TARGET qmlir_npu)",
        f"  add_library(qmlir_npu STATIC {here}/qmlir_npu.c)",
        f"  target_include_directories(qmlir_npu PUBLIC {here})",
        "endif()",
        f"target_sources({name} INTERFACE {here}/{name}.c)",
        f"target_link_libraries({name} INTERFACE qmlir_npu)",
        "",
        f"# The device in software; a program for hardware links {name} alone.",
        f"add_library({name}_model INTERFACE)",
        f"target_sources({name}_model INTERFACE {here}/{name}_model.c)",
        f"target_link_libraries({name}_model INTERFACE {name})",
        "# The model divides and shifts numbers of 64 bits; processors of 32 bits have functions of gcc's for that.",
        'if(CMAKE_C_COMPILER_ID STREQUAL "GNU")',
        f"  target_link_libraries({name}_model INTERFACE gcc)",
        "endif()",
    ]  # fmt: skip
    return "\n".join(
        [
            "cmake_minimum_required(VERSION 3.13)",
            f"project({name} C)",
            "",
            f"# add_subdirectory this folder, and link {name}.",
            f"add_library({name} INTERFACE)",
            f"target_include_directories({name} INTERFACE {here})",
            *([f"target_link_libraries({name} INTERFACE {linked})"] if plan.has_object else []),
            *([f"target_sources({name} INTERFACE {here}/{name}_weights.c)"] if plan.weights == "array" else []),
            *device,
            "",
            *programs,
            "",
        ]
    )
