"""NVDLA in the configuration nv_small: its registers, a functional model, and a model of its cycles."""
