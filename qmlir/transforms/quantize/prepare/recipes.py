"""Recipes for kinds of networks: how the graph tells a kind, and the rules and options that a kind asks for.

A kind is recognised by its structure, never by names. What a recipe sets is a policy, in the words that users write:
options for the whole network, and rules in front of the user's own. A user's option or rule always wins. The option
`recipe` chooses:

* `auto`, the default: the recipe of the kind that is recognised, if it does not widen what `precision` says, and serves
  all networks of the kind. Recipes that widen are where the search of `precision=auto` starts. One that serves some
  networks only is tried where the outputs are measured and lack decibels without it (analysis/recipe_trial.py);
* the name of a kind: its recipe, whatever the graph is;
* `none`: no recipe.

Most kinds need no options, since what helps them is decided tensor by tensor, by the data: their recipes are empty and
name what decides. docs/accuracy.md has the measured gains.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.nn import (
    AddOp,
    ConcatOp,
    ConstantOp,
    FullyConnectedOp,
    GatherOp,
    MatMulOp,
    MulOp,
    NegOp,
    NonMaxSuppressionOp,
    ReduceSumOp,
    SoftmaxOp,
    WhereOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, WeightedOp
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.queries import split_constant
from qmlir.display import counted
from qmlir.ir.facts import DEVICE, ROTATION
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import state_values
from qmlir.ir.traversal import reached
from qmlir.policies.runtimes import runtime_of
from qmlir.settings.policy import Policy, Rule
from qmlir.settings.quant_config import OpConfig
from qmlir.settings.resolve import Setting, Settings
from qmlir.transforms.quantize.prepare.keep_blocks import keeps_blocks
from qmlir.transforms.quantize.ranges.masks import FAR_BELOW

AUTO, NONE = "auto", "none"


@dataclass(frozen=True)
class Recipe:
    """What a kind of networks asks for.

    kind    the kind in words, with an article
    found   returns what in the graph tells the kind, in words; empty for another kind
    does    what is done for the kind, in words
    policy  the options and the rules; empty where standard options do it
    widens  whether tensors get more bits than `precision` says
    here    whether it is for int8 on the CPU, by qmlir's own numerics and without a schema of powers of two
    tried   whether it is tried where outputs lack decibels without it, as some networks of the kind lose by it
    """

    kind: str
    found: Callable[[Block], str]
    does: str
    policy: Policy = field(default_factory=Policy)
    widens: bool = False
    here: bool = False
    tried: bool = False


@dataclass(frozen=True)
class Recognized:
    """A kind that a network was recognised as: the name of its recipe, and what in the graph tells it."""

    name: str
    why: str

    @property
    def recipe(self) -> Recipe:
        """The recipe of the kind."""
        return RECIPES[self.name]

    def text(self, applied: str) -> str:
        """Returns a sentence about the kind, for a network that was quantized with the recipe `applied`."""
        does = self.recipe.does
        if self.recipe.policy != Policy() and applied != self.name:
            does = f"--recipe {self.name} would set {does}"
        return f"recognized as {self.recipe.kind} ({self.why}): {does}"


def recognized(module: ModuleOp) -> Recognized | None:
    """Returns the kind of a float network, the first that its graph tells; None if it tells none."""
    functions = defined_functions(module)
    if len(functions) != 1:
        return None
    kinds = ((name, recipe.found(functions[0].body.block)) for name, recipe in RECIPES.items())
    return next((Recognized(name, why) for name, why in kinds if why), None)


def with_recipe(module: ModuleOp, policy: Policy, settings: Settings, *, ranged: bool) -> tuple[Policy, Settings]:
    """Returns a policy and settings with what the recipe in effect adds to them.

    Args:
        module: The float network.
        policy: The user's policy, whose rules come after the recipe's and so win.
        settings: The settings in effect. Options that somebody gave stay.
        ranged: Whether ranges are known already, of the network as it is: a recipe does not rotate it then.

    Returns:
        The policy and the settings, which name the recipe in effect.
    """
    name = settings.settings["recipe"].value
    if name == AUTO:
        kind = recognized(module)
        name = kind.name if kind is not None and _applies(kind.recipe, module, settings) else NONE
    origin = settings.settings["recipe"].origin
    made = {**settings.settings, "recipe": Setting(name, origin)}
    if name == NONE:
        return policy, replace(settings, settings=made)
    asked = RECIPES[name].policy
    late = {"rotate"} if ranged and not ROTATION.on(module) else set[str]()
    added = {k: v for k, v in asked.default.items() if k not in late and made[k].origin == "standard"}
    if "rotate" in added and _keeps_blocks(module, replace(settings, settings=made).config().op_config()):
        added["rotate"] = AT_RUN_TIME
    elif added.get("rotate") == "all" and made["cache_precision"].value == "int4":
        added["rotate"] = "caches"
    made |= {k: Setting(v, "recipe") for k, v in added.items()}
    return replace(policy, rules=(*asked.rules, *policy.rules)), replace(settings, settings=made)


AT_RUN_TIME = "run-time"
"""How a recipe rotates where weights keep the blocks of their file, which a rotation of weights would lose."""


def _keeps_blocks(module: ModuleOp, asked: OpConfig) -> bool:
    """Whether layers of a network keep the blocks of their file under the options in effect."""
    return any(isinstance(op, FullyConnectedOp) and keeps_blocks(op, asked) for op in module.walk())


def _applies(recipe: Recipe, module: ModuleOp, settings: Settings) -> bool:
    """Whether the recipe of a network's kind is applied without being named."""
    return not (recipe.widens or recipe.tried) and (not recipe.here or _is_here(module, settings))


