"""Facts: what importers and passes write on operations, functions, arguments and modules. All of them are listed here.

A fact is an attribute that an operation can do without (a discardable attribute of MLIR). Nothing but this list spells
its key: a pass reads and writes it through the fact, and gets plain values where the attribute holds one.

    ON_FLOATS.put(cast)              KERNEL.put(op, "SVDF")            POWER.put(op, 2)
    if ON_FLOATS.on(op): …           kernel = KERNEL.of(op)            exponent = POWER.of(op) or 1

Each fact also says what becomes of it when its operation does not stay as it is. There are these movements:

* `REPLACED`: other operations compute its results, one, or several that it is split into (`replace`, rewriting.py).
* `FUSED`: `replace` absorbs the operation into the one that reads its result.
* `FOLDED`: its result is computed now; a constant takes its place.
* `UNUSED`: nothing reads its results any more, and it is erased.
* `TO_INTEGERS`: `nn-to-qint` lowers it, perhaps to several operations.
* `TO_LOOPS`: `nn-to-loops` or `qint-to-loops` lowers it to a call of a kernel that writes a buffer.

The passes that move operations ask `moved` which facts they pass on. An operation that is cloned, made again on other
types or operands (`restated`), or moved into the region of another operation keeps all its facts. What leaves for
upstream's dialects (linalg, TOSA, LLVM) or becomes commands of a device loses them, because these have no such
attributes; there, locations and labels hold the names.

Facts on functions and modules stay until the pass that their `ends` names. The table in docs/architecture.md is made of
this list.
"""

from typing import TYPE_CHECKING

from qmlir.ir.fact import (
    ANY,
    ARRAY,
    DICTIONARY,
    INTEGER,
    INTEGER_32,
    INTEGERS,
    NAMES,
    TEXT,
    TEXTS,
    WORD,
    Fact,
    Form,
    Heir,
    Mark,
    Movement,
    Moves,
    typed,
)
from qmlir.ir.stripes import Stripes

if TYPE_CHECKING:
    from qmlir.ir.decision import DecisionAttr
    from qmlir.ir.levels import LevelsAttr
    from qmlir.ir.names import NameAttr
    from qmlir.ir.states import StateAttr
    from qmlir.ir.weights import WeightsAttr

# ---------------------------------------------------------------------------------------------------------------
# Movements that many facts share

WEIGHTS: "Form[WeightsAttr]" = typed("qmlir.weights")

_COMPUTED = "a constant is computed already"
_ERASED = "nothing is computed"
_ABOVE_LOOPS = "code is made of what the integer operation says"
_AT_LOOPS = "stands on loops only"

_OF_SOURCE: Moves = {
    Movement.REPLACED: Heir.KIND,
    Movement.FUSED: Heir.KIND,
    Movement.FOLDED: _COMPUTED,
    Movement.UNUSED: _ERASED,
    Movement.TO_INTEGERS: "the integer operation states the rounding",
    Movement.TO_LOOPS: _ABOVE_LOOPS,
}
"""Movements of a fact that says how the source model computes an operation."""

_OF_SETTINGS: Moves = {
    Movement.REPLACED: Heir.KIND,
    Movement.FUSED: "the reader has its own",
    Movement.FOLDED: _COMPUTED,
    Movement.UNUSED: _ERASED,
    Movement.TO_INTEGERS: "the quantizer has read it",
    Movement.TO_LOOPS: "the quantizer has read it",
}
"""Movements of a fact that the quantizer's passes tell each other of an operation."""

_NEW_VALUES = "the new constant has other values; who makes it states it anew"

_OF_VALUES: Moves = {
    Movement.REPLACED: _NEW_VALUES,
    Movement.FUSED: _NEW_VALUES,
    Movement.FOLDED: _NEW_VALUES,
    Movement.UNUSED: _ERASED,
    Movement.TO_INTEGERS: Heir.RESULT,
    Movement.TO_LOOPS: Heir.DATA,
}
"""Movements of a fact about the stored integers of a constant."""

