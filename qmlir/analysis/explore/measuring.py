"""Measures one network, quantized by one policy, on one variant of a device.

Cycles and utilization follow from the program's commands (backends/npu/report.py); the simulator counts the same.
Errors are measured with machine code for this processor, which computes the same bits as the simulator, but faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.output_measure import has_classes, relative_noise
from qmlir.analysis.scores import agreeing, with_logits
from qmlir.compiler import compile, quantize
from qmlir.devices import Device, load_device
from qmlir.errors import QmlirError
from qmlir.ir.interfaces import Array
from qmlir.isa.commands import encode
from qmlir.policies.policy import Policy
from qmlir.profiles.profile import Profile
from qmlir.sharded import network_of


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


def measured(models: Sequence[Model], task: Task) -> "Figures | QmlirError":
    """Measures a combination; returns the error if the device cannot serve it."""
    try:
        return _figures(models[task.model], load_device(task.device), Policy.of(task.policy))
    except QmlirError as error:
        return error


def _figures(model: Model, device: Device, policy: Policy) -> Figures:
    data = list(model.samples) or None
    quantized = quantize(model.network, model.profile, data=data, policy=policy, target=device)
    program = compile(quantized, target=device)
    report = program.predicted
    sqnr = agreement = None
    if model.tests:
        found = model.outputs(quantized)
        sqnr = float(-10 * np.log10(max(relative_noise(model.truth, found), 1e-30)))
        agreement = 100 * agreeing(model.truth, found) / len(found) if model.classes else None
    return Figures(
        cycles=int(report.cycles),
        utilization=float(report.utilization),
        weights=sum(len(segment.data) for segment in program.program.segments),
        stream=4 * len(encode(program.program.commands)),
        memory=sum(filled.tensors for filled in program.filled.values()),
        host=sum(entry.code == "host" for entry in program.ledger),
        sqnr=sqnr,
        agreement=agreement,
    )
