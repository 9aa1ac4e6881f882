"""Weights, arena and the call without tables, as LLVM IR that goes into the object beside the network's code."""

from qmlir.backends.cpu.emit import symbol
from qmlir.cli.embedded.plan import Plan
from qmlir.ir.arena import CACHE_LINE
from qmlir.numerics import Array


def linked_text(plan: Plan, weights: Array, arena: int, word: int) -> str:
    """Returns the text.

    Args:
        plan: The bundle.
        weights: The bytes of the weights.
        arena: Bytes of the arena.
        word: Bits of an address.
    """
    lines: list[str] = []
    if plan.weights == "object":
        data = "".join(f"\\{byte:02X}" for byte in weights.tobytes())
        held = f'c"{data}"' if data else "zeroinitializer"
        lines.append(f"@{plan.name}_weights = constant [{weights.nbytes} x i8] {held}, align {CACHE_LINE}")
    elif plan.weights == "array":
        lines.append(f"@{plan.name}_weights = external constant [{weights.nbytes} x i8], align {CACHE_LINE}")
    if plan.api == "static":
        lines += _static(plan, arena)
    if plan.api == "glow":
        lines += _glow(plan, word)
    return "\n".join(["", *lines, ""])


def _static(plan: Plan, arena: int) -> list[str]:
    """The arena, and a function with an argument for each input and output."""
    given = "ptr %weights, " if plan.passes_weights else ""
    arguments = ", ".join(f"ptr %{port.label}" for port in plan.ports)
    weights = "%weights" if plan.passes_weights else f"@{plan.name}_weights"
    return [
        f"@{plan.name}_arena = internal global [{arena} x i8] zeroinitializer, align {CACHE_LINE}",
        "",
        f"define void @{symbol(plan.name)}_run({given}{arguments}) nounwind {{",
        *_tables(plan, {port.label: f"%{port.label}" for port in plan.ports}),
        f"  call void @{symbol(plan.entry)}(ptr {weights}, ptr @{plan.name}_arena, ptr %inputs, ptr %outputs) noinline",
        "  ret void",
        "}",
    ]


def _glow(plan: Plan, word: int) -> list[str]:
    """The function of Glow's bundles: inputs and outputs lie at offsets of one memory; it returns 0."""
    places = [
        f"  %{port.label} = getelementptr inbounds i8, ptr %mutable, i{word} {port.offset}" for port in plan.ports
    ]
    return [
        f"define i32 @{symbol(plan.name)}(ptr %weights, ptr %mutable, ptr %activations) nounwind {{",
        *places,
        *_tables(plan, {port.label: f"%{port.label}" for port in plan.ports}),
        f"  call void @{symbol(plan.entry)}(ptr %weights, ptr %activations, ptr %inputs, ptr %outputs) noinline",
        "  ret i32 0",
        "}",
    ]


def _tables(plan: Plan, places: dict[str, str]) -> list[str]:
    """The tables of pointers that the network's function takes."""
    lines: list[str] = []
    for name, ports in (("inputs", plan.inputs), ("outputs", plan.outputs)):
        lines.append(f"  %{name} = alloca [{max(len(ports), 1)} x ptr]")
        for i, port in enumerate(ports):
            lines.append(f"  %{name}{i} = getelementptr inbounds [{len(ports)} x ptr], ptr %{name}, i32 0, i32 {i}")
            lines.append(f"  store ptr {places[port.label]}, ptr %{name}{i}")
    return lines
