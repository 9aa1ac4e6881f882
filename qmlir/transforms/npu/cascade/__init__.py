"""The pass `npu-cascade`: keeps tensors between layers inside the device, and splits layers into stripes of rows."""
