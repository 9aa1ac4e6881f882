"""What quantization may cost a network: every tensor rounded in plain numpy, by onnxruntime node by node.

Of each tensor the largest magnitude over all samples is known, so a tensor of n bits has steps of 2·max|x| / (2^n − 1)
at most, of twice that if steps are powers of two or one bit is left for more. Each value is rounded to such steps and
weights to theirs; several draws move the steps against the values. Weights have steps by their largest magnitude in
the first draw. Each other draw takes steps at random of those whose square error is near the least, which may cut off
the largest weights: weights that happen to lie on the steps of one draw, or whose errors happen to cancel in a sum, do
not raise what their channel is expected to keep; weights that some steps hold exactly do. Where rules give layers
weights of other bits, draws take turns with them: more bits have other steps, which need not hold what fewer do, as
15 steps hold −3, 1 and 2 exactly and 127 do not. A codebook has entries for all channels, so that none can expect what
even steps hold exactly: its draws have steps that do not end at the largest weight. Whatever the quantizer decides, a
network that is worse than this by more than half of its decibels has lost something that its bits hold.

The simulation knows nothing of qmlir. Where a function magnifies what rounding does to its inputs, it does so here too,
so that what is ill-conditioned has a low expectation. Within a recurrent layer sums are rounded before its gates: its
bias is off by as much.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.fuzz.graphs import Array, Graph, Node
from tests.fuzz.options import Options
from tests.fuzz.oracle import Change, Oracle
from tests.fuzz.spelled import BIPOLAR, ON_INTEGERS, QUANT, SIGNED_WEIGHTS, TRUNC

Part = tuple[slice | int, ...]
"""An index of some elements of an output."""

LEAST = 16.0
"""dB below which an expectation says nothing."""

MOST = 90.0
"""dB beyond which nothing more is expected."""

TINY = 3 * 2.0**-24
"""What floats may differ by at any rate: onnxruntime's float32 sigmoid is off by up to 2.8 · 2⁻²⁴."""

DRAWS = 3

MORE_DRAWS = 15
"""Draws that confirm a loss: of a channel with a single value that is not 0, three often fall on the same step."""

CLIPPING = {"kl", "kl_tvm", "aciq", "moving_average"}
"""Calibrations that may cut off what they like."""

LINES = {"Exp", "Log", "Gelu"}
"""Functions between whose values at 513 places LiteRT draws lines for data of 16 bits."""

JUMPING = {"Mod", "Floor", "Ceil", "Round", "Sign", "Cast", "CastLike", "Hardmax", "Shrink", "ThresholdedRelu", "Where",
           "Binarizer", "TfIdfVectorizer", "TreeEnsemble",
           "TopK", "MaxUnpool", "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QGemm",
           *(key.rpartition(".")[2] for key in (*ON_INTEGERS, *SIGNED_WEIGHTS, *QUANT, *BIPOLAR, *TRUNC))}  # fmt: skip
"""Operators whose results jump: which values are near a jump no few draws tell."""

TRANSFORMS = {"DFT", "STFT", "MelWeightMatrix"}
"""Operators that multiply by matrices of their own, or make one: these have the bits of weights."""

EXACT_CONSTANTS = {"Resize", "Upsample", "Range", "OneHot", "RoiAlign", "QuantizeLinear", "DequantizeLinear",
                   "QLinearConv", "QLinearMatMul", "Clip", "Pow", "NonMaxSuppression", "NonZero",
                   "Unique", "MelWeightMatrix", "MatMulNBits", "GatherBlockQuantized"}  # fmt: skip
"""Operators whose constants are no data."""

