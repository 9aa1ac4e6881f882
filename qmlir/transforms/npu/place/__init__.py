"""The pass `npu-place`: assigns an address to every buffer of a device's program."""
