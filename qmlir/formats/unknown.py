"""What may be done about an operator that qmlir does not know: names like it, and how exporters express it otherwise.

Custom operators come from a few exporters and tools. Most of these have an option that writes the same network in
operators that every runtime has; `EXPRESSED` says which.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from qmlir.errors import near_misses
from qmlir.formats import caffe2, onnx, tflite

# ---------------------------------------------------------------------------------------------------------------
# Well-known operators outside the formats' own, and how a network is exported without them.


EXPRESSED: Mapping[str, str] = {
    # PyTorch and its libraries, in ONNX files
    "ATen": "export with torch.onnx.export(..., dynamo=True), or without ONNX_ATEN_FALLBACK",
    "grid_sampler": "export with opset 16 or later, in which torch's grid_sample is ONNX's GridSample",
    "MMCVGridSampler": "export with opset 16 or later, in which torch's grid_sample is ONNX's GridSample",
    "MMCVDeformConv2d": "export torchvision's deform_conv2d with opset 19 or later, in which it is ONNX's DeformConv",
    "MMCVModulatedDeformConv2d": "export torchvision's deform_conv2d with opset 19, in which it is ONNX's DeformConv",
    "DeformConv2d": "export torchvision's deform_conv2d with opset 19 or later, in which it is ONNX's DeformConv",
    "MMCVRoiAlign": "replace it by torchvision's roi_align before the export, which is ONNX's RoiAlign",
    "MMCVRoIAlign": "replace it by torchvision's roi_align before the export, which is ONNX's RoiAlign",
    "RoIAlignRotated": "ONNX has no rotated RoiAlign: end the network before it with --outputs",
    "nms": "import torchvision before the export, which then writes ONNX's NonMaxSuppression",
    "roi_align": "import torchvision before the export, which then writes ONNX's RoiAlign",
    "NonMaxSuppressionRotated": "ONNX has no rotated NonMaxSuppression: end the network before it with --outputs",
    # TensorRT's plugins
    "EfficientNMS_TRT": "export without TensorRT's plugin (nms=False), or end the network before it with --outputs",
    "EfficientNMS_ONNX_TRT": "export without TensorRT's plugin, or end the network before it with --outputs",
    "BatchedNMS_TRT": "export without TensorRT's plugin, or end the network before it with --outputs",
    "BatchedNMSDynamic_TRT": "export without TensorRT's plugin, or end the network before it with --outputs",
    "TRT_NonMaxSuppression": "export without TensorRT's plugin, or end the network before it with --outputs",
    "InstanceNormalization_TRT": "export without TensorRT's plugin: ONNX's InstanceNormalization is the same",
    "TRTInstanceNormalization": "export without TensorRT's plugin: ONNX's InstanceNormalization is the same",
    "GroupNormalizationPlugin": "export without TensorRT's plugin: torch's group_norm is ONNX's GroupNormalization",
    "TRT_INT8QuantizeLinear": "export with ONNX's QuantizeLinear and DequantizeLinear instead of TensorRT's",
    "TRT_INT8DequantizeLinear": "export with ONNX's QuantizeLinear and DequantizeLinear instead of TensorRT's",
    "TRT_FP8QuantizeLinear": "export with ONNX's QuantizeLinear and DequantizeLinear instead of TensorRT's",
    "TRT_FP8DequantizeLinear": "export with ONNX's QuantizeLinear and DequantizeLinear instead of TensorRT's",
    # quantization-aware training
    "MultiThreshold": "export QONNX before FINN's streamlining, which merges scales into thresholds",
    # converters to TFLite
    "MaxPoolWithArgmax": "convert a tf.nn.max_pool without indices, or end the network before it with --outputs",
    "edgetpu-custom-op": "give the file that went into the Edge TPU compiler, which has operators in place of its code",
    "ethos-u": "give the file that went into Vela, which has operators in place of its command stream",
    "ethosu": "give the file that went into Vela, which has operators in place of its command stream",
    "NumericVerify": "convert without the converter's debugging options, which add this operator",
}
"""The name of a custom operator, of any domain → how the network is exported without it."""

EXPRESSED_DOMAINS: Mapping[str, str] = {
    "com.microsoft": "if onnxruntime's optimizer wrote it, give the model from before: it has ONNX's operators",
    "com.microsoft.nchwc": "save the model with graph_optimization_level=ORT_ENABLE_EXTENDED or less in onnxruntime",
    "com.ms.internal.nhwc": "save the model with graph_optimization_level=ORT_ENABLE_EXTENDED or less in onnxruntime",
    "ai.onnx.contrib": "it is of onnxruntime-extensions: begin the network behind it with --inputs",
    "com.microsoft.extensions": "it is of onnxruntime-extensions: begin the network behind it with --inputs",
    "qonnx.custom_op.channels_last": "export QONNX before its conversion to channels last",
    "org.pytorch.aten": "export with torch.onnx.export(..., dynamo=True), which writes ONNX's operators",
    "aten": "export with torch.onnx.export(..., dynamo=True), which writes ONNX's operators",
    "prim": "export with torch.onnx.export(..., dynamo=True), which writes ONNX's operators",
    "mlir.tf": "convert with target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]",
}
"""The domain of operators that no table has → how a network is exported without them."""

FLEX = "Flex"
"""What begins the name of TensorFlow's own operators in a TFLite file, which its delegate of that name runs."""