def recipe_to_try(module: ModuleOp, settings: Settings) -> str | None:
    """Returns the name of the recipe to try where a float network's outputs lack decibels without it.

    Args:
        module: The float network, without ranges: a recipe may rotate it before they are learned.
        settings: The settings in effect.

    Returns:
        None if its kind has none, if somebody gave a recipe or an option that the recipe sets, or if the network is for
        another precision or place than those of the recipe.
    """
    kind = recognized(module)
    if kind is None or not kind.recipe.tried or not _is_here(module, settings):
        return None
    given = [settings.settings[name].origin != "standard" for name in kind.recipe.policy.default]
    return None if any(given) or settings.settings["recipe"].value != AUTO else kind.name


def _is_here(module: ModuleOp, settings: Settings) -> bool:
    """Whether a network is quantized to int8, for the CPU and by qmlir's own numerics."""
    config = settings.config()
    plain = config.precision == "int8" and config.schema != "symmetric_with_power2_scale" and not config.glow_exact
    return plain and not settings.elsewhere and not DEVICE.on(module) and runtime_of(module) == "default"


# ---------------------------------------------------------------------------------------------------------------
# What tells a kind

CHANNELS = 4
"""The most channels of a picture."""

Size: TypeAlias = tuple[int, int]
"""Rows and columns of a feature map."""


def _detector(block: Block) -> str:
    """Results for the places of feature maps of several sizes are joined, or outputs have as many rows each."""
    if any(isinstance(op, NonMaxSuppressionOp) for op in block.ops):
        return "non-maximum suppression"
    results = _results(block)
    for value in _behind(results, _without_layers):
        parts = [_maps(part) for part in value.owner.operands] if isinstance(value.owner, ConcatOp) else []
        if parts and all(len(maps) == 1 for maps in parts) and len(maps := set[Size]().union(*parts)) > 1:
            return f"joined results for maps of {_sizes(maps)}"
    by_rows: dict[int, list[SSAValue]] = {}
    for value in results:
        shape = shape_of(value)
        if len(shape) == 3 and any(shape[1] % (high * wide) == 0 for high, wide in _maps(value)):
            by_rows.setdefault(shape[1], []).append(value)
    for rows, values in by_rows.items():
        if len({shape_of(value)[2] for value in values}) > 1:
            return f"{len(values)} outputs with {rows} rows each, for maps of {_sizes(_maps(values[0]))}"
    return ""


