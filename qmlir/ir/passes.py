"""Passes: their options, how they are found by name, and pipelines of them, such as the stages (stages.py)."""

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, cast, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from qmlir.errors import OptionError, near_misses
from qmlir.ir.context import QmlirContext, make_context
from qmlir.ir.option_text import pass_text
from qmlir.ir.verify import require_module, verify
from qmlir.plugins import PASSES as GROUP
from qmlir.plugins import Plugin, admits, choices, plugin, plugins_in

# ---------------------------------------------------------------------------------------------------------------
# Options of passes: a pass is an xDSL `ModulePass`, a frozen dataclass whose fields are its options.
#
# Each option has a type, a default and a help line:
#
#     @dataclass(frozen=True)
#     class ShareItemsPass(ModulePass):
#         """One sentence; then before and after as IR."""
#         name = "share-items"
#         threads: int = option(1, "threads that one call may use")
#
# Drivers read the types to parse `--share-items=threads=2`; `-` and `_` are the same in option names.


T = TypeVar("T")


def option(default: T, help: str) -> T:
    """Declares a pass option: a dataclass field with a help line.

    Args:
        default: The option's value if the user does not give one.
        help: One line for `--help`.
    """
    made: Any = dataclasses.field(default=default, metadata={"help": help})
    return made


@cache
def option_types(pass_type: type) -> Mapping[str, Any]:
    """Returns the types of a pass's options by name.

    Python parses the annotations of a class at each call of `get_type_hints`, which takes longer than many a pass.
    """
    return get_type_hints(pass_type, include_extras=True)


def option_help(pass_type: type, name: str) -> str:
    """Returns the help line of option `name` of `pass_type`; empty if it has none."""
    fields = {f.name: f for f in dataclasses.fields(pass_type)}
    return str(fields[name].metadata.get("help", ""))


def check_option(pass_type: type, name: str, value: object) -> None:
    """Checks that a value has the type of the pass's option `name`.

    Raises:
        OptionError: The value has another type, or the option lists its values and this is none of them; the error
            names similar values.
    """
    where = f"{pass_type.__dict__.get('name', pass_type.__name__)} {name.replace('_', '-')}"
    check_value(where, option_types(pass_type)[name], value)


def check_value(where: str, hint: Any, value: object) -> None:
    """Checks that a value has the type of an annotation; see `check_option`."""
    if (listed := choices(hint)) is not None:
        known = [str(v) for v in listed]
        if not admits(hint, value):
            need = f"must be one of {', '.join(known)}"
            raise OptionError(where, need, got=str(value), remedy=near_misses(str(value), known))
    elif isinstance(hint, type) and not isinstance(value, hint):
        raise OptionError(where, f"must be of type {hint.__name__}", got=f"{value!r} of type {type(value).__name__}")


# ---------------------------------------------------------------------------------------------------------------
# Finds passes by name and runs them in pipelines; `compiler.py` runs the stages as such pipelines.


