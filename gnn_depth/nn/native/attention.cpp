// Attention without a tensor of edges x heads x channels, for each head:
//
//   alpha_ij = softmax_j s_ij,    y_i = sum_j m_ij alpha_ij x_j        (m: dropout's factor)
//
// from given scores s, or from linear ones, where f is 1 or a factor of each target:
//
//   d_i = a_dst . x_i,   r_j = a_src . x_j,   s_ij = LeakyReLU(f_i (d_i + r_j))
//
// Backward, with g the gradient of y and p_ij = m_ij alpha_ij (g_i . x_j):
//
//   dx_j = sum_i m_ij alpha_ij g_i,    D_i = sum_j p_ij,    ds_ij = p_ij - alpha_ij D_i
//
// One pass over the edges out of each node reads one row g_i an edge; the rest are numbers of edges
// and heads. Only alpha is kept for it.
#include "common.h"
#include "softmax.h"

template <class T>
static void softmax(const Lists& into, const T* s, T* alpha, int H) {
  for_runs(into, H, [&](int64_t, int64_t first, int64_t after) {
    int64_t begin = (int64_t)into.ptr[first] * H, end = (int64_t)into.ptr[after] * H;
    std::copy(s + begin, s + end, alpha + begin);
    softmax_of(into, first, after, alpha, H);
  });
}

template <class T>
static void softmax_backward(const Lists& into, const T* alpha, const T* g, T* ds, int H) {
  for_parts(into, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t k = (int64_t)into.ptr[first] * H; k < (int64_t)into.ptr[after] * H; k++)
      ds[k] = alpha[k] * g[k];
    for (int64_t i = first; i < after; i++) centre(into, i, alpha, ds, ds, H);
  });
}

// dx_j = sum_i w_ij g_i and p_ij = w_ij (g_i . x_j), where p holds w = m alpha when it begins.
template <class T, int NV>
static void scatter(const Lists& out, const T* g, const T* x, T* p, T* dx, int H, int C) {
  for_parts(out, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t j = first; j < after; j++)
      for (int h = 0; h < H; h++) {
        Row<T, NV> own(x + (j * H + h) * C, C);
        Sum<T, NV> total(dx + (j * H + h) * C, C);
        for (int k = out.ptr[j]; k < out.ptr[j + 1]; k++) {
          T* w = p + out.at(k) * H + h;
          const T* gi = g + ((int64_t)out.neighbour[k] * H + h) * C;
          total.add(*w, gi);
          *w *= own.dot(gi);
        }
        total.finish();
      }
  });
}

template <class T>
static void attend(const Graph& graph, const T* s, const T* x, Dropout dropout, T* alpha, T* y,
                   int H, int C) {
  by_width<T>(C, [&](auto NV) {
    for_runs(graph.into, H, [&](int64_t, int64_t first, int64_t after) {
      const Lists& into = graph.into;
      int64_t begin = (int64_t)into.ptr[first] * H, end = (int64_t)into.ptr[after] * H;
      std::copy(s + begin, s + end, alpha + begin);
      softmax_of(into, first, after, alpha, H);
      gather<T, NV>(into, first, after, alpha, x, dropout, y, H, C);
    });
  });
}

template <class T>
static void attend_backward(const Graph& graph, const T* g, const T* x, const T* alpha,
                            Dropout dropout, T* ds, T* dx, int H, int C) {
  drop_edges(graph, alpha, dropout, ds, H);
  by_width<T>(C, [&](auto NV) { scatter<T, NV>(graph.out, g, x, ds, dx, H, C); });
  for_parts(graph.into, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t i = first; i < after; i++) centre(graph.into, i, alpha, ds, ds, H);
  });
}

// ---- Linear scores -------------------------------------------------------------------------------

// d and r: numbers of nodes x heads, which the backward pass reads again.
template <class T>
static void attend_linear(const Graph& graph, const T* x, const T* a_dst, const T* a_src, const T* f,
                          T slope, Dropout dropout, T* d, T* r, T* alpha, T* y, int H, int C) {
  int64_t sources = graph.out.nodes, targets = graph.into.nodes;
  by_width<T>(C, [&](auto NV) {
    for_range(sources, 64, [&](int64_t first, int64_t after) {
      for (int64_t j = first; j < after; j++)
        for (int h = 0; h < H; h++) {
          Row<T, NV> own(x + (j * H + h) * C, C);
          r[j * H + h] = own.dot(a_src + h * C);
          if (j < targets) d[j * H + h] = own.dot(a_dst + h * C);
        }
    });
    for_runs(graph.into, H, [&](int64_t, int64_t first, int64_t after) {
      const Lists& into = graph.into;
      for (int64_t i = first; i < after; i++)
        for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++)
          for (int h = 0; h < H; h++) {
            T z = d[i * H + h] + r[(int64_t)into.neighbour[e] * H + h];
            if (f) z *= f[i * H + h];
            alpha[(int64_t)e * H + h] = z > 0 ? z : slope * z;
          }
      softmax_of(into, first, after, alpha, H);
      gather<T, NV>(into, first, after, alpha, x, dropout, y, H, C);
    });
  });
}

