"""Learns the ranges of a network's tensors in this process: of a large network piece by piece, of others as a whole."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from qmlir import stages
from qmlir.errors import ProfileError
from qmlir.ir.callable_network import Calibration
from qmlir.ir.passes import Pipeline
from qmlir.ir.replayed import Replayed
from qmlir.profiles.profile import Profile
from qmlir.running.machine_code import to_machine_code
from qmlir.running.piecewise import profile_in_pieces
from qmlir.running.profiler import Profiler
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
from qmlir.transforms.quantize.ranges.pieces import pieces_of

if TYPE_CHECKING:
    from qmlir.backends.cpu import Executable


def learned(
    profiler: Profiler, observed: ModuleOp, samples: Calibration, lowered: Callable[[ModuleOp], ModuleOp],
    calls: Replayed | None = None,
) -> Profile:  # fmt: skip
    """Returns the profile over samples.

    Args:
        profiler: Counts values.
        observed: The float network with observers.
        samples: Arrays for the only input, or dicts of them by name, and sequences of them for a network with states.
        lowered: Returns a network on the qint level.
        calls: Receives the samples of a network with states as single calls, if somebody asks.

    Raises:
        ProfileError: There is no sample, or a tensor is not finite on a sample.
    """
    known: dict[str, bytes] = {}  # pieces of equal layers differ in their weights only

    def compiled(piece: ModuleOp) -> "Executable":
        return to_machine_code(lowered(piece), later=True).generated(known)

    pieces = [] if is_as_imported(observed) else pieces_of(observed)  # casts are folded across all of a network
    if pieces:
        return with_samples(profile_in_pieces(profiler, observed, pieces, compiled, samples, calls))
    whole = to_machine_code(lowered(Pipeline(*stages.PROFILE)(observed)))
    return with_samples(profiler.profile(whole, samples, calls=calls))


def with_samples(found: Profile) -> Profile:
    """Returns a profile that is of samples.

    Raises:
        ProfileError: It is of none.
    """
    if not found.samples:
        raise ProfileError("calibration data", "must hold at least one sample", got="none")
    return found
