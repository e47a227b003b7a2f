"""Reading pickles that may be anything."""

import pickle
import tracemalloc
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


def _array(dtype: bytes, state: bytes) -> bytes:
    """A pickle in words: an array of this NumPy type with this state."""
    begin = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    return begin + b"(I1\n(I2\ntcnumpy\ndtype\n(S'" + dtype + b"'\nI0\nI1\ntR" + state + b"tb."


PLAIN_STATE = b"(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00'\n"


def test_an_array_in_words_is_read():
    np.testing.assert_array_equal(loads(_array(b"i4", PLAIN_STATE)), [1, 2])


@pytest.mark.parametrize(
    "content",
    [
        # Objects whose addresses are in the file, by a type that says that it holds none.
        _array(b"O8", PLAIN_STATE.replace(b"'<'", b"'|'")),
        _array(b"V8", PLAIN_STATE),
        pickle.dumps(np.array([print, eval], dtype=object), protocol=2),
        pickle.dumps(np.array([(1, 2)], dtype=[("a", "i4"), ("b", "O")]), protocol=2),
        # More values than bytes, and room for more than there is.
        _array(b"i4", PLAIN_STATE).replace(b"I2\nt", b"I99999999999\nt"),
        b"cnumpy\nndarray\n(I99999999999\ntR.",
        b"c__builtin__\nbytes\n(I99999999999\ntR.",
        b"\x80\x02Nr\xff\xff\xff\x7f.",
        b"Np99999999999\n.",
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
        b"\x80\x04\x8e" + (2**40).to_bytes(8, "little") + b".",
        # What is inside of what may be called.
        b"\x80\x04\x8c\x06numpy.\x8c\x0bndarray.__class__\x93.",
        b"cnumpy\nndarray.__class__.__base__.__subclasses__\n.",
        b"\x80\x04\x8c\x0bcollections\x8c\x14defaultdict.__init__\x93.",
        b"c_codecs\nencode\n}S'__defaults__'\nNsb.",
        b"ccopyreg\n_reconstructor\n.",
        b"\x82\x01.",
        b"Pgive me\n.",
    ],
)
def test_what_no_such_file_has_is_refused_without_room_for_it(content):
    tracemalloc.start()
    with pytest.raises(DataError, match="was not run"):
        loads(content)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_payload_inside_of_a_payload_does_not_run(payload):
    make, mark = payload

    class Outer:
        def __reduce__(self) -> tuple:
            return list, ([make()],), {"later": make()}

    with pytest.raises(DataError, match=r"posix\.mkdir|nt\.mkdir"):
        loads(pickle.dumps(defaultdict(list, {0: [Outer()]}), protocol=2))
    assert not mark.exists()


@pytest.mark.parametrize(
    "fault",
    [
        {"_shape": (10**6, 10**6)},
        {"_shape": (-1, 3), "indptr": np.zeros(0, int), "indices": np.zeros(0, int)},
        {"_shape": (0, 2**62), "indptr": np.zeros(1, int), "indices": np.zeros(0, int), "data": np.zeros(0)},
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
