"""`apply-profile`: writes the ranges of a profile on the observers of a module."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp, f64
from xdsl.passes import ModulePass

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.interfaces import shape_of
from qmlir.errors import OptionError, ProfileError
from qmlir.passes import option
from qmlir.profiles import Profile
from qmlir.transforms.nn.simplify import simplify
from qmlir.transforms.quantize.insert_observers import insert_observers, observers


@dataclass(frozen=True)
class ApplyProfilePass(ModulePass):
    """Gives each `calib.observe` the range that the profile holds for its tensor.

    A network without observers is first simplified and given them, as profiling does: the tensors of a profile are
    those that are left after fusing.

    A profile of another network is refused: one that lacks an observed tensor, or has it in another shape.

    ```mlir
    calib.observe %0 {name = "r"} : tensor<4xf32>
    // becomes
    calib.observe %0 {name = "r", range = [0.0, 6.5]} : tensor<4xf32>
    ```
    """

    name = "apply-profile"
    file: str = option("", "the profile, as written by `qmlir profile`")
    partial: bool = option(False, "accept a profile that lacks some of the observed tensors")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.file:
            raise OptionError("apply-profile", "needs a file", remedy='give one: --apply-profile="file=profile.yaml"')
        apply_profile(op, Profile.load(self.file), source=self.file, partial=self.partial)


def apply_profile(module: ModuleOp, profile: Profile, *, source: str = "profile", partial: bool = False) -> None:
    """Writes the ranges of `profile` on the observers of `module`; makes them if there are none.

    Args:
        module: Changed in place.
        profile: What was observed, on this network at any batch size.
        source: What to call the profile in errors.
        partial: Accept a profile that lacks some observed tensors; they stay without a range.
    """
    if not any(t.count for t in profile.tensors.values()):
        raise ProfileError(source, "must hold at least one sample", got="an empty profile", remedy="profile on data")
    if not observers(module):
        simplify(module)
        insert_observers(module)
    # A profile is of one function; of what stands beside it in the module it knows nothing.
    functions = [f for f in module.walk() if isinstance(f, func.FuncOp)]
    known = {f: [o for o in observers(f) if _holds(profile, o)] for f in functions}
    meant = [f for f in functions if known[f]] or functions
    missing = [o.tensor.data for f in meant for o in observers(f) if not _holds(profile, o)]
    if missing and not (partial and any(known.values())):
        raise ProfileError(
            source,
            f"must be of this network, whose tensors {_some(missing)} it lacks",
            got=f"a profile of {len(profile.tensors)} tensors, {_some(list(profile.tensors))}",
            remedy="profile this model, or accept what fits with partial=true",
        )
    for observer in (o for found in known.values() for o in found):
        lo, hi = profile.range_of(observer.tensor.data)
        observer.range = ArrayAttr([FloatAttr(lo, f64), FloatAttr(hi, f64)])


def _holds(profile: Profile, observer: ObserveOp) -> bool:
    """Whether a profile has seen an observed tensor, in the same shape."""
    tensor = profile.tensors.get(observer.tensor.data)
    return tensor is not None and tensor.count > 0 and tensor.shape == shape_of(observer.value)[1:]


def _some(names: list[str]) -> str:
    shown = ", ".join(f'"{n}"' for n in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
