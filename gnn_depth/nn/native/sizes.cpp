// The size of each node and the largest of its neighbours together, for each head:
//
//   size_i = sqrt(|x_i|^2 + max_j |z_j|^2 + tiny),    0 in place of the maximum without edges
//
// Backward, with t_i = g_i / (2 size_i): dx_i = 2 t_i x_i, and the z_j whose squares are a node's
// largest share 2 t_i z_j evenly.
#include "common.h"

template <class T>
static void squares(const T* x, T* square, int64_t rows, int C) {
  by_width<T>(C, [&](auto NV) {
    for_range(rows, 64, [&](int64_t first, int64_t after) {
      for (int64_t k = first; k < after; k++) square[k] = Row<T, NV>(x + k * C, C).dot(x + k * C);
    });
  });
}

// of_x, of_z: the squares, which the backward pass reads again; they may be one array.
template <class T>
static void sizes(const Graph& graph, const T* x, const T* z, T tiny, T* of_x, T* of_z, T* most,
                  T* size, int H, int C) {
  const Lists& into = graph.into;
  squares(z, of_z, graph.out.nodes * H, C);
  if (of_x != of_z) squares(x, of_x, into.nodes * H, C);
  for_parts(into, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t i = first; i < after; i++)
      for (int h = 0; h < H; h++) {
        T top = 0;
        for (int k = into.ptr[i]; k < into.ptr[i + 1]; k++) {
          T here = of_z[(int64_t)into.neighbour[k] * H + h];
          if (here > top || here != here) top = here;  // NaN, once there, stays
        }
        most[i * H + h] = top;
        size[i * H + h] = std::sqrt(of_x[i * H + h] + top + tiny);
      }
  });
}

// t, shared: targets x heads, for numbers on the way. dx may be dz: of one tensor at both ends.
template <class T>
static void sizes_backward(const Graph& graph, const T* g, const T* x, const T* z, const T* of_z,
                           const T* most, const T* size, T* t, T* shared, T* dx, T* dz, int H,
                           int C) {
  const Lists &into = graph.into, &out = graph.out;
  by_width<T>(C, [&](auto NV) {
    for_parts(into, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          int64_t at = i * H + h;
          int ties = 0;
          for (int k = into.ptr[i]; k < into.ptr[i + 1]; k++)
            ties += of_z[(int64_t)into.neighbour[k] * H + h] == most[at];
          t[at] = g[at] / size[at];  // 2 t
          shared[at] = ties ? t[at] / ties : 0;
          if (dx != dz) write_row<T, NV>(dx + at * C, false, t[at], x + at * C, 0, nullptr, C);
        }
    });
    for_parts(out, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t j = first; j < after; j++)
        for (int h = 0; h < H; h++) {
          int64_t at = j * H + h;
          T total = dx == dz ? t[at] : 0;
          for (int k = out.ptr[j]; k < out.ptr[j + 1]; k++) {
            int64_t i = (int64_t)out.neighbour[k] * H + h;
            if (most[i] == of_z[at]) total += shared[i];
          }
          write_row<T, NV>(dz + at * C, false, total, z + at * C, 0, nullptr, C);
        }
    });
  });
}

#define SIZES(T)                                                                                   \
  void sizes_##T(const Graph* g, const T* x, const T* z, double tiny, T* of_x, T* of_z, T* most,   \
                 T* size, int64_t H, int64_t C) {                                                  \
    sizes<T>(*g, x, z, tiny, of_x, of_z, most, size, H, C);                                        \
  }                                                                                                \
  void sizes_backward_##T(const Graph* g, const T* grad, const T* x, const T* z, const T* of_z,    \
                          const T* most, const T* size, T* t, T* shared, T* dx, T* dz, int64_t H,  \
                          int64_t C) {                                                             \
    sizes_backward<T>(*g, grad, x, z, of_z, most, size, t, shared, dx, dz, H, C);                  \
  }
FOR_BOTH_TYPES(SIZES)