PASSES: dict[str, str] = {
    "simplify": "qmlir.transforms.nn.simplify:SimplifyPass",
    "widen-halves": "qmlir.transforms.nn.widen_halves:WidenHalvesPass",
    "round-halves": "qmlir.transforms.nn.round_halves:RoundHalvesPass",
    "fold-constants": "qmlir.transforms.nn.fold_constants:FoldConstantsPass",
    "drop-bounds": "qmlir.transforms.nn.drop_bounds:DropBoundsPass",
    "fold-pads": "qmlir.transforms.nn.fold_pads:FoldPadsPass",
    "fold-slices": "qmlir.transforms.nn.fold_slices:FoldSlicesPass",
    "fuse-bias": "qmlir.transforms.nn.fuse_bias:FuseBiasPass",
    "cancel-transposes": "qmlir.transforms.nn.cancel_transposes:CancelTransposesPass",
    "settle-transposes": "qmlir.transforms.nn.cancel_transposes:SettleTransposesPass",
    "fold-batch-norm": "qmlir.transforms.nn.fold_batch_norm:FoldBatchNormPass",
    "name-functions": "qmlir.transforms.nn.name_functions.name_functions:NameFunctionsPass",
    "attention-scores": "qmlir.transforms.nn.attention_scores:AttentionScoresPass",
    "fuse-activation": "qmlir.transforms.nn.fuse_activation:FuseActivationPass",
    "float-products": "qmlir.transforms.nn.float_products:FloatProductsPass",
    "global-pools": "qmlir.transforms.nn.global_pools:GlobalPoolsPass",
    "require-network": "qmlir.transforms.quantize.quantize:RequireNetworkPass",
    "require-ranges": "qmlir.transforms.quantize.quantize:RequireRangesPass",
    "honour-policy": "qmlir.transforms.quantize.quantize:HonourPolicyPass",
    "fail-on-float": "qmlir.transforms.quantize.quantize:FailOnFloatPass",
    "quantize": "qmlir.transforms.quantize.quantize:QuantizePass",
    "insert-observers": "qmlir.transforms.quantize.ranges.observers:InsertObserversPass",
    "apply-profile": "qmlir.transforms.quantize.ranges.apply_profile:ApplyProfilePass",
    "apply-policy": "qmlir.transforms.quantize.prepare.apply_policy:ApplyPolicyPass",
    "rotate-values": "qmlir.transforms.quantize.prepare.rotate_values:RotateValuesPass",
    "rotate-products": "qmlir.transforms.quantize.prepare.rotate_products:RotateProductsPass",
    "rotate-keys": "qmlir.transforms.quantize.prepare.rotate_keys:RotateKeysPass",
    "rotate": "qmlir.transforms.quantize.prepare.rotate:RotatePass",
    "rotate-residual-stream": ("qmlir.transforms.quantize.prepare.rotate_residual_stream:RotateResidualStreamPass"),
    "rotate-at-run-time": "qmlir.transforms.quantize.prepare.rotate_at_run_time:RotateAtRunTimePass",
    "fuse-attention": "qmlir.transforms.quantize.prepare.fuse_attention:FuseAttentionPass",
    "widen-residuals": "qmlir.transforms.quantize.prepare.widen_residuals:WidenResidualsPass",
    "separate-slices": "qmlir.transforms.quantize.ranges.separate_slices:SeparateSlicesPass",
    "divide-rows": "qmlir.transforms.quantize.prepare.divide_rows:DivideRowsPass",
    "keep-blocks": "qmlir.transforms.quantize.prepare.keep_blocks:KeepBlocksPass",
    "divide-states": "qmlir.transforms.quantize.prepare.divide_states:DivideStatesPass",
    "split-squares": "qmlir.transforms.quantize.prepare.split_squares:SplitSquaresPass",
    "equalize-blocks": "qmlir.transforms.quantize.adjust.equalize_blocks:EqualizeBlocksPass",
    "keep-integers": "qmlir.transforms.quantize.adjust.search_inputs:KeepIntegersPass",
    "equalize-channels": "qmlir.transforms.quantize.adjust.equalize_channels:EqualizeChannelsPass",
    "search-inputs": "qmlir.transforms.quantize.adjust.search_inputs:SearchInputsPass",
    "align-scales": "qmlir.transforms.quantize.adjust.align_scales:AlignScalesPass",
    "choose-scales": "qmlir.transforms.quantize.apply.choose_scales:ChooseScalesPass",
    "round-weights": "qmlir.transforms.quantize.adjust.round_weights:RoundWeightsPass",
    "adjust-layers": "qmlir.transforms.quantize.adjust.round_weights:AdjustLayersPass",
    "correct-bias": "qmlir.transforms.quantize.adjust.correct_bias:CorrectBiasPass",
    "quantize-ops": "qmlir.transforms.quantize.apply.quantize_ops:QuantizeOpsPass",
    "quantize-bias": "qmlir.transforms.quantize.apply.quantize_bias:QuantizeBiasPass",
    "quantize-integers": "qmlir.transforms.quantize.apply.quantize_integers:QuantizeIntegersPass",
    "quantize-block-scales": "qmlir.transforms.quantize.apply.block_scales:QuantizeBlockScalesPass",
    "store-blocks": "qmlir.transforms.quantize.apply.store_blocks:StoreBlocksPass",
    "narrow-floats": "qmlir.transforms.quantize.apply.narrow_floats:NarrowFloatsPass",
    "narrow-attention": "qmlir.transforms.quantize.apply.narrow_attention:NarrowAttentionPass",
    "align-constants": "qmlir.transforms.quantize.apply.align_constants:AlignConstantsPass",
    "quantize-states": "qmlir.transforms.quantize.apply.quantize_states:QuantizeStatesPass",
    "pack-states": "qmlir.transforms.quantize.apply.pack_states:PackStatesPass",
    "cancel-casts": "qmlir.transforms.quantize.apply.cancel_casts:CancelCastsPass",
    "move-casts": "qmlir.transforms.quantize.apply.move_casts:MoveCastsPass",
    "gather-casts": "qmlir.transforms.quantize.apply.fold_qdq:GatherCastsPass",
    "fold-fake-quant": "qmlir.transforms.quantize.prepare.fold_fake_quant:FoldFakeQuantPass",
    "fold-qdq": "qmlir.transforms.quantize.apply.fold_qdq:FoldQDQPass",
    "observers-to-results": "qmlir.transforms.quantize.ranges.observers:ObserversToResultsPass",
    "batch-samples": "qmlir.transforms.batch_samples:BatchSamplesPass",
    "inline": "qmlir.transforms.inline:InlinePass",
    "verify-integer-only": "qmlir.transforms.verify_integer_only:VerifyIntegerOnlyPass",
    "normalize-quant-types": "qmlir.transforms.quant.normalize_quant_types:NormalizeQuantTypesPass",
    "lower-quant-ops": "qmlir.lowering.quant_to_arith.lower_quant_ops:LowerQuantOpsPass",
    "strip-func-quant-types": "qmlir.transforms.quant.strip_func_quant_types:StripFuncQuantTypesPass",
    "set-interface": "qmlir.transforms.quant.set_interface:SetInterfacePass",
    "fold-quant-casts": "qmlir.transforms.quant.fold_quant_casts:FoldQuantCastsPass",
    "tosa-to-nn": "qmlir.lowering.tosa_to_nn.convert:TosaToNNPass",
    "merge-requantizes": "qmlir.transforms.qint.merge_requantizes:MergeRequantizesPass",
    "narrow-products": "qmlir.transforms.qint.narrow_products:NarrowProductsPass",
    "nn-to-qint": "qmlir.lowering.nn_to_qint.convert:NNToQIntPass",
    "tabulate": "qmlir.transforms.qint.tabulate:TabulatePass",
    "stripe-rows": "qmlir.transforms.qint.stripe_rows.stripe_rows:StripeRowsPass",
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
    "call-layers": "qmlir.transforms.loops.call_layers:CallLayersPass",
    "npu-place": "qmlir.transforms.npu.place:NPUPlacePass",
    "npu-order": "qmlir.transforms.npu.order:NPUOrderPass",
    "hoist-scratch": "qmlir.transforms.loops.hoist_scratch:HoistScratchPass",
    "stripe-calls": "qmlir.transforms.loops.stripe_calls:StripeCallsPass",
    "plan-memory": "qmlir.transforms.loops.plan_memory:PlanMemoryPass",
    "share-items": "qmlir.transforms.loops.share_items:ShareItemsPass",
    "loops-to-llvm": "qmlir.lowering.loops_to_llvm.convert:LoopsToLLVMPass",
    "canonicalize": "xdsl.transforms.canonicalize:CanonicalizePass",
    "cse": "xdsl.transforms.common_subexpression_elimination:CommonSubexpressionElimination",
    "dce": "xdsl.transforms.dead_code_elimination:DeadCodeElimination",
    "convert-scf-to-cf": "xdsl.transforms.convert_scf_to_cf:ConvertScfToCf",
}
"""Pass name → `module:Class`, imported on first use. The drivers list these passes; other xDSL passes work too."""

