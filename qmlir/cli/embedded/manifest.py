"""The document of a bundle, `manifest.json`: what is in the folder, what it needs, and which numbers it computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from qmlir.cli.embedded.plan import Plan, Port

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.backends.cpu.llvm import Machine

KINDS: Mapping[str, str] = {
    ".o": "object",
    ".a": "library",
    ".h": "header",
    ".bin": "weights",
    ".txt": "weights",
    ".c": "source",
}
"""Suffix of a file → what it is."""


@dataclass(frozen=True)
class Figures:
    """Sizes of a bundle in bytes.

    bound   bytes that no arena for the network's buffers undercuts; None if the arena was not made small
    stack   the most bytes of stack that a call takes; None if not known
    """

    code: int
    constants: int
    arena: int
    bound: int | None
    stack: int | None


def manifest_fields(
    plan: Plan, model: Mapping[str, str | None], machine: "Machine", memory: str, figures: Figures,
    numerics: Mapping[str, Any], files: Mapping[str, bytes], quantizer: Mapping[str, Any] | None,
    device: Mapping[str, Any] | None,
) -> dict[str, Any]:  # fmt: skip
    """Returns the fields of the document.

    `quantizer` is what the network was quantized with, if it says so, and `device` what is said of its accelerator.
    """
    from qmlir.backends.cpu.llvm import host_triple, llvm_version

    return {
        "name": plan.name,
        "model": dict(model),
        "llvm": llvm_version(),
        "processor": {
            "triple": machine.triple or host_triple(),
            "cpu": machine.cpu,
            "features": machine.features,
            "bits": machine.system.bits,
            "libraries": ["c"] if machine.system.hosted else [],
        },
        "device": None if device is None else dict(device),
        "api": plan.api,
        "weights": plan.weights,
        "memory": memory,
        "sizes": {
            "code": figures.code,
            "constants": figures.constants,
            "arena": figures.arena,
            "arena_bound": figures.bound,
            "stack": figures.stack,
            "state": plan.state_size,
            "state_bytes": plan.block.exported_size if plan.block else 0,
        },
        "numerics": dict(numerics),
        "quantizer": None if quantizer is None else dict(quantizer),
        "inputs": _ports(plan.first.inputs),
        "outputs": _ports(plan.first.outputs),
        "entries": [
            {
                "name": call.entry or None,
                "function": plan.called(call),
                "inputs": _ports(call.inputs),
                "outputs": _ports(call.outputs),
            }
            for call in plan.calls
        ],
        "states": _states(plan),
        "files": [
            {
                "name": name,
                "kind": "build" if name == "CMakeLists.txt" else KINDS[name[name.rindex(".") :]],
                "bytes": len(data),
                "sha256": sha256(data).hexdigest(),
            }
            for name, data in files.items()
        ],
    }


def numerics_of(integers: "ModuleOp") -> dict[str, Any]:
    """Returns the runtime whose rounding a network follows, and the rounding contracts of its operations."""
    from xdsl.dialects.builtin import StringAttr

    from qmlir.policies.runtimes import runtime_of

    found = {
        value.data
        for op in integers.walk()
        for key, value in (*op.properties.items(), *op.attributes.items())
        if key == "contract" and isinstance(value, StringAttr)
    }
    return {"runtime": runtime_of(integers), "contracts": sorted(found)}


def _ports(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [
        {
            "name": port.spec.name,
            "argument": port.argument,
            "shape": port.spec.shape,
            "type": port.spec.dtype.name,
            "scale": None if port.spec.quantization is None else port.spec.quantization[0],
            "zero_point": None if port.spec.quantization is None else port.spec.quantization[1],
        }
        for port in ports
    ]


def _states(plan: Plan) -> list[dict[str, Any]]:
    """The states in the order of the bytes that a program exports."""
    block = plan.block
    return [] if block is None else [
        {
            "name": state.argument.name,
            "shape": state.argument.shape,
            "type": state.argument.dtype.name,
            "scale": None if state.argument.quantization is None else state.argument.quantization[0],
            "zero_point": None if state.argument.quantization is None else state.argument.quantization[1],
            "offset": offset,
        }
        for state, offset in zip(block.states, block.exported, strict=True)
    ]  # fmt: skip
