"""Random networks on the nn level, for every test that draws one: the steps of tests/steps.py put together.

network(rng)            for devices: operations of a device and of its host, of every rank, one or two inputs
frontend_network(seed)  as frontends write it: spatial operations between transposes, names on what computes
graphs()                a strategy of hypothesis: images, with ranges and samples
quantized(…)            draws those, quantizes and checks each
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import trace
from qmlir.dialects import nn
from qmlir.dialects.calib import ObserveOp
from qmlir.errors import PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import names_of_value
from qmlir.ir.signature import main_function
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.stages import OBSERVE
from qmlir.transforms.quantize.ranges.observers import InsertObserversPass
from tests.draft import Array, Draft
from tests.steps import CHOICES, DEVICES, FRONTENDS, IMAGES, Steps


@dataclass(frozen=True)
class Network:
    """A float network.

    module   without observers
    samples  some inputs: an array for each argument
    missing  every so many-th observer stays without a range, so that operations around it stay float; None for none
    wider    factors of ranges, which observers take in turn
    """

    module: ModuleOp
    samples: Sequence[Sequence[Array]]
    missing: int | None = None
    wider: Sequence[float] = (1.0,)

    def observed(self, simplified: bool) -> ModuleOp:
        """The network with observers that hold the ranges of the samples."""
        module = qmlir.Pipeline(*OBSERVE)(self.module) if simplified else self.module.clone()
        if not simplified:
            InsertObserversPass().apply(make_context(), module)
        function = main_function(module)
        seen = [trace(function, sample)[1] for sample in self.samples]
        for index, op in enumerate([o for o in function.body.block.ops if isinstance(o, ObserveOp)]):
            if self.missing is not None and index % self.missing == self.missing - 1:
                continue
            arrays = [values[op.value] for values in seen]
            factor = self.wider[index % len(self.wider)]
            low, high = (factor * float(end) for end in (min(a.min() for a in arrays), max(a.max() for a in arrays)))
            named = ObserveOp(op.value, op.tensor.data, (low, high))
            assert named.range is not None
            op.range = named.range
            named.erase()
        return module

    @property
    def size(self) -> int:
        """How many operations it has, constants apart."""
        return len([op for op in main_function(self.module).body.block.ops if not isinstance(op, nn.ConstantOp)]) - 1

    def ending_with(self, number: int) -> "Network":
        """The network with the result of its operation of that number as its only output, and what that needs."""
        module = self.module.clone()
        block = main_function(module).body.block
        operations = [op for op in block.ops if not isinstance(op, nn.ConstantOp | func.ReturnOp)]
        returned = block.last_op
        assert returned is not None
        returned.detach()
        returned.erase()
        block.add_op(func.ReturnOp(operations[number].results[0]))
        for op in reversed(list(block.ops)):
            if not isinstance(op, func.ReturnOp) and not any(list(r.uses) for r in op.results):
                op.detach()
                op.erase()
        main_function(module).update_function_type()
        return Network(module, self.samples, self.missing, self.wider)


def _finished(draft: Draft, steps: Steps, count: int) -> ModuleOp:
    weighted = [step for step, weight in steps.items() for _ in range(weight)]
    for _ in range(count):
        draft.step(weighted)
    return draft.module()


def _samples(module: ModuleOp, rng: np.random.Generator, count: int, scale: float = 1.0) -> list[list[Array]]:
    """Random inputs, so many times."""
    arguments = main_function(module).body.block.args
    return [[np.asarray(scale * rng.normal(size=shape_of(a)), np.float32) for a in arguments] for _ in range(count)]


def network(rng: np.random.Generator, most: int = 7) -> Network:
    """A network for devices of up to `most` steps, each of which is an operation or two."""
    draft = Draft(rng)
    module = _finished(draft, DEVICES, int(rng.integers(1, most + 1)))
    samples = _samples(module, rng, 3, float(draft.choice([0.3, 1.0, 5.0])))
    missing = draft.choice([None, None, None, None, 2, 3, 4])
    return Network(module, samples, missing, [float(w) for w in rng.choice([1.0, 1.0, 0.5, 1.7], 5)])


# ---------------------------------------------------------------------------------------------------------------
# As frontends write them


def frontend_network(number: int, size: int = 12, steps: Steps = FRONTENDS) -> ModuleOp:
    """A network of `size` steps on one or two images [1, C, H, W], the same for each number."""
    rng = np.random.default_rng(number)
    shape = (int(rng.choice([1, 1, 2])), *(int(n) for n in rng.choice([1, 3, 4, 6], 3)))
    return _finished(Draft(rng, [shape] * int(rng.integers(1, 3)), channels_first=True), steps, size)


def inputs_of(module: ModuleOp, number: int = 0) -> list[Array]:
    """Random inputs for the module's function, the same for each number."""
    return _samples(module, np.random.default_rng(number), 1)[0]


