"""The neural-network dialect: what the network computes, float or quantized.

Spatial operations are channels-last; `base.py` says what all of them share.
"""

from xdsl.ir import Dialect

from qmlir.dialects.nn.activation import ClampOp, ReluOp, RequantizeOp, SigmoidOp, TanhOp
from qmlir.dialects.nn.casts import CastOp
from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, SliceOp, TopKOp
from qmlir.dialects.nn.normalization import SoftmaxOp
from qmlir.dialects.nn.pooling import AveragePool2DOp, GlobalAveragePoolOp, MaxPool2DOp
from qmlir.dialects.nn.resize import ResizeOp
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, ConstantOp, PadOp, ReshapeOp, TransposeOp

NN = Dialect(
    "nn",
    [
        Conv2DOp,
        DepthwiseConv2DOp,
        FullyConnectedOp,
        MatMulOp,
        CastOp,
        AddOp,
        MulOp,
        ReluOp,
        ClampOp,
        SigmoidOp,
        TanhOp,
        RequantizeOp,
        MaxPool2DOp,
        AveragePool2DOp,
        GlobalAveragePoolOp,
        SoftmaxOp,
        ConstantOp,
        ReshapeOp,
        TransposeOp,
        ConcatOp,
        PadOp,
        BroadcastOp,
        SliceOp,
        GatherOp,
        GatherNDOp,
        ScatterNDOp,
        ScatterReduceNDOp,
        TopKOp,
        ResizeOp,
    ],
)
