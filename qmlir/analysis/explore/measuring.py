"""Measures one network, quantized by one policy, on one variant of a device.

Cycles and utilization follow from the program's commands (backends/npu/report.py); the simulator counts the same.
Errors are measured with machine code for this processor, which computes the same bits as the simulator, but faster.

Variants that differ in lanes or memories quantize alike: a worker quantizes a network, and measures its errors, once
for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.output_measure import has_classes, relative_noise
from qmlir.analysis.scores import agreeing, with_logits
from qmlir.compiler import compile, quantize
from qmlir.devices import Device, load_device, text_of
from qmlir.devices.legality.requirements import quantization_key
from qmlir.errors import QmlirError
from qmlir.ir.facts import DEVICE
from qmlir.ir.interfaces import Array
from qmlir.isa.commands import encode
from qmlir.profiles.profile import Profile
from qmlir.running.shards import network_of
from qmlir.settings.policy import Policy


@dataclass(frozen=True)
class Figures:
    """What a network costs on a device, and what it reaches.

    cycles       predicted cycles of a call
    utilization  products of a call, as a share of those that the array could compute in these cycles
    weights      bytes of the program's constants
    stream       bytes of its commands
    memory       bytes of tensors in external memories
    host         number of operations that the host computes
    sqnr         of the logits, or of all outputs, in dB; None without samples
    agreement    percent of the samples with float's first class; None without samples or without classes
    """

    cycles: int
    utilization: float
    weights: int
    stream: int
    memory: int
    host: int
    sqnr: float | None
    agreement: float | None


@dataclass(frozen=True)
class Task:
    """A combination to measure.

    model   the index of the network among those given to workers
    device  the device file's text
    policy  the policy as plain data
    """

    model: int
    device: str
    policy: Mapping[str, Any]


@dataclass(frozen=True)
class Quantized:
    """A quantized network, with `sqnr` and `agreement` as in `Figures`."""

    network: ModuleOp
    sqnr: float | None
    agreement: float | None

    def on(self, device: Device) -> ModuleOp:
        """Returns the network for a device for which it would be quantized alike."""
        network = self.network.clone()
        DEVICE.put(network, text_of(device))
        return network


KEPT = 8
"""The most quantized networks that a worker keeps for other variants; a sweep has hardly more policies."""


@dataclass
class Model:
    """A float network with its samples, as workers receive it.

    name      the network's name in the table
    text      the network in MLIR's text
    profile   the ranges of its tensors
    samples   samples to quantize on; empty to quantize by the profile alone
    tests     samples to measure errors on
    """

    name: str
    text: str
    profile: Profile
    samples: Sequence[Any] = ()
    tests: Sequence[Any] = ()
    _known: dict[tuple[str, str], Quantized] = field(default_factory=dict[tuple[str, str], Quantized], repr=False)

    @cached_property
    def network(self) -> ModuleOp:
        """The float network."""
        return network_of(self.text)

    @cached_property
    def classes(self) -> bool:
        """Whether its outputs are logits of classes."""
        return has_classes(self.network)

    @cached_property
    def truth(self) -> Array:
        """The outputs of the float network, one row a sample."""
        return self.outputs(self.network)

    def outputs(self, network: ModuleOp) -> Array:
        """Returns the logits of a network, or all of its outputs, one row a sample."""
        executable = compile(with_logits(network) if self.classes else network)
        rows: list[Array] = []
        for sample in self.tests:
            outputs = [np.array(each) for each in executable.run(sample)]
            rows.append(outputs[-1].ravel() if self.classes else np.concatenate([o.ravel() for o in outputs]))
        return np.stack(rows)

    def quantized(self, device: Device, policy: Policy) -> Quantized:
        """Returns the network as a policy quantizes it for a device; known networks are not quantized again.

        Raises:
            QmlirError: It cannot be quantized so.
        """
        key = quantization_key(device), policy.text()
        if key not in self._known:
            network = quantize(
                self.network, self.profile, data=list(self.samples) or None, policy=policy, target=device
            )
            sqnr = agreement = None
            if self.tests:
                found = self.outputs(network)
                sqnr = float(-10 * np.log10(max(relative_noise(self.truth, found), 1e-30)))
                agreement = 100 * agreeing(self.truth, found) / len(found) if self.classes else None
            if len(self._known) == KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = Quantized(network, sqnr, agreement)
        return self._known[key]


def measured(models: Sequence[Model], task: Task) -> "Figures | QmlirError":
    """Measures a combination; returns the error if the device cannot serve it."""
    try:
        return _figures(models[task.model], load_device(task.device), Policy.of(task.policy))
    except QmlirError as error:
        return error


def _figures(model: Model, device: Device, policy: Policy) -> Figures:
    quantized = model.quantized(device, policy)
    program = compile(quantized.on(device), target=device)
    report = program.predicted
    return Figures(
        cycles=int(report.cycles),
        utilization=float(report.utilization),
        weights=sum(len(segment.data) for segment in program.program.segments),
        stream=4 * len(encode(program.program.commands)),
        memory=sum(filled.tensors for filled in program.filled.values()),
        host=sum(entry.code == "host" for entry in program.ledger),
        sqnr=quantized.sqnr,
        agreement=quantized.agreement,
    )
