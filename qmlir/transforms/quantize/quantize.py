"""`quantize`: turns a float network whose tensors have ranges into a network on quantized types.

The passes that do it are listed in stages.py as `QUANTIZE`. Here are the pipeline, which states the settings on the
module and leaves out what there is no data for, and the passes that only check: `require-network` and `require-ranges`
before the others, `honour-policy` and `fail-on-float` behind them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, ContainerType, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.errors import OptionError, PipelineError
from qmlir.ir.context import QmlirContext
from qmlir.ir.facts import CONFIG, POLICY, ROTATION
from qmlir.ir.garbage import collect_weights, release_weights
from qmlir.ir.passes import PassPipeline, configured_pass, option, pass_class, pipeline
from qmlir.ir.rewriting import node_name
from qmlir.numerics.roundings import rounding_called
from qmlir.policies.ledger import deciding_operations, decision_of, decisions
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import ON_DATA, OpConfig, QuantConfig, config_of, write_config
from qmlir.settings.resolve import resolve
from qmlir.transforms.quantize.adjust.side_by_side import SampledPass
from qmlir.transforms.quantize.apply.choose_scales import ChooseScalesPass
from qmlir.transforms.quantize.apply.fold_qdq import fold_qdq, is_as_imported
from qmlir.transforms.quantize.apply.quantize_ops import QuantizeOpsPass
from qmlir.transforms.quantize.entries import FirstEntry
from qmlir.transforms.quantize.prepare.apply_policy import policy_of, refuse_unhonoured
from qmlir.transforms.quantize.prepare.recipes import with_recipe
from qmlir.transforms.quantize.ranges.apply_profile import ApplyProfilePass
from qmlir.transforms.quantize.ranges.observers import observers


@dataclass(frozen=True)
class QuantizePass(QuantConfig, PassPipeline):
    """Quantizes a network whose observers hold ranges.

    The passes are those of `stages.QUANTIZE`, in order. Passes that need samples are left out without `data`. An
    operation that is quantized already stays as it is.

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
    profile: str = option("", "apply this profile first")
    policy: str = option("", "follow this policy, a file: rules for single operations, over these options")
    rules: str = option("", "more rules, with ; between them: {name=conv1 precision=int16; layer=last keep-float=true}")
    data: str = option("", "samples to round weights, correct biases and choose scales on: a .npy or an .npz file")
    fail_on_float: bool = option(False, "refuse if an operation stays float, with the reason of each")
    given: ClassVar[frozenset[str]]

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Keeps the names of the options that are given: a policy's default may contradict only the others."""
        made = super().__new__(cls)
        vars(made)["given"] = frozenset(given)
        return made

    def steps(self, ctx: QmlirContext, module: ModuleOp) -> Iterator[ModulePass]:
        held = ctx.policy
        ctx.policy = policy = held if isinstance(held, Policy) else policy_of(self.policy, self.rules)
        before = CONFIG.of(module)
        try:
            given = {name: value for name, value in self.options().items() if name in self.given}
            stated = config_of(module)
            policy, settings = with_recipe(module, policy, resolve(policy, given, base=stated), ranged=True)
            ctx.policy, config, data = policy, settings.config(), self.data or stated.data
            write_config(module, config, data)
            config.op_config().check(self.name)
            _check_rotation(module, config)
            op_configs = [
                config.op_config(),
                *(config.op_config().with_settings(rule.settings) for rule in policy.rules),
            ]
            _check_rounding(op_configs, sampled=bool(data) or data in ctx.samples)
            if config.op_config().half is not None and lacks_ranges(module):
                yield configured_pass("simplify", {})  # as a network is before its ranges are learned
            for name in pipeline(self.name):
                if name == QuantizeOpsPass.name:
                    collect_weights(module)  # what the passes before have computed with, before integers come
                if name == ChooseScalesPass.name and isinstance(ctx.first_entry, FirstEntry):
                    ctx.first_entry.meet(module)
                if self._is_due(pass_class(name), ctx, module):
                    yield configured_pass(name, {"file": self.profile} if name == ApplyProfilePass.name else {})
                if name == ChooseScalesPass.name:
                    release_weights(module)  # the passes behind it look at a layer at a time
            collect_weights(module)  # the float weights
        finally:
            ctx.policy = held
            CONFIG.set(module, before)

    def _is_due(self, step: type[ModulePass], ctx: QmlirContext, module: ModuleOp) -> bool:
        """Whether a pass has something to do, for the options and the module as the passes before have left it."""
        config = config_of(module)
        if issubclass(step, SampledPass):
            return bool(config.data) or config.data in ctx.samples
        due = {"apply-profile": bool(self.profile), "fail-on-float": self.fail_on_float}
        due["require-ranges"] = config.op_config().half is None  # floats of 16 bits need none
        return is_as_imported(module) if step.name == "gather-casts" else due.get(step.name, True)


def _check_rounding(op_configs: Iterable[OpConfig], *, sampled: bool) -> None:
    """Refuses a rounding method that needs data, such as GPTQ's or a plugin's, where it would not be asked.

    Raises:
        OptionError: There are no samples, or the integers are to be Glow's.
    """
    for op_config in op_configs:
        if rounding_called(op_config.rounding) is None and op_config.rounding not in ON_DATA:
            continue
        if not sampled:
            remedy = "give samples with --data (in Python data=), or leave the option out"
            raise OptionError(f"rounding {op_config.rounding}", "needs samples", got="none", remedy=remedy)
        if op_config.glow_exact:
            raise OptionError(
                f"rounding {op_config.rounding}", "cannot give Glow's numbers", remedy="drop --glow-exact"
            )