def _super_resolution(block: Block) -> str:
    """A picture becomes a picture of as many channels that is larger."""
    shapes = [shape_of(v) for v in (*_floats(block.args), *_results(block))]
    if len(shapes) != 2 or any(len(shape) != 4 or 0 in shape for shape in shapes):
        return ""
    given, made = shapes
    kept = [size for size, now in zip(given, made, strict=True) if size == now]
    larger = {now / size for size, now in zip(given, made, strict=True) if size != now}
    if len(kept) != 2 or kept[0] != given[0] or kept[1] > CHANNELS or len(larger) != 1 or min(larger) < 1:
        return ""
    return f"a picture becomes {min(larger):g} times as high and wide"


def _audio_front_end(block: Block) -> str:
    """Two squares of linear functions of an input are summed: energies of a signal's frequencies."""
    for op in block.ops:
        pair = isinstance(op, ReduceSumOp) and prod(shape_of(op.x)) == 2 * prod(shape_of(op.y))
        if (pair or isinstance(op, AddOp)) and all(map(_is_energy, op.operands)):
            return "energies of what layers without functions compute from an input"
    return ""


def _is_energy(value: SSAValue) -> bool:
    """Whether a value is the square of a linear function of an input, by layers without a clamp."""
    squares = [v.owner for v in _behind([value], _moves) if isinstance(v.owner, MulOp)]
    return bool(squares) and all(op.lhs is op.rhs and _is_linear_in_input(op.lhs) for op in squares)


def _is_linear_in_input(value: SSAValue) -> bool:
    """Whether layers compute a value from an input, and nothing but moves and factors stands between."""
    read = [v.owner for v in _behind([value], _is_linear)]
    return any(isinstance(owner, WeightedOp) for owner in read) and any(isinstance(owner, Block) for owner in read)


def _transformer(block: Block) -> str:
    """A softmax weights the rows of a matrix product."""
    return counted(len(found), "attention") if (found := _attentions(block)) else ""


def _decoder(block: Block) -> str:
    """Attention leaves out what is behind each place, or reads what earlier calls have stored."""
    found = _attentions(block)
    if found and all(map(_is_causal, found)):
        return f"{counted(len(found), 'attention')} under a causal mask"
    states = state_values(block)
    return f"attention, and {counted(len(states), 'state')}" if found and states else ""


def _language_model(block: Block) -> str:
    """A decoder that looks up rows of a constant table by integers that it is given."""
    tables = [op for op in block.ops if isinstance(op, GatherOp) and _is_table(op)]
    why = _decoder(block) if tables else ""
    return f"a table of {shape_of(tables[0].x)[0]} rows, {why}" if why else ""


def _text_encoder(block: Block) -> str:
    """Attention to all places of what is looked up in a constant table by integers that the network is given."""
    tables = [op for op in block.ops if isinstance(op, GatherOp) and _is_table(op)]
    why = "" if not tables or _decoder(block) else _transformer(block)
    return f"a table of {shape_of(tables[0].x)[0]} rows, {why}" if why else ""


def _is_table(op: GatherOp) -> bool:
    """Whether an operation looks up rows of a constant matrix of floats by an input."""
    given = any(isinstance(v.owner, Block) for v in _behind([op.indices], _moves))
    return given and isinstance(op.x.owner, ConstantOp) and is_float(op.x) and len(shape_of(op.x)) == 2


def _attentions(block: Block) -> list[SoftmaxOp]:
    """The softmaxes that weight the rows of a matrix product."""
    products = [op for op in block.ops if isinstance(op, MatMulOp)]
    return [v.owner for op in products for v in _behind([op.lhs], _masks) if isinstance(v.owner, SoftmaxOp)]


def _is_causal(softmax: SoftmaxOp) -> bool:
    """Whether a constant mask of scores leaves out what is behind each place."""
    read = (v.owner for v in _behind([softmax.x], _masks))
    return any(_is_triangle(owner.value.array) for owner in read if isinstance(owner, ConstantOp))


