"""The edge qint → npu: which part of a network runs on the device, and which beside it on the host."""
