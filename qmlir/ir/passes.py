"""Passes: their options, how they are found by name, and pipelines of them, of which `compiler.py` makes its stages."""

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from qmlir.errors import OptionError, near_misses
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.verify import require_module, verify

# ---------------------------------------------------------------------------------------------------------------
# Options of passes: a pass is an xDSL `ModulePass`, a frozen dataclass whose fields are its options.
#
# Each option has a type, a default and a help line:
#
#     @dataclass(frozen=True)
#     class ChooseScalesPass(ModulePass):
#         """One sentence; then before and after as IR."""
#         name = "choose-scales"
#         schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")
#
# Drivers read the types to parse `--choose-scales=schema=symmetric`; `-` and `_` are the same in option names.


T = TypeVar("T")


def option(default: T, help: str) -> T:
    """Declares a pass option: a dataclass field with a help line.

    Args:
        default: The option's value if the user does not give one.
        help: One line for `--help`.
    """
    made: Any = dataclasses.field(default=default, metadata={"help": help})
    return made


def option_help(pass_type: type, name: str) -> str:
    """Returns the help line of option `name` of `pass_type`; empty if it has none."""
    fields = {f.name: f for f in dataclasses.fields(pass_type)}
    return str(fields[name].metadata.get("help", ""))


def check_option(pass_type: type, name: str, value: object) -> None:
    """Checks that a value has the type of the pass's option `name`.

    Raises:
        OptionError: The value has another type, or is not in the option's `Literal`; the error names similar values.
    """
    hint: Any = get_type_hints(pass_type)[name]
    where = f"{pass_type.__dict__.get('name', pass_type.__name__)} {name.replace('_', '-')}"
    if get_origin(hint) is Literal:
        known = [str(v) for v in get_args(hint)]
        if value not in get_args(hint):
            need = f"must be one of {', '.join(known)}"
            raise OptionError(where, need, got=str(value), remedy=near_misses(str(value), known))
    elif isinstance(hint, type) and not isinstance(value, hint):
        raise OptionError(where, f"must be of type {hint.__name__}", got=f"{value!r} of type {type(value).__name__}")


# ---------------------------------------------------------------------------------------------------------------
# Finds passes by name and runs them in pipelines; `compiler.py` builds its stages from these pipelines.


