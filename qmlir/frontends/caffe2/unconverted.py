"""Operators of Caffe2 that have no converter, each with the reason that its `qmlir.opaque` gives."""

from collections.abc import Mapping

RANDOM = "its result is random"
SHAPELESS = "the shape of its result is known only when it runs"
SUBNETS = "it runs another net, and qmlir imports nets without branches and loops"
STRINGS = "it works on strings, for which qmlir has no type"
BOXES = "it computes on boxes, as many as the data say"
STATE = "it reads or writes what lives from call to call"

_BY_REASON: Mapping[str, str] = {
    RANDOM: "RandomFill UniformIntFill UniqueUniformFill",
    SHAPELESS: "BatchSparseToDenseV2 BooleanMask BoxWithNMSLimit CollectAndDistributeFpnRpnProposals "
    "CollectRpnProposals DistributeFpnProposals Find GenerateProposals NonZero Unique Where2",
    BOXES: "BBoxTransform RoIAlign RoIAlignRotated RoIPool",
    SUBNETS: "AsyncIf Do For If ONNXWhile RecurrentNetwork While",
    STRINGS: "GivenTensorStringFill StringEndsWith StringEquals StringJoin StringPrefix StringStartsWith StringSuffix",
    STATE: "AtomicIter BlobsQueue CreateCounter CreateMutex DequeueBlobs EnqueueBlobs Iter Load Print Save",
}

UNCONVERTED: Mapping[str, str] = {o: reason for reason, operators in _BY_REASON.items() for o in operators.split()}
"""Operator → the reason why it has no converter."""


def reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter."""
    return UNCONVERTED.get(operator, f"qmlir knows no {operator}")