_OF_FLOATS: Moves = _OF_VALUES | {
    Movement.TO_INTEGERS: "says something of floats",
    Movement.TO_LOOPS: "says something of floats",
}
"""Movements of a fact about the floats of a constant."""

_HELD: Moves = {}
"""Movements of a fact on functions, arguments and modules, which stays where it is until its end."""

_OF_LOOPS: Moves = dict.fromkeys(Movement, _AT_LOOPS)
"""Movements of a fact on calls and kernels, which stay where they are until LLVM."""

# ---------------------------------------------------------------------------------------------------------------
# Names and decisions: what people ask an operation for

NAME: "Fact[NameAttr]" = Fact(
    "qmlir.name", typed("qmlir.name"), "operation, argument, result", {
        **dict.fromkeys(Movement, Heir.JOINED), Movement.TO_INTEGERS: Heir.RESULT, Movement.TO_LOOPS: Heir.BUFFER,
    },
    "The source nodes and tensors that an operation stands for (names.py).")  # fmt: skip

DECISION: "Fact[DecisionAttr]" = Fact(
    "qmlir.decision", typed("qmlir.decision"), "operation", {
        Movement.REPLACED: Heir.RESULT, Movement.FUSED: "the reader's decision is about both",
        Movement.FOLDED: _COMPUTED, Movement.UNUSED: _ERASED, Movement.TO_INTEGERS: Heir.RESULT,
        Movement.TO_LOOPS: "the ledger is read above",
    },
    "What the quantizer decided about an operation, and why (policies/ledger.py).")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# How the source model computes an operation

INTEGER_OPERATOR = Mark("qmlir.integer_operator", "operation", _OF_SOURCE,
    "The source operator computes on integers, such as QLinearConv.")  # fmt: skip

ON_FLOATS = Mark("qmlir.on_floats", "cast, operation", _OF_SOURCE,
    "The source model computes it on floats: a cast that is an operator of the model, such as TFLite's "
    "QUANTIZE, and that a float operator reads or feeds, or an operation of quantized types between such "
    "casts.")  # fmt: skip

POWER = Fact("qmlir.power", INTEGER, "operation", _OF_SOURCE,
    "The exponent of the powers, on a step of an operator that sums powers of its input. A square has "
    "twice the digits of its base. The source model has no tensors between the steps, so the quantizer "
    "chooses their precision.")  # fmt: skip

PARAMETER = Mark("qmlir.parameter", "operation", _OF_SOURCE,
    "The operation computes a scale or a zero point at run time, on floats.")  # fmt: skip

QUANTIZATION = Fact("qmlir.quantization", WORD, "cast", _OF_SOURCE,
    "How the cast computes and rounds: a name in `fixed_point.QUANTIZATIONS` for `quant.qcast`, in "
    "`fixed_point.DEQUANTIZATIONS` for `quant.dcast`.")  # fmt: skip

REST = Fact("qmlir.rest", WORD, "cast", _OF_SOURCE,
    "How the cast computes the last elements, fewer than eight: a name as in `qmlir.quantization`.")  # fmt: skip

ADDITION = Fact("qmlir.addition", WORD, "operation", _OF_SOURCE,
    "How a sum, mean or average pool of floats adds: a name in `additions.ADDITIONS`.")  # fmt: skip

KERNEL = Fact("qmlir.kernel", TEXT, "operation", _OF_SOURCE,
    "The source operator whose kernel rounds the operation otherwise than its own would.")  # fmt: skip

UNDELEGATED = Mark("qmlir.undelegated", "operation", _OF_SOURCE,
    "LiteRT's default delegate declines the source operator, for example because an operand that it "
    "needs as a constant is computed (frontends/tflite/delegate.py).")  # fmt: skip

