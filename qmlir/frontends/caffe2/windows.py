"""The arguments of sliding windows, which Caffe2 writes in several ways.

A size is `kernel` for all dimensions, `kernel_h` and `kernel_w`, or `kernels`; so are strides, dilations and paddings.
Sizes that are not given are 1 (kernels: none), paddings 0. `legacy_pad` chooses the padding by a rule of Caffe's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from qmlir.frontends.builder import Node
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.converters import Attribute, AttributeGroup, kind_of
from qmlir.frontends.function import Ints
from qmlir.frontends.windows import Geometry, span

_SUFFIXES = ("_h", "_w")
_SIDES = ("pad_t", "pad_l", "pad_b", "pad_r")

NOTSET, VALID, SAME, CAFFE = range(4)
"""Values of `legacy_pad`: the paddings given, none, as many results as strides fit, and Caffe's pools that round up."""

WINDOW_ARGUMENTS = frozenset(
    {f"{name}{suffix}" for name in ("kernel", "stride", "dilation", "adj") for suffix in ("", "s", *_SUFFIXES)}
    | {"pad", "pads", *_SIDES, "legacy_pad", "global_pooling"}
)
"""The names of all arguments that a `Window` reads."""

MOST = 1 << 31
"""A bound of sizes, strides and paddings, below which their products are exact in 64 bits."""


