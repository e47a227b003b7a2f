// ELU with alpha = 1: y = x above zero, exp(x) - 1 below. Backward: g above zero, g (y + 1) below.
#include "common.h"

inline void elu_range(const double* x, double* y, int64_t n) {
  for (int64_t k = 0; k < n; k++) y[k] = x[k] > 0 ? x[k] : std::expm1(x[k]);
}
inline void elu_range(const float* x, float* y, int64_t n) {
  constexpr int W = LANES<float>;
  int64_t k = 0;
  for (; k + W <= n; k += W) {
    Vector<float> v = load(x + k);
    store(y + k, v > 0 ? v : expm1_of(v));
  }
  for (; k < n; k++) y[k] = x[k] > 0 ? x[k] : std::expm1(x[k]);
}

#define ELU(T)                                                                       \
  void elu_##T(const T* x, T* y, int64_t n) {                                        \
    for_range(n, 1 << 14, [&](int64_t first, int64_t after) {                        \
      elu_range(x + first, y + first, after - first);                                \
    });                                                                              \
  }                                                                                  \
  void elu_backward_##T(const T* g, const T* y, T* dx, int64_t n) {                  \
    for_range(n, 1 << 14, [&](int64_t first, int64_t after) {                        \
      for (int64_t k = first; k < after; k++) dx[k] = g[k] * (y[k] > 0 ? 1 : y[k] + 1); \
    });                                                                              \
  }
FOR_BOTH_TYPES(ELU)