WEIGHTS = {"Conv": (1,), "ConvTranspose": (1,), "DeformConv": (1,), "CausalConvWithState": (1,),
           "com.microsoft.Attention": (1,), "com.microsoft.MultiHeadAttention": (1, 2), "Attention": (1, 2),
           "ai.onnx.preview.FlexAttention": (1, 2), "LinearAttention": (0, 1, 2), "Gemm": (1,), "MatMul": (0, 1),
           "com.microsoft.FusedConv": (1,), "com.microsoft.FusedGemm": (1,), "com.microsoft.FusedMatMul": (0, 1),
           "com.microsoft.GroupQueryAttention": (1, 2, 3, 4), "LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2)}  # fmt: skip
"""Operator → the operands that have bits of their own if they are constant; any other constant has those of data."""

MOVING = {"Scatter", "ScatterElements", "ScatterND", "TensorScatter"}
"""Operators whose results have the type of their operands: values that are overwritten count for its range as well."""

TIED = {"Concat", "Flatten", "Identity", "MaxPool", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
        "Unsqueeze"}  # fmt: skip
"""Operators whose operands and results have one type with Glow's parameters, however much narrower an operand is."""

PRODUCTS = {"MatMul", "Attention", "LinearAttention", "com.microsoft.MultiHeadAttention",
            "com.microsoft.FusedMatMul", "com.microsoft.GroupQueryAttention",
            "ai.onnx.preview.FlexAttention"}  # fmt: skip
"""Operators whose constant operand has bits of weights only if it is a single matrix."""

NEAR = 2.0
"""How much more than the least square error of a channel's weights steps may have that are as good."""

FACTORS = {"BatchNormalization", "Mul", "Div"}
"""Operators by constants that may be folded into the weights before them."""

DIVIDING = {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"}
"""Operators that divide elements by their deviation."""

FIXED = {"Softmax": 1.0, "Sigmoid": 1.0, "Tanh": 1.0, "Softsign": 1.0, "HardSigmoid": 1.0, "LpNormalization": 1.0,
         "Erf": 1.0, "Sin": 1.0, "Cos": 1.0}  # fmt: skip
"""Operators whose results have a range of their own, whatever they take."""


@dataclass(frozen=True)
class Rounded:
    """What a network's outputs are exactly, and after each of several ways of rounding."""

    exact: list[dict[str, Array]]
    draws: list[list[dict[str, Array]]]

    def sqnr(self, name: str, part: Part = ()) -> float:
        """The worst signal to noise in dB that a part of an output comes to; of a channel of 0, that of the output."""
        if not (signal := sum(_square(e[name][part]) for e in self.exact)):
            part, signal = (), sum(_square(e[name]) for e in self.exact)
        noises = [
            sum(_square(r[name][part] - e[name][part]) for e, r in zip(self.exact, draw, strict=True))
            for draw in self.draws
        ]
        return decibels(signal, max(noises))

    def lost(self, name: str, part: Part, found: Sequence[Array]) -> tuple[float, float] | None:
        """The decibels that a part of an output reaches and those expected of it; None where it has enough of them.

        A channel that is exactly 0 has no signal of its own: what it holds is measured by the height of the whole
        output, and by `TINY` where that is 0, too. A channel with any signal is held to that, however quiet it is.
        """
        signal = sum(_square(e[name][part]) for e in self.exact)
        noise = sum(_square(_error(f[part], e[name][part])) for f, e in zip(found, self.exact, strict=True))
        if not signal:
            whole = self.exact[0][name]
            signal = sum(_square(e[name]) for e in self.exact) * whole[part].size / whole.size
            if not signal and all(np.abs(f[part]).max(initial=0) <= TINY for f in found):
                return None
        expected = self.sqnr(name, part)
        if not expected >= LEAST or (reached := decibels(signal, noise)) >= min(expected, MOST) / 2:
            return None
        return reached, expected


def _error(found: Array, exact: Array) -> Array:
    """By how much numbers differ; those of 16 bits may be neighbours, which is a lot where they have few digits."""
    error = found - np.asarray(exact, np.float64)
    if exact.dtype == np.float16:
        error = np.where(np.abs(error) <= np.spacing(np.abs(exact)), 0.0, error)
    return error


def _square(values: Array) -> float:
    flat = np.asarray(values, np.float64).ravel()
    return float(flat @ flat)


def decibels(signal: float, noise: float) -> float:
    """Signal to noise in dB."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def is_expectable(graph: Graph, options: Options, exact: Sequence[Mapping[str, Array]]) -> bool:
    """Whether the simulation is one of this network under these options.

    It is not where a function jumps, a matrix is not among the constants, a calibration clips, a norm is folded into
    weights with one scale, tensors inside of a subgraph are rounded, a normalization magnifies what rounding leaves of
    elements that are all alike, or LiteRT is followed, which draws lines between few values of a function of 16 bits;
    nor where a recurrent layer's gates shut what it holds to less than a few of their own steps.

    Args:
        graph: The network.
        options: How it is quantized.
        exact: The value of every tensor on each sample.
    """
    for node in graph.nodes:
        if (rows := _normalized(node, exact)) is not None:
            step = _step([e[node.inputs[0]] for e in exact], options)
            if rows.shape[1] > 1 and (rows.std(axis=1) < 2 * step).any():
                return False
    if any(node.bodies for node in graph.nodes) or any(_is_below_gates(n, options, exact) for n in graph.nodes):
        return False
    operators = {n.operator for n in graph.nodes}
    if options.numerics.startswith("litert") and "int16" in options.every("precision") and operators & LINES:
        return False
    folds = FACTORS & operators and False in options.every("per_channel")
    return not (options.every("calibration") & CLIPPING or folds or operators & (JUMPING | TRANSFORMS))


def _is_below_gates(node: Node, options: Options, exact: Sequence[Mapping[str, Array]]) -> bool:
    """Whether results of a recurrent layer are below four steps of its gates, which have values from 0 to 1."""
    if node.operator not in ("LSTM", "GRU"):
        return False
    results = [np.abs(e[name]).max(initial=0) for e in exact for name in node.outputs if name in e]
    return max(results, default=1) < 4 / 2**options.activation_bits


def _normalized(node: Node, exact: Sequence[Mapping[str, Array]]) -> Array | None:
    """What a normalization divides by one deviation each, [rows, elements]; None of another operator."""
    if node.operator not in DIVIDING:
        return None
    x = [e[node.inputs[0]].astype(np.float64) for e in exact if node.inputs[0] in e]
    if not x or not x[0].size:
        return None
    match node.operator:
        case "LayerNormalization":
            axis = int(node.attributes.get("axis", -1))
            return np.concatenate([v.reshape(-1, int(np.prod(v.shape[axis:]))) for v in x])
        case "InstanceNormalization":
            return np.concatenate([v.reshape(v.shape[0] * v.shape[1], -1) for v in x])
        case "GroupNormalization":
            return np.concatenate([v.reshape(v.shape[0] * int(node.attributes["num_groups"]), -1) for v in x])
        case _:
            axes = [a % x[0].ndim for a in node.attributes.get("axes") or (0, 2, 3)]
            size = int(np.prod([x[0].shape[a] for a in axes]))
            return np.concatenate([np.moveaxis(v, axes, range(-len(axes), 0)).reshape(-1, size) for v in x])


def rounded(
    graph: Graph, oracle: Oracle, options: Options, exact: Sequence[Mapping[str, Array]], count: int = DRAWS
) -> Rounded:
    """The outputs of a network under rounding of every tensor.

    Args:
        graph: The network.
        oracle: onnxruntime on it.
        options: For their bits.
        exact: The value of every tensor on each sample.
        count: How many ways of rounding are drawn.
    """
    makers = {name: node.operator for node in graph.nodes for name in node.outputs}
    steps = {name: _step([e[name] for e in exact], options, FIXED.get(makers.get(name, ""), 0.0)) for name in exact[0]}
    for node in graph.nodes:
        if node.operator in MOVING:
            own = [steps[n] for n in (*node.inputs, *node.outputs) if n in steps and exact[0][n].dtype.kind == "f"]
            steps |= dict.fromkeys(node.outputs, max(own, default=0.0))
    if True in options.every("glow_exact"):
        _tie(graph, steps)
    graph = _with_biased_keys(_with_spelled_grids(graph, exact[0]))
    random = np.random.default_rng(0)
    draws = list[list[dict[str, Array]]]()
    widths = options.widths_of_weights
    for draw in range(count):
        moving = random if draw else None
        changed = _with_rounded_constants(graph, options, moving, widths[draw % len(widths)])
        if moving is not None:
            changed = _with_rounded_gates(changed, options, exact, moving)
        change, oracle = _rounding(steps, moving), Oracle(changed)
        draws.append([oracle.run(feed, change) for feed in graph.feeds()])
    return Rounded([dict(e) for e in exact], draws)


def _tie(graph: Graph, steps: dict[str, float]) -> None:
    """Gives operands and results of operators that tie them the widest of their steps."""
    tied = [[n for n in (*node.inputs, *node.outputs) if n in steps] for node in graph.nodes if node.operator in TIED]
    while any(min(steps[n] for n in names) < max(steps[n] for n in names) for names in tied if names):
        for names in tied:
            steps |= dict.fromkeys(names, max((steps[n] for n in names), default=0.0))


def _step(values: Sequence[Array], options: Options, least: float = 0.0) -> float:
    """The step of a tensor of data whose largest magnitude on some samples, or what it is at least, is known."""
    bits, twice = options.activation_bits, 2.0 if _has_powers(options) else 1.0
    most = max(np.abs(v.astype(np.float64)).max(initial=least) for v in values)
    return float(2 * most * (2 if bits == 16 else 1.1) * twice / (2**bits - 1))


def _has_powers(options: Options) -> bool:
    """Whether scales may be powers of two."""
    return "symmetric_with_power2_scale" in options.every("schema")


def _rounding(steps: Mapping[str, float], random: np.random.Generator | None) -> Change:
    """What becomes of each tensor; drawn at random, steps are narrower, so that no value lies on those of all draws."""
    if random is not None:
        steps = {name: step * random.uniform(0.75, 1.0) for name, step in steps.items()}

    def change(name: str, value: Array) -> Array:
        step = steps.get(name, 0.0)
        if not step or not np.isfinite(step):
            return value
        moved = value.astype(np.float64) / step
        if random is not None:
            moved = moved + random.uniform(-0.5, 0.5, value.shape)
        return np.asarray(np.rint(moved) * step, value.dtype)

    return change


def _with_spelled_grids(graph: Graph, values: Mapping[str, Array]) -> Graph:
    """The network with AffineGrid as the product that defines it, whose constant places have bits of weights."""
    constants, nodes = dict(graph.constants), list[Node]()
    for node in graph.nodes:
        if node.operator != "AffineGrid":
            nodes.append(node)
            continue
        (theta, _), (y,) = node.inputs, node.outputs
        lengths, corners = values[y].shape[1:-1], node.attributes.get("align_corners", 0)
        lines = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1 for n in lengths]
        places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(lengths)], -1)
        constants[f"{y}.places"] = places.reshape(-1, len(lengths) + 1).astype(values[y].dtype)
        constants[f"{y}.shape"] = np.array(values[y].shape)
        nodes += [
            Node("Transpose", (theta,), (f"{y}.turned",), {"perm": [0, 2, 1]}),
            Node("MatMul", (f"{y}.places", f"{y}.turned"), (f"{y}.product",)),
            Node("Reshape", (f"{y}.product", f"{y}.shape"), (y,)),
        ]
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _with_biased_keys(graph: Graph) -> Graph:
    """The network with constant keys and values of MultiHeadAttention that have its bias: their sums are rounded."""
    constants, nodes = dict(graph.constants), list(graph.nodes)
    for index, node in enumerate(nodes):
        bias = constants.get(node.inputs[3]) if node.operator == "MultiHeadAttention" and len(node.inputs) > 3 else None
        if bias is None:
            continue
        inputs, left, ends = list(node.inputs), bias.copy(), [len(bias)]
        for place in (2, 1):
            array = constants.get(inputs[place])
            ends.insert(0, ends[0] - (array.shape[-1] if array is not None else len(bias) // 3))
            if array is not None and array.ndim == 3:
                inputs[place] = f"{node.outputs[0]}.{place}"
                constants[inputs[place]] = array + bias[ends[0] : ends[1]]
                left[ends[0] : ends[1]] = 0
        inputs[3] = f"{node.outputs[0]}.bias"
        constants[inputs[3]] = left
        nodes[index] = replace(node, inputs=tuple(inputs))
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _with_rounded_constants(graph: Graph, options: Options, random: np.random.Generator | None, width: int) -> Graph:
    """The network with its constant floats on steps of their own, those of the largest magnitude or drawn at random.

    Args:
        graph: The network.
        options: How it is quantized.
        random: Where choices come from; None for steps of the largest magnitude.
        width: The bits of weights.
    """
    kept = {name for node in graph.nodes if node.operator in EXACT_CONSTANTS for name in node.inputs}
    operators = {n.operator for n in graph.nodes}
    folded = "BatchNormalization" in operators
    found, least = dict(graph.constants), 1 if _has_powers(options) else 2  # of one number its scale is made
    for name, array in graph.constants.items():
        if name in kept or array.dtype.kind != "f" or array.size < least or (folded and array.ndim < 2):
            continue
        weighs = _is_weight(graph, name, array)
        bits = width if weighs else options.activation_bits
        if not weighs and array.ndim < 2:
            bits = min(8 if "int8" in options.every("bias") else 16, bits)
        exact = array.astype(np.float64)
        axis = _channels(graph, name, array) if False not in options.every("per_channel") else None
        axes = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
        levels, glow = 2 ** (bits - 1) - 1 or 1, True in options.every("glow_exact")
        step = _steps_of_weights(exact, axes, levels, glow=glow)
        if _has_powers(options):
            # A factor that is folded into weights moves them against the powers of two.
            factor = random.uniform(1.0, 2.0, step.shape) if random is not None and operators & FACTORS else 1.0
            step = 2 ** np.ceil(np.log2(step * factor)) / factor
        if random is not None and weighs and options.weight_levels == "codebook":
            step = step * random.uniform(0.75, 1.0, step.shape)
            values = np.rint(exact / step) * step
        elif random is not None and weighs and not glow:
            factors = 0.5 ** np.arange(3) if _has_powers(options) else np.linspace(1.0, 0.25, 31)
            values = _fitted(exact, step * factors.reshape(-1, *[1] * step.ndim), levels, axes, random)
        else:
            moved = exact / step + (0 if random is None else random.uniform(-0.5, 0.5, array.shape))
            values = np.rint(moved) * step
        found[name] = np.asarray(values, array.dtype)
    return replace(graph, constants=found)


def _steps_of_weights(exact: Array, axes: tuple[int, ...] | None, levels: int, *, glow: bool) -> Array:
    """The steps of which the largest weight is so many; Glow's negative weights have a step more: −8 to 7 of 4 bits."""
    low, high = (f(exact, axis=axes, keepdims=axes is not None, initial=0) for f in (np.min, np.max))
    most = np.maximum(high, -low * levels / (levels + 1) if glow else -low)
    return np.where(most > 0, most, levels) / levels


def _fitted(
    exact: Array, steps: Array, levels: int, axes: tuple[int, ...] | None, random: np.random.Generator
) -> Array:
    """Weights on steps drawn of those whose square error is near the least.

    Args:
        exact: The weights.
        steps: Steps to choose from, first axis, for the tensor or for each channel.
        levels: How many steps a weight may be long.
        axes: The axes that weights of one step lie along; None: all.
        random: Where choices come from.
    """
    values = np.array([np.clip(np.rint(exact / step), -levels, levels) * step for step in steps])
    along = tuple(range(1, values.ndim)) if axes is None else tuple(i + 1 for i in axes)
    errors = np.sum((values - exact) ** 2, axis=along, keepdims=True)
    lots = np.where(errors <= NEAR * errors.min(axis=0), random.random(errors.shape), -1.0)
    return np.take_along_axis(values, lots.argmax(axis=0)[None], axis=0)[0]


def _with_rounded_gates(
    graph: Graph, options: Options, exact: Sequence[Mapping[str, Array]], random: np.random.Generator
) -> Graph:
    """The network with biases of its recurrent layers that are off by what the sums before gates are rounded by."""
    constants, nodes = dict(graph.constants), list(graph.nodes)
    for index, node in enumerate(nodes):
        if node.operator not in ("LSTM", "GRU", "RNN") or not {*node.inputs[1:3]} <= constants.keys():
            continue
        x, kind = node.inputs[0], constants[node.inputs[1]].dtype
        weights, recurrent = (constants[n].astype(np.float64) for n in node.inputs[1:3])
        bias = constants.get(node.inputs[3] if len(node.inputs) > 3 else "", np.zeros((len(weights), 1)))
        rest = np.abs(recurrent).sum(axis=2).max(initial=0) + np.abs(bias).max(initial=0)  # hidden states are at most 1
        sums = [np.einsum("tbf,dgf->dtbg", e[x].astype(np.float64), weights) for e in exact]
        step = _step([np.abs(s) + rest for s in sums], options)
        off = np.zeros((len(weights), 2 * weights.shape[1]))
        off[:, : weights.shape[1]] = random.uniform(-0.5, 0.5, weights.shape[:2]) * step
        name = f"{node.outputs[0] or node.outputs[1]}.bias"
        constants[name] = np.asarray(bias + off, kind)
        nodes[index] = replace(node, inputs=(*node.inputs[:3], name, *node.inputs[4:]))
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _is_weight(graph: Graph, name: str, array: Array) -> bool:
    """Whether a constant has the bits of weights: where nothing reads it but contractions, a single matrix of one."""
    places = {(n.key, n.inputs.index(name)) for n in graph.nodes if name in n.inputs}
    single = array.size == int(np.prod(array.shape[-2:])) or not any(operator in PRODUCTS for operator, _ in places)
    weighs = bool(places) and all(index in WEIGHTS.get(operator, ()) for operator, index in places)
    if not weighs and places and all(operator == "Einsum" for operator, _ in places):
        return all(_multiplies(n, n.inputs.index(name)) for n in graph.nodes if name in n.inputs)
    return array.ndim > 1 and single and weighs


def _multiplies(node: Node, index: int) -> bool:
    """Whether an operand of an Einsum is a matrix by which it multiplies the other, summed over letters of both."""
    operands, arrow, result = str(node.attributes["equation"]).replace(" ", "").partition("->")
    letters = operands.split(",")
    if not arrow or "." in operands or len(letters) != 2:
        return False
    both, own = set(letters[0]) & set(letters[1]), set(letters[index]) - set(letters[1 - index])
    return bool(both) and bool(own) and not both & set(result)


def _channels(graph: Graph, name: str, array: Array) -> int | None:
    """The axis of a constant along which weights have scales of their own; None where there is one for all."""
    (reader,) = [n for n in graph.nodes if name in n.inputs][:1] or [None]
    if reader is None or array.ndim < 2:
        return None
    if reader.operator in ("Conv", "FusedConv", "CausalConvWithState"):
        return 0
    if reader.operator in ("Gemm", "FusedGemm"):
        return 0 if reader.attributes.get("transB") else 1
    return None
