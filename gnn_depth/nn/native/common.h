// What all kernels share: rows of numbers in vector registers, and loops over the nodes of a graph.
//
// Plain C++17 with the vector types of GCC and Clang; no header of torch. Tensors come as pointers
// to contiguous numbers. Shapes: N nodes (targets), S sources, E edges, H heads, C channels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

// ---- Vectors: as many numbers as a register of the processor holds. -----------------------------

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(BYTES), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(BYTES), aligned(8), may_alias));
};
typedef int32_t Integers __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(BYTES), aligned(4), may_alias));

template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int LANES = BYTES / sizeof(T);

template <class T>
inline Vector<T> load(const T* p) {
  return *(const Vector<T>*)p;
}
template <class T>
inline void store(T* p, Vector<T> v) {
  *(Vector<T>*)p = v;
}
template <class T>
inline Vector<T> all(T x) {
  return x - Vector<T>{};  // not a sum, which would have to turn -0 into 0
}
template <class T>
inline T sum(Vector<T> v) {
  T lanes[LANES<T>];
  memcpy(lanes, &v, BYTES);
  for (int half = LANES<T> / 2; half; half /= 2)
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  return lanes[0];
}

// ---- Rows of c numbers: NV vectors in registers, or NV = 0 for any width, in memory. -------------

// A row that is read again and again.
template <class T, int NV>
struct Row {
  Vector<T> v[NV];
  Row(const T* p, int) {
    for (int k = 0; k < NV; k++) v[k] = load(p + k * LANES<T>);
  }
  T dot(const T* q) const {
    Vector<T> s = v[0] * load(q);
    for (int k = 1; k < NV; k++) s += v[k] * load(q + k * LANES<T>);
    return sum<T>(s);
  }
  // att . LeakyReLU(row + q)
  T additive(const T* q, const T* att, T slope) const {
    Vector<T> s{};
    for (int k = 0; k < NV; k++) {
      Vector<T> u = v[k] + load(q + k * LANES<T>);
      s += load(att + k * LANES<T>) * (u > 0 ? u : slope * u);
    }
    return sum<T>(s);
  }
};
template <class T>
struct Row<T, 0> {
  const T* p;
  int c;
  Row(const T* p, int c) : p(p), c(c) {}
  T dot(const T* q) const {
    Vector<T> s{};
    int j = 0;
    for (; j + LANES<T> <= c; j += LANES<T>) s += load(p + j) * load(q + j);
    T rest = 0;
    for (; j < c; j++) rest += p[j] * q[j];
    return sum<T>(s) + rest;
  }
  T additive(const T* q, const T* att, T slope) const {
    Vector<T> s{};
    int j = 0;
    for (; j + LANES<T> <= c; j += LANES<T>) {
      Vector<T> u = load(p + j) + load(q + j);
      s += load(att + j) * (u > 0 ? u : slope * u);
    }
    T rest = 0;
    for (; j < c; j++) {
      T u = p[j] + q[j];
      rest += att[j] * (u > 0 ? u : slope * u);
    }
    return sum<T>(s) + rest;
  }
};

// A row that other rows are added to. It is written to `out` at the end.
template <class T, int NV>
struct Sum {
  T* out;
  Vector<T> v[NV];
  Sum(T* out, int) : out(out) {
    for (int k = 0; k < NV; k++) v[k] = Vector<T>{};
  }
  void add(T w, const T* p) {
    for (int k = 0; k < NV; k++) v[k] += w * load(p + k * LANES<T>);
  }
  void add(const T* p) {
    for (int k = 0; k < NV; k++) v[k] += load(p + k * LANES<T>);
  }
  // += g LeakyReLU'(row + q), the derivative channel by channel
  void add_slopes(T g, T slope, const Row<T, NV>& row, const T* q) {
    Vector<T> above = all(g), below = all(slope * g);
    for (int k = 0; k < NV; k++) {
      Vector<T> u = row.v[k] + load(q + k * LANES<T>);
      v[k] += u > 0 ? above : below;
    }
  }
  void finish() {
    for (int k = 0; k < NV; k++) store(out + k * LANES<T>, v[k]);
  }
};
template <class T>
struct Sum<T, 0> {
  T* __restrict out;
  int c;
  Sum(T* out, int c) : out(out), c(c) {
    for (int j = 0; j < c; j++) out[j] = 0;
  }
  void add(T w, const T* __restrict p) {
    for (int j = 0; j < c; j++) out[j] += w * p[j];
  }
  void add(const T* __restrict p) {
    for (int j = 0; j < c; j++) out[j] += p[j];
  }
  void add_slopes(T g, T slope, const Row<T, 0>& row, const T* q) {
    const T* own = row.p;
    T below = slope * g;
    for (int j = 0; j < c; j++) out[j] += own[j] + q[j] > 0 ? g : below;
  }
  void finish() {}
};

