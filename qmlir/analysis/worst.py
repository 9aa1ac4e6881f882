"""Names the operations of a quantized network that are the least exact, and measures the error at its outputs.

These are a few rows of `analyze`, on few samples and within a bounded cost: `qmlir quantize` ends with them. numpy
evaluates the networks. It gives the same bits as machine code, and on so few samples is done long before a compiler is.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.tensors import TensorError, analyze, ranked
from qmlir.compiler import main_function
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import QmlirWarning
from qmlir.ir.interfaces import Array
from qmlir.ir.rewriting import tensor_name

SHOWN = 3
"""The most operations that are named."""

MOST_SAMPLES = 8
"""The most samples that are used."""

MACS = 300_000_000
"""MACs of all samples together; one sample is used if it alone has more."""

MOST_MACS = 500_000_000
"""MACs of one sample beyond which the errors are measured on request only."""

MOST_OPERATIONS = 200
"""Operations of a network beyond which the errors are measured on request only."""


@dataclass(frozen=True)
class WorstOperations:
    """The least exact operations of a quantized network, and the error at its outputs.

    samples  the number of samples that were compared
    worst    the operations with the lowest own SQNR, the lowest first; exact operations are left out
    outputs  the errors of the network's outputs
    """

    samples: int
    worst: tuple[TensorError, ...]
    outputs: tuple[TensorError, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures as plain data for JSON."""
        rows = {"worst": self.worst, "outputs": self.outputs}
        return asdict(self) | {name: [row.as_dict() for row in some] for name, some in rows.items()}


def affordable_samples(totals: Mapping[str, int | None], *, at_any_cost: bool = False) -> int:
    """Returns the number of samples that a few seconds allow; 0 if one sample takes longer.

    Args:
        totals: The totals of the network's ledger (`counts.totals`).
        at_any_cost: Whether to return 1 in place of 0.
    """
    macs = totals["macs"] or 0
    allowed = macs <= MOST_MACS and (totals["operations"] or 0) <= MOST_OPERATIONS
    return min(MOST_SAMPLES, max(1, MACS // max(macs, 1))) if allowed else int(at_any_cost)


def worst_operations(
    module: ModuleOp, quantized: ModuleOp, samples: Iterable[Array | Mapping[str, Array]]
) -> WorstOperations:
    """Returns the least exact operations of a quantized network, and the error at its outputs.

    Args:
        module: The float network; it stays unchanged.
        quantized: The network that `quantize` made of it; it stays unchanged.
        samples: A few arrays for the only input, or dicts of arrays by input name.

    Raises:
        QmlirError: The networks have no tensor in common, there is no sample, or an operation is unknown.
    """
    taken = list(samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QmlirWarning)  # about tensors that `analyze` would leave out
        rows = analyze(module, quantized, taken, compiled=False)
    own = [row for row in ranked(rows) if row.isolated_sqnr is not None and row.operation != "input"]
    worst = [row for row in own if row.isolated_sqnr is not None and row.isolated_sqnr < math.inf]
    names = dict.fromkeys(_output_tensors(main_function(quantized)))
    by_name = {row.tensor: row for row in rows}
    return WorstOperations(len(taken), tuple(worst[:SHOWN]), tuple(by_name[n] for n in names if n in by_name))


def _output_tensors(function: func.FuncOp) -> list[str]:
    """Returns the names of the tensors that a network returns; of a tensor behind a final cast, the tensor's own."""
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    names: list[str] = []
    for value in end.operands:
        while not tensor_name(value) and isinstance(value.owner, DequantizeCastOp):
            value = value.owner.operands[0]
        names.append(tensor_name(value))
    return names
