"""Weights, arena, states and the calls that programs make, as LLVM IR that goes into the object beside the network.

A network's function takes states among its inputs and outputs. With states, the functions here keep them in a block
(cli/streams.py): a call renews states in place, or reads one half of the block and writes the other. Nothing here calls
a library.
"""

from collections.abc import Sequence

import numpy as np

from qmlir.backends.cpu.emit import symbol
from qmlir.cli.embedded.plan import Call, Plan
from qmlir.cli.streams import StateBlock
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.signature import State
from qmlir.numerics import Array

ESCAPES = np.array([f"\\{byte:02X}".encode() for byte in range(256)])
"""Each byte as LLVM writes it in a string."""

SPREAD = """
define internal void @{name}.spread(ptr noalias %to, ptr noalias readonly %from, i{word} %period, i{word} %size)
    nounwind noinline "no-builtins" {{
  br label %outer
outer:
  %at = phi i{word} [ 0, %0 ], [ %next, %whole ]
  %rest = sub i{word} %size, %at
  %short = icmp ult i{word} %rest, %period
  %count = select i1 %short, i{word} %rest, i{word} %period
  %more = icmp ne i{word} %rest, 0
  br i1 %more, label %inner, label %done
inner:
  %i = phi i{word} [ 0, %outer ], [ %i.next, %byte ]
  %going = icmp ult i{word} %i, %count
  br i1 %going, label %byte, label %whole
byte:
  %p = getelementptr inbounds i8, ptr %from, i{word} %i
  %j = add i{word} %at, %i
  %q = getelementptr inbounds i8, ptr %to, i{word} %j
  %one = load i8, ptr %p, align 1
  store i8 %one, ptr %q, align 1
  %i.next = add nuw i{word} %i, 1
  br label %inner
whole:
  %next = add nuw i{word} %at, %count
  br label %outer
done:
  ret void
}}
"""
"""Fills `size` bytes with the first `period` bytes of another place, again and again: a copy, or a value everywhere."""


def linked_text(plan: Plan, weights: Array, arena: int, word: int) -> str:
    """Returns the text; it declares the weights.

    Args:
        plan: The bundle.
        weights: The bytes of the weights.
        arena: Bytes of the arena.
        word: Bits of an address.
    """
    lines: list[str] = []
    if plan.weights != "file":
        lines.append(f"@{plan.name}_weights = external constant [{weights.nbytes} x i8], align {CACHE_LINE}")
    if plan.api == "static":
        lines.append(f"@{plan.name}_arena = internal global [{arena} x i8] zeroinitializer, align {CACHE_LINE}")
    if plan.block is not None:
        lines += [SPREAD.format(name=plan.name, word=word), *_states(plan, plan.block, word)]
    for call in plan.calls:
        if plan.block is not None:
            lines += _step(plan, call, plan.block, word)
        if plan.api == "static":
            lines += _static(plan, call)
    if plan.api == "glow":
        lines += _glow(plan, word)
    return "\n".join(["", *lines, ""])


def weights_text_of(plan: Plan, weights: Array) -> str:
    """Returns the definition of the weights if they lie in the object, else nothing."""
    if plan.weights != "object":
        return ""
    return f"@{plan.name}_weights = constant {bytes_text(weights.tobytes())}, align {CACHE_LINE}\n"


def bytes_text(data: bytes) -> str:
    """An array of bytes with its type."""
    text = ESCAPES[np.frombuffer(data, np.uint8)].tobytes().decode()
    return f"[{len(data)} x i8] " + (f'c"{text}"' if any(data) else "zeroinitializer")


# -- calls ------------------------------------------------------------------------------------------------------


def _static(plan: Plan, call: Call) -> list[str]:
    """A function with an argument for each input and output; arena and states are parts of the object."""
    given = "ptr %weights, " if plan.passes_weights else ""
    arguments = ", ".join(f"ptr %{port.label}" for port in call.ports)
    weights = "%weights" if plan.passes_weights else f"@{plan.name}_weights"
    places = [[f"%{port.label}" for port in ports] for ports in (call.inputs, call.outputs)]
    memory = f"ptr {weights}, ptr @{plan.name}_arena, "
    memory += f"ptr @{plan.name}_state, " if plan.block else ""
    return [
        f"define void @{symbol(plan.called(call))}({given}{arguments}) nounwind {{",
        *_table("inputs", places[0]),
        *_table("outputs", places[1]),
        f"  call void @{_stepping(plan, call)}({memory}ptr %inputs, ptr %outputs) noinline",
        "  ret void",
        "}",
    ]


