"""What a module records about nodes that were imported as something else than the file says, for the ledger.

    module attributes {qmlir.remarks = {probabilities = "ZipMap is left out: …"}} {…}

A remark belongs to the operation that carries the name of the tensor, whatever passes make of it.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.dialects.inputs import texts_by_name
from qmlir.ir.names import names_of

REMARKS = "qmlir.remarks"
"""The attribute key, on a module, of the remarks by the names of the source model's tensors."""


def remarks_of(module: ModuleOp) -> dict[str, str]:
    """Returns the remarks of a module by the names of tensors.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    return texts_by_name(module, REMARKS, "texts by tensor")


def remark_on(op: Operation, remarks: Mapping[str, str]) -> str:
    """Returns the remarks about the tensors that an operation gives or has absorbed, joined; empty without any."""
    if not remarks:
        return ""
    names = names_of(op)
    return "; ".join(dict.fromkeys(remarks[n] for n in (*names.tensors, *names.absorbed) if n in remarks))
