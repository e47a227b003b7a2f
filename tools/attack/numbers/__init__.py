"""Compute measures another way than the package: by autograd in float64.

The tests of ``tests/diagnostics`` compare the two, for models and loops in which a layer's gradient
is easily miscounted.
"""
