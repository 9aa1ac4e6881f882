"""The Caffe2 frontend, `load_caffe2`; it imports protobuf, so the compiler imports it on first use only."""

from qmlir.frontends.caffe2.importer import load_caffe2

__all__ = ["load_caffe2"]
