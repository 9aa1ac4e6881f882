"""`apply-profile`: writes the ranges of a profile on the observers of a module."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp, UnitAttr, f64
from xdsl.passes import ModulePass

from qmlir.dialects.calib import HistogramAttr, ObserveOp, bounds_attribute
from qmlir.dialects.nn import ConstantOp, SliceOp
from qmlir.dialects.qint.requantize import QIntOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.display import counted
from qmlir.errors import OptionError, ProfileError, QmlirWarning, near_misses
from qmlir.ir.facts import ROTATION
from qmlir.ir.passes import option
from qmlir.ir.rewriting import names_of_value
from qmlir.ir.signature import defined_functions
from qmlir.profiles.files import glow_name
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import TensorProfile
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.ranges.observers import OneSample, insert_observers, observed_keys, observers

# ---------------------------------------------------------------------------------------------------------------
# Finds the tensors of a network in a profile, and says why others are not found.
#
# A tensor is found by its name. It must be computed in the same way as when it was profiled, and have the same shape
# without the batch. A tensor that has another name there is found by how it is computed; tensors that are computed in
# the same way, such as parallel branches, are then taken in the order of the program, with a warning. Profiles that
# state neither, such as Glow's and files written by hand, are matched by name alone.


@dataclass(frozen=True)
class Match:
    """What a profile has for an observer.

    observer  the observer
    tensor    the profile's entry for its tensor; None if there is no fitting entry
    reason    why there is no fitting entry; empty if there is
    there     the tensor's name in the profile, if it is another one
    """

    observer: ObserveOp
    tensor: TensorProfile | None
    reason: str = ""
    there: str = ""

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
    renamed  name → name in the profile, for the tensors that have another name there
    """

    matched: tuple[str, ...]
    lacking: Mapping[str, str]
    unused: tuple[str, ...]
    renamed: Mapping[str, str]

    def lines(self) -> list[str]:
        """The report for a terminal: a line on the tensors that matched, and a line for each tensor that did not."""
        found = [f"{len(self.matched)} of {len(self.matched) + len(self.lacking)} tensors found in the profile"]
        found += [f'  renamed: "{name}" is "{there}" there' for name, there in self.renamed.items()]
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
        {m.name: m.there for m in matched if m.there},
    )


def match_profile(
    function: func.FuncOp, profile: Profile, *, keys: Mapping[str, str], by_name: bool = False
) -> list[Match]:
    """What a profile has for each observer of a function.

    Args:
        function: A function with observers.
        profile: A profile of this network or another.
        keys: Name → hash of how the tensor is computed; without a hash, only name and shape are compared.
        by_name: Whether a tensor of the right name and shape fits however it was computed.
    """
    glow = {name: tensor for name, tensor in profile.tensors.items() if tensor.shape is None}
    one = OneSample.of(function)

    def matched(observer: ObserveOp, key: str) -> Match:
        return _match(observer, profile, glow, key, one.shape(observer.value)[1:])

    matches = [matched(observer, keys.get(observer.tensor.data, "")) for observer in observers(function)]
    matches = _renamed(matches, profile, keys)
    if not by_name:
        return matches
    return [matched(m.observer, "") if m.tensor is None else m for m in matches]


def _match(
    observer: ObserveOp, profile: Profile, glow: Mapping[str, TensorProfile], key: str, shape: tuple[int, ...]
) -> Match:
    """What a profile has for an observer under the name of its tensor; `shape` is that of one sample."""
    name = observer.tensor.data
    tensor = profile.tensors.get(name) or _of_glow(observer, glow)
    if tensor is None:
        near = near_misses(name, profile.tensors)
        return Match(observer, None, "not there" + (f"; {near}" if near and near.startswith("did") else ""))
    if tensor.count == 0:
        return Match(observer, None, "no element of it was seen")
    if tensor.shape is not None and tensor.shape != shape:
        return Match(observer, None, f"of shape {list(tensor.shape)} there, {list(shape)} here, without the batch")
    if key and tensor.key and tensor.key != key:
        return Match(observer, None, "computed in another way when it was profiled")
    return Match(observer, tensor)


def _renamed(matches: Sequence[Match], profile: Profile, keys: Mapping[str, str]) -> list[Match]:
    """Finds tensors that have another name in the profile, by how they are computed.

    Tensors that are computed in the same way are taken in the order of the program, if there are as many here as there.
    """
    used = {id(m.tensor) for m in matches if m.tensor is not None}
    there: dict[str, list[str]] = {}
    for name, tensor in profile.tensors.items():
        if tensor.key and tensor.count and id(tensor) not in used:
            there.setdefault(tensor.key, []).append(name)
    here: dict[str, list[str]] = {}
    for match in matches:
        if match.tensor is None and (key := keys.get(match.name)) and match.name not in here.get(key, ()):
            here.setdefault(key, []).append(match.name)
    found: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for key, names in here.items():
        others = there.get(key, [])
        if len(others) == len(names):
            found |= zip(names, others, strict=True)
            _warn_of_order(names, others)
        elif others:
            several = "are" if len(others) > 1 else "is"
            reasons |= dict.fromkeys(names, f"not there; {_some(others)} {several} computed in the same way")
    return [
        replace(m, tensor=profile.tensors[found[m.name]], reason="", there=found[m.name])
        if m.tensor is None and m.name in found
        else replace(m, reason=reasons[m.name])
        if m.tensor is None and m.name in reasons
        else m
        for m in matches
    ]