def _is_triangle(mask: Array) -> bool:
    """Whether a mask, numbers or truth values, differs exactly behind the place of each row."""
    if mask.ndim < 2 or min(mask.shape[-2:]) < 2 or not mask.size:
        return False
    hidden = mask == mask[..., :1, -1:] if mask.dtype == bool else mask <= FAR_BELOW
    rows, columns = mask.shape[-2:]
    return bool((hidden == np.triu(np.ones((rows, columns), bool), columns - rows + 1)).all())


# ---------------------------------------------------------------------------------------------------------------
# Walks back through a graph


def _results(block: Block) -> list[SSAValue]:
    """The float results of a network."""
    return _floats(() if block.last_op is None else block.last_op.operands)


def _floats(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [v for v in values if isinstance(v.type, TensorType) and is_float(v)]


def _behind(values: Iterable[SSAValue], passes: Callable[[Operation], bool]) -> Iterator[SSAValue]:
    """Yields some values, and those that they are computed from by operations that a walk passes."""

    def read(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, Operation) and passes(value.owner) else ()

    return reached(values, read)


def _moves(op: Operation) -> bool:
    return isinstance(op, MovementOp)


def _without_layers(op: Operation) -> bool:
    return isinstance(op, MovementOp | PointwiseOp | SoftmaxOp)


def _is_linear(op: Operation) -> bool:
    if isinstance(op, WeightedOp | MulOp):
        return op.bounds() == (None, None) and (isinstance(op, WeightedOp) or split_constant(op) is not None)
    return isinstance(op, MovementOp | NegOp)


def _masks(op: Operation) -> bool:
    return isinstance(op, MovementOp | AddOp | WhereOp)


def _maps(value: SSAValue) -> set[Size]:
    """The sizes of the feature maps that a value is computed from without another layer."""
    made = [v for v in _behind([value], _without_layers) if isinstance(v.owner, Conv2DOp | DepthwiseConv2DOp)]
    return {size for v in made if min(size := (shape_of(v)[1], shape_of(v)[2])) > 1}


def _sizes(maps: Iterable[Size]) -> str:
    return ", ".join(f"{high} × {wide}" for high, wide in sorted(maps, reverse=True))


RECIPES: Mapping[str, Recipe] = {
    "detector": Recipe(
        "a detector",
        _detector,
        "16 bits for residual streams",
        Policy({"residuals": "int16"}),
        widens=True,
    ),
    "super-resolution": Recipe(
        "super resolution",
        _super_resolution,
        "16 bits for the data of the last layer",
        Policy(rules=[Rule({"precision": "int16", "weight_precision": "int8"}, layer="last", place="the recipe")]),
        widens=True,
    ),
    "audio-front-end": Recipe(
        "an audio front end", _audio_front_end, "the digits of energies are kept, as far as the data need them"
    ),
    "language-model": Recipe(
        "a language model",
        _language_model,
        "rows have scales of their own, and residual streams and what layers read are rotated",
        Policy({"activations": "dynamic", "rotate": "all", "rounding": "nearest"}),
        here=True,
    ),
    "text-encoder": Recipe(
        "an encoder of text",
        _text_encoder,
        "a scale for each row that layers read, and rotations",
        Policy({"activations": "dynamic", "rotate": "all"}),
        here=True,
        tried=True,
    ),
    "decoder": Recipe(
        "a decoder", _decoder, "softmaxes are divided behind their products, and residual streams follow the data"
    ),
    "transformer": Recipe(
        "a transformer",
        _transformer,
        "a scale for each row that layers read, and rotations",
        Policy({"activations": "dynamic", "rotate": "all"}),
        here=True,
        tried=True,
    ),
}
"""Name → recipe; a network is of the first kind that its graph tells. tests/transforms/quantize/test_recipes.py has a
network of each kind, docs/accuracy.md ("Kinds of networks") the gains."""
