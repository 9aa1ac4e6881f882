"""The model of a device in C: what each command computes, for firmware, testbenches and fast simulation."""
