"""The self-test and the example in C of a network with states or several entries.

The self-test calls the entries in turn from the states before the first call on, compares the states that it exports,
imports them again and goes on. Neither calls a function of a library.
"""

from collections.abc import Sequence

from qmlir.cli.embedded.plan import Call, Plan, Port
from qmlir.cli.embedded.selftest import COMPARING, call_lines, counted_if, device_lines, memory_lines, program_of
from qmlir.cli.embedded.vectors import FACTOR, Step, Steps, is_long


def _buffer(call: Call, port: Port) -> str:
    """The name of a port's array."""
    return f"{call.name}_{port.argument}" if call.name else port.argument


def _array(plan: Plan, call: Call, port: Port) -> str:
    return f"{plan.macro}_ALIGNED static {port.type} {_buffer(call, port)}[{plan.macro}_{port.label}_ELEMENTS];"


def _memory(plan: Plan) -> list[str]:
    """The memory that a program provides beside inputs and outputs."""
    size = "STATE_SIZE" if plan.device is None else "STATE_BYTES"
    block = [f"{plan.macro}_ALIGNED static uint8_t state[{plan.macro}_{size}];"]
    return [*memory_lines(plan), *(block if plan.block and plan.api == "dynamic" else [])]


def _call(plan: Plan, call: Call, inputs: Sequence[str]) -> list[str]:
    """The lines that call an entry on inputs, into the arrays of its outputs."""
    return call_lines(plan, call, inputs, [_buffer(call, port) for port in call.outputs])


def _on_states(plan: Plan, function: str, *arguments: str) -> str:
    """A call of a function on the states."""
    block = ["state"] if plan.api == "dynamic" else []
    return f"{plan.name}_{function}({', '.join([*block, *arguments])});"


def _compared(plan: Plan, found: str, name: str, size: int) -> str:
    """The condition that bytes are those of a vector."""
    if is_long(size):
        return f"checksum((const uint8_t *){found}, {size}) == {plan.name}_{name}"
    return f"same((const uint8_t *){found}, {plan.name}_{name}, {size})"


def _step(plan: Plan, step: Step, number: int) -> list[str]:
    """The lines that make a call and compare its outputs."""
    call, place = step.call, f"{plan.name}_step{number}"
    inputs = [f"(const {port.type} *)(const void *){place}_input{i}" for i, port in enumerate(call.inputs)]
    checks = [
        _compared(plan, _buffer(call, port), f"step{number}_output{i}", port.bytes)
        for i, port in enumerate(call.outputs)
    ]
    return [*_call(plan, call, inputs), counted_if(plan, checks)]


SUMMING = f"""\
static uint64_t checksum(const uint8_t *bytes, unsigned long size) {{
  uint64_t sum = 0;
  unsigned long i;
  for (i = 0; i < size; ++i) sum = sum * 0x{FACTOR:016x}u + bytes[i];
  return sum;
}}
"""


def step_selftest_text(plan: Plan, steps: Steps) -> str:
    """Returns the self-test, a program whose exit status is the number of calls that differ.

    States that differ when they are exported count as a call.
    """
    kept = plan.block is not None
    sizes = [port.bytes for call in plan.calls for port in call.outputs]
    sizes += [plan.block.exported_size] if plan.block else []
    body = [_on_states(plan, "reset")] if kept else []
    for number, step in enumerate(steps.before):
        body += _step(plan, step, number)
    if plan.block is not None:
        body += [
            _on_states(plan, "export_state", "kept"),
            f"if (!({_compared(plan, 'kept', 'states', plan.block.exported_size)})) ++different;",
            _on_states(plan, "reset"),
            _on_states(plan, "import_state", "kept"),
        ]
    for number, step in enumerate(steps.after, len(steps.before)):
        body += _step(plan, step, number)
    memory = [
        *_memory(plan),
        *(_array(plan, call, port) for call in plan.calls for port in call.outputs),
        *([f"static uint8_t kept[{plan.macro}_STATE_BYTES];"] if kept else []),
        "",
        *([COMPARING] if not all(map(is_long, sizes)) else []),
        *([SUMMING] if any(map(is_long, sizes)) else []),
    ]
    about = f"Calls {plan.name} again and again and compares every bit of the outputs with what they have to be."
    return program_of(plan, about, "calls", memory, body)


def step_example_text(plan: Plan) -> str:
    """Returns a program that calls each entry once, with states from the first call on."""
    name, macro, last = plan.name, plan.macro, plan.calls[-1]
    calls: list[str] = []
    for call in plan.calls:
        inputs = [_buffer(call, port) for port in call.inputs]
        calls += [f"/* Fill {', '.join(inputs) or 'nothing'} with what comes next. */", *_call(plan, call, inputs)]
        calls += [] if plan.device is None else ["if (failed) return 1;"]
    output = last.outputs[0] if last.outputs else None
    search = [] if output is None else [
        f"for (i = 1; i < {macro}_{output.label}_ELEMENTS; ++i)",
        f"  if ({_buffer(last, output)}[i] > {_buffer(last, output)}[best]) best = i;",
        f"return best < {macro}_{output.label}_ELEMENTS ? 0 : 1;",
    ]  # fmt: skip
    return "\n".join(
        [
            f"/* An example: calls {name}, and finds the greatest element of the last call's output. */",
            f'#include "{name}.h"',
            "",
            *_memory(plan),
            *(_array(plan, call, port) for call in plan.calls for port in call.ports),
            "",
            "int main(void) {",
            *(["  unsigned long i, best = 0;"] if search else []),
            *(f"  {line}" for lines in device_lines(plan) for line in lines),
            *([f"  {_on_states(plan, 'reset')}"] if plan.block else []),
            *(f"  {line}" for line in [*calls, *(search or ["return 0;"])]),
            "}",
            "",
        ]
    )
