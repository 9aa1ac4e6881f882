"""The C text of the arithmetic of operations on rows: reciprocals, roots and roundings, from formulas of numerics."""

from collections.abc import Collection
from functools import partial

from qmlir.backends.npu.c_model.formula import function_in_c
from qmlir.isa.commands import Division, Normalize, Softmax
from qmlir.isa.encoding import Command
from qmlir.isa.limits import DROPPED, LEAST_SUMS, MOST_BEHIND, MOST_SUMS, ROOT_BITS, UNIT_BITS
from qmlir.numerics.elementary.gemmlowp import half_away, leading_zeros, product, reciprocal_of_sum
from qmlir.numerics.elementary.roots import inverse_root
from qmlir.numerics.tables import between_breakpoints


def row_arithmetic(kinds: Collection[type[Command]]) -> list[str]:
    """The functions and numbers that commands on rows need, each part as text.

    Args:
        kinds: The commands: softmax, normalizations, or both.
    """
    lines = [
        "/* " + "-" * 111,
        " * The arithmetic of operations on rows. */",
        "",
        *function_in_c("rounded_product", product, ("a", "b")),
    ]
    if Softmax in kinds:
        sums = {"LEAST_SUMS": LEAST_SUMS, "MOST_SUMS": MOST_SUMS}
        lines += [f"enum {{ UNIT_BITS = {UNIT_BITS}, DROPPED = {DROPPED} }};"]
        lines += [f"#define {name} " + ", ".join(f"INT64_C({by[d]})" for d in Division) for name, by in sums.items()]
        lines.append("")
        lines += function_in_c("leading_zeros", leading_zeros, ("x",))
        lines += function_in_c("half_away", half_away, ("x", "bits"))
        lines += function_in_c(
            "reciprocal_of_sum", partial(reciprocal_of_sum, integer_bits=DROPPED), ("total",), ("inverse", "bits")
        )
        lines += function_in_c("between_breakpoints", between_breakpoints, ("place",), table="table")
    if Normalize in kinds:
        lines += [f"enum {{ MOST_BEHIND = {MOST_BEHIND}, ROOT_BITS = {ROOT_BITS} }};", ""]
        lines += function_in_c("inverse_root", inverse_root, ("x",), ("root", "bits"))
    return ["\n".join(lines)]
