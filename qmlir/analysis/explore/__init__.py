"""Explores variants of a device and policies: what each combination costs a network, and what the network reaches.

A combination is a variant of the device (sweep.py), a policy and a network. Each is quantized, compiled and measured by
itself (measuring.py), on any workers. A combination that the device cannot serve is a row with the error that says why.
Results are kept on disk by a hash of all that they depend on, so that an interrupted sweep goes on where it stopped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.analysis.explore.measuring import Figures, Model, Task, measured
from qmlir.analysis.explore.result import FRONT, Explored, Row, objectives_given, undominated
from qmlir.analysis.explore.sweep import Variant, variants_of
from qmlir.analysis.kept_results import KeptResults, hash_of, profile_hash, results_folder, samples_hash
from qmlir.analysis.timing import random_inputs
from qmlir.compiler import loaded, main_function
from qmlir.compiler import profile as learn
from qmlir.devices import load_device, text_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import signature_of
from qmlir.ir.states import states_of
from qmlir.running.executors import Given, Progress, Workers, workers_of
from qmlir.running.shards import text_of as network_text
from qmlir.settings.arguments import Network, policy_given, profile_given, samples_given
from qmlir.settings.policy import Policy

if TYPE_CHECKING:
    from qmlir.devices import Accelerator
    from qmlir.profiles.profile import Profile

FOLDER = "explore"
"""The folder of results within the folder of compiled networks."""

FORMAT = 1
"""The version of the files; part of their names."""

RANDOM = 4
"""Random samples that ranges are learned from where there are no others; costs hardly depend on ranges."""


@dataclass(frozen=True)
class Workload:
    """A network to explore, with its samples.

    network   the float network, or its path
    samples   samples to quantize on; None to measure costs only
    tests     samples to measure errors on; by default those to quantize on
    profile   the ranges of its tensors, or a profile's path; by default they are learned from the samples
    name      as rows call it; by default the path

    >>> Workload("digits.onnx", samples, name="digits").name
    'digits'
    """

    network: Network
    samples: Iterable[Array | Mapping[str, Array]] | None = None
    tests: Iterable[Array | Mapping[str, Array]] | None = None
    profile: "Profile | str | Path | None" = None
    name: str = ""


def explore(
    device: "Accelerator",
    networks: "Network | Workload | Sequence[Network | Workload]",
    *,
    sweep: Mapping[str, Sequence[object]] | None = None,
    policies: "Mapping[str, Policy | Mapping[str, Any] | str | Path] | None" = None,
    front: Sequence[str] = FRONT,
    results: str | Path | None = None,
    workers: Given = None,
    done: Progress | None = None,
) -> Explored:
    """Measures networks, quantized by policies, on variants of a device.

    Args:
        device: The device, its name, or the path of its file.
        networks: A float network, its path, or a `Workload`; or several of them.
        sweep: Key of the device → the values to try, as for `Device.with_`; all combinations are measured.
        policies: Name → policy; by default the quantizer's own choices.
        front: What rows are compared by: names in `OBJECTIVES` (result.py).
        results: The folder in which results are kept; by default within the cache of compiled networks, if there is
            one.
        workers: A number of processes, the address of a Dask scheduler, or a `concurrent.futures.Executor`; by default
            this process. Rows are the same.
        done: Is called with the number of combinations that are done.

    Raises:
        OptionError: There is no such key, policy or objective.
        QmlirError: A network cannot be explored: it is quantized already, has states, or unknown operations.

    >>> import qmlir
    >>> rows = qmlir.explore("nmp", "digits.onnx", sweep={"array.lanes.n": [8, 16]})
    >>> [row.variant.said for row in rows if row.front]
    ['array.lanes.n=8', 'array.lanes.n=16']
    """
    objectives = objectives_given(front)
    base = load_device(device)
    variants = variants_of(base, sweep or {})
    named = {"default": Policy()} if policies is None else policies
    rules = {name: _policy(name, given) for name, given in named.items()}
    if not rules:
        raise OptionError("policies", "must hold a policy", got="none", remedy="leave them out for the defaults")
    several = list(networks) if isinstance(networks, list | tuple) else [networks]
    chosen = workers_of(workers)
    try:
        models = [_model(each, number, chosen) for number, each in enumerate(several)]
        rows = _Sweep(models, variants, rules, chosen, results_folder(results, FOLDER), done).rows()
    finally:
        if chosen is not workers:
            chosen.close()
    marks = undominated(rows, objectives)
    found = Explored(replace(row, front=mark) for row, mark in zip(rows, marks, strict=True))
    found.device, found.objectives = base.name, objectives
    return found


def _policy(name: str, given: Any) -> Policy:
    policy = policy_given(given)
    if policy.options:
        listed = ", ".join(policy.options)
        remedy = "give a policy of default and rules; the options of a run are those of explore"
        raise OptionError(f"policy {name}", "must have no options of a run", got=listed, remedy=remedy)
    return policy


def _model(given: Any, number: int, workers: Workers) -> Model:
    load = given if isinstance(given, Workload) else Workload(given)
    network = loaded(load.network)
    path = load.network if isinstance(load.network, str | Path) else ""
    name = load.name or Path(path).stem or f"network {number}"
    refuse_opaque(network, name)
    computed = (op for op in network.walk() if not isinstance(op, ConstantOp))
    if any(is_quantized(result) for op in computed for result in op.results):
        remedy = "give the network that it was made of"
        raise QmlirError("a sweep quantizes float networks", where=name, got="a quantized one", remedy=remedy)
    if states_of(main_function(network)):
        raise QmlirError("a sweep needs samples of their own", where=name, got="a network with states")
    samples = None if load.samples is None else list(samples_given(load.samples))
    tests = samples or [] if load.tests is None else list(samples_given(load.tests))
    if load.profile is not None:
        ranges = profile_given(load.profile)[0]
    else:
        signature = signature_of(main_function(network))
        drawn = [random_inputs(signature, seed) for seed in range(RANDOM)]
        ranges = learn(network, drawn if samples is None else samples, workers=workers)
    return Model(name, network_text(network), ranges, samples or [], tests)


@dataclass
class _Sweep:
    """The combinations of a sweep, measured in the order of models, variants and policies."""

    models: Sequence[Model]
    variants: Sequence[Variant]
    policies: Mapping[str, Policy]
    workers: Workers
    folder: Path | None
    done: Progress | None

    def rows(self) -> list[Row]:
        """Measures what is not known, and returns all rows."""
        kept = KeptResults(self.folder, {"format": FORMAT, "models": [_facts(model) for model in self.models]})
        tasks = [
            Task(number, text_of(variant.device), policy.as_dict())
            for number in range(len(self.models))
            for variant in self.variants
            for policy in self.policies.values()
            if variant.device is not None
        ]
        unknown = [task for task in tasks if kept.load(asdict(task)) is None]
        before = len(tasks) - len(unknown)

        def keep(task: Task, found: "Figures | QmlirError") -> None:
            is_error = isinstance(found, QmlirError)
            data = {"error": type(found).__name__, "reason": str(found)} if is_error else {"figures": asdict(found)}
            kept.store(asdict(task), data)

        def count(done: int) -> None:
            if self.done is not None:
                self.done(before + done)

        count(0)
        self.workers.map(measured, self.models, unknown, count, keep)
        known = iter([kept.load(asdict(task)) for task in tasks])
        return [
            _row(model.name, variant, name, None if variant.device is None else next(known))
            for model in self.models
            for variant in self.variants
            for name in self.policies
        ]


def _row(model: str, variant: Variant, policy: str, found: Any) -> Row:
    if found is None:
        return Row(model, variant, policy, None, str(variant.refused), type(variant.refused).__name__)
    if "figures" in found:
        return Row(model, variant, policy, Figures(**found["figures"]))
    return Row(model, variant, policy, None, found["reason"], found["error"])


def _facts(model: Model) -> dict[str, str]:
    """What the results of a model depend on."""
    return {
        "network": hash_of(model.text.encode()),
        "profile": profile_hash(model.profile),
        "samples": samples_hash(model.samples),
        "tests": samples_hash(model.tests),
    }
