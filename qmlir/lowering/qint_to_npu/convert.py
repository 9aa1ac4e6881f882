"""`qint-to-npu`: divides an integer network into layers of a device and calls of its host.

Enters: functions in qint, the data movement of nn, constants, and operations that only the host computes: casts and
float operations. Leaves: functions of `npu.layer` and `npu.host`, whose regions hold the same operations and copies of
the constants they read. The module carries the device's name or file (`npu.device`). The recorded decision of each
operation says where it runs and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.devices import Device, load_device
from qmlir.devices.legality.limits import computes, partner_of
from qmlir.devices.model.boundary_transfers import call
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.npu.layers import HostOp, LayerOp, PartOp, YieldOp
from qmlir.dialects.quant.ops import CastOp
from qmlir.errors import PipelineError
from qmlir.ir.facts import DEVICE
from qmlir.ir.passes import option
from qmlir.ir.rewriting import node_name, replace
from qmlir.lowering.qint_to_npu.partition import Part, falls_back, partition
from qmlir.lowering.qint_to_npu.prepare import prepare
from qmlir.policies.ledger import decide, decision_of


@dataclass(frozen=True)
class QIntToNpuPass(ModulePass):
    """Divides an integer network between a device (`npu.layer`) and its host (`npu.host`).

    ```mlir
    %2 = qint.requantize %1 {…} : tensor<1x16xi32> -> tensor<1x16xi8>
    %3 = qint.softmax %2 {…} : tensor<1x16xi8> -> tensor<1x16xi8>
    // becomes
    %2 = npu.layer "fc1" … { … qint.fully_connected … qint.requantize … } : …
    %3 = npu.host "softmax" … { … qint.softmax … } {reasons = "softmax: vta has no softmax (ops.softmax)"} : …
    ```

    The pass refuses a network of which the device computes nothing. It also refuses a network that needs the host for
    operations which the device file does not leave to the host.
    """

    name = "qint-to-npu"
    device: str = option("nmp", "name of a device that comes with qmlir, or path of a device file")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = load_device(self.device)
        for function in list(op.body.block.ops):
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                _divide(function, device)
        DEVICE.put(op, self.device)


def _divide(function: func.FuncOp, device: Device) -> None:
    """Replaces the operations of a function by its parts: layers and host calls."""
    old = function.body.block
    prepare(old, device)
    parts = partition(old, device)
    _refuse_nothing(parts, device)
    _refuse_fallback(parts, device)
    _record(parts, device)
    parts = [each for part in parts for each in _with_equivalents(part)]
    new = Block(arg_types=[a.type for a in old.args])
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
    for before, after in values.items():
        after.name_hint = before.name_hint
    labels: set[str] = set()
    for part in parts:
        made = _part(part, values, _unique(_label(part), labels), device)
        new.add_op(made)
        for before, after in zip([*part.outputs(), *part.passed], made.outputs, strict=True):
            values[before] = after
            after.name_hint = before.name_hint
    returned = cast(func.ReturnOp, old.last_op)
    new.add_op(func.ReturnOp(*(values[v] for v in returned.operands)))
    region = function.body
    region.detach_block(old)
    region.add_block(new)
    old.erase(safe_erase=False)


def _with_equivalents(part: Part) -> list[Part]:
    """The parts with the operations that the device computes: one, or one for each pool that takes a pool's place."""
    if part.equivalent is None:
        return [part]
    first, *others = part.operations
    new = part.equivalent.form.build(first)
    replace(PatternRewriter(first), first, new)
    computing = [op for op in new if not isinstance(op, ConstantOp)]
    if any(partner_of(op) is not None for op in computing):
        return [Part([*computing, *others], on_host=False)]
    return [Part([op], on_host=False) for op in computing]


