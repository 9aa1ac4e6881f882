"""The integer dialect: a quantized network computed in integers only; its verifiers reject every float type."""

from xdsl.ir import Dialect

from qmlir.dialects.qint.attention import ExponentialsOp, RowQuotientOp
from qmlir.dialects.qint.contraction import (
    AffineFullyConnectedOp,
    BlockedFullyConnectedOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    MatMulOp,
    SaturatingFullyConnectedOp,
)
from qmlir.dialects.qint.elementwise import (
    AddOp,
    DivOp,
    FloatAddOp,
    InterpolatedLookupOp,
    LookupOp,
    MulOp,
    PairLookupOp,
    RescaledAddOp,
)
from qmlir.dialects.qint.local_response import LocalResponseNormalizationOp
from qmlir.dialects.qint.normalization import L2NormalizationOp, LogSoftmaxOp, SoftmaxOp
from qmlir.dialects.qint.pooling import AveragePool2DOp, GlobalSumPoolOp, InterpolateOp, MaxPool2DOp, ResizeOp
from qmlir.dialects.qint.requantize import RequantizeOp
from qmlir.dialects.qint.root_normalization import LayerNormOp, RMSNormOp
from qmlir.dialects.qint.rows import DivideRowsOp, RowMagnitudesOp

QINT = Dialect(
    "qint",
    [
        Conv2DOp,
        DepthwiseConv2DOp,
        FullyConnectedOp,
        BlockedFullyConnectedOp,
        AffineFullyConnectedOp,
        SaturatingFullyConnectedOp,
        MatMulOp,
        RequantizeOp,
        AddOp,
        FloatAddOp,
        RescaledAddOp,
        MulOp,
        DivOp,
        MaxPool2DOp,
        AveragePool2DOp,
        GlobalSumPoolOp,
        InterpolatedLookupOp,
        LookupOp,
        PairLookupOp,
        ResizeOp,
        InterpolateOp,
        SoftmaxOp,
        LogSoftmaxOp,
        ExponentialsOp,
        RowQuotientOp,
        RowMagnitudesOp,
        DivideRowsOp,
        L2NormalizationOp,
        LayerNormOp,
        RMSNormOp,
        LocalResponseNormalizationOp,
    ],
)
