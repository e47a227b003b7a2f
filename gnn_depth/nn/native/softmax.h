// What kernels of attention share: the softmax of each node's edges, dropout of the weights, sums
// with them, and the derivative of a softmax.
#pragma once
#include <vector>

#include "common.h"

// Scores of the edges into nodes first to after become the softmax of each node, in place. The
// edges of all these nodes lie together, so exp fills its vectors however few neighbours a node has.
template <class T>
static void softmax_of(const Lists& into, int64_t first, int64_t after, T* s, int H) {
  for (int64_t i = first; i < after; i++)
    for (int h = 0; h < H; h++) {
      T most = -INFINITY;
      for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) most = std::max(most, s[(int64_t)e * H + h]);
      for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) s[(int64_t)e * H + h] -= most;
    }
  int64_t begin = (int64_t)into.ptr[first] * H, end = (int64_t)into.ptr[after] * H;
  exp_range(s + begin, end - begin);
  for (int64_t i = first; i < after; i++)
    for (int h = 0; h < H; h++) {
      double total = 0;  // of up to a hundred thousand numbers
      for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) total += s[(int64_t)e * H + h];
      T inverse = (T)(1 / total);
      for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) s[(int64_t)e * H + h] *= inverse;
    }
}

// d_ij = p_ij - alpha_ij sum_k p_ik; p may be d.
template <class T>
static void centre(const Lists& into, int64_t i, const T* alpha, const T* p, T* d, int H) {
  for (int h = 0; h < H; h++) {
    double sum = 0;
    for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) sum += p[(int64_t)e * H + h];
    T total = (T)sum;
    for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) {
      int64_t at = (int64_t)e * H + h;
      d[at] = p[at] - alpha[at] * total;
    }
  }
}

// y_i = sum_j m_ij alpha_ij x_j for nodes first to after.
template <class T, int NV>
static void gather(const Lists& into, int64_t first, int64_t after, const T* alpha, const T* x,
                   const Dropout& dropout, T* y, int H, int C) {
  int64_t begin = (int64_t)into.ptr[first] * H, end = (int64_t)into.ptr[after] * H;
  static thread_local std::vector<T> kept;
  const T* w = alpha;
  if (dropout) {
    if ((int64_t)kept.size() < end - begin) kept.resize(end - begin);
    drop_range(dropout, (uint32_t)begin, alpha + begin, kept.data(), end - begin);
    w = kept.data() - begin;
  }
  for (int64_t i = first; i < after; i++)
    for (int h = 0; h < H; h++) {
      Sum<T, NV> total(y + (i * H + h) * C, C);
      for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++)
        total.add(w[(int64_t)e * H + h], x + ((int64_t)into.neighbour[e] * H + h) * C);
      total.finish();
    }
}

// p = m alpha.
template <class T>
static void drop_edges(const Graph& graph, const T* alpha, const Dropout& dropout, T* p, int H) {
  for_range(graph.edges * H, 1 << 14, [&](int64_t first, int64_t after) {
    if (dropout)
      drop_range(dropout, (uint32_t)first, alpha + first, p + first, after - first);
    else
      std::copy(alpha + first, alpha + after, p + first);
  });
}