PASSES: dict[str, str] = {
    "simplify": "qmlir.transforms.nn.simplify:SimplifyPass",
    "widen-halves": "qmlir.transforms.nn.widen_halves:WidenHalvesPass",
    "fold-constants": "qmlir.transforms.nn.fold_constants:FoldConstantsPass",
    "fold-slices": "qmlir.transforms.nn.fold_slices:FoldSlicesPass",
    "fuse-bias": "qmlir.transforms.nn.fuse_bias:FuseBiasPass",
    "cancel-transposes": "qmlir.transforms.nn.cancel_transposes:CancelTransposesPass",
    "fold-batch-norm": "qmlir.transforms.nn.fold_batch_norm:FoldBatchNormPass",
    "fuse-activation": "qmlir.transforms.nn.fuse_activation:FuseActivationPass",
    "global-pools": "qmlir.transforms.nn.global_pools:GlobalPoolsPass",
    "require-network": "qmlir.transforms.quantize.quantize:RequireNetworkPass",
    "require-ranges": "qmlir.transforms.quantize.quantize:RequireRangesPass",
    "honour-policy": "qmlir.transforms.quantize.quantize:HonourPolicyPass",
    "fail-on-float": "qmlir.transforms.quantize.quantize:FailOnFloatPass",
    "quantize": "qmlir.transforms.quantize.quantize:QuantizePass",
    "insert-observers": "qmlir.transforms.quantize.observers:InsertObserversPass",
    "apply-profile": "qmlir.transforms.quantize.apply_profile:ApplyProfilePass",
    "apply-policy": "qmlir.transforms.quantize.apply_policy:ApplyPolicyPass",
    "separate-slices": "qmlir.transforms.quantize.separate_slices:SeparateSlicesPass",
    "keep-integers": "qmlir.transforms.quantize.search_inputs:KeepIntegersPass",
    "equalize-channels": "qmlir.transforms.quantize.equalize_channels:EqualizeChannelsPass",
    "search-inputs": "qmlir.transforms.quantize.search_inputs:SearchInputsPass",
    "align-scales": "qmlir.transforms.quantize.align_scales:AlignScalesPass",
    "choose-scales": "qmlir.transforms.quantize.choose_scales:ChooseScalesPass",
    "round-weights": "qmlir.transforms.quantize.round_weights:RoundWeightsPass",
    "adjust-layers": "qmlir.transforms.quantize.round_weights:AdjustLayersPass",
    "correct-bias": "qmlir.transforms.quantize.correct_bias:CorrectBiasPass",
    "quantize-ops": "qmlir.transforms.quantize.quantize_ops:QuantizeOpsPass",
    "quantize-bias": "qmlir.transforms.quantize.quantize_bias:QuantizeBiasPass",
    "cancel-casts": "qmlir.transforms.quantize.cancel_casts:CancelCastsPass",
    "move-casts": "qmlir.transforms.quantize.move_casts:MoveCastsPass",
    "gather-casts": "qmlir.transforms.quantize.fold_qdq:GatherCastsPass",
    "fold-qdq": "qmlir.transforms.quantize.fold_qdq:FoldQDQPass",
    "observers-to-results": "qmlir.transforms.quantize.observers:ObserversToResultsPass",
    "inline": "qmlir.transforms.inline:InlinePass",
    "normalize-quant-types": "qmlir.transforms.quant.normalize_quant_types:NormalizeQuantTypesPass",
    "lower-quant-ops": "qmlir.lowering.quant_to_arith.lower_quant_ops:LowerQuantOpsPass",
    "strip-func-quant-types": "qmlir.transforms.quant.strip_func_quant_types:StripFuncQuantTypesPass",
    "fold-quant-casts": "qmlir.transforms.quant.fold_quant_casts:FoldQuantCastsPass",
    "nn-to-qint": "qmlir.lowering.nn_to_qint.convert:NNToQIntPass",
    "nn-to-loops": "qmlir.lowering.nn_to_loops.convert:NNToLoopsPass",
    "qint-to-loops": "qmlir.lowering.qint_to_loops.convert:QIntToLoopsPass",
    "qint-to-linalg": "qmlir.lowering.qint_to_linalg.convert:QIntToLinalgPass",
    "qint-to-tosa": "qmlir.lowering.qint_to_tosa.convert:QIntToTosaPass",
    "qint-to-npu": "qmlir.lowering.qint_to_npu.convert:QIntToNpuPass",
    "npu-fuse": "qmlir.transforms.npu.fuse:NPUFusePass",
    "npu-fit": "qmlir.transforms.npu.fit:NPUFitPass",
    "npu-cascade": "qmlir.transforms.npu.cascade.cascade:NPUCascadePass",
    "npu-tile": "qmlir.transforms.npu.tile.tile:NPUTilePass",
    "finish-loops": "qmlir.transforms.loops.finish_loops:FinishLoopsPass",
    "time-calls": "qmlir.transforms.loops.time_calls:TimeCallsPass",
    "npu-place": "qmlir.transforms.npu.place:NPUPlacePass",
    "npu-order": "qmlir.transforms.npu.order:NPUOrderPass",
    "hoist-scratch": "qmlir.transforms.loops.hoist_scratch:HoistScratchPass",
    "plan-memory": "qmlir.transforms.loops.plan_memory:PlanMemoryPass",
    "share-items": "qmlir.transforms.loops.share_items:ShareItemsPass",
    "loops-to-llvm": "qmlir.lowering.loops_to_llvm.convert:LoopsToLLVMPass",
    "canonicalize": "xdsl.transforms.canonicalize:CanonicalizePass",
    "cse": "xdsl.transforms.common_subexpression_elimination:CommonSubexpressionElimination",
    "dce": "xdsl.transforms.dead_code_elimination:DeadCodeElimination",
    "convert-scf-to-cf": "xdsl.transforms.convert_scf_to_cf:ConvertScfToCf",
}
"""Pass name → `module:Class`, imported on first use. The drivers list these passes; other xDSL passes work too."""

