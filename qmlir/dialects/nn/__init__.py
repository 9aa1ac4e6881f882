"""The neural-network dialect: what the network computes, float or quantized."""
