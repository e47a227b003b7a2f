"""The programs of the kernels for GPUs, in Triton, which compiles them at their first use.

A program computes one row, that of a node and head. Attention takes one pass over the node's
edges: its softmax is updated on the way, and sums so far are scaled down where a larger score is
found. The backward pass computes scores again from their largest one and their sum. Arguments in
capitals are fixed when a program is compiled, but for the sizes N, H and C. Among them are the
slope of a LeakyReLU and the scale of dropout, which otherwise would be rounded to float32.
"""

# mypy: ignore-errors

# N nodes (targets), H heads, C channels

import triton
import triton.language as tl

# Of the hash of positions, as in functional/dropout.py.
FIRST = tl.constexpr(0x7FEB352D)
SECOND = tl.constexpr(0x846CA68B - 2**32)

#: The ways to compute a score.
GIVEN, LINEAR, ADDITIVE = 0, 1, 2
_GIVEN, _LINEAR, _ADDITIVE = tl.constexpr(GIVEN), tl.constexpr(LINEAR), tl.constexpr(ADDITIVE)


# ---- What kernels have in common ----------------------------------------------------------------


@triton.jit
def _factor_of_dropout(seed, position, threshold, SCALE: tl.constexpr, dtype: tl.constexpr):
    """1 / (1 - p) where a position is kept, 0 elsewhere."""
    one = tl.load(seed)
    other = tl.load(seed + 1)
    bits = (position ^ one) * FIRST
    bits = ((bits ^ (bits >> 15)) + other) * SECOND
    bits = (bits ^ (bits >> 16)) * FIRST
    return tl.where((bits >> 1) >= threshold, tl.full([1], SCALE, dtype), 0.0)


@triton.jit
def _edges(neighbour, edge, start, end, HAS_EDGE: tl.constexpr, EDGES: tl.constexpr):
    """The neighbours and numbers of some edges of a node, and which of them exist.

    Without HAS_EDGE the numbers are the positions, and ``edge`` is not read.
    """
    position = start + tl.arange(0, EDGES)
    exists = position < end
    other = tl.load(neighbour + position, exists, 0).to(tl.int64)
    number = position
    if HAS_EDGE:
        number = tl.load(edge + position, exists, 0)
    return other, number.to(tl.int64), exists


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


@triton.jit
def _raw_scores(
    scores, number, exists, own, vector, values, own_score, H, head, SLOPE, KIND: tl.constexpr
):
    """The scores of some edges before their factor."""
    if KIND == _GIVEN:
        raw = tl.load(scores + number * H + head, exists, 0.0)
    elif KIND == _LINEAR:
        raw = own_score + tl.sum(values * vector[None, :], 1)
    else:
        pairs = own[None, :] + values
        raw = tl.sum(tl.where(pairs > 0, pairs, SLOPE * pairs) * vector[None, :], 1)
    return raw


@triton.jit
def _base(largest):
    """The number to subtract from scores: the largest so far, or 0 while all are -inf."""
    return tl.where(largest == float("-inf"), 0.0, largest)