def _glow(plan: Plan, word: int) -> list[str]:
    """The function of Glow's bundles: inputs and outputs lie at offsets of one memory; it returns 0."""
    call = plan.first
    places = [
        f"  %{port.label} = getelementptr inbounds i8, ptr %mutable, i{word} {port.offset}" for port in call.ports
    ]
    return [
        f"define i32 @{symbol(plan.name)}(ptr %weights, ptr %mutable, ptr %activations) nounwind {{",
        *places,
        *_table("inputs", [f"%{port.label}" for port in call.inputs]),
        *_table("outputs", [f"%{port.label}" for port in call.outputs]),
        f"  call void @{symbol(call.symbol)}(ptr %weights, ptr %activations, ptr %inputs, ptr %outputs) noinline",
        "  ret i32 0",
        "}",
    ]


def _table(name: str, places: Sequence[str]) -> list[str]:
    """A table of pointers, as the network's function takes it."""
    lines = [f"  %{name} = alloca [{max(len(places), 1)} x ptr]"]
    for i, place in enumerate(places):
        lines.append(f"  %{name}.{i} = getelementptr inbounds [{len(places)} x ptr], ptr %{name}, i32 0, i32 {i}")
        lines.append(f"  store ptr {place}, ptr %{name}.{i}")
    return lines


# -- states -----------------------------------------------------------------------------------------------------


def _stepping(plan: Plan, call: Call) -> str:
    """The function that takes tables of what a program gives and gets; with states, it keeps them in a block."""
    return symbol(f"{call.symbol}_step" if plan.block else call.symbol)


def _step(plan: Plan, call: Call, block: StateBlock, word: int) -> list[str]:
    """The function that calls the network on a block of states; states that the network's function lacks are copied."""
    states = call.signature.states
    sides = [
        {state.places[side]: block.where(state, half) for state in states}
        for side, half in enumerate(("before", "after"))
    ]
    lines: list[str] = []
    for table, ports, kept in zip(("inputs", "outputs"), (call.inputs, call.outputs), sides, strict=True):
        places, given = list[str](), iter(range(len(ports)))
        for i in range(len(ports) + len(kept)):
            place = f"%{table}.from.{i}"
            if i in kept:
                lines.append(f"  {place} = getelementptr inbounds i8, ptr %{kept[i][0]}, i{word} {kept[i][1]}")
            else:
                at = f"  {place}.at = getelementptr inbounds ptr, ptr %given.{table}, i32 {next(given)}"
                lines += [at, f"  {place} = load ptr, ptr {place}.at"]
            places.append(place)
        lines += _table(table, places)
    own = {state.argument.name for state in states}
    for n, state in enumerate(s for s in block.states if s.argument.name in block.offsets.keys() - own):
        offset, size = block.offsets[state.argument.name], state.reset.nbytes
        for half in ("before", "after"):
            lines.append(f"  %{half}.other.{n} = getelementptr inbounds i8, ptr %{half}, i{word} {offset}")
        lines.append(_spread(plan, f"%after.other.{n}", f"%before.other.{n}", size, size, word))
    linkage = "internal " if plan.api == "static" else ""
    return [
        f"define {linkage}void @{_stepping(plan, call)}",
        "    (ptr %weights, ptr %arena, ptr %state, ptr %given.inputs, ptr %given.outputs) nounwind {",
        *_halves(block, word),
        *lines,
        f"  call void @{symbol(call.symbol)}(ptr %weights, ptr %arena, ptr %inputs, ptr %outputs) noinline",
        "  %flipped = xor i8 %newest, 1",
        "  store i8 %flipped, ptr %state",
        "  ret void",
        "}",
    ]


