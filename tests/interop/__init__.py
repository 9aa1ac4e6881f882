"""Other compilers read what qmlir prints; the tools are optional, and a test without its tool is skipped."""