// to = [to +] w p + v q; q may be null.
template <class T, int NV>
inline void write_row(T* to, bool add, T w, const T* p, T v, const T* q, int c) {
  constexpr int W = LANES<T>;
  int n = NV ? NV * W : c, j = 0;
  for (; j + W <= n; j += W) {
    Vector<T> x = w * load(p + j);
    if (q) x += v * load(q + j);
    if (add) x += load(to + j);
    store(to + j, x);
  }
  for (; j < n; j++) to[j] = (add ? to[j] : 0) + w * p[j] + (q ? v * q[j] : 0);
}

// Calls body(NV) for rows of c numbers: the usual widths in float32 have loops of their own.
template <class T, class Body>
inline void by_width(int c, Body body) {
  constexpr int W = LANES<T>;
  if constexpr (std::is_same_v<T, float>) {
    switch (c) {
      case 16: return body(std::integral_constant<int, 16 / W>());
      case 32: return body(std::integral_constant<int, 32 / W>());
      case 64: return body(std::integral_constant<int, 64 / W>());
      case 128: return body(std::integral_constant<int, 128 / W>());
    }
  }
  body(std::integral_constant<int, 0>());
}

// ---- Graphs --------------------------------------------------------------------------------------

// The edges of each node, one list after the other: those into it, or those out of it.
struct Lists {
  const int *ptr, *neighbour;  // entries of node i: ptr[i] to ptr[i + 1]; the node at the other end
  const int* edge;             // the edge of each entry; null if entry k is edge k
  const int* part;             // nodes that begin a part, and the last one's end
  int64_t parts, nodes;
  int64_t at(int64_t entry) const { return edge ? edge[entry] : entry; }
};
struct Graph {
  Lists into, out;
  int64_t edges;
};

// Calls body(part, first, after) for the parts of the nodes. They do not depend on the number of
// threads, and neither do sums over parts.
template <class Body>
inline void for_parts(const Lists& lists, Body body) {
#pragma omp parallel for schedule(dynamic, 1) if (lists.parts > 1)
  for (int64_t p = 0; p < lists.parts; p++) body(p, lists.part[p], lists.part[p + 1]);
}

// Calls body(part, first, after) for runs of nodes with about MANY numbers on their edges, or one
// node with more: what is computed of them stays in the cache.
constexpr int64_t MANY = 512;
template <class Body>
inline void for_runs(const Lists& lists, int heads, Body body) {
  for_parts(lists, [&](int64_t part, int64_t first, int64_t after) {
    for (int64_t begin = first; begin < after;) {
      int64_t end = begin + 1;
      while (end < after && (lists.ptr[end + 1] - lists.ptr[begin]) * (int64_t)heads <= MANY) end++;
      body(part, begin, end);
      begin = end;
    }
  });
}

// Calls body(first, after) for equal parts of n.
template <class Body>
inline void for_range(int64_t n, int64_t grain, Body body) {
  int64_t parts = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t p = 0; p < parts; p++) body(p * grain, std::min(n, (p + 1) * grain));
}

// ---- exp -----------------------------------------------------------------------------------------

// p[k] = exp(p[k]), for numbers up to 0: exactly 0 below -87 in float32; NaN stays NaN.
inline void exp_range(double* p, int64_t n) {
  for (int64_t k = 0; k < n; k++) p[k] = std::exp(p[k]);
}

