"""Benchmarks against PyTorch Geometric: ``python -m tools.bench``. Times in pairs, memory in fresh
processes."""