def _check_rotation(module: ModuleOp, config: QuantConfig) -> None:
    """Refuses to quantize a network that was not rotated before its ranges were learned, if it is to be.

    Raises:
        PipelineError: It was not, or in another way.
    """
    done = ROTATION.of(module) or "none"
    if config.rotate not in ("none", done):
        need = f"rotate={config.rotate} must be done before ranges are learned"
        got = "a network that has ranges" if done == "none" else f"a network rotated by rotate={done}"
        remedy = f"quantize the float network, or run --rotate=what={config.rotate} before --insert-observers"
        raise PipelineError("quantize", need, got=got, remedy=remedy)


@dataclass(frozen=True)
class RequireNetworkPass(ModulePass):
    """Refuses a module without operations of nn or casts, unless its functions only return their arguments."""

    name = "require-network"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        around = (ModuleOp, func.FuncOp, func.ReturnOp)
        others = sorted({_dialect_of(o) for o in op.walk() if not isinstance(o, around)})
        if not _NETWORK.isdisjoint(others):
            return
        if others or not any(isinstance(o, func.FuncOp) for o in op.ops):
            raise PipelineError(
                "quantize",
                "needs a network of operations of nn",
                got=f"operations of {', '.join(others)} only" if others else "a module without functions",
                remedy="quantize the .onnx or .tflite file, or what `qmlir import` writes for it",
            )


@dataclass(frozen=True)
class RequireRangesPass(ModulePass):
    """Refuses a float network that says nothing about its tensors: no observer has a range or a setting of a policy."""

    name = "require-ranges"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not lacks_ranges(op):
            return
        found = observers(op)
        raise PipelineError(
            "quantize",
            "needs ranges: at least one calib.observe with a range",
            got=f"{len(found) or 'no'} observers{', none with a range' if found else ''}",
            remedy="profile the network and give profile=FILE, or run --insert-observers and --apply-profile "
            "first, or write ranges into the IR: calib.observe %v {name = …, range = [lo, hi]}",
        )


def lacks_ranges(module: ModuleOp) -> bool:
    """Whether the data of a network are float, and it says nothing about them."""
    return _is_untouched(module) and not any(o.bounds or POLICY.on(o) for o in observers(module))


def learns_ranges(module: ModuleOp) -> bool:
    """Whether the ranges of a network's tensors are to be learned from samples: it has none, and operations need them.

    These operations may be all operations, or those that a model file leaves float beside quantized ones.
    """
    if any(o.bounds or POLICY.on(o) for o in observers(module)):
        return False
    if _is_untouched(module):
        return True
    if is_as_imported(module):
        module = module.clone()
        fold_qdq(module)
    return any(entry.outcome == "float" and entry.code == "no-range" for entry in decisions(module))


def _is_untouched(module: ModuleOp) -> bool:
    """Whether a network has operations, none with a recorded decision, and no quantized type but of constants.

    Constants say nothing about data: weights may be stored as integers in a network that is float otherwise.
    """
    values = (v for o in module.walk() for v in (*o.operands, *o.results) if not isinstance(v.owner, ConstantOp))
    return any(decision_of(o) is None for o in deciding_operations(module)) and not any(
        quantized_element(v.type) for v in values
    )


@dataclass(frozen=True)
class HonourPolicyPass(ModulePass):
    """Refuses a rule of the policy that no operation honours, since all that it matches stayed float."""

    name = "honour-policy"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if isinstance(ctx, QmlirContext):
            refuse_unhonoured(ctx.applied, op, ctx.idle)


@dataclass(frozen=True)
class FailOnFloatPass(ModulePass):
    """Refuses a network with operations that stayed float, and says the reason and the remedy for each."""

    name = "fail-on-float"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if left := [*_floats(op)]:
            listed = "; ".join(text for text, _ in left)
            remedies = ", or ".join(dict.fromkeys(remedy for _, remedy in left))
            need = "must leave no operation float"
            raise PipelineError("quantize", need, got=f"{len(left)} ({listed})", remedy=remedies)


_NETWORK = frozenset(("nn", "quant", "calib", "qmlir"))
"""Dialects that networks are written in before they become integers."""


def _dialect_of(op: Operation) -> str:
    """Returns the dialect of an operation; that of a plugin's operation is nn, if its class is derived from nn's."""
    return "nn" if isinstance(op, NNOp) else op.name.partition(".")[0]


def _floats(module: ModuleOp) -> Iterator[tuple[str, str]]:
    """Each operation that stays float, with its reason, and the remedy; operations of foreign dialects included."""
    for e in decisions(module):
        if e.outcome == "float":
            yield f'{e.operation} "{e.node}": {e.reason}', e.remedy
    for op in module.walk():
        foreign = _dialect_of(op) not in {*_NETWORK, "func"} and op.operands and op.results
        if foreign and any(_is_float(v.type) for v in (*op.operands, *op.results)):
            remedy = "express it in operations of nn"
            yield f'{op.name} "{node_name(op)}": it is no operation of nn', remedy


def _is_float(type: Attribute) -> bool:
    """Whether a type is a float, or a tensor of floats."""
    return isinstance(type.get_element_type() if isinstance(type, ContainerType) else type, AnyFloat)
