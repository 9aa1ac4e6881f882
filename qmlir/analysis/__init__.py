"""Reports about a compilation that users ask for: the error of each tensor and channel, the operations on a device.

Reports run the compiler, so they lie above it; only the command line lies above them.
"""
