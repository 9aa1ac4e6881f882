"""`quantize`: turns a float network whose tensors have ranges into a network on quantized types."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, ContainerType, ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import OptionError, PipelineError
from qmlir.ir.passes import option
from qmlir.ir.rewriting import node_name
from qmlir.numerics.schemas import Calibration, Precision, Schema, WeightPrecision
from qmlir.policies.ledger import deciding_operations, decision_of, decisions
from qmlir.policies.legality import target_of
from qmlir.policies.policy import POLICY, BiasPrecision, Policy, Recipe, Rounding, conflicts
from qmlir.transforms.quantize.align_scales import align_scales
from qmlir.transforms.quantize.apply_policy import apply_policy, policy_of, refuse_unhonoured
from qmlir.transforms.quantize.apply_profile import ApplyProfilePass
from qmlir.transforms.quantize.cancel_casts import CancelCastsPass
from qmlir.transforms.quantize.choose_scales import ChooseScalesPass
from qmlir.transforms.quantize.correct_bias import correct
from qmlir.transforms.quantize.equalize_channels import equalize_channels
from qmlir.transforms.quantize.fold_qdq import gather_casts, is_as_imported
from qmlir.transforms.quantize.insert_observers import observers
from qmlir.transforms.quantize.quantize_bias import QuantizeBiasPass
from qmlir.transforms.quantize.quantize_ops import QuantizeOpsPass
from qmlir.transforms.quantize.recipes import Recipes
from qmlir.transforms.quantize.round_weights import WeightRounding
from qmlir.transforms.quantize.search_inputs import keep_integers, search_inputs
from qmlir.transforms.quantize.separate_slices import separate_slices
from qmlir.transforms.quantize.side_by_side import Samples, SideBySide, network_of, on_one_thread, some_samples


@dataclass(frozen=True)
class QuantizePass(ModulePass):
    """Quantizes a network whose observers hold ranges.

    The steps, in order:

    1. apply-profile, if `profile` names a file
    2. the rules of the policy, written on the operations that they match (apply-policy)
    3. the check that at least one observer has a range or a policy, if nothing is quantized or decided yet
    4. for an imported network with casts: the casts are gathered around the operations that compute, as by fold-qdq
    5. separate-slices
    6. choose-scales
    7. quantize-ops, quantize-bias, cancel-casts
    8. the check that each rule of the policy is honoured somewhere
    9. with `fail_on_float`, the check that no operation stays float

    `quantize_by` adds five more steps if it is given samples. Before choose-scales it gives inputs the steps of their
    integers, equalizes channels (if weights are per channel), and under power-of-two scales searches the scales of
    inputs and aligns the scales between layers. After choose-scales it rounds weights and corrects biases, layer by
    layer.

    Operations that are quantized already stay as they are.

    ```mlir
    calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x4xf32>
    %y = nn.fully_connected %x, %w, %b : tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32> -> tensor<1x2xf32>
    calib.observe %y {name = "y", range = [-2.0, 2.0]} : tensor<1x2xf32>
    // becomes
    %0 = quant.qcast %x : …
    %1 = nn.fully_connected %0, %wq, %bq {qmlir.decision = …} : …
    %2 = quant.dcast %1 : …
    ```
    """

    name = "quantize"
    schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")
    precision: Precision = option("int8", "storage of activations, and of weights unless said otherwise")
    weight_precision: WeightPrecision = option("same", "storage of weights; same: that of the activations, signed")
    calibration: Calibration = option("auto", "how histograms narrow ranges; auto: mse where there are histograms")
    per_channel: bool = option(True, "one scale for each output channel of weights, instead of one for all")
    bias: BiasPrecision = option("auto", "storage of biases, by the data's; of 8 and 16 bits with a scale of their own")
    rounding: Rounding = option("auto", "how weights are rounded; auto: together, on data where there are some")
    glow_exact: bool = option(False, "Glow's parameters bit for bit; calibrations are minmax and kl")
    profile: str = option("", "apply this profile first")
    policy: str = option("", "follow this policy, a file: rules for single operations, over these options")
    rules: str = option("", "more rules, with ; between them: {name=conv1 precision=int16; layer=last keep-float=true}")
    fail_on_float: bool = option(False, "refuse if an operation stays float, with the reason of each")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.profile:
            ApplyProfilePass(file=self.profile).apply(ctx, op)
        quantize_by(policy_of(self.policy, self.rules), self, ctx, op)


@on_one_thread
def quantize_by(
    policy: Policy, options: QuantizePass, ctx: Context, module: ModuleOp, data: Samples | None = None
) -> None:
    """Quantizes a network whose observers hold ranges, by a policy.

    The steps are those of `QuantizePass`, which has no samples, and the steps that need samples.

    Args:
        policy: Its default replaces options, which must not contradict it; its rules replace both where they match.
        options: The options for all operations.
        ctx: The compiler's context; holds the target.
        module: Changed in place.
        data: Samples to choose inputs' scales, equalize channels, round weights and correct biases on; None skips
            these steps.

    Raises:
        PipelineError: The module has no operations of nn, no observer has a range, or an operation stays float
            although `fail_on_float` is set.
        PolicyError: A rule matches nothing, or no operation that it matches can honour it.
    """
    recipe_fields = {f.name: getattr(options, f.name) for f in fields(options) if f.name in Recipe.__dataclass_fields__}
    conflicts(policy.default, recipe_fields, Recipe())
    settings = {**recipe_fields, **policy.default}
    if unknown := settings.keys() - recipe_fields.keys():
        raise OptionError("policy", "cannot set this by default", got=", ".join(sorted(unknown)), remedy="use a rule")
    recipe = Recipe(**settings)
    recipe.check("quantize")
    _require_network(module)
    applied = apply_policy(module, policy, target_of(ctx), base=recipe)
    if not any(o.bounds or POLICY in o.attributes for o in observers(module)) and _is_untouched(module):
        found = observers(module)
        raise PipelineError(
            "quantize",
            "needs ranges: at least one calib.observe with a range",
            got=f"{len(found) or 'no'} observers{', none with a range' if found else ''}",
            remedy="profile the network and give profile=FILE, or run --insert-observers and --apply-profile "
            "first, or write ranges into the IR: calib.observe %v {name = …, range = [lo, hi]}",
        )
    if is_as_imported(module):
        gather_casts(module)
    separate_slices(module, recipe, target_of(ctx))
    choose = {name: value for name, value in settings.items() if name in ChooseScalesPass.__dataclass_fields__}
    samples = some_samples(module, data) if data is not None else []
    if data is not None:
        network = network_of(module)
        recipes = Recipes(network.body.block, recipe, target_of(ctx))
        keep_integers(network, samples, recipes)
        if recipe.per_channel and not recipe.glow_exact:
            equalize_channels(network, samples, recipes)
        if recipe.searches_exponents:
            search_inputs(network, samples, recipes)
            align_scales(network, samples, recipe)
    came = {o for o in module.walk() if isinstance(o, QuantizeCastOp)}
    ChooseScalesPass(**choose).apply(ctx, module)
    if data is not None:
        rounding = WeightRounding(recipe, came)
        SideBySide(network_of(module).body.block, samples).run(rounding, correct)
    biases = QuantizeBiasPass(settings["bias"], settings["schema"], settings["glow_exact"])
    for step in (QuantizeOpsPass(), biases, CancelCastsPass()):
        step.apply(ctx, module)
    refuse_unhonoured(applied, module)
    if options.fail_on_float and (left := [*_floats(module)]):
        listed = "; ".join(text for text, _ in left)
        remedies = ", or ".join(dict.fromkeys(remedy for _, remedy in left))
        raise PipelineError("quantize", "must leave no operation float", got=f"{len(left)} ({listed})", remedy=remedies)


def _floats(module: ModuleOp) -> Iterator[tuple[str, str]]:
    """Each operation that stays float, with its reason, and the remedy; operations of foreign dialects included."""
    for e in decisions(module):
        if e.outcome == "float":
            yield f'{e.operation} "{e.node}": {e.reason}', e.remedy
    for op in module.walk():
        foreign = op.name.partition(".")[0] not in {*_NETWORK, "func"} and op.operands and op.results
        if foreign and any(_is_float(v.type) for v in (*op.operands, *op.results)):
            remedy = "express it in operations of nn"
            yield f'{op.name} "{node_name(op)}": it is no operation of nn', remedy


def _is_float(type: Attribute) -> bool:
    """Whether a type is a float, or a tensor of floats."""
    return isinstance(type.get_element_type() if isinstance(type, ContainerType) else type, AnyFloat)


_NETWORK = frozenset(("nn", "quant", "calib", "qmlir"))
"""Dialects that networks are written in before they become integers."""


def _require_network(module: ModuleOp) -> None:
    """Refuses a module without operations of nn or casts, unless its functions only return their arguments."""
    around = (ModuleOp, func.FuncOp, func.ReturnOp)
    others = sorted({o.name.partition(".")[0] for o in module.walk() if not isinstance(o, around)})
    if not _NETWORK.isdisjoint(others):
        return
    if others or not any(isinstance(o, func.FuncOp) for o in module.ops):
        raise PipelineError(
            "quantize",
            "needs a network of operations of nn",
            got=f"operations of {', '.join(others)} only" if others else "a module without functions",
            remedy="quantize the .onnx or .tflite file, or what `qmlir import` writes for it",
        )


def _is_untouched(module: ModuleOp) -> bool:
    """Whether a network has operations, none with a recorded decision, and no quantized type."""
    return any(decision_of(o) is None for o in deciding_operations(module)) and not any(
        quantized_element(v.type) for o in module.walk() for v in (*o.operands, *o.results)
    )
