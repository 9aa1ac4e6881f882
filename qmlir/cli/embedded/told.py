"""What a bundle with `--layers` tells of its layers: their names and results in the object, and declarations in C."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from qmlir.cli.embedded.linked import bytes_text
from qmlir.cli.embedded.plan import Plan
from qmlir.ir.facts import TOLD_LAYERS, TOLD_RESULTS
from qmlir.ir.types import dtype_of, is_memref

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class ToldLayer:
    """A layer of which a program is told.

    name    its source nodes
    tensor  the name of its result; empty if it has none
    type    the type of the result's elements, as numpy calls it; empty if no result is told
    shape   the result's dimensions
    bytes   the result's bytes; 0 if no result is told, because it never lies in memory as a whole
    """

    name: str
    tensor: str = ""
    type: str = ""
    shape: tuple[int, ...] = ()
    bytes: int = 0


def told_layers(lowered: "ModuleOp", names: Sequence[str]) -> list[ToldLayer]:
    """The layers of a module that has passed `call-layers`; `names` are those of its operations, by number."""
    numbers: Sequence[int] = TOLD_LAYERS.of(lowered) or ()
    results = TOLD_RESULTS.of(lowered) or ArrayAttr([])
    return [_layer(names[number], result) for number, result in zip(numbers, results.data, strict=True)]


def _layer(name: str, result: object) -> ToldLayer:
    match result:
        case ArrayAttr(data=(StringAttr(data=tensor), type)) if is_memref(type):
            dtype, shape = dtype_of(type.element_type), type.get_shape()
            return ToldLayer(name, tensor, dtype.name, shape, prod(shape) * dtype.itemsize)
        case _:
            return ToldLayer(name)


def _rank(layers: Sequence[ToldLayer]) -> int:
    """The dimensions that each shape has room for."""
    return max([1, *(len(layer.shape) for layer in layers)])


def layers_text(plan: Plan, layers: Sequence[ToldLayer]) -> str:
    """Returns what is known of layers, and a function that does nothing, which a program's own replaces; or nothing.

    Args:
        plan: The bundle.
        layers: The layers, by their numbers.
    """
    if plan.hook is None:
        return ""
    texts: dict[str, str] = {}

    def text(held: str) -> str:
        return "ptr " + texts.setdefault(held, f"@{plan.name}_layer_text{len(texts)}")

    rank = _rank(layers)
    names = ", ".join([*(text(layer.name) for layer in layers), "ptr null"])
    form = f"{{ptr, ptr, i32, i32, [{rank} x i32]}}"
    results: list[str] = []
    for each in layers:
        shape = ", ".join(f"i32 {n}" for n in (*each.shape, *[0] * (rank - len(each.shape))))
        numbers = f"i32 {each.bytes}, i32 {len(each.shape)}, [{rank} x i32] [{shape}]"
        results.append(f"{form} {{{text(each.tensor)}, {text(each.type)}, {numbers}}}")
    held = [
        f"{called} = private constant {bytes_text(content.encode() + bytes(1))}" for content, called in texts.items()
    ]
    return "\n".join([
        *held,
        f"@{plan.name}_layers = constant [{len(layers) + 1} x ptr] [{names}]",
        f"@{plan.name}_results = constant [{len(layers)} x {form}] [{', '.join(results)}]",
        f"define weak void @{plan.hook}(i32 %layer, i32 %begins, ptr %result) nounwind {{",
        "  ret void",
        "}",
        "",
    ])  # fmt: skip


def layer_macros(plan: Plan, layers: Sequence[ToldLayer]) -> list[str]:
    """The macros about layers."""
    return [] if plan.hook is None else [f"#define {plan.macro}_LAYERS {len(layers)}"]


def layer_declarations(plan: Plan, layers: Sequence[ToldLayer]) -> list[str]:
    """The declarations of the function that is told, and of the names and results."""
    if plan.hook is None:
        return []
    return [
        "/* Called where a layer begins, and with 0 where it has ended; layers that take turns do so in each. Behind",
        "   a layer, `result` is its result while this function runs; 0 where none is told, and where a layer begins.",
        "   The object has one that does nothing, which a program's own replaces. Its stack is not counted. */",
        f"void {plan.hook}(uint32_t layer, int begins, const void *result);",
        "",
        "/* Names of layers, by their numbers. */",
        f"extern const char *const {plan.name}_layers[];",
        "",
        "/* The result of a layer: the name of its tensor, which may be empty, the type of its elements, its bytes,",
        "   and its shape, channels last. `bytes` is 0 where none is told: it never lies in memory as a whole. */",
        "typedef struct {",
        "  const char *tensor, *type;",
        f"  uint32_t bytes, rank, shape[{_rank(layers)}];",
        f"}} {plan.name}_result;",
        f"extern const {plan.name}_result {plan.name}_results[];",
        "",
    ]