def _warn_of_order(here: Sequence[str], there: Sequence[str]) -> None:
    if len(here) > 1:
        text = f"profile: {_some(here)} have other names there, {_some(there)}, and are computed in the same way, so "
        warnings.warn(text + "that they were taken in the order of the program", QmlirWarning, stacklevel=2)


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


@dataclass(frozen=True)
class ApplyProfilePass(ModulePass):
    """Gives each `calib.observe` the range that the profile holds for its tensor.

    A network without observers is first simplified and gets observers, as in profiling: a profile lists the tensors
    that are left after fusing.

    A profile of another network is refused: a profile that lacks an observed tensor, or has it in another shape.

    ```mlir
    calib.observe %0 {name = "r"} : tensor<4xf32>
    // becomes
    calib.observe %0 {name = "r", range = [0.0, 6.5]} : tensor<4xf32>
    ```
    """

    name = "apply-profile"
    file: str = option("", "the profile, as written by `qmlir profile` or by Glow")
    partial: bool = option(False, "accept a profile that lacks some of the observed tensors")
    by_name: bool = option(False, "accept a tensor that was computed in another way when it was profiled")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.file:
            raise OptionError("apply-profile", "needs a file", remedy='give one: --apply-profile="file=profile.yaml"')
        apply_profile(op, Profile.load(self.file), source=self.file, partial=self.partial, by_name=self.by_name)


def apply_profile(
    module: ModuleOp,
    profile: Profile,
    *,
    source: str = "profile",
    partial: bool = False,
    by_name: bool = False,
    switch: str = "partial=true",
    simplified: bool = False,
) -> LoadReport:
    """Writes the ranges of `profile` on the observers of `module`, which gets observers if it has none yet.

    Args:
        module: Changed in place.
        profile: What was observed on this network, at any batch size.
        source: The name of the profile in errors.
        partial: Accept a profile that lacks some observed tensors; they stay without a range.
        by_name: Accept tensors of the right name and shape however they were computed, where none is computed in the
            same way.
        switch: How the user asks for `partial`, for errors.
        simplified: Whether the module is simplified, so that its tensors are computed as in profiling.

    Returns:
        Which tensors were found in the profile, and why the others were not.

    Raises:
        ProfileError: The profile is empty, or lacks tensors of the network.
    """
    if not any(t.count for t in profile.tensors.values()):
        raise ProfileError(source, "must hold at least one sample", got="an empty profile", remedy="profile on data")
    matches = _matches(module, profile, by_name, simplified=simplified)
    missing = [m for m in matches if m.tensor is None and not _may_lack(m.observer)]
    if missing and not (partial and len(missing) < len(matches)):
        rotated = ROTATION.of(module)
        network = "this model" if rotated is None else f"this model with rotate={rotated}"
        raise ProfileError(
            source,
            f"must be of this network, whose tensors {_some([m.name for m in missing])} it lacks",
            got=f"a profile of {counted(len(profile.tensors), 'tensor')}, {_some(list(profile.tensors))} "
            f'("{missing[0].name}" is {missing[0].reason})',
            remedy=f"profile {network}, or accept what fits with {switch}",
        )
    for match in matches:
        if match.tensor is not None:
            _observe(match.observer, match.tensor)
            if not profile.samples:
                match.observer.data_free = UnitAttr()
    return report_of(matches, profile)


def _may_lack(observer: ObserveOp) -> bool:
    """Whether a tensor may lack a range: a slice has the scale of the tensor that it is cut from."""
    return isinstance(observer.value.owner, SliceOp)


def _observe(observer: ObserveOp, tensor: TensorProfile) -> None:
    """Writes the range, the histogram and the average range of a tensor on its observer."""
    observer.range = bounds_attribute(tensor.lo, tensor.hi)
    observer.histogram = HistogramAttr.of(tensor.exponent, tensor.first, tensor.counts) if len(tensor.counts) else None
    observer.average = bounds_attribute(*tensor.average_range) if tensor.samples else None


def _matches(module: ModuleOp, profile: Profile, by_name: bool, *, simplified: bool) -> list[Match]:
    """The matches of the observers of all functions; if some functions match the profile, only the matches of these."""
    if not observers(module):
        simplify(module)
        insert_observers(module)
        simplified = True
    functions = defined_functions(module)
    keyed = any(t.key for t in profile.tensors.values())
    found: list[list[Match]] = []
    for function in functions:
        keys: dict[str, str] = {}
        if keyed:
            keys = observed_keys(function) if simplified else profiled_keys(module, function.sym_name.data)
        found.append(match_profile(function, profile, keys=keys, by_name=by_name))
    meant = [matches for matches in found if any(m.tensor is not None for m in matches)] or found
    return [match for matches in meant for match in matches]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{n}"' for n in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


# ---------------------------------------------------------------------------------------------------------------
# Fills in ranges for a network that was not profiled: enough to see its integer form, not to keep its accuracy.


NOMINAL = (-1.0, 1.0)
"""The range that a tensor without an observed range gets."""


def is_float(module: ModuleOp) -> bool:
    """Whether no operation of a module is quantized or computes on integers (qint) yet; constants may be quantized."""
    return not any(
        isinstance(op, QIntOp) or any(quantized_element(v.type) is not None for v in op.results)
        for op in module.walk()
        if not isinstance(op, ConstantOp)
    )


def fill_ranges(module: ModuleOp) -> None:
    """Gives each observer without a range the nominal range."""
    for op in module.walk():
        if isinstance(op, ObserveOp) and op.bounds is None:
            op.range = ArrayAttr([FloatAttr(bound, f64) for bound in NOMINAL])
