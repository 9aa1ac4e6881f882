"""A driver of NVDLA for a network in C: a table of what it does, and the function that does it, for bare metal."""

from collections.abc import Iterator

from qmlir.backends.hardware.nvdla.program import Kind
from qmlir.backends.hardware.nvdla.registers import register
from qmlir.backends.hardware.nvdla.words import BASE, step_of
from qmlir.devices.model.encoder import EncodedNetwork

_STATUS = register("GLB", "S_INTR_STATUS").address

_HEAD = """\
// {name} on NVDLA small: {layers} layers, {steps} steps of a driver.
// What lies in memory before the first layer goes to {base:#x} + its address in the files beside this one.
#include <stdint.h>

// The program gives both: a register of NVDLA at a byte address.
uint32_t {name}_read(uint32_t address);
void {name}_write(uint32_t address, uint32_t value);

// kind 0 writes value to the register, kind 1 reads the register until it is value, kind 2 waits for interrupts.
struct {name}_step {{ uint16_t kind, address; uint32_t value; }};

const struct {name}_step {name}_steps[] = {{
"""

_TAIL = """\
}};

// The step behind the last one of each layer. Between some, the host computes, as the file of places says.
const uint32_t {name}_ends[] = {{{ends}}};
const uint32_t {name}_layers = {layers};

// Runs the layers from first on, up to end and without it. After a reset of NVDLA, all run in order once.
void {name}_run(uint32_t first, uint32_t end) {{
    for (uint32_t n = first ? {name}_ends[first - 1] : 0; first < end && n < {name}_ends[end - 1]; n++) {{
        const struct {name}_step step = {name}_steps[n];
        if (step.kind == {write}) {{
            {name}_write(step.address, step.value);
        }} else if (step.kind == {poll}) {{
            while ({name}_read(step.address) != step.value) {{}}
        }} else {{
            for (uint32_t left = step.value; left;) {{
                const uint32_t come = {name}_read({status:#x}) & left;
                {name}_write({status:#x}, come);
                left &= ~come;
            }}
        }}
    }}
}}
"""


def driver_source(network: EncodedNetwork) -> str:
    """The text of the driver of a network in C."""
    ends, total = list[int](), 0
    for words in network.words:
        ends.append(total := total + len(words))
    layers = len(network.layers)
    head = _HEAD.format(name=network.name, layers=layers, steps=total, base=BASE)
    kinds = {kind.name.lower(): kind.value for kind in Kind}
    numbers = ", ".join(map(str, ends))
    tail = _TAIL.format(name=network.name, layers=layers, ends=numbers, status=_STATUS, **kinds)
    return head + "".join(f"{line}\n" for line in _steps(network)) + tail


def _steps(network: EncodedNetwork) -> Iterator[str]:
    """Yields the lines of the table."""
    for placed, words in zip(network.layers, network.words, strict=True):
        yield from (f"    // the host computes {call}" for call in network.calls.get(placed.number, ()))
        yield f"    // layer {placed.number}, {placed.layer}"
        for step in map(step_of, words):
            yield f"    {{{step.kind}, {step.address:#06x}, {step.value:#010x}}},  // {step}"
