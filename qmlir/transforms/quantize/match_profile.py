"""Which tensors of a network a profile knows, and why it does not know the others.

A tensor is known by its name and by how it is computed; its shape, without the batch, has to be the same. Files that
say neither shape nor how, as Glow's and those written by hand, are taken at their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.interfaces import shape_of
from qmlir.glow_profiles import glow_name
from qmlir.near_misses import near_misses
from qmlir.profiles import Profile, TensorProfile
from qmlir.rewriting import names_of_value
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.insert_observers import observed_keys, observers


@dataclass(frozen=True)
class Match:
    """What became of one observer.

    observer  the observer
    tensor    what the profile has for it; None if nothing
    reason    why it has nothing; empty if it has
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
    lacking  name → reason, of those it does not
    unused   names of the profile's tensors that the network does not observe
    """

    matched: tuple[str, ...]
    lacking: Mapping[str, str]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a terminal: one line on what matched, and one for each tensor that did not."""
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
        function: With observers.
        profile: Of this network or another.
        keys: Name → how the tensor is computed; a name without one is not compared.
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
    """The entry of a file of Glow's for a tensor: under its name, or its node's, as an identifier of C."""
    nodes = list(names_of_value(observer.value).nodes)
    return next((glow[g] for g in map(glow_name, [observer.tensor.data, *reversed(nodes)]) if g in glow), None)


def profiled_keys(module: ModuleOp, sym_name: str) -> dict[str, str]:
    """How the observed tensors of a function are computed, as profiling would have said: after simplifying."""
    copy = module.clone()
    simplify(copy)
    (function,) = (f for f in copy.walk() if isinstance(f, func.FuncOp) and f.sym_name.data == sym_name)
    return observed_keys(function)
