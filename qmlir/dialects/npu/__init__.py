"""The dialect of custom accelerators: layers on tensors, which are lowered to commands on buffers."""

from xdsl.ir import Dialect

from qmlir.dialects.npu.commands import BufferOp, BufferType, CallOp, CommandAttr, IssueOp, PortAttr
from qmlir.dialects.npu.layers import HostOp, LayerOp, YieldOp

NPU = Dialect("npu", [LayerOp, HostOp, YieldOp, BufferOp, IssueOp, CallOp], [BufferType, CommandAttr, PortAttr])
"""The npu dialect: `npu.layer` and `npu.host` assign work to device and host; the other operations implement it."""
