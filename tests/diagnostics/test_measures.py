import math

import numpy as np
import pytest
import torch

from gnn_depth.diagnostics.measures import (
    dirichlet_energy,
    effective_rank,
    energy_normalized,
    log10_growth,
    log10_similarity,
    mean_average_distance,
    norm,
    numerical_rank,
    relative_similarity,
    similarity,
)
from gnn_depth.diagnostics.moments import RowMoments

OF_ROWS = [similarity, norm, relative_similarity, log10_similarity]
OF_EDGES = [dirichlet_energy, mean_average_distance]
OF_A_MATRIX = [effective_rank, numerical_rank]
DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def features(count=9, channels=4, dtype=torch.float64):
    return torch.randn(count, channels, dtype=torch.float64).to(dtype)


def both_ways(edges):
    """The edge_index of an undirected graph."""
    one_way = torch.tensor(edges).t()
    return torch.cat([one_way, one_way.flip(0)], 1)


def every_measure(x, edge_index):
    moments = RowMoments.of(x)
    yield from ((measure, measure(moments)) for measure in OF_ROWS)
    yield from ((measure, measure(x, edge_index)) for measure in OF_EDGES)
    yield from ((measure, measure(x)) for measure in OF_A_MATRIX)


RING = both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)])
STAR = both_ways([(0, 1), (0, 2), (0, 3), (3, 4), (1, 2)])
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_sizes_whose_squares_float64_has_no_room_for_are_measured(size):
    x = features()
    for measure in (similarity, norm):
        assert measure(RowMoments.of(size * x)).item() == pytest.approx(
            size * measure(RowMoments.of(x)).item(), rel=1e-12
        )
    assert effective_rank(size * x).item() == pytest.approx(effective_rank(x).item(), rel=1e-12)
    torch.testing.assert_close(
        mean_average_distance(size * x, STAR), mean_average_distance(x, STAR)
    )
    torch.testing.assert_close(energy_normalized(size**0.1 * x, STAR), energy_normalized(x, STAR))


def test_logarithms_go_on_where_float64_ends():
    x = features()
    moments = RowMoments.of(1e-300 * x).times(1e-7)
    expected = log10_similarity(RowMoments.of(x)) - 307
    torch.testing.assert_close(log10_similarity(moments), expected, rtol=1e-12, atol=0)
    huge = torch.full((100, 1), 1e308, dtype=torch.float64)
    huge[::2] *= -1
    assert similarity(huge) == math.inf
    assert log10_similarity(huge).item() == pytest.approx(309, rel=1e-12)


def test_growth_is_the_ratio_of_neighbours():
    logs = torch.tensor([[1e-3, 2.0, 5.0, 1e4], [8.0, 4.0, 2.0, 1.0]], dtype=torch.float64).log10()
    torch.testing.assert_close(log10_growth(logs), logs[:, :-1] - logs[:, 1:])
    logs = torch.tensor([0.0, -math.inf, -math.inf, math.nan, 1.0], dtype=torch.float64)
    growth = log10_growth(logs)
    assert growth[0] == math.inf
    assert growth[1:].isnan().all()
    assert log10_growth(logs[:1]).shape == (0,)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((9, 4), torch.float64), ((3, 5), torch.float64), ((9, 4), torch.bfloat16)]
)
def test_effective_rank_is_the_exponential_of_the_entropy_of_singular_values(dtype, shape):
    x = features(*shape, dtype)
    values = np.linalg.svd(x.double().numpy(), compute_uv=False)
    shares = (values / values.sum()).tolist()
    expected = math.exp(-sum(share * math.log(share) for share in shares))
    assert effective_rank(x).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("dtype", "node"), [(torch.float64, 0), (torch.bfloat16, 4), (torch.float32, 5)]
)
def test_of_what_is_not_finite_every_measure_is_nan_be_it_at_an_isolated_node(bad, dtype, node):
    x = features(6, dtype=dtype)
    x[node, 1] = bad
    for measure, value in every_measure(x, STAR):
        assert value.isnan(), measure


@pytest.mark.parametrize(
    ("count", "dtype"), [(0, torch.float64), (1, torch.bfloat16), (5, torch.float32)]
)
def test_of_zeros_of_one_row_and_of_none_each_is_what_its_docstring_says(dtype, count):
    edges = STAR if count == 5 else NO_EDGES
    for measure, value in every_measure(torch.zeros(count, 4, dtype=dtype), edges):
        if "relative" in measure.__name__:
            assert value.isnan(), measure
        elif "log10" in measure.__name__:
            assert value == -math.inf, measure
        elif "mean_average" in measure.__name__ and count < 5:
            assert value.isnan(), measure
        else:
            assert value == 0, measure