UNSIGNED = Fact("qmlir.unsigned", INTEGER_32, "operation", _OF_SOURCE,
    "The offset by which the stored integers were larger before they became signed: 128 for 8 bits, "
    "32768 for 16 bits (lowering/nn_to_qint/convert.py).")  # fmt: skip

UNSIGNED_WEIGHTS = Mark("qmlir.unsigned_weights", "operation", _OF_SOURCE,
    "The stored weights were unsigned before they became signed.")  # fmt: skip

MIXED = Mark("qmlir.mixed", "operation", _OF_SOURCE,
    "The operation had both signed and unsigned operands or results before they became signed.")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# What the passes of the quantizer tell each other of an operation

POLICY = Fact("qmlir.policy", DICTIONARY, "operation, observer", _OF_SETTINGS,
    "Settings for this operation or tensor, in place of the network's (settings/quant_config.py).")  # fmt: skip

METHODS = Fact("qmlir.methods", TEXTS, "operation", _OF_SETTINGS,
    "What chose the range or the weights, such as a plugin and its package; the decision says it.")  # fmt: skip

RESIDUAL = Fact("qmlir.residual", TEXT, "operation", _OF_SETTINGS,
    "Why an operation of a residual stream was widened to 16 bits.")  # fmt: skip

ROTATED = Fact("qmlir.rotated", TEXT, "operation", _OF_SETTINGS,
    "How the channels that an operation reads or writes were rotated, or why they were not.")  # fmt: skip

WIDENED = Fact("qmlir.widened", INTEGERS, "layer", _OF_SETTINGS,
    "The channels whose weight scales were widened, until the layer's bias is quantized: because the "
    "bias would not fit the accumulator, or the target cannot represent the requantization factor.")  # fmt: skip

FACTORS: "Fact[WeightsAttr]" = Fact("qmlir.channel_factors", WEIGHTS, "operation", _OF_SETTINGS,
    "The factors that the channels of the result were multiplied with, each for as many neighbours.")  # fmt: skip

IMPORTED = Mark("qmlir.imported", "cast", _OF_SETTINGS,
    "The cast of weights came with the network; stands between `choose-scales` and `quantize-ops`.")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# What is known of the values of a constant

UNROUNDED: "Fact[WeightsAttr]" = Fact("qmlir.unrounded", WEIGHTS, "constant", _OF_FLOATS,
    "The float network's values, where the constant holds values rounded to a quantized type.")  # fmt: skip

LEVELS: "Fact[LevelsAttr]" = Fact("qmlir.levels", typed("qmlir.levels"), "constant", _OF_VALUES,
    "The levels that its numbers follow, and in how few bits they are stored (levels.py).")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Loops: calls and kernels

LAYER = Fact("qmlir.layer", INTEGER, "operation, call", dict.fromkeys(Movement, "numbers are given below") | {
        Movement.REPLACED: Heir.RESULT, Movement.FUSED: "the reader has its own", Movement.TO_LOOPS: Heir.CALLS,
    },
    "The number of an operation, given before the lowering to loops; the calls that compute it carry it.")  # fmt: skip

THREADS = Fact("qmlir.threads", INTEGER, "call, entry function", _OF_LOOPS,
    "How many threads share the items of a kernel's call; a call without it is one thread's.")  # fmt: skip

LEADS = Fact("qmlir.leads", INTEGERS, "call", _OF_LOOPS,
    "For each buffer of a kernel's call, the last of which is the result, the bytes by which the "
    "result's memory must begin before the buffer's if the two overlap (codegen/leads.py); −1 if they "
    "must lie apart.")  # fmt: skip

STRIPES = Fact("qmlir.stripes", Form(INTEGERS.says, Stripes.attribute, Stripes.of), "call", _OF_LOOPS,
    "The bytes that a kernel's call touches while it computes some of its items (stripes.py).")  # fmt: skip