// p: edges x heads, dd: targets x heads, parts: (parts, 2, heads, channels) are for numbers on the
// way; da: (2, heads, channels) is the gradient of a_dst and a_src; df may be null, as f.
template <class T>
static void attend_linear_backward(const Graph& graph, const T* g, const T* x, const T* a_dst,
                                   const T* a_src, const T* f, T slope, Dropout dropout, const T* d,
                                   const T* r, const T* alpha, T* p, T* dd, T* parts, T* dx, T* da,
                                   T* df, int H, int C) {
  const Lists &into = graph.into, &out = graph.out;
  drop_edges(graph, alpha, dropout, p, H);
  by_width<T>(C, [&](auto NV) { scatter<T, NV>(out, g, x, p, dx, H, C); });
  // p becomes the gradient of d_i + r_j.
  for_parts(into, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t i = first; i < after; i++) {
      centre(into, i, alpha, p, p, H);
      for (int h = 0; h < H; h++) {
        T factor = f ? f[i * H + h] : 1, own = d[i * H + h];
        double total = 0, of_factor = 0;
        for (int e = into.ptr[i]; e < into.ptr[i + 1]; e++) {
          T z = own + r[(int64_t)into.neighbour[e] * H + h];
          T dz = p[(int64_t)e * H + h];
          dz = factor * z > 0 ? dz : slope * dz;
          of_factor += dz * z;
          p[(int64_t)e * H + h] = dz *= factor;
          total += dz;
        }
        dd[i * H + h] = (T)total;
        if (df) df[i * H + h] = (T)of_factor;
      }
    }
  });
  int64_t size = 2 * (int64_t)H * C;
  by_width<T>(C, [&](auto NV) {
    for_parts(out, [&](int64_t part, int64_t first, int64_t after) {
      for (int h = 0; h < H; h++) {
        Sum<T, NV> to_dst(parts + part * size + h * C, C);
        Sum<T, NV> to_src(parts + part * size + (H + h) * C, C);
        for (int64_t j = first; j < after; j++) {
          double total = 0;
          for (int k = out.ptr[j]; k < out.ptr[j + 1]; k++) total += p[out.at(k) * H + h];
          T of_source = (T)total, of_target = j < into.nodes ? dd[j * H + h] : 0;
          const T* xj = x + (j * H + h) * C;
          write_row<T, NV>(dx + (j * H + h) * C, true, of_target, a_dst + h * C, of_source,
                           a_src + h * C, C);
          to_dst.add(of_target, xj);
          to_src.add(of_source, xj);
        }
        to_dst.finish();
        to_src.finish();
      }
    });
  });
  std::fill(da, da + size, 0);
  for (int64_t part = 0; part < out.parts; part++)
    for (int64_t k = 0; k < size; k++) da[k] += parts[part * size + k];
}

#define ATTENTION(T)                                                                               \
  void softmax_##T(const Graph* g, const T* s, T* alpha, int64_t H) {                              \
    softmax<T>(g->into, s, alpha, H);                                                              \
  }                                                                                                \
  void softmax_backward_##T(const Graph* g, const T* alpha, const T* grad, T* ds, int64_t H) {     \
    softmax_backward<T>(g->into, alpha, grad, ds, H);                                              \
  }                                                                                                \
  void attend_##T(const Graph* g, const T* s, const T* x, const Dropout* dropout, T* alpha, T* y,  \
                  int64_t H, int64_t C) {                                                          \
    attend<T>(*g, s, x, *dropout, alpha, y, H, C);                                                 \
  }                                                                                                \
  void attend_backward_##T(const Graph* g, const T* grad, const T* x, const T* alpha,              \
                           const Dropout* dropout, T* ds, T* dx, int64_t H, int64_t C) {           \
    attend_backward<T>(*g, grad, x, alpha, *dropout, ds, dx, H, C);                                \
  }                                                                                                \
  void attend_linear_##T(const Graph* g, const T* x, const T* a_dst, const T* a_src, const T* f,   \
                         double slope, const Dropout* dropout, T* d, T* r, T* alpha, T* y,         \
                         int64_t H, int64_t C) {                                                   \
    attend_linear<T>(*g, x, a_dst, a_src, f, slope, *dropout, d, r, alpha, y, H, C);               \
  }                                                                                                \
  void attend_linear_backward_##T(const Graph* g, const T* grad, const T* x, const T* a_dst,       \
                                  const T* a_src, const T* f, double slope,                        \
                                  const Dropout* dropout, const T* d, const T* r, const T* alpha,  \
                                  T* p, T* dd, T* parts, T* dx, T* da, T* df, int64_t H,           \
                                  int64_t C) {                                                     \
    attend_linear_backward<T>(*g, grad, x, a_dst, a_src, f, slope, *dropout, d, r, alpha, p, dd,   \
                              parts, dx, da, df, H, C);                                            \
  }
FOR_BOTH_TYPES(ATTENTION)
