// Algorithm 1 of the paper in one pass per iteration over the votes, forward and backward (float32).
//
// Eight output capsules are worked on at once, one in each lane of a vector: means, eigenvectors and angles then need
// no sums across lanes. A group of eight reads and writes its votes as
//
//     votes[cloud][point][group][channel][component][lane]
//
// Input poses are [cloud][point][channel][4], activations [cloud][point][channel]. An input of activation 0 is skipped:
// nothing that it holds is read. `python` side, with the meaning of every argument: fused.py.

#include <cmath>
#include <cstring>
#include <vector>

namespace {

constexpr int LANES = 8;
constexpr int SQUARINGS = 11;  // as algebra/eigen.py for float32
constexpr float RESOLUTION = 1.0f / (1 << SQUARINGS);
constexpr float PI = 3.14159265358979f;
constexpr float NO_ANGLE = 8 * 1.1920929e-7f;     // below it, a sine is rounding
constexpr float SMALLEST_DISTANCE = 6.4155306e-6f;  // ε^¾, as weiszfeld_weights

typedef float V __attribute__((vector_size(4 * LANES)));
typedef int Mask __attribute__((vector_size(4 * LANES)));

enum Weighting { SIGMOID, LINEAR, LQ };

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

// The dominant eigenvector by repeated squaring: `_power_limit` of algebra/eigen.py.
Quaternions dominant(Symmetric a) {
    rescale(a);
    for (int step = 0; step < SQUARINGS; step++) {
        if (step % 3 == 0) {
            V inverse = 1.0f / one_if_zero(a.e[0] + a.e[4] + a.e[7] + a.e[9]);
            for (int i = 0; i < 10; i++) a.e[i] *= inverse;
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

inline V sine_across(const Quaternions& pose, const Quaternions& vote, V cosine) {
    Quaternions across = added(vote, pose, -cosine);
    return root(dot(across, across));
}
// 2 atan2(sine, cosine) for 0 ≤ both
inline V angle(V sine, V cosine) {
    Mask steep = sine > cosine;
    V t = select(steep, cosine, sine) / one_if_zero(select(steep, sine, cosine)), s = t * t;
    V p = fill(2.834064298e-03f);
    for (float c : {-1.600503050e-02f, 4.258760746e-02f, -7.495445443e-02f, 1.063675410e-01f, -1.420257051e-01f,
                    1.999248358e-01f, -3.333306678e-01f, 9.999999842e-01f})
        p = p * s + c;
    p *= 2.0f * t;
    return select(steep, PI - p, p);
}
// sigmoid(−2 acos c), which is smooth in √(1 − c)
inline V sigmoid_of_cosine(V cosine) {
    V u = root(1.0f - smaller(cosine, fill(1)));
    V p = fill(3.726695079e-02f);
    for (float c : {-1.617441822e-01f, 2.150366895e-01f, 4.658891073e-02f, -3.131841362e-01f, 1.447681589e-02f,
                    4.098721246e-01f, 2.247250759e-04f, -7.071140577e-01f, 5.000000381e-01f})
        p = p * u + c;
    return p;
}

template <Weighting W>
inline V weigh(const Quaternions& pose, const Quaternions& vote, float exponent) {
    V cosine = dot(pose, vote);
    if (W == SIGMOID) return sigmoid_of_cosine(absolute(cosine));
    V sine = sine_across(pose, vote, cosine);
    if (W == LINEAR) return larger(1.0f - angle(sine, absolute(cosine)) * (1 / PI), fill(0));
    V distance = larger(sine, fill(SMALLEST_DISTANCE));
    if (exponent == 1) return 1.0f / distance;
    for (int i = 0; i < LANES; i++) distance[i] = std::pow(distance[i], exponent - 2);
    return distance;
}

// By what the activation of an input is multiplied, to be its weight in the mean after `iterations`.
template <Weighting W>
inline V factor(const float* means, int iterations, const Quaternions& vote, float activation, float exponent) {
    if (iterations == 0) return fill(1);
    V weight = weigh<W>(load_quaternions(means + (iterations - 1) * 4 * LANES), vote, exponent);
    if (W == LINEAR)  // weights compound
        for (int i = 0; i < iterations - 1; i++)
            weight *= activation * weigh<W>(load_quaternions(means + i * 4 * LANES), vote, exponent);
    return weight;
}

struct Sizes {
    long clouds, points, groups, channels;
    int iterations;
    float exponent;
    long place(long cloud, long point, long group) const {
        return ((cloud * points + point) * groups + group) * channels;
    }
};

template <Weighting W>
void forward(const Sizes& n, long cloud, long group, const float* poses, const float* activations, float* votes,
             float* inverses, float* means, float* moments, float* agreements) {
    const float* q = poses + cloud * n.points * n.channels * 4;
    const float* a = activations + cloud * n.points * n.channels;
    means += (cloud * n.groups + group) * (n.iterations + 1) * 4 * LANES;
    Symmetric moment;
    for (int iteration = 0; iteration <= n.iterations; iteration++) {
        moment = {};
        for (long k = 0; k < n.points; k++) {
            Symmetric part = {};  // sums of sums lose fewer digits
            float* v = votes + n.place(cloud, k, group) * 4 * LANES;
            for (long c = 0; c < n.channels; c++) {
                float activation = a[k * n.channels + c];
                if (activation == 0) continue;
                Quaternions vote = load_quaternions(v + c * 4 * LANES);
                if (iteration == 0) {
                    Quaternions pose = fill_quaternions(q + (k * n.channels + c) * 4);
                    vote = multiply(pose, vote);
                    V length = dot(vote, vote);
                    Mask zero = length == 0.0f;
                    V inverse = select(zero, fill(0), 1.0f / root(length));
                    vote = {select(zero, pose.w, vote.w * inverse), select(zero, pose.x, vote.x * inverse),
                            select(zero, pose.y, vote.y * inverse), select(zero, pose.z, vote.z * inverse)};
                    store_quaternions(v + c * 4 * LANES, vote);
                    if (inverses) store(inverses + (n.place(cloud, k, group) + c) * LANES, inverse);
                }
                add_outer(part, vote, activation * factor<W>(means, iteration, vote, activation, n.exponent));
            }
            add(moment, part);
        }
        store_quaternions(means + iteration * 4 * LANES, dominant(moment));
    }
    for (int i = 0; i < 10; i++) store(moments + ((cloud * n.groups + group) * 10 + i) * LANES, moment.e[i]);

    const Quaternions mean = load_quaternions(means + n.iterations * 4 * LANES);
    V total = fill(0);
    for (long k = 0; k < n.points; k++) {
        const float* v = votes + n.place(cloud, k, group) * 4 * LANES;
        V part = fill(0);
        for (long c = 0; c < n.channels; c++) {
            float activation = a[k * n.channels + c];
            if (activation == 0) continue;
            Quaternions vote = load_quaternions(v + c * 4 * LANES);
            V cosine = dot(mean, vote), delta = angle(sine_across(mean, vote, cosine), absolute(cosine));
            if (W == LINEAR) {
                V weight = activation * factor<W>(means, n.iterations, vote, activation, n.exponent);
                part += weight * (1.0f - delta * (1 / PI));
            } else {
                part -= delta;
            }
        }
        total += part;
    }
    store(agreements + (cloud * n.groups + group) * LANES, total);
}

// Gradients of one cloud: of the raw transforms, in the layout of the votes, and, where wanted, of poses and activations.
template <Weighting W>
void backward(const Sizes& n, long cloud, const float* poses, const float* activations, const float* votes,
              const float* inverses, const float* means, const float* moments, const float* for_means,
              const float* for_agreements, float* for_transforms, float* for_poses, float* for_activations) {
    static thread_local std::vector<float> slopes;
    slopes.resize(n.points * n.channels * LANES);
    const float* q = poses + cloud * n.points * n.channels * 4;
    const float* a = activations + cloud * n.points * n.channels;
    for (long group = 0; group < n.groups; group++) {
        const long which = cloud * n.groups + group;
        const float* found = means + which * (n.iterations + 1) * 4 * LANES;
        const Quaternions mean = load_quaternions(found + n.iterations * 4 * LANES);
        const V for_agreement = load(for_agreements + which * LANES);

        // The agreement: dδ = −2 sign(c)/s dc along the sphere; where δ is 0 but for rounding, 0.
        Quaternions for_mean = load_quaternions(for_means + which * 4 * LANES);
        for (long k = 0; k < n.points; k++) {
            const float* v = votes + n.place(cloud, k, group) * 4 * LANES;
            Quaternions part = {};
            V along = fill(0);
            for (long c = 0; c < n.channels; c++) {
                const long l = k * n.channels + c;
                if (a[l] == 0) continue;
                Quaternions vote = load_quaternions(v + c * 4 * LANES);
                V cosine = dot(mean, vote), sine = sine_across(mean, vote, cosine), slope = for_agreement;
                if (W == LINEAR) slope *= a[l] * factor<W>(found, n.iterations, vote, a[l], n.exponent) * (1 / PI);
                slope = select(sine <= NO_ANGLE, fill(0), 2.0f * slope / sine);
                slope = select(cosine < 0.0f, -slope, select(cosine == 0.0f, fill(0), slope));
                store(slopes.data() + l * LANES, slope);
                part = added(part, vote, slope);
                along += slope * cosine;
            }
            for_mean = added(added(for_mean, part, fill(1)), mean, -along);
        }

        // The last mean: dM = (y meanᵀ + mean yᵀ)/2, so dv = w (c y + d mean) and dw = c d with c = mean·v, d = y·v.
        Symmetric moment;
        for (int i = 0; i < 10; i++) moment.e[i] = load(moments + (which * 10 + i) * LANES);
        const Quaternions y = eigenvector_gradient(moment, mean, for_mean);
        for (long k = 0; k < n.points; k++) {
            const long place = n.place(cloud, k, group);
            for (long c = 0; c < n.channels; c++) {
                const long l = k * n.channels + c;
                float* out = for_transforms + (place + c) * 4 * LANES;
                if (a[l] == 0) {
                    std::memset(out, 0, 4 * LANES * sizeof(float));
                    continue;
                }
                Quaternions vote = load_quaternions(votes + (place + c) * 4 * LANES);
                Quaternions pose = fill_quaternions(q + l * 4);
                V slope = load(slopes.data() + l * LANES), cosine = dot(mean, vote), d = dot(y, vote);
                V sigma = factor<W>(found, n.iterations, vote, a[l], n.exponent), weight = a[l] * sigma;
                V of_mean = slope + weight * d, of_y = weight * cosine;
                Quaternions across = added(scaled(mean, of_mean), y, of_y);
                across = added(across, vote, -(of_mean * cosine + of_y * d));
                Quaternions raw = multiply(conjugate(pose), across);
                store_quaternions(out, scaled(raw, load(inverses + (place + c) * LANES)));
                if (for_poses) {  // Σ across ∘ v̄, to be multiplied by the pose
                    Quaternions turned = multiply(across, conjugate(vote));
                    float* to = for_poses + (cloud * n.points * n.channels + l) * 4;
                    to[0] += sum(turned.w), to[1] += sum(turned.x), to[2] += sum(turned.y), to[3] += sum(turned.z);
                }
                if (for_activations) {
                    V change = cosine * d;
                    if (W == LINEAR) {
                        V delta = angle(sine_across(mean, vote, cosine), absolute(cosine));
                        change += for_agreement * (1.0f - delta * (1 / PI));
                    }
                    for_activations[cloud * n.points * n.channels + l] += sum(sigma * change);
                }
            }
        }
    }
    if (for_poses)
        for (long l = 0; l < n.points * n.channels; l++) {
            float* to = for_poses + (cloud * n.points * n.channels + l) * 4;
            const float *p = q + l * 4, w = to[0], x = to[1], y = to[2], z = to[3];
            to[0] = w * p[0] - x * p[1] - y * p[2] - z * p[3], to[1] = w * p[1] + x * p[0] + y * p[3] - z * p[2];
            to[2] = w * p[2] - x * p[3] + y * p[0] + z * p[1], to[3] = w * p[3] + x * p[2] - y * p[1] + z * p[0];
        }
}

}  // namespace

extern "C" {

void route_forward(long clouds, long points, long groups, long channels, int iterations, int weighting, float exponent,
                   int threads, const float* poses, const float* activations, float* votes, float* inverses,
                   float* means, float* moments, float* agreements) {
    const Sizes n = {clouds, points, groups, channels, iterations, exponent};
    const auto run = weighting == SIGMOID ? forward<SIGMOID> : weighting == LINEAR ? forward<LINEAR> : forward<LQ>;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long i = 0; i < clouds * groups; i++)
        run(n, i / groups, i % groups, poses, activations, votes, inverses, means, moments, agreements);
}

void route_backward(long clouds, long points, long groups, long channels, int iterations, int weighting,
                    float exponent, int threads, const float* poses, const float* activations, const float* votes,
                    const float* inverses, const float* means, const float* moments, const float* for_means,
                    const float* for_agreements, float* for_transforms, float* for_poses, float* for_activations) {
    const Sizes n = {clouds, points, groups, channels, iterations, exponent};
    const auto run = weighting == SIGMOID ? backward<SIGMOID> : weighting == LINEAR ? backward<LINEAR> : backward<LQ>;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long cloud = 0; cloud < clouds; cloud++)
        run(n, cloud, poses, activations, votes, inverses, means, moments, for_means, for_agreements, for_transforms,
            for_poses, for_activations);
}
}
