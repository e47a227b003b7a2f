// Dropout of the numbers of a tensor; also the gradient's, as it is linear.
#include "common.h"

#define DROP(T)                                                                   \
  void drop_##T(const Dropout* dropout, const T* x, T* y, int64_t n) {            \
    for_range(n, 1 << 14, [&](int64_t first, int64_t after) {                     \
      drop_range(*dropout, (uint32_t)first, x + first, y + first, after - first); \
    });                                                                           \
  }
FOR_BOTH_TYPES(DROP)
