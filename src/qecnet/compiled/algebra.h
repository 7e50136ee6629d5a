// Quaternions and symmetric 4×4 matrices, eight at once: one in each lane of a vector.
#pragma once

#include <cmath>
#include <cstring>

namespace {

constexpr int LANES = 8;
constexpr int SQUARINGS = 11;  // as algebra/eigen.py for float32
constexpr float RESOLUTION = 1.0f / (1 << SQUARINGS);

typedef float V __attribute__((vector_size(4 * LANES)));
typedef int Mask __attribute__((vector_size(4 * LANES)));

inline V fill(float x) { return V{x, x, x, x, x, x, x, x}; }
inline V load(const float* from) {
    V x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
inline void store(float* to, V x) { std::memcpy(to, &x, sizeof x); }
inline V select(Mask where, V yes, V no) { return where ? yes : no; }
inline V smaller(V x, V y) { return select(x < y, x, y); }
inline V larger(V x, V y) { return select(x > y, x, y); }
inline V absolute(V x) { return (V)((Mask)x & 0x7fffffff); }
inline V one_if_zero(V x) { return select(x == 0.0f, fill(1), x); }
inline V root(V x) {
    V y;
    for (int i = 0; i < LANES; i++) y[i] = std::sqrt(x[i]);
    return y;
}
inline float sum(V x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }

struct Quaternions {  // one in each lane, WXYZ
    V w, x, y, z;
};
inline Quaternions load_quaternions(const float* from) {
    return {load(from), load(from + LANES), load(from + 2 * LANES), load(from + 3 * LANES)};
}
inline void store_quaternions(float* to, const Quaternions& q) {
    store(to, q.w), store(to + LANES, q.x), store(to + 2 * LANES, q.y), store(to + 3 * LANES, q.z);
}
// to += the sum over all lanes
inline void add_sums(float* to, const Quaternions& q) {
    typedef float Quad __attribute__((vector_size(16)));
    V wx = __builtin_shufflevector(q.w, q.x, 0, 8, 1, 9, 4, 12, 5, 13) +
           __builtin_shufflevector(q.w, q.x, 2, 10, 3, 11, 6, 14, 7, 15);
    V yz = __builtin_shufflevector(q.y, q.z, 0, 8, 1, 9, 4, 12, 5, 13) +
           __builtin_shufflevector(q.y, q.z, 2, 10, 3, 11, 6, 14, 7, 15);
    V all = __builtin_shufflevector(wx, yz, 0, 1, 8, 9, 4, 5, 12, 13) +
            __builtin_shufflevector(wx, yz, 2, 3, 10, 11, 6, 7, 14, 15);
    Quad before;
    std::memcpy(&before, to, sizeof before);
    before += __builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7);
    std::memcpy(to, &before, sizeof before);
}
inline Quaternions fill_quaternions(const float* q) { return {fill(q[0]), fill(q[1]), fill(q[2]), fill(q[3])}; }
inline V dot(const Quaternions& p, const Quaternions& q) { return p.w * q.w + p.x * q.x + p.y * q.y + p.z * q.z; }
inline Quaternions scaled(const Quaternions& q, V s) { return {q.w * s, q.x * s, q.y * s, q.z * s}; }
inline Quaternions added(const Quaternions& p, const Quaternions& q, V s) {  // p + s q
    return {p.w + s * q.w, p.x + s * q.x, p.y + s * q.y, p.z + s * q.z};
}
inline Quaternions conjugate(const Quaternions& q) { return {q.w, -q.x, -q.y, -q.z}; }
inline Quaternions multiply(const Quaternions& p, const Quaternions& q) {
    return {p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z, p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y,
            p.w * q.y - p.x * q.z + p.y * q.w + p.z * q.x, p.w * q.z + p.x * q.y - p.y * q.x + p.z * q.w};
}

struct Symmetric {  // the entries (i, j), i ≤ j, of 4×4 matrices, one in each lane
    V e[10];
};
inline void add_outer(Symmetric& m, const Quaternions& q, V weight) {
    V w = q.w * weight, x = q.x * weight, y = q.y * weight;
    m.e[0] += w * q.w, m.e[1] += w * q.x, m.e[2] += w * q.y, m.e[3] += w * q.z;
    m.e[4] += x * q.x, m.e[5] += x * q.y, m.e[6] += x * q.z;
    m.e[7] += y * q.y, m.e[8] += y * q.z;
    m.e[9] += q.z * weight * q.z;
}
inline void add(Symmetric& m, const Symmetric& other) {
    for (int i = 0; i < 10; i++) m.e[i] += other.e[i];
}
inline Symmetric square(const Symmetric& m) {
    const V *a = m.e;
    V s01 = a[1] * a[1], s02 = a[2] * a[2], s03 = a[3] * a[3], s12 = a[5] * a[5], s13 = a[6] * a[6], s23 = a[8] * a[8];
    return {{a[0] * a[0] + s01 + s02 + s03, (a[0] + a[4]) * a[1] + a[2] * a[5] + a[3] * a[6],
             (a[0] + a[7]) * a[2] + a[1] * a[5] + a[3] * a[8], (a[0] + a[9]) * a[3] + a[1] * a[6] + a[2] * a[8],
             a[4] * a[4] + s01 + s12 + s13, (a[4] + a[7]) * a[5] + a[1] * a[2] + a[6] * a[8],
             (a[4] + a[9]) * a[6] + a[1] * a[3] + a[5] * a[8], a[7] * a[7] + s02 + s12 + s23,
             (a[7] + a[9]) * a[8] + a[2] * a[3] + a[5] * a[6], a[9] * a[9] + s03 + s13 + s23}};
}
inline Quaternions row(const Symmetric& m, int i) {
    const V *a = m.e;
    switch (i) {
        case 0: return {a[0], a[1], a[2], a[3]};
        case 1: return {a[1], a[4], a[5], a[6]};
        case 2: return {a[2], a[5], a[7], a[8]};
        default: return {a[3], a[6], a[8], a[9]};
    }
}
inline Quaternions apply(const Symmetric& m, const Quaternions& q) {
    return {dot(row(m, 0), q), dot(row(m, 1), q), dot(row(m, 2), q), dot(row(m, 3), q)};
}
inline V rescale(Symmetric& m) {  // by the largest entry, which is returned
    V scale = absolute(m.e[0]);
    for (int i = 1; i < 10; i++) scale = larger(scale, absolute(m.e[i]));
    V inverse = 1.0f / one_if_zero(scale);
    for (int i = 0; i < 10; i++) m.e[i] *= inverse;
    return scale;
}

// In all lanes, for trace 1: λ₂ is then below 1e-3, and 1e-9 once the matrix is applied twice to its own column.
inline bool is_almost_of_rank_one(const Symmetric& m) {
    const V *a = m.e;
    V squares = a[0] * a[0] + a[4] * a[4] + a[7] * a[7] + a[9] * a[9] +
                2.0f * (a[1] * a[1] + a[2] * a[2] + a[3] * a[3] + a[5] * a[5] + a[6] * a[6] + a[8] * a[8]);
    Mask done = (squares > 0.998f) | (squares == 0.0f);
    int all = -1;
    for (int i = 0; i < LANES; i++) all &= done[i];
    return all;
}

// The dominant eigenvector by repeated squaring: `_power_limit` of algebra/eigen.py.
Quaternions dominant(Symmetric a) {
    rescale(a);
    for (int step = 0; step < SQUARINGS; step++) {
        if (step % 3 == 0) {
            V inverse = 1.0f / one_if_zero(a.e[0] + a.e[4] + a.e[7] + a.e[9]);
            for (int i = 0; i < 10; i++) a.e[i] *= inverse;
            if (step > 0 && is_almost_of_rank_one(a)) break;
        }
        a = square(a);
    }
    V diagonal[4] = {a.e[0], a.e[4], a.e[7], a.e[9]}, largest = diagonal[0];
    Quaternions column = row(a, 0);
    for (int i = 1; i < 4; i++) {
        Mask better = diagonal[i] > largest;
        Quaternions other = row(a, i);
        largest = select(better, diagonal[i], largest);
        column = {select(better, other.w, column.w), select(better, other.x, column.x),
                  select(better, other.y, column.y), select(better, other.z, column.z)};
    }
    Quaternions q = apply(a, apply(a, scaled(column, 1.0f / one_if_zero(largest))));
    V norm = root(dot(q, q));
    q = scaled(q, 1.0f / one_if_zero(norm));
    q.w = select(norm == 0.0f, fill(1), q.w);
    return q;
}

// `(λ₁I − M)⁺ g`: what a gradient g of the eigenvector q makes of a moment; `_pseudo_solve` of algebra/eigen.py.
Quaternions eigenvector_gradient(Symmetric a, const Quaternions& q, Quaternions g) {
    V scale = rescale(a);
    g = added(g, q, -dot(q, g));
    V diagonal = dot(q, apply(a, q)) + RESOLUTION;
    V a00 = diagonal - a.e[0] + q.w * q.w, a01 = q.w * q.x - a.e[1], a02 = q.w * q.y - a.e[2],
      a03 = q.w * q.z - a.e[3], a11 = diagonal - a.e[4] + q.x * q.x, a12 = q.x * q.y - a.e[5],
      a13 = q.x * q.z - a.e[6], a22 = diagonal - a.e[7] + q.y * q.y, a23 = q.y * q.z - a.e[8],
      a33 = diagonal - a.e[9] + q.z * q.z, least = fill(RESOLUTION);
    V i0 = 1.0f / larger(a00, least);  // LDLᵀ
    V l10 = a01 * i0, l20 = a02 * i0, l30 = a03 * i0;
    V i1 = 1.0f / larger(a11 - l10 * a01, least);
    V t21 = a12 - l10 * a02, t31 = a13 - l10 * a03, l21 = t21 * i1, l31 = t31 * i1;
    V i2 = 1.0f / larger(a22 - l20 * a02 - l21 * t21, least);
    V t32 = a23 - l20 * a03 - l21 * t31, l32 = t32 * i2;
    V i3 = 1.0f / larger(a33 - l30 * a03 - l31 * t31 - l32 * t32, least);
    auto solve = [&](const Quaternions& b) -> Quaternions {
        V y1 = b.x - l10 * b.w, y2 = b.y - l20 * b.w - l21 * y1, y3 = b.z - l30 * b.w - l31 * y1 - l32 * y2;
        V x3 = y3 * i3, x2 = y2 * i2 - l32 * x3, x1 = y1 * i1 - l21 * x2 - l31 * x3;
        return {b.w * i0 - l10 * x1 - l20 * x2 - l30 * x3, x1, x2, x3};
    };
    Quaternions y = solve(added(g, solve(g), fill(RESOLUTION)));
    return scaled(y, select(scale == 0.0f, fill(0), 1.0f / larger(scale, fill(1.17549435e-38f))));
}

}  // namespace
