"""The arithmetic of quantization on numpy arrays: fixed point, rounding, schemas, calibration, elementary functions.

No IR comes in here, so that every function can be checked against outside vectors. It may import `errors` only.
"""
