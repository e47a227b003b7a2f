// Sums over the edges of each node, and what is their derivative:
//   sum_rows      y_i   = sum_{e in list of i} w_e x_{j(e)}     for each head
//   dot_rows      s_e   = q_{i(e)} . k_{j(e)}                   for each head
//   spread        v_e   = x_{j(e)}
//   largest       m_i   = max_{e in list of i} v_e              for each head
#include "common.h"

template <class T>
static void sum_rows(const Lists& lists, const T* w, const T* x, T* y, int H, int C) {
  by_width<T>(C, [&](auto NV) {
    for_parts(lists, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          Sum<T, NV> total(y + (i * H + h) * C, C);
          for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++)
            total.add(w[lists.at(k) * H + h], x + ((int64_t)lists.neighbour[k] * H + h) * C);
          total.finish();
        }
    });
  });
}

// Sums of the edges' own rows.
template <class T>
static void sum_edges(const Lists& lists, const T* x, T* y, int C) {
  by_width<T>(C, [&](auto NV) {
    for_parts(lists, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++) {
        Sum<T, NV> total(y + i * C, C);
        for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++) total.add(x + lists.at(k) * C);
        total.finish();
      }
    });
  });
}

template <class T>
static void dot_rows(const Lists& lists, const T* q, const T* x, T* s, int H, int C) {
  by_width<T>(C, [&](auto NV) {
    for_parts(lists, [&](int64_t, int64_t first, int64_t after) {
      for (int64_t i = first; i < after; i++)
        for (int h = 0; h < H; h++) {
          Row<T, NV> own(q + (i * H + h) * C, C);
          for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++)
            s[lists.at(k) * H + h] = own.dot(x + ((int64_t)lists.neighbour[k] * H + h) * C);
        }
    });
  });
}

// -inf where a list is empty.
template <class T>
static void largest(const Lists& lists, const T* v, T* y, int H) {
  for_parts(lists, [&](int64_t, int64_t first, int64_t after) {
    for (int64_t i = first; i < after; i++)
      for (int h = 0; h < H; h++) {
        T most = -INFINITY;
        for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++) {
          T here = v[lists.at(k) * H + h];
          if (here > most || here != here) most = here;  // NaN, once there, stays
        }
        y[i * H + h] = most;
      }
  });
}

#define SUMS(T)                                                                                \
  void sum_rows_##T(const Lists* l, const T* w, const T* x, T* y, int64_t H, int64_t C) {     \
    sum_rows<T>(*l, w, x, y, H, C);                                                            \
  }                                                                                            \
  void sum_edges_##T(const Lists* l, const T* x, T* y, int64_t C) { sum_edges<T>(*l, x, y, C); } \
  void dot_rows_##T(const Lists* l, const T* q, const T* x, T* s, int64_t H, int64_t C) {     \
    dot_rows<T>(*l, q, x, s, H, C);                                                            \
  }                                                                                            \
  void largest_##T(const Lists* l, const T* v, T* y, int64_t H) { largest<T>(*l, v, y, H); }
FOR_BOTH_TYPES(SUMS)
