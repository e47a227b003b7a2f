"""The programs of the kernels for GPUs, in Triton, which compiles them at their first use.

A program computes one row, that of a node and head, from the edges into the node or out of it;
these come first among its arguments. Arguments in capitals are fixed when a program
is compiled, but for the sizes N, H and C. Among them are the slope of a LeakyReLU and the scale of
dropout, which otherwise would be rounded to float32.
"""

# mypy: ignore-errors

# N nodes (targets), H heads, C channels

import triton
import triton.language as tl

# Of the hash of positions, as in functional/dropout.py.
FIRST = tl.constexpr(0x7FEB352D)
SECOND = tl.constexpr(0x846CA68B - 2**32)


# ---- What kernels have in common ----------------------------------------------------------------


@triton.jit
def _factor_of_dropout(seed, position, threshold, SCALE: tl.constexpr, dtype: tl.constexpr):
    """1 / (1 - p) where a position is kept, 0 elsewhere."""
    bits = (position.to(tl.int32) ^ tl.load(seed)) * FIRST
    bits = ((bits ^ (bits >> 15)) + tl.load(seed + 1)) * SECOND
    bits = (bits ^ (bits >> 16)) * FIRST
    return tl.where((bits >> 1) >= threshold, tl.full([1], SCALE, dtype), 0.0)


@triton.jit
def _place(ptr, H):
    """The row of a program, its head, and where the edges of its node begin and end."""
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    return row, row % H, tl.load(ptr + node), tl.load(ptr + node + 1)


@triton.jit
def _edges(neighbour, edge, start, end, EDGES: tl.constexpr):
    """The neighbours and numbers of some edges of a node, and which of them exist."""
    position = start + tl.arange(0, EDGES)
    exists = position < end
    other = tl.load(neighbour + position, exists, 0).to(tl.int64)
    return other, tl.load(edge + position, exists, 0).to(tl.int64), exists


@triton.jit
def _rows(x, row, exists, C, CHANNELS: tl.constexpr):
    """Some rows of a matrix, zeros where there is none."""
    channel = tl.arange(0, CHANNELS)
    wanted = exists[:, None] & (channel < C)[None, :]
    return tl.load(x + row[:, None] * C + channel[None, :], wanted, 0.0)


@triton.jit
def _row(x, row, C, CHANNELS: tl.constexpr):
    channel = tl.arange(0, CHANNELS)
    return tl.load(x + row * C + channel, channel < C, 0.0)


@triton.jit
def _store_row(x, row, values, C, CHANNELS: tl.constexpr):
    channel = tl.arange(0, CHANNELS)
    tl.store(x + row * C + channel, values, channel < C)


# ---- Sums ---------------------------------------------------------------------------------------


