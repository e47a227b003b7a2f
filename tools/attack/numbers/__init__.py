"""Compare every number that the package shows with the same number computed another way.

``scores`` compares metrics with scikit-learn, ``layers`` measures with autograd in float64, and
``graphs`` the entrances of data with each other. All inputs are drawn from a seed.
"""

from typing import TypeAlias

#: A trial's name, and what differs; empty if nothing does.
Trial: TypeAlias = tuple[str, str]
