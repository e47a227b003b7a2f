"""Kernels for CPUs in C++ and for GPUs in Triton, compiled at their first use, and the decision
whether they are used."""

from gnn_depth.nn.native.kernels import available_for, use, why_not, without_kernels

__all__ = ["available_for", "use", "why_not", "without_kernels"]