PIPELINES: dict[str, str] = {"quantize": "qmlir.stages:QUANTIZE"}
"""Name of a pass that is made of passes → the tuple of their names, imported on first use."""


def listed_name(name: str) -> str:
    """Returns the name in `PASSES`; upstream's spelling `convert-qint-to-npu` gives `qint-to-npu`."""
    plain = name.removeprefix("convert-")
    return plain if "-to-" in plain and PASSES.get(plain, "").startswith("qmlir.lowering.") else name


def pass_class(name: str) -> type[ModulePass]:
    """Returns the class of a pass by its name; a pass between two levels may have `convert-` before its name.

    Passes are those of `PASSES`, xDSL's, and those of plugins, which drivers refuse to mistake for the others
    (`refuse_taken`).

    Raises:
        OptionError: There is no such pass; the error names similar passes.
        PluginError: The pass is a plugin that cannot be used.
    """
    if (reference := PASSES.get(listed_name(name))) is not None:
        module, _, attribute = reference.partition(":")
        return getattr(import_module(module), attribute)
    if (factory := get_all_passes().get(name)) is not None:
        return factory()
    if (found := plugin(GROUP, name)) is not None:
        return _plugin_class(found)
    raise OptionError(name, "there is no such pass", remedy=near_misses(name, known_passes()))


