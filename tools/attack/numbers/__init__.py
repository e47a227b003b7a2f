"""Compare every number that the package shows with the same number computed another way.

``layers`` compares measures with autograd in float64. All inputs are drawn from a seed. The tests
compare metrics with scikit-learn (tests/training/test_metrics.py) and the entrances of data with
each other (tests/data/test_entrances.py).
"""

from typing import TypeAlias

#: A trial's name, and what differs; empty if nothing does.
Trial: TypeAlias = tuple[str, str]