// exp(x) = 2^k (1 + q), with x = k ln2 + r and q = exp(r) - 1 a polynomial on [-ln2 / 2, ln2 / 2]
// (coefficients of the Cephes library).
struct Exponential {
  Vector<float> power, q;
  explicit Exponential(Vector<float> x) {
    typedef Vector<float> F;
    F low = all(-87.3f), high = all(88.3f);
    F clamped = x < low ? low : x;  // a comparison with NaN is false, and NaN goes through
    clamped = clamped > high ? high : clamped;
    F k = clamped * 1.44269504f;
    Integers n = __builtin_convertvector(k + (k < 0 ? all(-0.5f) : all(0.5f)), Integers);
    F whole = __builtin_convertvector(n, F);
    F r = clamped - whole * 0.693359375f + whole * 2.12194440e-4f;
    F p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    q = p * r * r + r;
    Integers exponent = (n + 127) << 23;
    memcpy(&power, &exponent, BYTES);
  }
};

inline Vector<float> exp_of(Vector<float> x) {
  Exponential e(x);
  return x < all(-87.3f) ? Vector<float>{} : e.power * (e.q + 1.0f);
}

inline Vector<float> expm1_of(Vector<float> x) {
  Exponential e(x);
  return (e.power - 1.0f) + e.power * e.q;
}

inline void exp_range(float* p, int64_t n) {
  constexpr int W = LANES<float>;
  int64_t k = 0;
  for (; k + W <= n; k += W) store(p + k, exp_of(load(p + k)));
  if (k < n) {
    float rest[W] = {};
    memcpy(rest, p + k, (n - k) * sizeof(float));
    store(rest, exp_of(load(rest)));
    memcpy(p + k, rest, (n - k) * sizeof(float));
  }
}

// ---- Dropout -------------------------------------------------------------------------------------

// Dropout without a stored mask: a hash of the position, as in nn/functional/dropout.py.
struct Dropout {
  const int32_t* seed;  // two numbers; null switches dropout off
  int32_t threshold;
  double scale;  // 1 / (1 - p)

  explicit operator bool() const { return seed; }

  template <class T>
  T factor(uint32_t position) const {
    uint32_t bits = (position ^ (uint32_t)seed[0]) * 0x7FEB352Du;
    bits = ((bits ^ (uint32_t)((int32_t)bits >> 15)) + (uint32_t)seed[1]) * 0x846CA68Bu;
    bits = (bits ^ (uint32_t)((int32_t)bits >> 16)) * 0x7FEB352Du;
    return ((int32_t)bits >> 1) >= threshold ? (T)scale : (T)0;
  }
};

// out[k] = in[k] times the dropout factor of position `first` + k.
template <class T>
inline void drop_rest(const Dropout& dropout, uint32_t first, const T* in, T* out, int64_t n) {
  for (int64_t k = 0; k < n; k++) out[k] = in[k] * dropout.factor<T>(first + (uint32_t)k);
}
inline void drop_range(const Dropout& dropout, uint32_t first, const double* in, double* out,
                       int64_t n) {
  drop_rest(dropout, first, in, out, n);
}
// The same hash for as many positions as a vector holds.
inline void drop_range(const Dropout& dropout, uint32_t first, const float* in, float* out,
                       int64_t n) {
  constexpr int W = LANES<float>;
  Bits lane;
  for (int l = 0; l < W; l++) lane[l] = l;
  Bits s0 = Bits{} + (uint32_t)dropout.seed[0], s1 = Bits{} + (uint32_t)dropout.seed[1];
  Integers threshold = Integers{} + dropout.threshold;
  Vector<float> scale = all((float)dropout.scale);
  int64_t k = 0;
  for (; k + W <= n; k += W) {
    Bits bits = ((lane + (first + (uint32_t)k)) ^ s0) * 0x7FEB352Du;
    bits = ((bits ^ (Bits)((Integers)bits >> 15)) + s1) * 0x846CA68Bu;
    bits = (bits ^ (Bits)((Integers)bits >> 16)) * 0x7FEB352Du;
    Integers kept = ((Integers)bits >> 1) >= threshold;  // all bits set, or none
    store(out + k, load(in + k) * (Vector<float>)(kept & (Integers)scale));
  }
  drop_rest(dropout, first + (uint32_t)k, in + k, out + k, n - k);
}

// Both types of numbers under one name each: `name_float` and `name_double`.
#define FOR_BOTH_TYPES(DEFINE) \
  extern "C" {                 \
  DEFINE(float)                \
  DEFINE(double)               \
  }