def expressed(operator: str, domain: str = "") -> str | None:
    """Returns how a network is exported without a well-known custom operator; None for operators of nobody known."""
    if domain in ("", "CUSTOM") and operator.startswith(FLEX) and operator[len(FLEX) :][:1].isupper():
        of = operator.removeprefix(FLEX)
        return f"it is TensorFlow's {of}: convert with supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS] only, which " \
               "expresses it in TFLite's operators or names what cannot be"  # fmt: skip
    by_name = {_plain(name): text for name, text in EXPRESSED.items()}
    return by_name.get(_plain(operator)) or EXPRESSED_DOMAINS.get(domain)


def _plain(name: str) -> str:
    """A name without what writers of names differ in: case, and the signs between words."""
    return re.sub("[^a-z0-9]", "", name.lower())


# ---------------------------------------------------------------------------------------------------------------
# Names like the operator's.


ALIKE = 0.75
"""The least similarity, of 1, of a name that is proposed: many operators have parts of their names in common."""

FORMATS: Mapping[str, frozenset[str]] = {
    "ONNX": frozenset(row.kind for row in onnx.OPERATORS),
    "TFLite": frozenset(row.kind for row in tflite.OPERATORS),
    "Caffe2": frozenset(row.kind for row in caffe2.OPERATORS),
}
"""Format → operators that are one operation of nn, under their names in the format."""


def hint(format: str, operator: str, known: Iterable[tuple[str, str]], domain: str = "") -> str:
    """Returns a clause about an unknown operator, for the end of an error; empty if there is nothing to say.

    Args:
        format: The format of the model file, one of `FORMATS`.
        operator: The operator's name.
        known: The domain and the name of each operator that the importer knows.
        domain: The operator's domain.
    """
    if text := expressed(operator, domain):
        return f"; {text}"
    operators = [*known]
    same = [(d, o) for d, o in operators if _plain(o) == _plain(operator) and (d, o) != (domain, operator)]
    if same:
        where, name = min(same)
        return f"; did you mean {name} {f'of the domain {where}' if where else f'of {format} itself'}?"
    if near := get_close_matches(operator, {o for d, o in operators if d == domain}, cutoff=ALIKE):
        return f"; {near_misses(operator, near)}"
    others = [name for name, kinds in FORMATS.items() if name != format and _plain(operator) in map(_plain, kinds)]
    return f"; it is an operator of {others[0]}: give the model in that format" if others else ""