def names_in(module: ModuleOp) -> set[str]:
    """All node and tensor names that operations and arguments carry."""
    block = main_function(module).body.block
    owners = [names_of_value(v) for v in (*block.args, *(op.results[0] for op in block.ops if op.results))]
    return {s for o in owners for names in (o.nodes, o.tensors, o.absorbed) for s in names}


# ---------------------------------------------------------------------------------------------------------------
# On images, for hypothesis


class Graph:
    """A network whose observers hold ranges, and samples of its only input; a failing test prints its text."""

    def __init__(self, drawn: Network):
        self.drawn, self.module = drawn, drawn.observed(simplified=False)
        self.samples = [sample for (sample,) in drawn.samples]

    def without_observers(self) -> ModuleOp:
        """The plain float network."""
        return self.drawn.module.clone()

    def __repr__(self) -> str:
        return "\n" + module_text(self.module, WeightsMode.INLINE)


def _graph(number: bytes, most: int, steps: Steps) -> Graph:
    rng = np.random.default_rng(int.from_bytes(number, "little"))
    (low, high) = ((1, 2, 2, 1), (3, 8, 8, 10))
    draft = Draft(rng, [tuple(int(n) for n in rng.integers(low, high))])
    module = _finished(draft, steps, int(rng.integers(1, most + 2)))
    return Graph(Network(module, _samples(module, rng, 4), draft.choice([*[None] * 5, 2])))


def graphs(most: int = 6, *, choices: bool = False) -> st.SearchStrategy[Graph]:
    """Networks on images of up to `most` steps and one, with the ranges of four samples; some ranges are missing.

    With `choices` there are choices, searches and running sums, and their truth values and indices are results.
    """
    numbers = st.binary(min_size=8, max_size=8)
    return numbers.map(lambda number: _graph(number, most, CHOICES if choices else IMAGES))


SCHEMAS = ("asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale")


def drawn(examples: int) -> settings:
    """So many networks, as they come: a smaller one that fails too takes long to find and says little more."""
    return settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )


def quantized(schema: str, examples: int, check: Callable[[ModuleOp, Graph], bool], **options: Any) -> int:
    """Quantizes random networks and checks each.

    Args:
        schema: One of `SCHEMAS`; each has networks of its own.
        examples: How many are drawn. Those that are not quantized are passed over: no observer holds a range, or
            `options` refuse what stays float.
        check: Says of a quantized network, and of what it was made of, whether it counts.
        options: Others of `qmlir.quantize`.

    Returns:
        How many count.
    """
    counted = 0

    @seed(SCHEMAS.index(schema))
    @drawn(examples)
    @given(graphs(), st.booleans())
    def draw(graph: Graph, per_channel: bool) -> None:
        nonlocal counted
        try:
            module = qmlir.quantize(graph.module, schema=schema, per_channel=per_channel, **options)
        except PipelineError:
            return
        counted += check(module, graph)

    draw()
    return counted