def _halves(block: StateBlock, word: int) -> list[str]:
    """The newest half of the block, `%before`, and the other one."""
    return [
        "  %newest = load i8, ptr %state",
        "  %second = icmp ne i8 %newest, 0",
        f"  %low = getelementptr inbounds i8, ptr %state, i{word} {CACHE_LINE}",
        f"  %high = getelementptr inbounds i8, ptr %state, i{word} {CACHE_LINE + block.half}",
        "  %before = select i1 %second, ptr %high, ptr %low",
        "  %after = select i1 %second, ptr %low, ptr %high",
    ]


def _spread(plan: Plan, to: str, source: str, period: int, size: int, word: int) -> str:
    """A call of `SPREAD`."""
    return f"  call void @{plan.name}.spread(ptr {to}, ptr {source}, i{word} {period}, i{word} {size})"


def _states(plan: Plan, block: StateBlock, word: int) -> list[str]:
    """The block of a static bundle, and the functions that reset, export and import states."""
    if plan.api == "static":
        own = [f"@{plan.name}_state = internal global {_first_block(block)}, align {CACHE_LINE}"]
        head, arguments = f"  %state = getelementptr i8, ptr @{plan.name}_state, i32 0", "ptr %bytes"
        return [*own, *_functions(plan, block, word, "", arguments, [head])]
    return _functions(plan, block, word, "ptr %state", "ptr %state, ptr %bytes", [])


def _first_block(block: StateBlock) -> str:
    """A block before the first call, as an array of bytes."""
    data = bytearray(block.size)
    for state in block.states:
        at = block.first(state)
        data[at : at + state.reset.nbytes] = state.reset.tobytes()
    return bytes_text(bytes(data))


def _functions(
    plan: Plan, block: StateBlock, word: int, of_reset: str, of_others: str, head: Sequence[str]
) -> list[str]:
    values, resets = _reset_values(plan, block, word)
    copies: dict[str, list[str]] = {"export_state": [], "import_state": []}
    for n, (state, at) in enumerate(zip(block.states, block.exported, strict=True)):
        size = state.reset.nbytes
        exported = f"  %bytes.{n} = getelementptr inbounds i8, ptr %bytes, i{word} {at}"
        for name, half in (("export_state", "before"), ("import_state", "low")):
            place, offset = block.where(state, half)
            kept = f"  %kept.{n} = getelementptr inbounds i8, ptr %{place}, i{word} {offset}"
            to, source = (f"%bytes.{n}", f"%kept.{n}") if half == "before" else (f"%kept.{n}", f"%bytes.{n}")
            copies[name] += [exported, kept, _spread(plan, to, source, size, size, word)]
    lines = list(values)
    first = ["  store i8 0, ptr %state"]
    for name, arguments, body in (
        ("reset", of_reset, [*first, *resets]),
        ("export_state", of_others, copies["export_state"]),
        ("import_state", of_others, [*first, *copies["import_state"]]),
    ):
        lines.append(f"define void @{plan.name}_{name}({arguments}) nounwind {{")
        lines += [*head, *_halves(block, word), *body, "  ret void", "}"]
    return lines


def _reset_values(plan: Plan, block: StateBlock, word: int) -> tuple[list[str], list[str]]:
    """Constants with the values before the first call, each once, and the lines that write them."""
    constants: dict[bytes, str] = {}
    lines: list[str] = []
    for n, state in enumerate(block.states):
        size = state.reset.nbytes
        value = _repeated(state)[:size]
        name = constants.setdefault(value, f"@{plan.name}_value{len(constants)}")
        lines.append(f"  %first.{n} = getelementptr inbounds i8, ptr %state, i{word} {block.first(state)}")
        lines.append(_spread(plan, f"%first.{n}", name, max(len(value), 1), size, word))
    held = [f"{name} = internal constant {bytes_text(value)}" for value, name in constants.items()]
    return held, lines


def _repeated(state: State) -> bytes:
    """The bytes whose repetition is a state's value before the first call: a line of elements, or all of them."""
    data, size = state.reset.tobytes(), state.reset.itemsize
    if data == data[:size] * state.reset.size:
        return data[:size] * (CACHE_LINE // size)
    return data
