"""Vectors as registers: split into registers of a processor and joined again; LLVM optimizes both away."""

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from qmlir.lowering.loops_to_llvm.lowering import FunctionLowering
from qmlir.lowering.loops_to_llvm.vector import lanes_of

Form = tuple[str, int, str]
"""Features that it takes all of, the lanes of an operand's register, and an intrinsic."""


def form_of(f: FunctionLowering, forms: Sequence[Form], lanes: int) -> Form | None:
    """The first form that the processor has and whose registers divide a vector."""
    return next(
        (form for form in forms if f.machine.features.issuperset(form[0].split()) and lanes % form[1] == 0), None
    )


def by_register(
    f: FunctionLowering, width: int, operands: Sequence[SSAValue], compute: Callable[[Sequence[SSAValue]], SSAValue]
) -> SSAValue:
    """Splits vectors into registers, the first operand's of `width` lanes, and joins what `compute` makes of them."""
    registers = lanes_of(operands[0]) // width
    if registers == 1:
        return compute(operands)
    parts: list[SSAValue] = []
    for i in range(registers):
        sizes = [lanes_of(x) // registers for x in operands]
        split = [f.shuffle(x, x, range(i * n, (i + 1) * n)) for x, n in zip(operands, sizes, strict=True)]
        parts.append(compute(split))
    return joined(f, parts)


def joined(f: FunctionLowering, parts: list[SSAValue]) -> SSAValue:
    """Concatenates vectors of equal length, in a balanced tree of shuffles."""
    while len(parts) > 1:
        lanes = lanes_of(parts[0])
        if len(parts) % 2:  # an odd count: append the last vector again, and drop its copy at the end
            parts = [*parts, parts[-1]]
            whole = joined(f, parts)
            return f.shuffle(whole, whole, range((len(parts) - 1) * lanes))
        parts = [f.shuffle(x, y, range(2 * lanes)) for x, y in zip(parts[0::2], parts[1::2], strict=True)]
    return parts[0]
