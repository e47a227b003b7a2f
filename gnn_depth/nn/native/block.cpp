// A whole block of a convolution with fixed weights, in float32:
//
//   P = A X,   U = P W^T + b,   Y = [X +] relu(U)        (bias, relu and X may each be absent)
//
// Backward, with G the gradient of Y and D = G where U > 0:
//
//   Q = A^T D,   dX = [G +] Q W,   dW = Q^T X,   db = sum of the rows of D
//
// P and Q exist for TILE rows at a time, in the first-level cache. Kept are X and the signs of U,
// one bit a number. Widths are multiples of 16, up to WIDEST.
#include "common.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

constexpr int TILE = 48, WIDEST = 256, W = LANES<float>;
constexpr int64_t GROUPS = 16;  // of parts: each has a sum of its own for dW and db
typedef Vector<float> F;

// ---- Signs: one bit for each number of a vector. ------------------------------------------------

inline uint16_t signs(F v) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_GT_OQ);
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)(v > 0));
#else
  Integers on = v > 0;
  uint16_t bits = 0;
  for (int l = 0; l < W; l++) bits |= (on[l] & 1) << l;
  return bits;
#endif
}

inline F where(uint16_t bits, F v) {
  Integers lane;
  for (int l = 0; l < W; l++) lane[l] = 1 << l;
  Integers on = (lane & (Integers{} + bits)) != 0;
  return (F)(on & (Integers)v);
}

// ---- Products of small matrices -----------------------------------------------------------------

// C = [C +] A B for MR rows and NV vectors of columns; the strides of A are free, so that it may be
// transposed.
template <int MR, int NV>
inline void micro(const float* A, int64_t row, int64_t column, const float* B, int64_t ldb, float* C,
                  int64_t ldc, int64_t k, bool add) {
  F c[MR][NV];
  for (int m = 0; m < MR; m++)
    for (int v = 0; v < NV; v++) c[m][v] = add ? load(C + m * ldc + W * v) : F{};
  for (int64_t p = 0; p < k; p++) {
    F b[NV];
    for (int v = 0; v < NV; v++) b[v] = load(B + p * ldb + W * v);
    for (int m = 0; m < MR; m++) {
      F a = all(A[m * row + p * column]);
      for (int v = 0; v < NV; v++) c[m][v] += a * b[v];
    }
  }
  for (int m = 0; m < MR; m++)
    for (int v = 0; v < NV; v++) store(C + m * ldc + W * v, c[m][v]);
}

template <int NV>
inline void columns(const float* A, int64_t row, int64_t column, const float* B, int64_t ldb,
                    float* C, int64_t ldc, int64_t rows, int64_t k, bool add) {
  int64_t m = 0;
  for (; m + 6 <= rows; m += 6)
    micro<6, NV>(A + m * row, row, column, B, ldb, C + m * ldc, ldc, k, add);
  for (; m + 2 <= rows; m += 2)
    micro<2, NV>(A + m * row, row, column, B, ldb, C + m * ldc, ldc, k, add);
  for (; m < rows; m++)
    micro<1, NV>(A + m * row, row, column, B, ldb, C + m * ldc, ldc, k, add);
}

// C (rows x n) = [C +] A (rows x k) B (k x n), for n a multiple of 16.
inline void multiply(const float* A, int64_t row, int64_t column, const float* B, float* C,
                     int64_t rows, int64_t k, int64_t n, bool add) {
  // As many accumulators as there are registers for: 6 rows of 4 vectors with 32 of them, of 2
  // with 16.
  constexpr int NV = BYTES == 64 ? 4 : 2;
  int64_t j = 0;
  for (; j + NV * W <= n; j += NV * W)
    columns<NV>(A, row, column, B + j, n, C + j, n, rows, k, add);
  for (; j < n; j += W) columns<1>(A, row, column, B + j, n, C + j, n, rows, k, add);
}

// Weighted sums of the neighbours' rows of nodes first to after, below one another in out.
static void sums(const Lists& lists, const float* w, const float* x, int64_t first, int64_t after,
                 float* out, int C) {
  by_width<float>(C, [&](auto NV) {
    for (int64_t i = first; i < after; i++) {
      Sum<float, NV> total(out + (i - first) * C, C);
      for (int k = lists.ptr[i]; k < lists.ptr[i + 1]; k++)
        total.add(w[lists.at(k)], x + (int64_t)lists.neighbour[k] * C);
      total.finish();
    }
  });
}

extern "C" {
// transposed: W^T, shape (c, m).
void block_float(const Graph* graph, const float* w, const float* x, const float* transposed,
                 const float* bias, int64_t relu, int64_t residual, uint16_t* positive, float* y,
                 int64_t c, int64_t m) {
  for_parts(graph->into, [&](int64_t, int64_t first, int64_t after) {
    alignas(64) float P[TILE * WIDEST], U[TILE * WIDEST];
    for (int64_t r = first; r < after; r += TILE) {
      int64_t rows = std::min<int64_t>(TILE, after - r);
      sums(graph->into, w, x, r, r + rows, P, c);
      multiply(P, c, 1, transposed, U, rows, c, m, false);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < m; j += W) {
          int64_t at = (r + i) * m + j;
          F u = load(U + i * m + j);
          if (bias) u += load(bias + j);
          if (relu) {
            positive[at / W] = signs(u);
            u = u < 0 ? F{} : u;  // NaN stays NaN
          }
          store(y + at, residual ? u + load(x + at) : u);
        }
    }
  });
}

// d: (nodes, m), of_groups: (GROUPS, m c + m) are for numbers on the way; dwb: m c + m numbers, dW
// and then db.
void block_backward_float(const Graph* graph, const float* w, const float* g, const float* x,
                          const float* weight, const uint16_t* positive, int64_t residual, float* d,
                          float* of_groups, float* dx, float* dwb, int64_t c, int64_t m) {
  const Lists& out = graph->out;
  const float* D = g;
  if (positive) {
    D = d;
    for_range(graph->into.nodes * m / W, 2048, [&](int64_t first, int64_t after) {
      for (int64_t k = first; k < after; k++) store(d + k * W, where(positive[k], load(g + k * W)));
    });
  }
  int64_t size = m * c + m;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t group = 0; group < GROUPS; group++) {
    int64_t begin = out.part[out.parts * group / GROUPS];
    int64_t end = out.part[out.parts * (group + 1) / GROUPS];
    alignas(64) float Q[TILE * WIDEST];
    float *dw = of_groups + group * size, *db = dw + m * c;
    std::fill(dw, dw + size, 0);
    for (int64_t r = begin; r < end; r += TILE) {
      int64_t rows = std::min<int64_t>(TILE, end - r);
      sums(out, w, D, r, r + rows, Q, m);
      if (residual) memcpy(dx + r * c, g + r * c, rows * c * sizeof(float));
      multiply(Q, m, 1, weight, dx + r * c, rows, m, c, residual);
      multiply(Q, 1, m, x + r * c, dw, m, rows, c, true);
      for (int64_t i = r; i < r + rows; i++)
        for (int64_t j = 0; j < m; j += W) store(db + j, load(db + j) + load(D + i * m + j));
    }
  }
  for_range(size / W, 64, [&](int64_t first, int64_t after) {
    for (int64_t k = first * W; k < after * W; k += W) {
      F total = load(of_groups + k);
      for (int64_t group = 1; group < GROUPS; group++) total += load(of_groups + group * size + k);
      store(dwb + k, total);
    }
  });
}
}
