"""Shapes of the tensors that attention works on, as jaxtyping checks them."""

from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

EdgesHeads: TypeAlias = Float[Tensor, "edges heads"]
HeadsChannels: TypeAlias = Float[Tensor, "heads channels"]
NodesHeads: TypeAlias = Float[Tensor, "nodes heads"]
NodesHeadsChannels: TypeAlias = Float[Tensor, "nodes heads channels"]
SourcesHeadsChannels: TypeAlias = Float[Tensor, "sources heads channels"]
