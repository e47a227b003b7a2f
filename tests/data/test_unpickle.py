"""Reading pickles that may be anything."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from gnn_depth.data.checks import DataError
from gnn_depth.data.unpickle import CsrMatrix, loads

MATRICES = arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 5)), elements=st.integers(0, 2))


@given(MATRICES)
def test_arrays_come_back_equal(matrix):
    np.testing.assert_array_equal(loads(pickle.dumps(matrix, protocol=2)), matrix)
    sparse = loads(pickle.dumps(csr_matrix(matrix), protocol=2))
    assert isinstance(sparse, CsrMatrix)
    np.testing.assert_array_equal(sparse.dense(), matrix)


def test_a_graph_comes_back_equal():
    graph = defaultdict(list, {0: [1, 2], 3: []})
    assert loads(pickle.dumps(graph, protocol=2)) == graph


@given(st.data())
def test_a_pickle_cut_short_is_refused(data):
    content = pickle.dumps([csr_matrix(np.eye(3)), np.ones(4)], protocol=2)
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DataError, match="no pickle of arrays"):
        loads(content[:length])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_payload_is_refused_and_does_not_run(payload, protocol):
    make, mark = payload
    with pytest.raises(DataError, match=r"posix\.mkdir|nt\.mkdir"):
        loads(pickle.dumps([make()], protocol=protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    "asked", ["os system", "builtins eval", "builtins getattr", "numpy load", "functools partial", "numpy.f2py os"]
)
def test_only_the_listed_names_can_be_called(asked):
    module, name = asked.split()
    with pytest.raises(DataError, match=name):
        loads(f"c{module}\n{name}\n.".encode())


@pytest.mark.parametrize(
    "fault",
    [
        {"indices": np.array([0, 9])},
        {"indices": np.array([0, -1])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([0, 1, 5])},
        {"indptr": np.array([0, 1])},
        {"data": np.array([None, None])},
        {"_shape": (2, "many")},
        {"_shape": None},
    ],
)
def test_a_sparse_matrix_whose_parts_do_not_fit_is_refused(fault):
    good = {"_shape": (2, 3), "indptr": np.array([0, 1, 2]), "indices": np.array([0, 2]), "data": np.ones(2)}
    matrix = CsrMatrix()
    matrix.__setstate__(good)
    np.testing.assert_array_equal(matrix.dense(), [[1, 0, 0], [0, 0, 1]])
    matrix.__setstate__({**good, **fault})
    with pytest.raises(DataError, match="sparse matrix"):
        matrix.dense()
