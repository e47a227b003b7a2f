// Additive scores (GATv2) and attention with them, for each head:
//
//   s_ij = a . LeakyReLU(x_i + z_j),    alpha_ij = softmax_j (f_i s_ij),
//   y_i = sum_j m_ij alpha_ij z_j
//
// where x are the features of targets, z those of sources, f is 1 or a factor of each target, and m
// is dropout's factor. The derivatives of a sum of scores, weighted by t_ij, are
//
//   dx_i = a o B_i,  B_i = sum_j t_ij LeakyReLU'(x_i + z_j),    dz_j = a o B'_j,  B'_j = sum_i ...,
//   da = sum_i B_i o x_i + sum_j B'_j o z_j
//
// For attention t_ij is the gradient of the scores, as in attention.cpp, and z_j also gets
// sum_i m_ij alpha_ij g_i. One pass over the edges into each node and one over those out of it.
#include <vector>

#include "common.h"
#include "softmax.h"

template <class T>
static void scores(const Lists& into, const T* x, const T* z, const T* att, T slope, T* s, int H,
                   int C) {
  by_width<T>(C, [&](auto NV) {
    for_parts(into, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          Row<T, NV> own(x + (i * H + h) * C, C);
          for (int k = into.ptr[i]; k < into.ptr[i + 1]; k++) {
            const T* other = z + ((int64_t)into.neighbour[k] * H + h) * C;
            s[into.at(k) * H + h] = own.additive(other, att + h * C, slope);
          }
        }
    });
  });
}

// B of one kind of node; `other` are the features of the other kind.
template <class T>
static void slopes(const Lists& lists, const T* t, const T* own, const T* other, T slope, T* B,
                   int H, int C) {
  by_width<T>(C, [&](auto NV) {
    for_parts(lists, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          Row<T, NV> row(own + (i * H + h) * C, C);
          Sum<T, NV> total(B + (i * H + h) * C, C);
          for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++) {
            const T* q = other + ((int64_t)lists.neighbour[k] * H + h) * C;
            total.add_slopes(t[lists.at(k) * H + h], slope, row, q);
          }
          total.finish();
        }
    });
  });
}

template <class T>
static void attend(const Graph& graph, const T* x, const T* z, const T* att, const T* f, T slope,
                   Dropout dropout, T* alpha, T* y, int H, int C) {
  const Lists& into = graph.into;
  by_width<T>(C, [&](auto NV) {
    for_runs(into, H, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          Row<T, NV> own(x + (i * H + h) * C, C);
          T factor = f ? f[i * H + h] : 1;
          for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) {
            const T* other = z + ((int64_t)into.neighbour[e] * H + h) * C;
            alpha[(int64_t)e * H + h] = factor * own.additive(other, att + h * C, slope);
          }
        }
      softmax_of(into, first, after, alpha, H);
      gather<T, NV>(into, first, after, alpha, z, dropout, y, H, C);
    });
  });
}

// dx = [dx +] a o B [+ more] and da += B o x, for one row; more may be null.
template <class T, int NV>
static void through_vector(const T* B, const T* att, const T* x, const T* more, bool add, T* dx,
                           T* da, int C) {
  constexpr int W = LANES<T>;
  int n = NV ? NV * W : C, c = 0;
  for (; c + W <= n; c += W) {
    Vector<T> b = load(B + c), y = load(att + c) * b;
    if (more) y += load(more + c);
    if (add) y += load(dx + c);
    store(dx + c, y);
    store(da + c, load(da + c) + b * load(x + c));
  }
  for (; c < n; c++) {
    dx[c] = (add ? dx[c] : 0) + att[c] * B[c] + (more ? more[c] : 0);
    da[c] += B[c] * x[c];
  }
}