def _plugin_class(found: Plugin) -> type[ModulePass]:
    """Returns the class of a plugin's pass.

    Raises:
        PluginError: The plugin does not import, or is no pass of its name.
    """
    loaded: object = found.load()
    if not isinstance(loaded, type) or not issubclass(loaded, ModulePass):
        got = repr(cast(object, loaded))
        raise found.fault("must be a class of passes, derived from xdsl.passes.ModulePass", got=got)
    if (name := loaded.__dict__.get("name")) != found.name:
        raise found.fault("must have the name of its entry point", got=f"name = {name!r} in {loaded.__name__}")
    return loaded


def known_passes() -> list[str]:
    """Returns the names of all passes: qmlir's, xDSL's and those of plugins."""
    return list(dict.fromkeys([*PASSES, *get_all_passes(), *plugins_in(GROUP)]))


def refuse_taken(name: str) -> None:
    """Refuses the name of a pass if a plugin offers a pass of that name, which qmlir, xDSL or another plugin has too.

    Raises:
        PluginError: Two passes have the name.
    """
    plugin(GROUP, name, {*PASSES, *get_all_passes()})


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


Step = str | type[ModulePass] | ModulePass | tuple[str | type[ModulePass], Mapping[str, Any]]
"""A pass as a pipeline takes it: its name, its class or itself; name and class also in a pair with options."""


class Pipeline:
    """A sequence of passes; the module is verified after each of them.

    A pass is given as a name, as a class, as an object, or as a pair of a name or a class and options by name. The text
    of a pipeline is what `qmlir-opt --pass-pipeline` takes. Functions are not taken: a pass has a name and options.

    Raises:
        OptionError: There is no such pass or option, or an option cannot have the value; the error proposes names.
        PluginError: A pass is a plugin that cannot be used.

    >>> import qmlir
    >>> from xdsl.transforms.canonicalize import CanonicalizePass
    >>> pipeline = qmlir.Pipeline("simplify", ("quantize", {"schema": "symmetric"}), CanonicalizePass)
    >>> pipeline
    <Pipeline builtin.module(simplify,quantize{schema=symmetric},canonicalize)>
    >>> quantized = pipeline(qmlir.load("model.mlir"))  # a new module; the passes change a copy
    >>> {entry.outcome for entry in qmlir.decisions(quantized)}
    {'quantized'}
    """

    def __init__(self, *passes: Step):
        self.passes: list[ModulePass] = [_pass_of(entry) for entry in passes]

    def __str__(self) -> str:
        return f"builtin.module({','.join(map(_text_of, self.passes))})"

    def __repr__(self) -> str:
        return f"<Pipeline {self}>"

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
    if isinstance(entry, type) and issubclass(entry, ModulePass):
        return _configured(entry, {})
    match cast(Any, entry):
        case [str(name), options] if isinstance(options, Mapping):
            return configured_pass(name, cast(Mapping[str, Any], options))
        case [type() as cls, options] if isinstance(options, Mapping) and issubclass(cls, ModulePass):
            return _configured(cls, cast(Mapping[str, Any], options))
        case _:
            remedy = "derive a class from xdsl.passes.ModulePass" if callable(cast(object, entry)) else None
            need = "takes names of passes, classes of passes, pairs of one of these and options, and passes"
            raise OptionError("Pipeline", need, got=repr(cast(object, entry)), remedy=remedy)


def _text_of(step: ModulePass) -> str:
    """Returns a pass as an element of `--pass-pipeline`, with the options that are given or differ from defaults."""
    given: frozenset[str] = getattr(step, "given", frozenset())
    changed = {
        field.name: value
        for field in dataclasses.fields(step)
        if field.init and ((value := getattr(step, field.name)) != _default_of(field) or field.name in given)
    }
    return pass_text(step.name, changed)


def _default_of(field: "dataclasses.Field[Any]") -> object:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def configured_pass(name: str, options: Mapping[str, Any]) -> ModulePass:
    """Returns the pass called `name` with these options; `-` and `_` are the same in option names."""
    return _configured(pass_class(name), options)


def _configured(cls: type[ModulePass], options: Mapping[str, Any]) -> ModulePass:
    name = cls.__dict__.get("name", cls.__name__)
    known = {f.replace("_", "-"): f for f in cls.__dataclass_fields__}
    given = {k.replace("_", "-"): v for k, v in options.items()}
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{name} {key}", "there is no such option", remedy=near_misses(key, list(known)))
        check_option(cls, known[key], value)
    for field in dataclasses.fields(cls):
        if field.init and _default_of(field) is dataclasses.MISSING and field.name.replace("_", "-") not in given:
            raise OptionError(name, f"needs the option {field.name.replace('_', '-')}")
    return cls(**{known[k]: v for k, v in given.items()})