@triton.jit
def sum_rows(
    ptr,
    neighbour,
    edge,
    weights,
    x,
    y,
    H,
    C,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row, head, begin, end = _place(ptr, H)
    total = tl.zeros([CHANNELS], dtype=x.dtype.element_ty)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        weight = tl.load(weights + number * H + head, exists, 0.0)
        total += tl.sum(weight[:, None] * _rows(x, other * H + head, exists, C, CHANNELS), 0)
    _store_row(y, row, total, C, CHANNELS)


# ---- Scores -------------------------------------------------------------------------------------


@triton.jit
def linear_scores(
    ptr,
    neighbour,
    edge,
    own,
    source,
    factor,
    scores,
    H,
    C,
    SLOPE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row, head, begin, end = _place(ptr, H)
    of_node, by = tl.load(own + row), tl.load(factor + row)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        score = by * (of_node + tl.load(source + other * H + head, exists, 0.0))
        tl.store(scores + number * H + head, tl.where(score > 0, score, SLOPE * score), exists)


@triton.jit
def additive_scores(
    ptr,
    neighbour,
    edge,
    x,
    z,
    vector,
    scores,
    H,
    C,
    SLOPE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row, head, begin, end = _place(ptr, H)
    own = _row(x, row, C, CHANNELS)
    of_head = _row(vector, head, C, CHANNELS)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        pairs = own[None, :] + _rows(z, other * H + head, exists, C, CHANNELS)
        score = tl.sum(tl.where(pairs > 0, pairs, SLOPE * pairs) * of_head[None, :], 1)
        tl.store(scores + number * H + head, score, exists)


@triton.jit
def additive_slopes(
    ptr,
    neighbour,
    edge,
    grad,
    x,
    z,
    sums,
    H,
    C,
    SLOPE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row, head, begin, end = _place(ptr, H)
    own = _row(x, row, C, CHANNELS)
    total = tl.zeros([CHANNELS], dtype=own.dtype)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        steep = tl.load(grad + number * H + head, exists, 0.0)[:, None]
        pairs = own[None, :] + _rows(z, other * H + head, exists, C, CHANNELS)
        total += tl.sum(tl.where(pairs > 0, steep, SLOPE * steep), 0)
    _store_row(sums, row, total, C, CHANNELS)


# ---- Attention ----------------------------------------------------------------------------------


@triton.jit
def attend(
    ptr,
    neighbour,
    edge,
    z,
    seed,
    threshold,
    scores,
    alpha,
    y,
    H,
    C,
    SCALE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The weighted sum of a node's neighbours, and the softmax of its scores before dropout."""
    row, head, begin, end = _place(ptr, H)
    dtype: tl.constexpr = z.dtype.element_ty
    lowest = float("-inf")
    largest = tl.full([1], lowest, dtype=dtype)
    base = tl.zeros([1], dtype=dtype)
    total = tl.zeros([1], dtype=tl.float64)
    for start in range(begin, end, EDGES):
        _, number, exists = _edges(neighbour, edge, start, end, EDGES)
        score = tl.load(scores + number * H + head, exists, lowest)
        larger = tl.maximum(largest, tl.max(score, 0, keep_dims=True))
        # The number to subtract: 0 while all scores are -inf.
        base = tl.where(larger == lowest, 0.0, larger)
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(score - base), 0, keep_dims=True)
        largest = larger
    sum_of_rows = tl.zeros([CHANNELS], dtype=dtype)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        at = number * H + head
        # NaN if all scores are -inf, as in PyTorch.
        weight = tl.exp(tl.load(scores + at, exists, lowest) - base) / total.to(dtype)
        tl.store(alpha + at, weight, exists)
        weight *= _factor_of_dropout(seed, at, threshold, SCALE, dtype)
        sum_of_rows += tl.sum(weight[:, None] * _rows(z, other * H + head, exists, C, CHANNELS), 0)
    _store_row(y, row, sum_of_rows, C, CHANNELS)


@triton.jit
def attend_backward(
    ptr,
    neighbour,
    edge,
    z,
    seed,
    threshold,
    scores,
    source,
    alpha,
    grad,
    weights,
    of_scores,
    of_own,
    of_factor,
    H,
    C,
    SCALE: tl.constexpr,
    SLOPE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The weights with dropout, the gradients of scores before their LeakyReLU, and two sums of
    these: as they are, and times the sources' part of linear scores."""
    row, head, begin, end = _place(ptr, H)
    of_y = _row(grad, row, C, CHANNELS)
    # The mean of the gradients of the weights. The output would give it too, but whoever gets the
    # output may change it in place.
    mean = tl.zeros([1], dtype=of_y.dtype)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        at = number * H + head
        weight = tl.load(alpha + at, exists, 0.0)
        kept = _factor_of_dropout(seed, at, threshold, SCALE, of_y.dtype)
        values = _rows(z, other * H + head, exists, C, CHANNELS)
        of_weight = kept * tl.sum(values * of_y[None, :], 1)
        mean += tl.sum(weight * of_weight, 0, keep_dims=True)
        tl.store(weights + at, weight * kept, exists)
        tl.store(of_scores + at, of_weight, exists)
    tl.debug_barrier()  # another thread may have stored a number that this one reads
    total = tl.zeros([EDGES], dtype=of_y.dtype)
    mixed = tl.zeros([EDGES], dtype=of_y.dtype)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        at = number * H + head
        of_score = tl.load(alpha + at, exists, 0.0) * (tl.load(of_scores + at, exists, 0.0) - mean)
        # LeakyReLU keeps the sign, so its output tells its slope.
        of_score = tl.where(tl.load(scores + at, exists, 0.0) > 0, of_score, SLOPE * of_score)
        tl.store(of_scores + at, of_score, exists)
        total += of_score
        mixed += of_score * tl.load(source + other * H + head, exists, 0.0)
    tl.store(of_own + row, tl.sum(total, 0))
    tl.store(of_factor + row, tl.sum(mixed, 0))


# ---- The largest neighbour, and dropout ---------------------------------------------------------


@triton.jit
def largest(
    ptr,
    neighbour,
    edge,
    values,
    most,
    count,
    is_largest,
    H,
    C,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The largest number of a node's neighbours, none of them below zero, NaN if one is; how many
    have it, and which."""
    row, head, begin, end = _place(ptr, H)
    found = tl.zeros([EDGES], dtype=values.dtype.element_ty)
    for start in range(begin, end, EDGES):
        other, _, exists = _edges(neighbour, edge, start, end, EDGES)
        value = tl.load(values + other * H + head, exists, 0.0)
        found = tl.where((value > found) | (value != value), value, found)
    nan_or_zero = tl.sum(tl.where(found == found, 0.0, found), 0)
    of_all = tl.max(tl.where(found == found, found, 0.0), 0) + nan_or_zero
    tl.store(most + row, of_all)
    ties = tl.zeros([EDGES], dtype=found.dtype)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, EDGES)
        value = tl.load(values + other * H + head, exists, -1.0)
        is_tied = (value == of_all).to(found.dtype)
        tl.store(is_largest + number * H + head, is_tied, exists)
        ties += is_tied
    tl.store(count + row, tl.sum(ties, 0))


@triton.jit
def drop(seed, threshold, x, y, count, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    position = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = position < count
    value = tl.load(x + position, exists, 0.0)
    kept = _factor_of_dropout(seed, position, threshold, SCALE, x.dtype.element_ty)
    tl.store(y + position, value * kept, exists)