PIPELINES: dict[str, str] = {"quantize": "qmlir.compiler:QUANTIZE"}
"""Name of a pass that is made of passes → the tuple of their names, imported on first use."""


def listed_name(name: str) -> str:
    """Returns the name in `PASSES`; upstream's spelling `convert-qint-to-npu` gives `qint-to-npu`."""
    plain = name.removeprefix("convert-")
    return plain if "-to-" in plain and PASSES.get(plain, "").startswith("qmlir.lowering.") else name


def pass_class(name: str) -> type[ModulePass]:
    """Returns the class of a pass by its name; a pass between two levels may have `convert-` before its name.

    Raises:
        OptionError: There is no such pass; the error names similar passes.
    """
    if (reference := PASSES.get(listed_name(name))) is not None:
        module, _, attribute = reference.partition(":")
        return getattr(import_module(module), attribute)
    if (factory := get_all_passes().get(name)) is not None:
        return factory()
    raise OptionError(name, "there is no such pass", remedy=near_misses(name, [*PASSES, *get_all_passes()]))


def pipeline(name: str) -> tuple[str, ...]:
    """Returns the names of the passes that the pass `name` is made of."""
    module, _, attribute = PIPELINES[name].partition(":")
    return getattr(import_module(module), attribute)


class PassPipeline(ModulePass):
    """A pass made of passes, which drivers run one by one: they verify and dump the IR between them."""

    @abstractmethod
    def steps(self, ctx: QmlirContext, module: ModuleOp) -> Iterator[ModulePass]:
        """The passes in order; each is asked for when the pass before has run, so it may depend on the module then."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        own = ctx if isinstance(ctx, QmlirContext) else make_context()  # the passes hand facts on through it
        for step in self.steps(own, op):
            step.apply(own, op)


class Pipeline:
    """A sequence of passes, each given as a name, a (name, options) pair or a pass; verified after each pass.

    Pipeline("simplify", ("quantize", {"profile": "net.yaml"}), MyPass())(module) returns a new module.
    """

    def __init__(self, *passes: str | tuple[str, Mapping[str, Any]] | ModulePass):
        self.passes: list[ModulePass] = [_pass_of(entry) for entry in passes]

    def __call__(self, module: ModuleOp, context: QmlirContext | None = None) -> ModuleOp:
        """Returns a new module, the result of the passes; `module` stays unchanged."""
        require_module(module)
        result = module.clone()
        self.apply(result, context or make_context())
        return result

    def apply(self, module: ModuleOp, context: QmlirContext, *, verify_each: bool = True) -> None:
        """Runs the passes on `module` in place, and verifies it after each pass unless `verify_each` is False."""
        for step in self.passes:
            step.apply(context, module)
            if verify_each:
                verify(module)


def _pass_of(entry: object) -> ModulePass:
    """Returns the pass that an element of a pipeline names, describes or is."""
    if isinstance(entry, ModulePass):
        return entry
    if isinstance(entry, str):
        return configured_pass(entry, {})
    match cast(Any, entry):
        case [str(name), options] if isinstance(options, Mapping):
            return configured_pass(name, cast(Mapping[str, Any], options))
        case _:
            remedy = "make an object of the class" if isinstance(entry, type) else None
            need = "takes names of passes, pairs of a name and options, and passes"
            raise OptionError("Pipeline", need, got=repr(cast(object, entry)), remedy=remedy)


def configured_pass(name: str, options: Mapping[str, Any]) -> ModulePass:
    """Returns the pass called `name` with these options; `-` and `_` are the same in option names."""
    cls = pass_class(name)
    known = {f.replace("_", "-"): f for f in cls.__dataclass_fields__}
    given = {k.replace("_", "-"): v for k, v in options.items()}
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{name} {key}", "there is no such option", remedy=near_misses(key, list(known)))
        check_option(cls, known[key], value)
    return cls(**{known[k]: v for k, v in given.items()})
