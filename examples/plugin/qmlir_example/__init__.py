"""A plugin of qmlir: one pass, one dialect, one calibration and one rounding method, named in pyproject.toml."""