// w, t: edges x heads, parts: (parts, heads, channels) are for numbers on the way. dx may be dz: of
// one tensor at both ends. df may be null, as f. If also every edge has its reverse, entry k of the
// lists of edges out of nodes is the reverse of edge k, and B_i + B'_i is one sum, with t_ij + t_ji.
template <class T>
static void attend_backward(const Graph& graph, const T* g, const T* x, const T* z, const T* att,
                            const T* f, T slope, Dropout dropout, const T* alpha, T* w, T* t,
                            T* parts, T* dx, T* dz, T* da, T* df, bool symmetric, int H, int C) {
  const Lists &into = graph.into, &out = graph.out;
  int64_t size = (int64_t)H * C;
  drop_edges(graph, alpha, dropout, w, H);
  std::fill(da, da + size, 0);
  by_width<T>(C, [&](auto NV) {
    for_parts(into, [&](int64_t part, int64_t first, int64_t after) {
      static thread_local std::vector<T> sums;
      sums.resize(C);
      T *own = parts + part * size, *B = sums.data();
      std::fill(own, own + size, 0);
      for (int64_t i = first; i < after; i++) {
        for (int h = 0; h < H; h++) {
          Row<T, NV> row(g + (i * H + h) * C, C);
          for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) {
            const T* zj = z + ((int64_t)into.neighbour[e] * H + h) * C;
            t[(int64_t)e * H + h] = w[(int64_t)e * H + h] * row.dot(zj);
          }
        }
        centre(into, i, alpha, t, t, H);
        for (int h = 0; h < H; h++) {
          int64_t at = (i * H + h) * C;
          Row<T, NV> row(x + at, C);
          Sum<T, NV> total(B, C);
          T factor = f ? f[i * H + h] : 1, of_factor = 0;
          for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) {
            const T* zj = z + ((int64_t)into.neighbour[e] * H + h) * C;
            T& here = t[(int64_t)e * H + h];
            if (f) of_factor += here * row.additive(zj, att + h * C, slope);
            here *= factor;
            if (!symmetric) total.add_slopes(here, slope, row, zj);
          }
          total.finish();
          if (df) df[i * H + h] = of_factor;
          if (symmetric) continue;
          const T* nothing = nullptr;
          through_vector<T, NV>(B, att + h * C, x + at, nothing, false, dx + at, own + h * C, C);
        }
      }
    });
    for (int64_t part = 0; part < into.parts; part++)
      for (int64_t k = 0; k < size; k++) da[k] += parts[part * size + k];
    bool add = dz == dx && !symmetric;  // to what the targets wrote
    for_parts(out, [&](int64_t part, int64_t first, int64_t after) {
      static thread_local std::vector<T> sums;
      sums.resize(2 * C);
      T *own = parts + part * size, *B = sums.data(), *passed = sums.data() + C;
      std::fill(own, own + size, 0);
      for (int64_t j = first; j < after; j++)
        for (int h = 0; h < H; h++) {
          int64_t at = (j * H + h) * C;
          Row<T, NV> row(z + at, C);
          Sum<T, NV> total(B, C), values(passed, C);
          for (int k = out.ptr[j]; k < out.ptr[j + 1]; k++) {
            int64_t e = out.at(k) * H + h, i = ((int64_t)out.neighbour[k] * H + h) * C;
            T both = symmetric ? t[e] + t[(int64_t)k * H + h] : t[e];
            total.add_slopes(both, slope, row, x + i);
            values.add(w[e], g + i);
          }
          total.finish();
          values.finish();
          through_vector<T, NV>(B, att + h * C, z + at, passed, add, dz + at, own + h * C, C);
        }
    });
    for (int64_t part = 0; part < out.parts; part++)
      for (int64_t k = 0; k < size; k++) da[k] += parts[part * size + k];
  });
}

#define ADDITIVE(T)                                                                                \
  void additive_scores_##T(const Lists* into, const T* x, const T* z, const T* att, double slope,  \
                           T* s, int64_t H, int64_t C) {                                           \
    scores<T>(*into, x, z, att, slope, s, H, C);                                                   \
  }                                                                                                \
  void additive_slopes_##T(const Lists* lists, const T* t, const T* own, const T* other,           \
                           double slope, T* B, int64_t H, int64_t C) {                             \
    slopes<T>(*lists, t, own, other, slope, B, H, C);                                              \
  }                                                                                                \
  void attend_additive_##T(const Graph* g, const T* x, const T* z, const T* att, const T* f,       \
                           double slope, const Dropout* dropout, T* alpha, T* y, int64_t H,        \
                           int64_t C) {                                                            \
    attend<T>(*g, x, z, att, f, slope, *dropout, alpha, y, H, C);                                  \
  }                                                                                                \
  void attend_additive_backward_##T(const Graph* g, const T* grad, const T* x, const T* z,         \
                                    const T* att, const T* f, double slope,                        \
                                    const Dropout* dropout, const T* alpha, T* w, T* t, T* parts,  \
                                    T* dx, T* dz, T* da, T* df, int64_t symmetric, int64_t H,      \
                                    int64_t C) {                                                   \
    attend_backward<T>(*g, grad, x, z, att, f, slope, *dropout, alpha, w, t, parts, dx, dz, da,    \
                       df, symmetric, H, C);                                                       \
  }
FOR_BOTH_TYPES(ADDITIVE)
