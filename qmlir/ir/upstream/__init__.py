"""What stands in for something that upstream MLIR has and xDSL lacks or does otherwise: dialects, parser, printer.

Each file says which change of xDSL would make it unnecessary. It may import the rest of `ir`; nothing here knows of
quantization except that element types may be quantized.
"""

from collections.abc import Sequence

from xdsl.ir import Dialect, Operation


def completed(dialect: Dialect, operations: Sequence[type[Operation]]) -> Dialect:
    """Returns a dialect with `operations` added, in place of its own operations of the same names."""
    names = {op.name for op in operations}
    kept = [op for op in dialect.operations if op.name not in names]
    return Dialect(dialect.name, [*kept, *operations], [*dialect.attributes])
