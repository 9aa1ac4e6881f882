"""The GGUF frontend, `load_gguf`: language models of the Llama family with the weights of their file."""

from qmlir.frontends.gguf.importer import load_gguf

__all__ = ["load_gguf"]