def _part(part: Part, values: dict[SSAValue, SSAValue], label: str, device: Device) -> PartOp:
    """The `npu.layer` or `npu.host` that holds a part; `values` maps old values to new ones."""
    inputs = part.inputs()
    block = Block(arg_types=[v.type for v in inputs])
    inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for value in dict.fromkeys([*(o for op in part.operations for o in op.operands), *part.passed]):
        if isinstance(constant := value.owner, ConstantOp):
            block.add_op(constant.clone(inside))
    for op in part.operations:
        block.add_op(op.clone(inside))
    outputs = [*part.outputs(), *part.passed]
    block.add_op(YieldOp([inside[v] for v in outputs]))
    operands, types = [values[v] for v in inputs], [v.type for v in outputs]
    if not part.on_host:
        return LayerOp(label, operands, types, Region(block))
    cycles = call(part.operations, inputs, outputs, device).cycles
    return HostOp(label, operands, types, Region(block), _reasons_text(part), cycles)


def _label(part: Part) -> str:
    """A part's label: the last node of a layer, the first node of a host call.

    A part without operations, which only passes values on, is called `returned`.
    """
    if not part.operations:
        return "returned"
    named = part.operations[0 if part.on_host else -1]
    return node_name(named)


def _unique(label: str, taken: set[str]) -> str:
    """Makes a label unique among the labels in `taken`, and adds it to them."""
    found, n = label, 1
    while found in taken:
        found, n = f"{label}.{n}", n + 1
    taken.add(found)
    return found


def _reasons_text(part: Part) -> str | None:
    """The reasons why operations of a part run on the host, each with its node's name; None if there are no reasons."""
    return "; ".join(f"{node_name(op)}: {reason}" for op, found in part.reasons.items() for reason in found) or None


# ---------------------------------------------------------------------------------------------------------------
# Refusals, and the record of decisions


def _refuse_nothing(parts: Sequence[Part], device: Device) -> None:
    """Refuses a network of which the device computes nothing.

    Raises:
        PipelineError: No operation on the device computes; the message lists the reasons.
    """
    if any(computes(op) for part in parts if not part.on_host for op in part.operations):
        return
    seen = dict.fromkeys(f"{op.name}: {found[0]}" for part in parts for op, found in part.reasons.items())
    raise PipelineError(
        QIntToNpuPass.name,
        f"{device.name} must compute some operation of the network",
        got="none of them" + (f" ({'; '.join(seen)})" if seen else ""),
        remedy="quantize the network for the device; `qmlir device check` names the key of the file for each refusal",
    )


def _refuse_fallback(parts: Sequence[Part], device: Device) -> None:
    """Refuses a network if the device cannot compute an operation that the device file does not leave to the host.

    Casts are exempt, because the caller executes them.

    Raises:
        PipelineError: There are such operations; the message names them.
    """
    left = {
        op: found
        for part in parts
        for op, found in part.reasons.items()
        if not isinstance(op, CastOp) and not falls_back(op, device)
    }
    if left:
        named = "; ".join(f'{op.name} "{node_name(op)}": {found[0]}' for op, found in left.items())
        key = "fallback.kind" if device.fallback.kind == "error" else "fallback.operations"
        raise PipelineError(
            QIntToNpuPass.name,
            f"{device.name} must compute every operation that {key} does not leave to the host",
            got=named,
            remedy=f"change the network, or {key} of the device file",
        )


def _record(parts: Sequence[Part], device: Device) -> None:
    """Records where each integer operation runs and, for the host, why; float operations keep their decision."""
    for part in parts:
        for op in part.operations:
            if (before := decision_of(op)) is None or before.outcome.data == "float":
                continue
            if part.on_host:
                why = "; ".join(part.reasons[op])
                decide(op, "quantized", "host", f"{before.reason.data}; the host computes it: {why}")
            else:
                decide(op, "quantized", "device", f"{before.reason.data}; {device.name} computes it{_as(part, op)}")


def _as(part: Part, op: Operation) -> str:
    """What the device computes in place of an operation: `, as a convolution of …`; nothing if it computes that."""
    made = part.equivalent
    return (
        "" if made is None or op not in (part.operations[0], partner_of(part.operations[0])) else f", as {made.words}"
    )
