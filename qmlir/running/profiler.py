"""Learns the ranges of a network's tensors from samples: the network is compiled once, for any number of samples."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.backends.cpu.tally import IN_MACHINE_CODE
from qmlir.ir.interfaces import Array
from qmlir.ir.replayed import Replayed
from qmlir.ir.signature import main_function
from qmlir.profiles.collect import collect
from qmlir.profiles.profile import Profile
from qmlir.transforms.quantize.ranges import observers as observing

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable


class Profiler:
    """Learns the ranges of a network's tensors; it is plain data, which workers can be sent."""

    def __init__(self, observed: ModuleOp, bins: int, *, per_channel: bool):
        """Prepares a profile without samples.

        Args:
            observed: A float network with observers; it stays unchanged.
            bins: The most bins a histogram may have.
            per_channel: Whether to learn the same for each channel.

        Raises:
            ProfileError: There is nothing to observe.
        """
        function = main_function(observed)
        self._names = [observer.tensor.data for observer in observing.observers(function)]
        shapes = observing.observed_shapes(function)
        if not shapes:
            raise observing.nothing_to_observe(function)
        keys = observing.observed_keys(function)
        self._empty = Profile.empty(shapes, bins, keys=keys, per_channel=per_channel)

    def profile(
        self, executable: "Executable", samples: Iterable[Any], threads: int | None = None, first: int = 0,
        *, calls: Replayed | None = None,
    ) -> Profile:  # fmt: skip
        """Returns the profile over samples; it has no samples if there are none.

        Args:
            executable: The compiled network, whose last results are what the observers see.
            samples: Arrays for the only input, or dicts of them by name.
            threads: The number of samples side by side; by default as many as there are processors and memory for.
            first: The number of the first sample, for errors.
            calls: Receives the samples of a network with states as single calls; see `CallableNetwork.replayed`.

        Raises:
            ProfileError: A tensor is not finite on a sample.
        """
        signature, taken = executable.signature, executable.taken(samples)

        def values(inputs: Sequence[Array]) -> Mapping[str, Array]:
            if calls is not None:
                calls.append(executable.call(inputs))
            return observing.by_tensor(self._names, executable.advance(inputs)[-len(self._names) :])

        most = 1 if signature.states else threads  # samples of a network with states follow one another
        return collect(taken, values, self.empty, IN_MACHINE_CODE, signature.output_bytes, most, first)

    def empty(self, names: Collection[str] | None = None) -> Profile:
        """Returns a profile without samples; one of some tensors, if their names are given."""
        if names is None:
            return deepcopy(self._empty)
        return replace(self._empty, tensors={name: deepcopy(self._empty.tensors[name]) for name in names})
