"""What attention scores are made of, by kind: score norms read it."""

from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class LinearScore:
    r"""What a linear attention score was made of: :math:`s_{ij} = a_{dst} \cdot h_i + a_{src} \cdot h_j`."""

    x: Float[Tensor, "sources heads channels"]
    att_dst: Float[Tensor, "heads channels"]
    att_src: Float[Tensor, "heads channels"]


@dataclass(frozen=True)
class AdditiveScore:
    r"""What an additive attention score was made of: :math:`s_{ij} = a \cdot \sigma(h^{dst}_i + h^{src}_j)`."""

    x_dst: Float[Tensor, "targets heads channels"]
    x_src: Float[Tensor, "sources heads channels"]
    att: Float[Tensor, "heads channels"]


@dataclass(frozen=True)
class QuadraticScore:
    r"""What a dot-product attention score was made of: :math:`s_{ij} = q_i \cdot k_j / \sqrt C`, for values v."""

    query: Float[Tensor, "targets heads channels"]
    key: Float[Tensor, "sources heads channels"]
    value: Float[Tensor, "sources heads channels"]


Score: TypeAlias = LinearScore | AdditiveScore | QuadraticScore
