"""The pass `npu-tile`: turns layers into commands, each layer in tiles that fit the memories of the device."""
