"""Kernels in C++ for CPUs, compiled at their first use, and the decision whether they are used."""

from gnn_depth.nn.native.kernels import available, plain, use, why_not

__all__ = ["available", "plain", "use", "why_not"]