@dataclass(frozen=True)
class Window(AttributeGroup):
    """The arguments of a window, of which a value stands for all dimensions if it is single.

    kernel, strides, dilations, adj  one value, or a value for each spatial dimension; empty if they are not given
    pads                             one value, or all paddings before the image and then all behind it
    legacy                           one of NOTSET, VALID, SAME and CAFFE
    everywhere                       whether the window is the whole image
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    adj: Ints
    pads: Ints
    legacy: int
    everywhere: bool

    @classmethod
    def attributes(cls) -> Mapping[str, Attribute]:
        return dict.fromkeys(WINDOW_ARGUMENTS, Attribute(kind_of(Any)))

    @classmethod
    def of(cls, node: Caffe2Node, given: Mapping[str, Any]) -> "Window":
        """Reads the arguments of a node.

        Raises:
            NodeError: An argument is not made of integers, or is too large.
        """
        sides = [_number(node, name) for name in _SIDES]
        pads = tuple(side or 0 for side in sides) if any(s is not None for s in sides) else _sizes(node, "pad")
        kernel, strides, dilations, adj = (_sizes(node, name) for name in ("kernel", "stride", "dilation", "adj"))
        legacy, everywhere = _number(node, "legacy_pad") or NOTSET, bool(_number(node, "global_pooling"))
        return Window(kernel, strides, dilations, adj, pads, legacy, everywhere)

    def geometry(self, node: Node, image: Sequence[int], kernel: Sequence[int] | None = None) -> Geometry:
        """Returns the window over images of a spatial size.

        Args:
            node: The node, for errors.
            image: The spatial size of the image.
            kernel: The size of the weights; None for a pool.

        Raises:
            NodeError: A size is below 1, the arguments are for another number of dimensions, or no window fits.
        """
        rank = len(image)
        if self.everywhere:
            return Geometry(tuple(image), *((n,) * rank for n in (1, 1, 0, 0, 0)))
        sizes = self._each(node, self.kernel, rank, "kernel") if self.kernel else tuple(kernel or ())
        if kernel is not None and sizes != tuple(kernel):
            raise node.error("its kernel must be that of its weights", f"{list(sizes)} and {list(kernel)}")
        if not sizes:
            raise node.error("it needs its argument kernel", "none")
        strides = self._each(node, self.strides or (1,), rank, "stride")
        dilations = self._each(node, self.dilations or (1,), rank, "dilation")
        if min(*sizes, *strides, *dilations) < 1:
            raise node.error("its kernel, strides and dilations must be at least 1", str([sizes, strides, dilations]))
        low, high = self._padding(node, image, sizes, strides, dilations)
        found = Geometry(sizes, strides, dilations, low, high, (0,) * rank)
        if min(found.outputs(image)) < 1:
            raise node.error("its window must fit into its padded input", f"{list(sizes)} in {list(image)}")
        return found

    def transposed(self, node: Node, image: Sequence[int], kernel: Sequence[int]) -> Geometry:
        """Returns the window of a transposed convolution: over its input spread by the strides, in steps of 1.

        Zeros lie behind the last element of the spread input, too (`spread`).
        """
        rank = len(image)
        if self.legacy or self.everywhere:
            raise node.error("a transposed convolution has neither legacy_pad nor global_pooling", "one of them")
        if self.kernel and self._each(node, self.kernel, rank, "kernel") != tuple(kernel):
            raise node.error("its kernel must be that of its weights", f"{list(self.kernel)} and {list(kernel)}")
        strides = self._each(node, self.strides or (1,), rank, "stride")
        dilations = self._each(node, self.dilations or (1,), rank, "dilation")
        adj, (low, high) = self._each(node, self.adj or (0,), rank, "adj"), self.margins(node, rank)
        if min(*kernel, *strides, *dilations) < 1 or any(not 0 <= a < max(s, d) for a, s, d in
                                                         zip(adj, strides, dilations, strict=True)):  # fmt: skip
            raise node.error("its strides and dilations must be at least 1, and adj below them",
                             str([strides, dilations, adj]))  # fmt: skip
        spans = [span(k, d) - 1 for k, d in zip(kernel, dilations, strict=True)]
        before = tuple(s - p for s, p in zip(spans, low, strict=True))
        behind = tuple(s - p + a - (step - 1) for s, p, a, step in zip(spans, high, adj, strides, strict=True))
        ones = (1,) * rank
        found = Geometry(tuple(kernel), ones, dilations, before, behind, (0,) * rank)
        if min(found.outputs([n * step for n, step in zip(image, strides, strict=True)])) < 1:
            raise node.error("its padding must leave something of its result", str([low, high]))
        return found

    def steps(self, node: Node, rank: int) -> Ints:
        """Returns the stride in each dimension."""
        return self._each(node, self.strides or (1,), rank, "stride")

    def _each(self, node: Node, values: Ints, rank: int, name: str) -> Ints:
        if len(values) not in (1, rank):
            raise node.error(f"its {name} must be 1 or {rank} numbers", values)
        return values if len(values) == rank else values * rank

    def margins(self, node: Node, rank: int) -> tuple[Ints, Ints]:
        """Returns the paddings before and behind the image, as the arguments give them."""
        pads = self.pads or (0,)
        if len(pads) not in (1, 2 * rank):
            raise node.error(f"its paddings must be 1 or {2 * rank} numbers", pads)
        pads = pads if len(pads) == 2 * rank else pads * (2 * rank)
        return pads[:rank], pads[rank:]

    def _padding(
        self, node: Node, image: Sequence[int], kernel: Ints, strides: Ints, dilations: Ints
    ) -> tuple[Ints, Ints]:
        """Returns the paddings before and behind the image by the rule of `legacy_pad`."""
        rank = len(image)
        if self.legacy == NOTSET:
            return self.margins(node, rank)
        if self.legacy == VALID:
            return (0,) * rank, (0,) * rank
        spans = [span(k, d) for k, d in zip(kernel, dilations, strict=True)]
        if self.legacy == SAME:
            total = [
                max((-(-n // step) - 1) * step + s - n, 0) for n, s, step in zip(image, spans, strides, strict=True)
            ]
            return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        if self.legacy != CAFFE:
            raise node.error("its legacy_pad must be 0, 1, 2 or 3", str(self.legacy))
        low, _ = self.margins(node, rank)
        high: list[int] = []
        for n, s, step, pad in zip(image, spans, strides, low, strict=True):
            count = max(-(-(n + 2 * pad - s) // step), 0) + 1
            if pad > 0 and (count - 1) * step >= n + pad:  # the last window must begin inside the image
                count -= 1
            high.append(max((count - 1) * step + s - n - pad, 0))
        return low, tuple(high)


def _number(node: Caffe2Node, name: str) -> int | None:
    """Returns an argument that is one integer; None if it is absent."""
    value = node.arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MOST:
        raise node.error(f"its argument {name} must be an integer", " ".join(repr(value).split())[:80])
    return value


def _sizes(node: Caffe2Node, name: str) -> Ints:
    """Returns an argument as one integer for all dimensions or one for each; empty if it is absent."""
    if (single := _number(node, name)) is not None:
        return (single,)
    pair = [_number(node, f"{name}{suffix}") for suffix in _SUFFIXES]
    if all(p is not None for p in pair):
        return tuple(p for p in pair if p is not None)
    values: object = node.arguments.get(f"{name}s", ())
    found = cast(tuple[object, ...], values) if isinstance(values, tuple) else (None,)
    sizes = tuple(v for v in found if isinstance(v, int) and abs(v) <= MOST)
    if len(sizes) != len(found):
        raise node.error(f"its argument {name}s must be integers", " ".join(repr(found).split())[:80])
    return sizes
