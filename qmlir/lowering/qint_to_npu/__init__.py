"""The lowering qint → npu: decides which part of a network runs on the device and which on its host."""
