"""`apply-profile`: writes the ranges of a profile on the observers of a module."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.dialects.calib import HistogramAttr, ObserveOp, bounds_attribute
from qmlir.dialects.nn import SliceOp
from qmlir.errors import OptionError, ProfileError
from qmlir.ir.passes import option
from qmlir.profiles.profile import Profile, TensorProfile
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.insert_observers import insert_observers, observed_keys, observers
from qmlir.transforms.quantize.match_profile import LoadReport, Match, match_profile, profiled_keys, report_of


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
) -> LoadReport:
    """Writes the ranges of `profile` on the observers of `module`, which gets observers if it has none yet.

    Args:
        module: Changed in place.
        profile: What was observed on this network, at any batch size.
        source: The name of the profile in errors.
        partial: Accept a profile that lacks some observed tensors; they stay without a range.
        by_name: Accept tensors of the right name and shape however they were computed.
        switch: How the user asks for `partial`, for errors.

    Returns:
        Which tensors were found in the profile, and why the others were not.

    Raises:
        ProfileError: The profile is empty, or lacks tensors of the network.
    """
    if not any(t.count for t in profile.tensors.values()):
        raise ProfileError(source, "must hold at least one sample", got="an empty profile", remedy="profile on data")
    matches = _matches(module, profile, by_name)
    missing = [m for m in matches if m.tensor is None and not _may_lack(m.observer)]
    if missing and not (partial and len(missing) < len(matches)):
        raise ProfileError(
            source,
            f"must be of this network, whose tensors {_some([m.name for m in missing])} it lacks",
            got=f"a profile of {len(profile.tensors)} tensors, {_some(list(profile.tensors))} "
            f'("{missing[0].name}" is {missing[0].reason})',
            remedy=f"profile this model, or accept what fits with {switch}",
        )
    for match in matches:
        if match.tensor is not None:
            _observe(match.observer, match.tensor)
    return report_of(matches, profile)


def _may_lack(observer: ObserveOp) -> bool:
    """Whether a tensor may lack a range: a slice has the scale of the tensor that it is cut from."""
    return isinstance(observer.value.owner, SliceOp)


def _observe(observer: ObserveOp, tensor: TensorProfile) -> None:
    """Writes the range, the histogram and the average range of a tensor on its observer."""
    observer.range = bounds_attribute(tensor.lo, tensor.hi)
    observer.histogram = HistogramAttr.of(tensor.exponent, tensor.first, tensor.counts) if len(tensor.counts) else None
    observer.average = bounds_attribute(*tensor.average_range) if tensor.samples else None


def _matches(module: ModuleOp, profile: Profile, by_name: bool) -> list[Match]:
    """The matches of the observers of all functions; if some functions match the profile, only the matches of these."""
    simplified = not observers(module)
    if simplified:
        simplify(module)
        insert_observers(module)
    functions = [f for f in module.walk() if isinstance(f, func.FuncOp) and not f.is_declaration]
    keyed = any(t.key for t in profile.tensors.values()) and not by_name
    found: list[list[Match]] = []
    for function in functions:
        keys: dict[str, str] = {}
        if keyed:
            keys = observed_keys(function) if simplified else profiled_keys(module, function.sym_name.data)
        found.append(match_profile(function, profile, keys=keys))
    meant = [matches for matches in found if any(m.tensor is not None for m in matches)] or found
    return [match for matches in meant for match in matches]


def _some(names: list[str]) -> str:
    shown = ", ".join(f'"{n}"' for n in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
