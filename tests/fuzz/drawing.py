"""Draws networks: nodes one after another, each run by onnxruntime when it is drawn.

The functions that draw nodes (operators.py) may be careless: what onnxruntime refuses, what is too large, and
nearly all that is not finite is taken back.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.chance import Chance
from tests.fuzz.graphs import Array, Graph, Node
from tests.fuzz.oracle import NodeSession

OPSETS = (13, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
SAMPLES = 4
LARGEST, HIGHEST = 4096, 1e5
"""Elements of a tensor; magnitude of a value, beyond which few networks go."""


class Refused(Exception):
    """A node that cannot be: it is taken back."""


class Drawing(Chance):
    """A network under construction, with the values of all tensors on each sample."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.opset = int(rng.choice(OPSETS))
        self.float = np.dtype(np.float32 if self.chance(0.95) else np.float16)
        self.sizeless = self.chance(0.02)
        self.nodes: list[Node] = []
        self.sessions: list[NodeSession] = []
        self.constants: dict[str, Array] = {}
        self.samples: dict[str, tuple[Array, ...]] = {}
        self.values: list[dict[str, Array]] = [{} for _ in range(SAMPLES)]
        self.computed: list[str] = []
        self.depth = 0
        self._names = 0

    # -- numbers ----------------------------------------------------------------------------------------------

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        """A shape of a rank between the two, mostly of small sizes, now and then 1 or 0."""
        rank = int(self.rng.choice([0, 1, 2, 3, 4, 5], p=[0.04, 0.08, 0.23, 0.2, 0.35, 0.1]))
        rank = min(max(rank, low), high)
        sizes = [1 if self.chance(0.2) else self.integer(2, 9 if rank < 4 else 6) for _ in range(rank)]
        if self.sizeless and rank and self.chance(0.5):
            sizes[self.integer(0, rank - 1)] = 0
        return tuple(sizes)

    def floats(self, shape: Sequence[int], scale: float = 1.0) -> Array:
        """Values of one of several kinds: normal, positive, narrow, with an outlier or a quiet channel, integers."""
        values = self.rng.normal(size=tuple(shape)) * scale * self.choice([1.0, 1.0, 0.2, 4.0])
        kind = self.integer(0, 11)
        if kind == 0:
            values = np.abs(values) + 0.1
        elif kind == 1:
            values = values * 0.1 + self.choice([-3.0, 2.0])
        elif kind in (2, 3) and len(shape) and all(shape):
            at = self.integer(0, len(shape) - 1)
            np.moveaxis(values, at, 0)[self.integer(0, shape[at] - 1)] *= self.choice([0.0, 1e-5, 1e-3, 20.0])
        elif kind == 4:
            values = np.rint(values * 4)
        return np.asarray(values, self.float)

    # -- tensors ----------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A name that is not taken."""
        self._names += 1
        return f"t{self._names}"

    def constant(self, array: Any, dtype: Any = None) -> str:
        """A constant; floats are of the network's type."""
        array = np.asarray(array, dtype)
        if dtype is None and array.dtype.kind == "f":
            array = array.astype(self.float)
        name = self.name()
        self.constants[name] = array
        for values in self.values:
            values[name] = array
        return name

    def integers(self, *numbers: int) -> str:
        """A constant list of int64."""
        return self.constant(np.array(numbers, np.int64))

    def weights(self, *shape: int) -> str:
        """Constant weights whose sums stay near 1."""
        fan = max(1, int(np.prod(shape[1:])))
        return self.constant(self.floats(shape, 1 / np.sqrt(fan)))

    def input(self, shape: Sequence[int], make: Callable[[], Array] | None = None) -> str:
        """An input with its samples, by default floats."""
        if self.depth:
            raise Refused("a subgraph takes what there is")
        scale, offset = self.choice([0.1, 1.0, 1.0, 6.0]), self.choice([0.0, 0.0, 0.0, 1.5, -2.5])

        def normal() -> Array:
            return np.asarray(self.rng.normal(size=tuple(shape)) * scale + offset, self.float)

        arrays = [(make or normal)() for _ in range(SAMPLES)]
        name = self.name()
        self.samples[name] = tuple(arrays)
        for values, array in zip(self.values, arrays, strict=True):
            values[name] = array
        self.computed.append(name)
        return name

    def value(self, name: str) -> Array:
        """The value of a tensor on the first sample."""
        return self.values[0][name]

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.value(name).shape

    def range_of(self, name: str) -> tuple[float, float]:
        """The least and the largest value on all samples."""
        every = [v[name] for v in self.values]
        if not every[0].size:
            return 0.0, 0.0
        return min(float(v.min()) for v in every), max(float(v.max()) for v in every)

    def pick(
        self, low: int = 0, high: int = 5, fits: Callable[[tuple[int, ...]], bool] | None = None, dtype: Any = None
    ) -> str:
        """A tensor of a rank between the two, the newest most often; a reshaped one or an input where there is none.

        Args:
            low: The least rank.
            high: The largest rank.
            fits: What else its shape has to be.
            dtype: Its element type; the network's floats by default.
        """
        kind = self.float if dtype is None else np.dtype(dtype)
        fitting = [
            n
            for n in self.computed
            if self.value(n).dtype == kind
            and low <= len(self.shape_of(n)) <= high
            and (fits is None or fits(self.shape_of(n)))
        ]
        if fitting and not (len(self.samples) < 3 and self.chance(0.06)):
            return fitting[-1] if self.chance(0.7) else self.choice(fitting)
        if kind != self.float:
            raise Refused(f"no tensor of {kind}")
        if self.computed and (len(self.samples) >= 3 or self.chance(0.45)):
            name = self._reshaped(low, high)
            if fits is None or fits(self.shape_of(name)):
                return name
        for _ in range(30 if len(self.samples) < 4 else 0):
            shape = self.shape(low, high)
            if fits is None or fits(shape):
                return self.input(shape)
        raise Refused("no tensor fits")

    def _reshaped(self, low: int, high: int) -> str:
        """The newest tensor of floats under a shape of a rank between the two."""
        floats = [n for n in self.computed if self.value(n).dtype == self.float]
        if not floats:
            raise Refused("no floats")
        sizes = [*self.shape_of(floats[-1])]
        while len(sizes) > high or (len(sizes) > low and self.chance(0.3)):
            sizes[-2:] = [sizes[-2] * sizes[-1]] if len(sizes) > 1 else []
        while len(sizes) < low:
            sizes.insert(self.integer(0, len(sizes)), 1)
        return self.add("Reshape", floats[-1], self.integers(*sizes))[0]

    def like(self, name: str, broadcasts: bool = True) -> str:
        """Another operand for an elementwise operator beside one: a tensor or a constant that broadcasts with it."""
        shape = self.shape_of(name)
        same = [
            n for n in self.computed if self.value(n).dtype == self.value(name).dtype and _meet(self.shape_of(n), shape)
        ]
        if same and self.chance(0.5):
            return self.choice(same)
        sizes = [1 if broadcasts and self.chance(0.25) else s for s in shape]
        if broadcasts and self.chance(0.4):
            sizes = sizes[self.integer(0, len(sizes)) :]
        dtype = self.value(name).dtype
        if dtype.kind == "b":
            return self.constant(self.rng.random(sizes) < 0.5)
        if dtype.kind in "iu":
            return self.constant(self.rng.integers(0, 5, sizes).astype(dtype))
        return self.constant(self.floats(sizes))

    # -- versions and subgraphs -------------------------------------------------------------------------------

    def since(self, version: int) -> None:
        """Sees to an operator set that has an operator: chooses another set if nothing is drawn of the present one.

        Raises:
            Refused: The network is of an older set.
        """
        if self.opset < version and (self.nodes or self.depth):
            raise Refused("an older version")
        if self.opset < version:
            self.opset = self.choice([o for o in OPSETS if o >= version])

    def before(self, version: int, chosen: int) -> None:
        """Sees to an operator set that still has an operator, like `since`."""
        if self.opset >= version and (self.nodes or self.depth):
            raise Refused("a newer version")
        if self.opset >= version:
            self.opset = chosen

    @contextmanager
    def subgraph(self) -> Iterator[list[Node]]:
        """Nodes that are drawn meanwhile are those of a subgraph; they read any tensor, but make no inputs."""
        outer = self.nodes, self.sessions, self.computed
        self.nodes, self.sessions, self.computed = [], [], [*self.computed]
        self.depth += 1
        try:
            yield self.nodes
        finally:
            self.depth -= 1
            self.nodes, self.sessions, self.computed = outer

    def formal(self, arrays: Sequence[Array]) -> str:
        """An input of a subgraph, with its value on each sample."""
        name = self.name()
        for values, array in zip(self.values, arrays, strict=True):
            values[name] = array
        self.computed.append(name)
        return name

    # -- nodes ------------------------------------------------------------------------------------------------

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> tuple[str, ...]:
        """Appends a node.

        Args:
            operator: The operator, behind a domain other than ONNX's own.
            inputs: Names of tensors; "" is an input that is left out.
            outputs: How many the node has.
            attributes: Those that are not None.

        Returns:
            The names of its outputs.

        Raises:
            Refused: onnxruntime does not take it, or its values are too many or too large.
        """
        kept = {k: v for k, v in attributes.items() if v is not None}
        names = tuple(self.name() for _ in range(outputs))
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        domain, _, operator = operator.rpartition(".")
        node = Node(operator, inputs, names, kept, domain)
        try:
            own = NodeSession(node, self.values[0], self.constants, self.opset)
            found = [own.run(values) for values in self.values]
        except Exception as error:  # what onnxruntime raises has no type of its own
            raise Refused(f"{operator}: {error}") from None
        for name in names:
            self._admit([each[name] for each in found])
        for values, each in zip(self.values, found, strict=True):
            values.update(each)
        self.nodes.append(node)
        self.sessions.append(own)
        self.computed.extend(names)
        return names

    def _admit(self, arrays: Sequence[Array]) -> None:
        """Refuses values that lead nowhere."""
        if len({a.shape for a in arrays}) > 1 or arrays[0].ndim > 6 or arrays[0].size > LARGEST:
            raise Refused("a shape")
        if arrays[0].dtype.kind != "f" or self.chance(0.01):
            return
        for array in arrays:
            if not np.isfinite(array).all() or np.abs(array.astype(np.float64)).max(initial=0) > HIGHEST:
                raise Refused("values")