@triton.jit
def _weighted(
    neighbour,
    start,
    end,
    scores,
    z,
    own,
    vector,
    own_score,
    by,
    largest,
    total,
    H,
    C,
    head,
    SLOPE: tl.constexpr,
    KIND: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Some edges of a node in the backward pass: the rows of their sources, their numbers, which
    exist, their scores before the factor and after it, and their weights before dropout."""
    other, number, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
    values = _rows(z, other * H + head, exists, C, CHANNELS)
    raw = _raw_scores(scores, number, exists, own, vector, values, own_score, H, head, SLOPE, KIND)
    scaled = by * raw
    score = scaled
    if KIND == _LINEAR:
        score = tl.where(scaled > 0, scaled, SLOPE * scaled)
    alpha = tl.where(exists, tl.exp(score - largest) / total, 0.0)
    return values, number, exists, raw, scaled, alpha


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
    HAS_EDGE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    total = tl.zeros([CHANNELS], dtype=x.dtype.element_ty)
    for start in range(tl.load(ptr + node), end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, HAS_EDGE, EDGES)
        weight = tl.load(weights + number * H + head, exists, 0.0)
        values = _rows(x, other * H + head, exists, C, CHANNELS)
        total += tl.sum(weight[:, None] * values, 0)
    _store_row(y, row, total, C, CHANNELS)


@triton.jit
def sum_edges(
    ptr, edge, values, y, H, HAS_EDGE: tl.constexpr, MAXIMUM: tl.constexpr, EDGES: tl.constexpr
):
    """The sum of the values of a node's edges, or their maximum."""
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = values.dtype.element_ty
    nothing = 0.0
    if MAXIMUM:
        nothing = float("-inf")
    total = tl.full([EDGES], nothing, dtype=dtype)
    for start in range(tl.load(ptr + node), end, EDGES):
        _, number, exists = _edges(edge, edge, start, end, HAS_EDGE, EDGES)
        value = tl.load(values + number * H + head, exists, nothing)
        if MAXIMUM:
            total = tl.where(value > total, value, tl.where(value != value, value, total))
        else:
            total += value
    if MAXIMUM:
        is_number = total == total
        largest = tl.max(tl.where(is_number, total, float("inf")), 0)
        has_nan = tl.sum(is_number.to(tl.int32), 0) < EDGES
        tl.store(y + row, tl.where(has_nan, float("nan"), largest).to(dtype))
    else:
        tl.store(y + row, tl.sum(total, 0))


@triton.jit
def dot_rows(
    ptr, neighbour, query, key, products, H, C, EDGES: tl.constexpr, CHANNELS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    own = _row(query, row, C, CHANNELS)
    for start in range(tl.load(ptr + node), end, EDGES):
        other, number, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        values = _rows(key, other * H + head, exists, C, CHANNELS)
        product = tl.sum(own[None, :] * values, 1)
        tl.store(products + number * H + head, product, exists)


# ---- Attention ----------------------------------------------------------------------------------


@triton.jit
def softmax(ptr, scores, alpha, H, EDGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    begin = tl.load(ptr + node)
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = scores.dtype.element_ty
    lowest = float("-inf")
    largest = tl.full([1], lowest, dtype=dtype)
    total = tl.zeros([1], dtype=tl.float64)
    for start in range(begin, end, EDGES):
        position = start + tl.arange(0, EDGES)
        score = tl.load(scores + position.to(tl.int64) * H + head, position < end, lowest)
        larger = tl.maximum(largest, tl.max(score, 0, keep_dims=True))
        base = _base(larger)
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(score - base), 0, keep_dims=True)
        largest = larger
    for start in range(begin, end, EDGES):
        position = start + tl.arange(0, EDGES)
        exists = position < end
        at = position.to(tl.int64) * H + head
        score = tl.load(scores + at, exists, lowest)
        tl.store(alpha + at, tl.exp(score - largest) / total.to(dtype), exists)


@triton.jit
def softmax_backward(ptr, alpha, grad, out, H, EDGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    begin = tl.load(ptr + node)
    end = tl.load(ptr + node + 1)
    mean = tl.zeros([1], dtype=alpha.dtype.element_ty)
    for start in range(begin, end, EDGES):
        position = start + tl.arange(0, EDGES)
        exists = position < end
        at = position.to(tl.int64) * H + head
        weight = tl.load(alpha + at, exists, 0.0)
        mean += tl.sum(weight * tl.load(grad + at, exists, 0.0), 0, keep_dims=True)
    for start in range(begin, end, EDGES):
        position = start + tl.arange(0, EDGES)
        exists = position < end
        at = position.to(tl.int64) * H + head
        weight = tl.load(alpha + at, exists, 0.0)
        tl.store(out + at, weight * (tl.load(grad + at, exists, 0.0) - mean), exists)


@triton.jit
def attend(
    ptr,
    neighbour,
    scores,
    x,
    z,
    dst,
    vector,
    factor,
    seed,
    threshold,
    SCALE: tl.constexpr,
    SLOPE: tl.constexpr,
    y,
    most,
    sums,
    H,
    C,
    KIND: tl.constexpr,
    HAS_FACTOR: tl.constexpr,
    HAS_DROPOUT: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The weighted sum of a node's neighbours, and the largest score and the sum behind its
    softmax."""
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = z.dtype.element_ty
    own = tl.zeros([CHANNELS], dtype=dtype)
    of_head = tl.zeros([CHANNELS], dtype=dtype)
    own_score = tl.zeros([1], dtype=dtype)
    if KIND != _GIVEN:
        own = _row(x, row, C, CHANNELS)
        of_head = _row(vector, head, C, CHANNELS)
    if KIND == _LINEAR:
        own_score = tl.sum(own * _row(dst, head, C, CHANNELS), 0, keep_dims=True)
    by = tl.full([1], 1.0, dtype=dtype)
    if HAS_FACTOR:
        by = tl.load(factor + row + tl.arange(0, 1))
    largest = tl.full([1], float("-inf"), dtype=dtype)
    total = tl.zeros([1], dtype=tl.float64)
    sum_of_rows = tl.zeros([CHANNELS], dtype=dtype)
    begin = tl.load(ptr + node)
    for start in range(begin, end, EDGES):
        other, number, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        values = _rows(z, other * H + head, exists, C, CHANNELS)
        score = by * _raw_scores(
            scores, number, exists, own, of_head, values, own_score, H, head, SLOPE, KIND
        )
        if KIND == _LINEAR:
            score = tl.where(score > 0, score, SLOPE * score)
        score = tl.where(exists, score, float("-inf"))
        larger = tl.maximum(largest, tl.max(score, 0, keep_dims=True))
        base = _base(larger)
        smaller = tl.exp(largest - base)
        weight = tl.exp(score - base)
        total = total * smaller + tl.sum(weight, 0, keep_dims=True)
        if HAS_DROPOUT:
            at = (number * H + head).to(tl.int32)
            weight *= _factor_of_dropout(seed, at, threshold, SCALE, dtype)
        sum_of_rows = sum_of_rows * smaller + tl.sum(weight[:, None] * values, 0)
        largest = larger
    # NaN if all scores are -inf, as in PyTorch, but zero for a node without neighbours.
    out = tl.where(begin == end, 0.0, sum_of_rows / total.to(dtype))
    _store_row(y, row, out, C, CHANNELS)
    tl.store(most + row + tl.arange(0, 1), largest)
    tl.store(sums + row + tl.arange(0, 1), total.to(dtype))


@triton.jit
def attend_into(
    ptr,
    neighbour,
    scores,
    x,
    z,
    dst,
    vector,
    factor,
    seed,
    threshold,
    SCALE: tl.constexpr,
    SLOPE: tl.constexpr,
    grad,
    most,
    sums,
    of_scores,
    weights,
    grad_own_score,
    of_factor,
    slopes,
    H,
    C,
    KIND: tl.constexpr,
    HAS_FACTOR: tl.constexpr,
    HAS_DROPOUT: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The first part of the backward pass, over the edges into a node.

    It writes the gradients of the scores of its edges before their factor, the weights with
    dropout, and sums: of linear scores the gradient of the node's own part, of additive ones the
    sum of g LeakyReLU'.
    """
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = z.dtype.element_ty
    of_y = _row(grad, row, C, CHANNELS)
    largest = tl.load(most + row + tl.arange(0, 1))
    total = tl.load(sums + row + tl.arange(0, 1))
    own = tl.zeros([CHANNELS], dtype=dtype)
    of_head = tl.zeros([CHANNELS], dtype=dtype)
    own_score = tl.zeros([1], dtype=dtype)
    if KIND != _GIVEN:
        own = _row(x, row, C, CHANNELS)
        of_head = _row(vector, head, C, CHANNELS)
    if KIND == _LINEAR:
        own_score = tl.sum(own * _row(dst, head, C, CHANNELS), 0, keep_dims=True)
    by = tl.full([1], 1.0, dtype=dtype)
    if HAS_FACTOR:
        by = tl.load(factor + row + tl.arange(0, 1))
    begin = tl.load(ptr + node)
    # The mean of the gradients of the weights. The output would give it too, but whoever gets the
    # output may change it in place.
    mean = tl.zeros([1], dtype=dtype)
    for start in range(begin, end, EDGES):
        values, number, exists, _, _, alpha = _weighted(
            neighbour,
            start,
            end,
            scores,
            z,
            own,
            of_head,
            own_score,
            by,
            largest,
            total,
            H,
            C,
            head,
            SLOPE,
            KIND,
            EDGES,
            CHANNELS,
        )
        of_weight = alpha * tl.sum(values * of_y[None, :], 1)
        if HAS_DROPOUT:
            at = (number * H + head).to(tl.int32)
            of_weight *= _factor_of_dropout(seed, at, threshold, SCALE, dtype)
        mean += tl.sum(of_weight, 0, keep_dims=True)
    sum_of_scores = tl.zeros([1], dtype=dtype)
    sum_of_factor = tl.zeros([1], dtype=dtype)
    sum_of_slopes = tl.zeros([CHANNELS], dtype=dtype)
    for start in range(begin, end, EDGES):
        values, number, exists, raw, scaled, alpha = _weighted(
            neighbour,
            start,
            end,
            scores,
            z,
            own,
            of_head,
            own_score,
            by,
            largest,
            total,
            H,
            C,
            head,
            SLOPE,
            KIND,
            EDGES,
            CHANNELS,
        )
        of_weight = tl.sum(values * of_y[None, :], 1)
        weight = alpha
        if HAS_DROPOUT:
            at = (number * H + head).to(tl.int32)
            kept = _factor_of_dropout(seed, at, threshold, SCALE, dtype)
            weight *= kept
            of_weight *= kept
        of_score = alpha * (of_weight - mean)
        if KIND == _LINEAR:
            of_score = tl.where(scaled > 0, of_score, SLOPE * of_score)
        if HAS_FACTOR:
            sum_of_factor += tl.sum(of_score * raw, 0, keep_dims=True)
        of_score = (of_score * by).to(dtype)
        sum_of_scores += tl.sum(of_score, 0, keep_dims=True)
        if KIND == _ADDITIVE:
            steep = of_score[:, None]
            sum_of_slopes += tl.sum(tl.where(own[None, :] + values > 0, steep, SLOPE * steep), 0)
        tl.store(of_scores + number * H + head, of_score, exists)
        tl.store(weights + number * H + head, weight.to(dtype), exists)
    if KIND == _LINEAR:
        tl.store(grad_own_score + row + tl.arange(0, 1), sum_of_scores)
    if HAS_FACTOR:
        tl.store(of_factor + row + tl.arange(0, 1), sum_of_factor)
    if KIND == _ADDITIVE:
        _store_row(slopes, row, sum_of_slopes, C, CHANNELS)


@triton.jit
def attend_out(
    ptr,
    neighbour,
    edge,
    x,
    z,
    dst,
    vector,
    SLOPE: tl.constexpr,
    grad,
    of_scores,
    weights,
    grad_own_score,
    slopes,
    of_z,
    of_sources,
    N,
    H,
    C,
    KIND: tl.constexpr,
    IS_ONE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """The second part of the backward pass, over the edges out of a source: its gradient.

    Of linear scores it also writes the gradient of the source's part of them; of additive ones what
    the source adds to the gradient of the vector.
    """
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = z.dtype.element_ty
    own = _row(z, row, C, CHANNELS)
    of_head = _row(vector, head, C, CHANNELS)
    total = tl.zeros([CHANNELS], dtype=dtype)
    sum_of_scores = tl.zeros([1], dtype=dtype)
    sum_of_slopes = tl.zeros([CHANNELS], dtype=dtype)
    for start in range(tl.load(ptr + node), end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, True, EDGES)
        weight = tl.load(weights + number * H + head, exists, 0.0)
        of_score = tl.load(of_scores + number * H + head, exists, 0.0)
        of_y = _rows(grad, other * H + head, exists, C, CHANNELS)
        total += tl.sum(weight[:, None] * of_y, 0)
        sum_of_scores += tl.sum(of_score, 0, keep_dims=True)
        if KIND == _ADDITIVE:
            targets = _rows(x, other * H + head, exists, C, CHANNELS)
            steep = of_score[:, None]
            sum_of_slopes += tl.sum(tl.where(targets + own[None, :] > 0, steep, SLOPE * steep), 0)
    if KIND == _LINEAR:
        total += sum_of_scores * of_head
        if node < N:
            total += tl.load(grad_own_score + row) * _row(dst, head, C, CHANNELS)
        tl.store(of_sources + row + tl.arange(0, 1), sum_of_scores)
    if KIND == _ADDITIVE:
        of_vector = sum_of_slopes * own
        if node < N:
            into = _row(slopes, row, C, CHANNELS)
            of_vector += into * _row(x, row, C, CHANNELS)
            if IS_ONE:
                sum_of_slopes += into
        total += sum_of_slopes * of_head
        _store_row(of_sources, row, of_vector, C, CHANNELS)
    _store_row(of_z, row, total, C, CHANNELS)


@triton.jit
def additive_scores(
    ptr,
    neighbour,
    x,
    z,
    vector,
    SLOPE: tl.constexpr,
    scores,
    H,
    C,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    own = _row(x, row, C, CHANNELS)
    of_head = _row(vector, head, C, CHANNELS)
    for start in range(tl.load(ptr + node), end, EDGES):
        other, number, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        pairs = own[None, :] + _rows(z, other * H + head, exists, C, CHANNELS)
        score = tl.sum(tl.where(pairs > 0, pairs, SLOPE * pairs) * of_head[None, :], 1)
        tl.store(scores + number * H + head, score.to(z.dtype.element_ty), exists)


@triton.jit
def additive_slopes(
    ptr,
    neighbour,
    edge,
    grad,
    x,
    z,
    SLOPE: tl.constexpr,
    sums,
    H,
    C,
    HAS_EDGE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = x.dtype.element_ty
    own = _row(x, row, C, CHANNELS)
    total = tl.zeros([CHANNELS], dtype=dtype)
    for start in range(tl.load(ptr + node), end, EDGES):
        other, number, exists = _edges(neighbour, edge, start, end, HAS_EDGE, EDGES)
        of_score = tl.load(grad + number * H + head, exists, 0.0)
        pairs = own[None, :] + _rows(z, other * H + head, exists, C, CHANNELS)
        steep = of_score[:, None]
        total += tl.sum(tl.where(pairs > 0, steep, SLOPE * steep), 0)
    _store_row(sums, row, total, C, CHANNELS)


# ---- Sizes --------------------------------------------------------------------------------------


@triton.jit
def squares(x, squares, C, CHANNELS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    values = _row(x, row, C, CHANNELS)
    tl.store(squares + row, tl.sum(values * values, 0))


@triton.jit
def sizes(
    ptr,
    neighbour,
    squares_x,
    squares_z,
    most,
    ties,
    sizes,
    H,
    TINY: tl.constexpr,
    EDGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    begin = tl.load(ptr + node)
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = squares_z.dtype.element_ty
    largest = tl.zeros([EDGES], dtype=dtype)
    for start in range(begin, end, EDGES):
        other, _, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        square = tl.load(squares_z + other * H + head, exists, 0.0)
        largest = tl.where(square > largest, square, tl.where(square != square, square, largest))
    is_number = largest == largest
    largest_of_all = tl.max(tl.where(is_number, largest, 0.0), 0)
    has_nan = tl.sum(is_number.to(tl.int32), 0) < EDGES
    largest_of_all = tl.where(has_nan, float("nan"), largest_of_all).to(dtype)
    count = tl.zeros([EDGES], dtype=dtype)
    for start in range(begin, end, EDGES):
        other, _, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        square = tl.load(squares_z + other * H + head, exists, -1.0)
        count += tl.where(square == largest_of_all, 1.0, 0.0).to(dtype)
    tl.store(most + row, largest_of_all)
    tl.store(ties + row, tl.sum(count, 0))
    own = tl.load(squares_x + row)
    tl.store(sizes + row, tl.sqrt(own + largest_of_all + TINY).to(dtype))


@triton.jit
def sizes_backward(
    ptr,
    neighbour,
    grad,
    z,
    squares_z,
    most,
    ties,
    sizes,
    grad_z,
    N,
    H,
    C,
    IS_ONE: tl.constexpr,
    EDGES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    node = row // H
    head = row % H
    end = tl.load(ptr + node + 1)
    dtype: tl.constexpr = z.dtype.element_ty
    square = tl.load(squares_z + row)
    total = tl.zeros([EDGES], dtype=dtype)
    for start in range(tl.load(ptr + node), end, EDGES):
        target, _, exists = _edges(neighbour, neighbour, start, end, False, EDGES)
        at = target * H + head
        share = tl.load(grad + at, exists, 0.0) / tl.load(sizes + at, exists, 1.0)
        share = share / tl.load(ties + at, exists, 1.0)
        is_largest = tl.load(most + at, exists, -1.0) == square
        total += tl.where(is_largest & exists, share, 0.0)
    factor = tl.sum(total, 0)
    if IS_ONE:
        if node < N:
            factor += tl.load(grad + row) / tl.load(sizes + row)
    _store_row(grad_z, row, _row(z, row, C, CHANNELS) * factor, C, CHANNELS)


@triton.jit
def drop(seed, threshold, x, y, count, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    position = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = position < count
    value = tl.load(x + position, exists, 0.0)
    at = position.to(tl.int32)
    kept = _factor_of_dropout(seed, at, threshold, SCALE, x.dtype.element_ty)
    tl.store(y + position, value * kept, exists)
