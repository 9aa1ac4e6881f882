"""Builds the network of a GGUF file of the Llama family: attention with a cache, and gated feed-forward layers.

The operations are those that an ONNX file of such a network becomes, so that later passes know them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn.bitwise import AndOp
from qmlir.dialects.nn.contraction import FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, EqualOp, LessEqualOp, LessOp, ModOp, MulOp, SubOp, WhereOp
from qmlir.dialects.nn.functions import GeluOp, SwishOp
from qmlir.dialects.nn.indexing import GatherOp, ScatterNDOp
from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, MovementOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.nn.normalization import RMSNormOp, SoftmaxOp
from qmlir.frontends.builder import Node, Operand, Properties
from qmlir.frontends.function import Builder, Constant
from qmlir.frontends.gguf.reader import File
from qmlir.frontends.gguf.settings import Settings, Sight
from qmlir.frontends.gguf.tensors import EMBEDDING, OUTPUT, PERIODS
from qmlir.ir.budget import Budget
from qmlir.ir.garbage import release_weights
from qmlir.ir.interfaces import TensorOp, shape_of
from qmlir.ir.states import StateAttr

HIDDEN = -1e9
"""The score of a place that a token does not see; softmax makes 0 of it."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a user binds.

    rows       the tokens of a call
    context    the places of the caches
    positions  the places that tokens may have; if more than `context`, the caches are rings
    window     how many places, its own included, a token sees at most
    """

    rows: int
    context: int
    positions: int
    window: int

    @property
    def is_ring(self) -> bool:
        """Whether a token takes the memory of the one that is `context` places older."""
        return self.positions > self.context


@dataclass
class Network:
    """The network of a file, of some sizes."""

    file: File
    settings: Settings
    sizes: Sizes
    builder: Builder = field(init=False)

    @property
    def rows(self) -> int:
        """The tokens of a call."""
        return self.sizes.rows

    @property
    def context(self) -> int:
        """The places of the caches."""
        return self.sizes.context

    def build(self) -> ModuleOp:
        """Returns the module."""
        s = self.settings
        places = [TensorType(i64, [self.rows])] * 2
        caches = [name for i in range(s.layers) for name in (f"k{i}", f"v{i}")]
        kept = [TensorType(f32, [s.kv_heads, self.context, n]) for n in (s.head, s.value)] * s.layers
        self.builder = Builder.of(["token", "pos", *caches], [*places, *kept], Budget())
        token, pos, *states = self.builder.block.args
        embedding = self.weight(EMBEDDING)
        x = self.add("token_embd", GatherOp, [embedding, token], {"axis": 0})
        if s.architecture.scaled:
            x = self.add("token_embd.scaled", MulOp, [x, _number(s.width**0.5)])
        at = self.add("slots", ModOp, [pos, _integer(self.context)]) if self.sizes.is_ring else pos
        shared = {sight: self.shared(sight, pos, at) for sight in dict.fromkeys(map(s.sight, range(s.layers)))}
        results = list[SSAValue]()
        for i in range(s.layers):
            layer = _Layer(self, f"blk.{i}", shared[s.sight(i)])
            x, *new = layer.attention(x, states[2 * i], states[2 * i + 1], [f"k{i}_out", f"v{i}_out"])
            x = layer.feed_forward(x)
            results += new
        x = self.norm("output_norm", x)
        last = self.weight(OUTPUT) if OUTPUT in self.file.tensors else embedding
        logits = self.add("logits", FullyConnectedOp, [x, last, None])
        marks = {2 + i: StateAttr.of(1 + i) for i in range(len(states))}
        module = self.builder.finish([logits, *results], ["logits", *(f"{name}_out" for name in caches)], marks)
        release_weights(module)
        return module

    # ------------------------------------------------------------------------------------------------------------
    # Operations

    def add(
        self, name: str, op_type: type[TensorOp], operands: Sequence[Operand], properties: Properties | None = None
    ) -> SSAValue:
        """Adds an operation; its result is the tensor of that name."""
        node = Node(op_type.name, name, [name], self.builder, self.file.name)
        y = node.compute(op_type, operands, properties)
        node.commit([y], self.builder.block.add_ops)
        return y

    def move(self, name: str, x: SSAValue, *steps: "Step") -> SSAValue:
        """Moves the elements of a tensor, in steps; the result is the tensor of that name."""
        for step, properties in steps[:-1]:
            node = Node(step.name, name, [name], self.builder, self.file.name)
            x = node.insert(step, [x], properties)
            node.commit([x], self.builder.block.add_ops, rename=False)
        return self.add(name, steps[-1][0], [x], steps[-1][1])

    def weight(self, name: str) -> Constant:
        """Returns a tensor of the file."""
        array, levels = self.file.read(name)
        return Constant(array, name, levels, partial(self.file.read_again, name))

    def norm(self, name: str, x: SSAValue) -> SSAValue:
        """Normalizes the last dimension by its root mean square, and scales it."""
        properties = {"axis": len(shape_of(x)) - 1, "epsilon": self.settings.epsilon}
        even = self.add(f"{name}.normalized", RMSNormOp, [x], properties)
        return self.add(name, MulOp, [even, self.weight(f"{name}.weight")])

    def linear(self, name: str, x: SSAValue) -> SSAValue:
        """A fully connected layer, with a bias if the file has one."""
        bias = self.weight(f"{name}.bias") if f"{name}.bias" in self.file.tensors else None
        return self.add(name, FullyConnectedOp, [x, self.weight(f"{name}.weight"), bias])

    # ------------------------------------------------------------------------------------------------------------
    # What layers share

    def shared(self, sight: Sight, pos: SSAValue, at: SSAValue) -> "_Shared":
        """What all layers read whose tokens see the same."""
        cos, sin = self.turns(sight, pos)
        window = min(self.sizes.window, sight.window or self.sizes.window)
        seen = (self.seen_in_ring if self.sizes.is_ring else self.seen)(window, pos)
        return _Shared(at, self.slots(at) if self.rows > 1 else at, cos, sin, seen)

    def slots(self, at: SSAValue) -> SSAValue:
        """Returns where each row of each head is kept, i64 [heads of keys, rows, 2]: its head, and its place there."""
        heads = np.arange(self.settings.kv_heads).reshape(-1, 1, 1)
        own = self.move("slots.rows", at, (ReshapeOp, {"shape": [1, self.rows, 1]}))
        place = self.move("slots.places", own, (BroadcastOp, {"shape": [len(heads), self.rows, 1]}))
        head = Constant(np.broadcast_to(heads, (len(heads), self.rows, 1)).copy())
        return self.add("slots.of_heads", ConcatOp, [[head, place]], {"axis": 2})

    def turns(self, sight: Sight, pos: SSAValue) -> Iterator[SSAValue]:
        """Yields cosine and sine of the angles at the tokens' places, [rows, head / 2]."""
        head = self.settings.head
        periods = sight.base ** (np.arange(0, head, 2) / head)
        if PERIODS in self.file.tensors:
            periods *= self.weight(PERIODS).array
        angles = np.arange(self.sizes.positions)[:, None] / sight.factor / periods
        for name, function in (("cos", np.cos), ("sin", np.sin)):
            table = Constant(function(angles).astype(np.float32), f"rope.{name}s")
            yield self.add(f"rope.{name}", GatherOp, [table, pos], {"axis": 0})

    def seen(self, window: int, pos: SSAValue) -> SSAValue:
        """Which places of the cache each token sees, i1 [1, rows, context]."""
        at = self.move("places", pos, (ReshapeOp, {"shape": [1, self.rows, 1]}))
        place = Constant(np.arange(self.context)[None, None])
        before = self.add("seen", LessEqualOp, [place, at])
        if window >= self.context:
            return before
        first = self.add("hidden", SubOp, [at, _integer(window)])
        return self.add("seen_in_window", AndOp, [before, self.add("near", LessOp, [first, place])])

    def seen_in_ring(self, window: int, pos: SSAValue) -> SSAValue:
        """Which slots of the ring each token sees, i1 [1, rows, context].

        A slot holds the youngest place that is the slot modulo the ring's length, and not behind the last token of the
        call. A token sees it if that place is its own or an older one, within its window, and not before the first.
        """
        at = self.move("places", pos, (ReshapeOp, {"shape": [1, self.rows, 1]}))
        last = at
        if self.rows > 1:
            whole = {"offsets": [0, self.rows - 1, 0], "sizes": [1, 1, 1], "strides": [1, 1, 1]}
            last = self.move("last", at, (SliceOp, whole))
        slot = Constant(np.arange(self.context)[None, None])
        age = self.add("age", ModOp, [self.add("turns", SubOp, [last, slot]), _integer(self.context)])
        if self.rows > 1:
            age = self.add("age_for_row", SubOp, [age, self.add("behind", SubOp, [last, at])])
        seen = self.add("written", LessEqualOp, [age, at])
        if self.rows > 1:
            seen = self.add("seen", AndOp, [seen, self.add("before", LessEqualOp, [_integer(0), age])])
        if window < self.context:
            seen = self.add("seen_in_window", AndOp, [seen, self.add("near", LessOp, [age, _integer(window)])])
        return seen


