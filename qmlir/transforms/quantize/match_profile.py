"""Finds the tensors of a network in a profile, and says why others are not found.

A tensor is found by its name. It must be computed in the same way as when it was profiled, and have the same shape
without the batch. Profiles that state neither, such as Glow's and files written by hand, are matched by name alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.calib import ObserveOp
from qmlir.errors.near_misses import near_misses
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import names_of_value
from qmlir.profiles.glow import glow_name
from qmlir.profiles.profile import Profile, TensorProfile
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.insert_observers import observed_keys, observers


@dataclass(frozen=True)
class Match:
    """What a profile has for an observer.

    observer  the observer
    tensor    the profile's entry for its tensor; None if there is no fitting entry
    reason    why there is no fitting entry; empty if there is
    """

    observer: ObserveOp
    tensor: TensorProfile | None
    reason: str = ""

    @property
    def name(self) -> str:
        """The observed tensor's name."""
        return self.observer.tensor.data


@dataclass(frozen=True)
class LoadReport:
    """What a profile and a network have in common.

    matched  names of the network's tensors that the profile knows
    lacking  name → reason, for the network's tensors that the profile does not know
    unused   names of the profile's tensors that the network does not observe
    """

    matched: tuple[str, ...]
    lacking: Mapping[str, str]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report for a terminal: a line on the tensors that matched, and a line for each tensor that did not."""
        found = [f"{len(self.matched)} of {len(self.matched) + len(self.lacking)} tensors found in the profile"]
        found += [f'  not found: "{name}": {reason}' for name, reason in self.lacking.items()]
        return found + [f'  not used: "{name}": the network observes no such tensor' for name in self.unused]


def report_of(matches: Sequence[Match], profile: Profile) -> LoadReport:
    """The report of the matches of one module."""
    matched = [m for m in matches if m.tensor is not None]
    used = {id(m.tensor) for m in matched}
    return LoadReport(
        tuple(dict.fromkeys(m.name for m in matched)),
        {m.name: m.reason for m in matches if m.tensor is None},
        tuple(name for name, tensor in profile.tensors.items() if id(tensor) not in used),
    )


def match_profile(function: func.FuncOp, profile: Profile, *, keys: Mapping[str, str]) -> list[Match]:
    """What a profile has for each observer of a function.

    Args:
        function: A function with observers.
        profile: A profile of this network or another.
        keys: Name → hash of how the tensor is computed; without a hash, only name and shape are compared.
    """
    glow = {name: tensor for name, tensor in profile.tensors.items() if tensor.shape is None}
    return [_match(observer, profile, glow, keys.get(observer.tensor.data, "")) for observer in observers(function)]


def _match(observer: ObserveOp, profile: Profile, glow: Mapping[str, TensorProfile], key: str) -> Match:
    name, shape = observer.tensor.data, shape_of(observer.value)[1:]
    tensor = profile.tensors.get(name) or _of_glow(observer, glow)
    if tensor is None:
        same = [n for n, t in profile.tensors.items() if key and t.key == key]
        if same:
            return Match(observer, None, f'not there; "{same[0]}" is computed in the same way')
        near = near_misses(name, profile.tensors)
        return Match(observer, None, "not there" + (f"; {near}" if near and near.startswith("did") else ""))
    if tensor.count == 0:
        return Match(observer, None, "no element of it was seen")
    if tensor.shape is not None and tensor.shape != shape:
        return Match(observer, None, f"of shape {list(tensor.shape)} there, {list(shape)} here, without the batch")
    if key and tensor.key and tensor.key != key:
        return Match(observer, None, "computed in another way when it was profiled")
    return Match(observer, tensor)


def _of_glow(observer: ObserveOp, glow: Mapping[str, TensorProfile]) -> TensorProfile | None:
    """The entry for a tensor in a profile of Glow's, under the name of the tensor or its node as a C identifier."""
    nodes = list(names_of_value(observer.value).nodes)
    return next((glow[g] for g in map(glow_name, [observer.tensor.data, *reversed(nodes)]) if g in glow), None)


def profiled_keys(module: ModuleOp, sym_name: str) -> dict[str, str]:
    """Name → hash of how each observed tensor of a function is computed after simplifying, as profiling hashes it."""
    copy = module.clone()
    simplify(copy)
    (function,) = (f for f in copy.walk() if isinstance(f, func.FuncOp) and f.sym_name.data == sym_name)
    return observed_keys(function)