PARALLEL = Mark("qmlir.parallel", "kernel", _OF_LOOPS,
    "The last two arguments of the function are the range [begin, end) of its outermost loop.")  # fmt: skip

INNER = Mark("qmlir.inner", "kernel", _OF_LOOPS,
    "The function is a microkernel, which kernels call.")  # fmt: skip

SCRATCH = Fact("qmlir.scratch", INTEGER, "kernel", _OF_LOOPS,
    "How many of the last buffers are scratch memory, of which each share of a call has its own.")  # fmt: skip

EXTERNAL = Mark("qmlir.external", "declaration", _OF_LOOPS,
    "The back end links the function, which takes pointers to its buffers.")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Layers of a device

STAYS = Fact("stays", INTEGER, "`npu.layer`", dict.fromkeys(Movement, "commands hold the address"),
    "The address at which the layer's result stays in the device (transforms/npu/cascade).")  # fmt: skip

LAYER_REST = Fact("rest", ANY, "`npu.layer`", dict.fromkeys(Movement, "commands hold the address"),
    "The part of the memory that staying tensors leave to the layer's tiles.")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Functions and arguments

STATE: "Fact[StateAttr]" = Fact("qmlir.state", typed("qmlir.state"), "argument", _HELD,
    "The argument lives from call to call (states.py).", ends="finish-loops")  # fmt: skip

SCALES = Fact("qmlir.scales", ANY, "function, module, any operation", _HELD,
    "A promise about all quantized types inside, which the verifier checks "
    "(verify.py).", ends="loops-to-llvm")  # fmt: skip

SAMPLES = Fact("qmlir.samples", DICTIONARY, "function", _HELD,
    "The batches that the code of a function of one sample takes (signature.py): "
    "`{inputs = array<i1: true, false>, most = 8 : i64}` has samples of the first "
    "of two inputs, at most 8.", ends="loops-to-llvm")  # fmt: skip

INPUTS = Fact("qmlir.inputs", INTEGER, "entry function", _HELD,
    "The number of inputs; after weights and arena, the other arguments are "
    "outputs.", ends="loops-to-llvm")  # fmt: skip

IN_PLACE = Fact("qmlir.in_place", INTEGERS, "entry function", _HELD,
    "Pairs of an input and an output by number that may be one array: the output begins as a copy of the input, which "
    "nothing reads from there on.", ends="loops-to-llvm")  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Modules

NUMERICS = Fact("qmlir.numerics", WORD, "module", _HELD,
    "The runtime whose rounding the module follows (policies/runtimes.py).")  # fmt: skip

CONFIG = Fact("qmlir.config", DICTIONARY, "module", _HELD,
    "The settings of a network that differ from the standard values, while it is "
    "quantized.", ends="quantize")  # fmt: skip

ROTATION = Fact("qmlir.rotation", WORD, "module", _HELD,
    "Which rotations the pass `rotate` has looked for: the setting `rotate` that it followed.")  # fmt: skip

QUANTIZER = Fact("qmlir.quantizer", DICTIONARY, "module", _HELD,
    "How the network was quantized: the options in effect, and `rules`, an array of dictionaries.")  # fmt: skip

QUALITY = Fact("qmlir.quality", DICTIONARY, "module", _HELD,
    "How far the outputs are from the float network's, as `quantize` measured it: the samples, whether they were held "
    "out, and of each output its name, SQNR, agreement and what its bits allow.")  # fmt: skip

REMARKS = Fact("qmlir.remarks", TEXTS, "module", _HELD,
    "What the ledger says of nodes that were imported as something else than the file says, by the names "
    "of tensors.")  # fmt: skip

FOLD_BUDGET = Fact("qmlir.fold_budget", INTEGER, "module", _HELD,
    "The bytes that the folded constants of one simplification may take.")  # fmt: skip

BATCH = Fact("qmlir.batch", TEXTS, "module", _HELD,
    "The symbols that first dimensions of inputs had in the source model, by input. Such a dimension is "
    "1 in the module, and can become symbolic again in an exported file.")  # fmt: skip

