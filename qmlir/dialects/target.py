"""A target as data: the operations it computes in integers, their storage types, and its rounding contract.

Which operations have an integer form, and why the others have none, stands on the operations
(dialects/nn/quantizable.py). A target's file, qmlir/targets/*.toml, holds what differs between targets. The quantizer
and the lowering ask the target; neither knows a target by name.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from xdsl.ir import Operation

from qmlir.errors import OptionError
from qmlir.numerics.factors import Factors


@dataclass(frozen=True)
class Target:
    """The limits of a machine.

    name          as given to `--target`
    contract      the rounding contract of its requantizations
    integer       operation name → storage types ("i8", "u8", "i16") of its data that have an integer form
    floating      operation name → why it has no integer form
    sum_bits      bits of the largest sums of products that the machine can requantize
    factors       the factors between the scales of sums and results that the machine applies; None for any
    wide_results  whether contractions give results of 32 bits
    rounds_operands  whether the operands of a sum are rounded to the result's scale before they are added
    moves_bias    whether biases of 8 and 16 bits are shifted left to the steps of the sums, by one shift for a layer
    attends       whether it divides softmaxes behind the matrix products that read them (`nn.attend`)
    """

    name: str
    contract: str
    integer: dict[str, tuple[str, ...]]
    floating: dict[str, str]
    sum_bits: int = 32
    factors: Factors | None = None
    moves_bias: bool = False
    attends: bool = False
    wide_results: bool = False
    rounds_operands: bool = False

    def why_float(self, operation: Operation | str, storage: str) -> str | None:
        """Says why an operation cannot run in integers on data of this storage type; None if it can."""
        refused = self.refusal(operation, storage)
        return None if refused is None else refused[1]

    def refusal(self, operation: Operation | str, storage: str) -> tuple[str, str] | None:
        """Returns a ledger code and a reason if an operation cannot run in integers on data of this storage type.

        The code is `precision` if another storage type is supported, else `target`. Returns None if it can run.
        """
        types, reason = self._form(operation)
        if reason or not types:
            return "target", reason or f"target {self.name} has no integer form of it"
        if storage not in types:
            return "precision", f"target {self.name} computes it on {', '.join(types)}, not on {storage}"
        return None

    def _form(self, operation: Operation | str) -> tuple[Sequence[str], str]:
        """Returns the storage types of an operation's integer form, and why there is none."""
        from qmlir.dialects.nn.quantizable import QuantizableOp

        name = operation if isinstance(operation, str) else operation.name
        if name not in self.integer and name not in self.floating and isinstance(operation, QuantizableOp):
            return operation.INTEGER_FORM, operation.WHY_FLOAT
        return self.integer.get(name, ()), self.floating.get(name, "")


@cache
def load_target(name: str = "cpu") -> Target:
    """Returns the shipped target of that name; device files in the same folder have another form (devices/)."""
    from qmlir.dialects.nn import NN  # a driver that only prints its options needs no dialect
    from qmlir.dialects.nn.quantizable import QuantizableOp

    files = [f for f in (resources.files("qmlir") / "targets").iterdir() if f.name.endswith(".toml")]
    tables: dict[str, dict[str, Any]] = {
        f.name.removesuffix(".toml"): tomllib.loads(f.read_text("utf-8")) for f in files
    }
    known = sorted(name for name, table in tables.items() if "contract" in table)
    if name not in known:
        raise OptionError("target", f"must be one of {', '.join(known)}", got=name)
    data = tables[name]
    operations = [op for op in NN.operations if issubclass(op, QuantizableOp)]
    integer = {op.name: op.INTEGER_FORM for op in operations if not op.WHY_FLOAT}
    floating = {op.name: op.WHY_FLOAT for op in operations if op.WHY_FLOAT}
    sums = {"sum_bits": data["sum_bits"], "wide_results": data["wide_results"]}
    return Target(data["name"], data["contract"], integer, floating, **sums, attends=data["attends"])