def _meet(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes broadcast."""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def draw(rng: np.random.Generator, table: dict[str, Callable[[Drawing], None]], favourites: Sequence[str]) -> Graph:
    """A network of 1 to 8 nodes or a few more.

    Args:
        rng: Where all choices come from.
        table: Operator → a function that adds a node of it.
        favourites: Operators that are drawn as often as all others together.
    """
    while True:
        drawing = Drawing(rng)
        drawing.input(drawing.shape())
        names, wanted = list(table), drawing.integer(1, 8)
        for _ in range(4 * wanted):
            if len(drawing.nodes) >= wanted:
                break
            operator = drawing.choice(favourites if drawing.chance(0.4) else names)
            before = len(drawing.nodes)
            try:
                table[operator](drawing)
            except Refused:
                if len(drawing.nodes) > before:
                    continue
        if drawing.nodes:
            return _finished(drawing)


def _finished(drawing: Drawing) -> Graph:
    """The network with its outputs: what nothing reads, and now and then what something does."""
    made = [name for node in drawing.nodes for name in node.outputs if name]
    read = {name for node in drawing.nodes for name in node.reads}
    unread = [n for n in made if n not in read]
    outputs = [n for n in unread if drawing.chance(0.7)] or [unread[-1]]
    if drawing.chance(0.2):
        outputs.append(drawing.choice(made))
    if drawing.chance(0.1):
        drawing.rng.shuffle(outputs)
    graph = Graph(
        tuple(drawing.nodes), drawing.constants, drawing.samples, tuple(dict.fromkeys(outputs)), drawing.opset
    )
    return graph.without_unused()