BATCH_SIZE = Fact("qmlir.batch_size", INTEGER, "module", _HELD,
    "The number of samples that a user has bound the first dimensions of inputs to. Ranges that are "
    "learned on such a module are those of any batch.")  # fmt: skip

MIXES = Fact("qmlir.mixes_samples", TEXT, "module", _HELD,
    "On a module for one sample, the operation of the source model that mixes the samples of a batch. It "
    "may do nothing on one sample, as a sum over the batch does, and be gone from the module.")  # fmt: skip

PREPROCESS = Fact("qmlir.preprocess", TEXT, "module", _HELD,
    "The options that say how pictures become inputs.")  # fmt: skip

DTYPE = Fact("qmlir.dtype", TEXT, "module", _HELD,
    "The element type in which raw files store inputs.")  # fmt: skip

COUNTS = Fact("qmlir.counts", DICTIONARY, "module", _HELD,
    'The results with fewer elements along an axis than their shape says: `{selected = [0 : i64, '
    '"selected.count"]}` names the axis, and the result that is the number.')  # fmt: skip

DEVICE = Fact("npu.device", TEXT, "module", _HELD,
    "The device: the name of one that comes with qmlir, or a device file's path.")  # fmt: skip

LAYERS = Fact("npu.layers", NAMES, "module", _HELD,
    "The layer names that `Mark` commands refer to.")  # fmt: skip

HOST_STATES = Fact("npu.states", DICTIONARY, "module", _HELD,
    "The states that the host keeps between runs: number of the input → a `#qmlir.state`.")  # fmt: skip

FILLED = Fact("npu.filled", DICTIONARY, "module", _HELD,
    "How full each external memory is (devices/model/module.py).")  # fmt: skip

RESTS = Fact("npu.rests", ARRAY, "module", _HELD,
    "The `rest` of each layer in `npu.layers`; a unit attribute if its tiles have all memory.")  # fmt: skip

ARENA_SIZE = Fact("qmlir.arena_size", INTEGER, "planned module", _HELD,
    "The size in bytes of the scratch memory that a call needs.", ends="loops-to-llvm")  # fmt: skip

ARENA_BOUND = Fact("qmlir.arena_bound", INTEGER, "planned module", _HELD,
    "Bytes that no plan of the module's buffers undercuts.")  # fmt: skip

WEIGHTS_BLOB: "Fact[WeightsAttr]" = Fact("qmlir.weights_blob", WEIGHTS, "planned module", _HELD,
    "All constants as a single `#qmlir.weights` of bytes.", ends="loops-to-llvm")  # fmt: skip

KERNELS = Fact("qmlir.kernels", TEXTS, "module whose operations are numbered", _HELD,
    "The kernel of each numbered operation, and perhaps why: `name: why` (codegen/kernels/choice.py).")  # fmt: skip

TIMED = Fact("qmlir.timed", INTEGERS, "module whose calls are timed", _HELD,
    "The number of the operation that each call computes; −1 if unknown.")  # fmt: skip

TOLD = Fact("qmlir.told", TEXT, "module", _HELD,
    "The function that the code tells where layers begin and end, which a program defines.")  # fmt: skip

TOLD_LAYERS = Fact("qmlir.told_layers", INTEGERS, "module", _HELD,
    "The operations whose layers it is told of, by the numbers that it gets.")  # fmt: skip

TOLD_RESULTS = Fact("qmlir.told_results", ARRAY, "module", _HELD,
    "The result of each of these layers: the tensor's name and its type; a unit attribute if it never "
    "lies in memory as a whole.")  # fmt: skip

EXTERNAL_FUNCTIONS = Fact("qmlir.external_functions", DICTIONARY, "module", _HELD,
    "What each external function is, by symbol (lowering/nn_to_loops/custom.py).")  # fmt: skip