Step = tuple[type[MovementOp], Properties]

_SWAP: Step = (TransposeOp, {"permutation": [1, 0, 2]})
"""Exchanges rows or places with heads."""


@dataclass(frozen=True)
class _Shared:
    """What layers read.

    at     where the caches keep the tokens' keys and values, i64 [rows]
    slots  the same for each head, i64 [heads of keys, rows, 2], where a call has several rows
    cos    the cosines of their angles, [rows, head / 2]
    sin    the sines
    seen   which places of the cache each token sees, i1 [1, rows, context]
    """

    at: SSAValue
    slots: SSAValue
    cos: SSAValue
    sin: SSAValue
    seen: SSAValue


@dataclass(frozen=True)
class _Layer:
    """A block of the network, whose tensors' names begin with its own."""

    network: Network
    name: str
    shared: _Shared

    def attention(self, x: SSAValue, k: SSAValue, v: SSAValue, names: Sequence[str]) -> list[SSAValue]:
        """Returns x after attention, and the caches of keys and values, `names`, with the tokens' own."""
        net, s, rows = self.network, self.network.settings, self.network.rows
        y = net.norm(f"{self.name}.attn_norm", x)
        q, own = (self.turned(n, y, count) for n, count in (("attn_q", s.heads), ("attn_k", s.kv_heads)))
        values = self.move("attn_v.heads", self.heads("attn_v", y, s.kv_heads, s.value), _SWAP)
        k, v = self.stored(names[0], k, own), self.stored(names[1], v, values)
        shared = s.heads // s.kv_heads * rows  # rows of the queries that share a head of keys
        q = self.move("attn_q.groups", q, (ReshapeOp, {"shape": [s.kv_heads, shared, s.head]}))
        keys = self.move("attn_k.columns", k, (TransposeOp, {"permutation": [0, 2, 1]}))
        scores = self.add("scores", MulOp, [self.add("products", MatMulOp, [q, keys]), _number(s.scale)])
        scores = self.move("scores.heads", scores, (ReshapeOp, {"shape": [s.heads, rows, net.context]}))
        masked = self.add("masked", WhereOp, [self.shared.seen, scores, _number(HIDDEN)])
        shares = self.add("shares", SoftmaxOp, [masked], {"axis": 2})
        shares = self.move("shares.groups", shares, (ReshapeOp, {"shape": [s.kv_heads, shared, net.context]}))
        mixed = self.move(
            "attended.rows", self.add("attended", MatMulOp, [shares, v]),
            (ReshapeOp, {"shape": [s.heads, rows, s.value]}), _SWAP, (ReshapeOp, {"shape": [rows, s.heads * s.value]}),
        )  # fmt: skip
        return [self.joined("attn_sum", x, net.linear(f"{self.name}.attn_output", mixed), "post_attention_norm"), k, v]

    def feed_forward(self, x: SSAValue) -> SSAValue:
        """Returns x after the gated feed-forward network."""
        net = self.network
        y = net.norm(f"{self.name}.ffn_norm", x)
        gate = net.linear(f"{self.name}.ffn_gate", y)
        if net.settings.architecture.gelu:
            gate = self.add("ffn_gelu", GeluOp, [gate], {"tanh": True})
        else:
            gate = self.add("ffn_swish", SwishOp, [gate], {"alpha": 1.0})
        gated = self.add("ffn_gated", MulOp, [gate, net.linear(f"{self.name}.ffn_up", y)])
        return self.joined("ffn_sum", x, net.linear(f"{self.name}.ffn_down", gated), "post_ffw_norm")

    def joined(self, name: str, x: SSAValue, y: SSAValue, norm: str) -> SSAValue:
        """Adds to x what a part of the layer has computed, normalized where the architecture does."""
        if self.network.settings.architecture.behind:
            y = self.network.norm(f"{self.name}.{norm}", y)
        return self.add(name, AddOp, [x, y])

    # ------------------------------------------------------------------------------------------------------------
    # Parts of attention

    def add(
        self, name: str, op_type: type[TensorOp], operands: Sequence[Operand], properties: Properties | None = None
    ) -> SSAValue:
        return self.network.add(f"{self.name}.{name}", op_type, operands, properties)

    def move(self, name: str, x: SSAValue, *steps: "Step") -> SSAValue:
        return self.network.move(f"{self.name}.{name}", x, *steps)

    def heads(self, name: str, x: SSAValue, count: int, size: int) -> SSAValue:
        """Projects rows to heads, [rows, count, size]."""
        y = self.network.linear(f"{self.name}.{name}", x)
        return self.move(f"{name}.split", y, (ReshapeOp, {"shape": [self.network.rows, count, size]}))

    def turned(self, name: str, x: SSAValue, count: int) -> SSAValue:
        """Projects rows to heads of queries or keys, and turns pairs of their elements by the angles of the places.

        In the result, [count, rows, head], the first elements of all pairs stand before the second ones. Where pairs
        are neighbours, this is another order than that of the file, in queries and keys alike.
        """
        net, head, (cos, sin) = self.network, self.network.settings.head, (self.shared.cos, self.shared.sin)
        y, half = self.heads(name, x, count, head), [count, net.rows, head // 2]
        if net.settings.architecture.norms:
            y = net.norm(f"{self.name}.{name}_norm", y)
        if net.settings.architecture.pairs:
            apart = (ReshapeOp, {"shape": [net.rows, count, head // 2, 2]})
            y = self.move(f"{name}.heads", y, apart, (TransposeOp, {"permutation": [1, 0, 2, 3]}))
            sizes, second = [*half, 1], [0, 0, 0, 1]
        else:
            y, sizes, second = self.move(f"{name}.heads", y, _SWAP), half, [0, 0, head // 2]
        a, b = (
            self.move(
                f"{name}.{part}", y, (SliceOp, {"offsets": at, "sizes": sizes, "strides": [1] * len(at)}),
                (ReshapeOp, {"shape": half}),
            )
            for part, at in (("first", [0] * len(second)), ("second", second))
        )  # fmt: skip
        real = [self.add(f"{name}.first_cos", MulOp, [a, cos]), self.add(f"{name}.second_sin", MulOp, [b, sin])]
        real = self.add(f"{name}.real", SubOp, real)
        imaginary = [self.add(f"{name}.first_sin", MulOp, [a, sin]), self.add(f"{name}.second_cos", MulOp, [b, cos])]
        return self.add(
            f"{name}.turned", ConcatOp, [[real, self.add(f"{name}.imaginary", AddOp, imaginary)]], {"axis": 2}
        )

    def stored(self, name: str, cache: SSAValue, new: SSAValue) -> SSAValue:
        """Returns a cache [heads, context, size] with the tokens' own rows [heads, rows, size] at their places."""
        net = self.network
        if net.rows == 1:
            place = Constant(np.arange(net.context).reshape(1, -1, 1))
            here = net.add(f"{name}.here", EqualOp, [place, self.shared.at])
            return net.add(name, WhereOp, [here, new, cache])
        return net.add(name, ScatterNDOp, [cache, new, self.shared.slots])


def _number(value: float) -> Constant:
    return Constant(np.array([value], np.float32))


def _integer(value: int) -> Constant:
    return Constant(np.array([value]))
