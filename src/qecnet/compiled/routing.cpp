// Algorithm 1 of the paper in one pass per iteration over the votes, forward and backward (float32).
//
// Eight output capsules are worked on at once, one in each lane of a vector: means, eigenvectors and angles then need
// no sums across lanes. A group of eight reads and writes its votes as
//
//     votes[cloud][point][group][channel][component][lane]
//
// Input poses are [cloud][point][channel][4], activations [cloud][point][channel]. An input of activation 0 is skipped:
// nothing that it holds is read. The other arguments: routing.py.

#include <vector>

#include "algebra.h"

namespace {

constexpr float PI = 3.14159265358979f;
constexpr float NO_ANGLE = 8 * 1.1920929e-7f;       // below it, a sine is rounding
constexpr float SMALLEST_DISTANCE = 6.4155306e-6f;  // ε^¾, as weiszfeld_weights

enum Weighting { SIGMOID, LINEAR, LQ };

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
inline V factor(const float* means, long iterations, const Quaternions& vote, float activation, float exponent) {
    if (iterations == 0) return fill(1);
    V weight = weigh<W>(load_quaternions(means + (iterations - 1) * 4 * LANES), vote, exponent);
    if (W == LINEAR)  // weights compound
        for (long i = 0; i < iterations - 1; i++)
            weight *= activation * weigh<W>(load_quaternions(means + i * 4 * LANES), vote, exponent);
    return weight;
}

struct Sizes {
    long clouds, points, groups, channels;
    long iterations;
    float exponent;
    long place(long cloud, long point, long group) const {
        return ((cloud * points + point) * groups + group) * channels;
    }
};

// Sums of sums lose fewer digits: so many votes are added up first.
constexpr int BLOCK = 64;
struct MomentSum {
    Symmetric total = {}, part = {};
    int count = 0;
    void add_vote(const Quaternions& vote, V weight) {
        add_outer(part, vote, weight);
        if (++count == BLOCK) add(total, part), part = {}, count = 0;
    }
    Symmetric moment() {
        add(total, part);
        return total;
    }
};

// Votes in place of the raw transforms, of unit length, and what they were multiplied by for that. → their moment
Symmetric cast(const Sizes& n, long cloud, long group, const float* poses, const float* activations, float* votes,
               float* inverses) {
    MomentSum sum;
    for (long k = 0; k < n.points; k++) {
        const long place = n.place(cloud, k, group);
        for (long c = 0; c < n.channels; c++) {
            const long l = k * n.channels + c;
            if (activations[l] == 0) continue;
            const Quaternions pose = fill_quaternions(poses + l * 4);
            Quaternions vote = multiply(pose, load_quaternions(votes + (place + c) * 4 * LANES));
            V length = dot(vote, vote);
            Mask zero = length == 0.0f;  // which counts as the identity
            V inverse = select(zero, fill(0), 1.0f / root(length));
            vote = {select(zero, pose.w, vote.w * inverse), select(zero, pose.x, vote.x * inverse),
                    select(zero, pose.y, vote.y * inverse), select(zero, pose.z, vote.z * inverse)};
            store_quaternions(votes + (place + c) * 4 * LANES, vote);
            if (inverses) store(inverses + (place + c) * LANES, inverse);
            sum.add_vote(vote, fill(activations[l]));
        }
    }
    return sum.moment();
}

template <Weighting W>
void forward(const Sizes& n, long cloud, long group, const float* poses, const float* activations, float* votes,
             float* inverses, float* means, float* moments, float* agreements) {
    const float* a = activations + cloud * n.points * n.channels;
    means += (cloud * n.groups + group) * (n.iterations + 1) * 4 * LANES;
    Symmetric moment = cast(n, cloud, group, poses + cloud * n.points * n.channels * 4, a, votes, inverses);
    store_quaternions(means, dominant(moment));
    for (long iteration = 1; iteration <= n.iterations; iteration++) {
        MomentSum sum;
        for (long k = 0; k < n.points; k++) {
            const float* v = votes + n.place(cloud, k, group) * 4 * LANES;
            for (long c = 0; c < n.channels; c++) {
                const float activation = a[k * n.channels + c];
                if (activation == 0) continue;
                const Quaternions vote = load_quaternions(v + c * 4 * LANES);
                sum.add_vote(vote, activation * factor<W>(means, iteration, vote, activation, n.exponent));
            }
        }
        moment = sum.moment();
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
                    add_sums(to, turned);
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

void route_forward(long clouds, long points, long groups, long channels, long iterations, long weighting, double exponent,
                   long threads, const float* poses, const float* activations, float* votes, float* inverses,
                   float* means, float* moments, float* agreements) {
    const Sizes n = {clouds, points, groups, channels, iterations, (float)exponent};
    const auto run = weighting == SIGMOID ? forward<SIGMOID> : weighting == LINEAR ? forward<LINEAR> : forward<LQ>;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long i = 0; i < clouds * groups; i++)
        run(n, i / groups, i % groups, poses, activations, votes, inverses, means, moments, agreements);
}

void route_backward(long clouds, long points, long groups, long channels, long iterations, long weighting,
                    double exponent, long threads, const float* poses, const float* activations, const float* votes,
                    const float* inverses, const float* means, const float* moments, const float* for_means,
                    const float* for_agreements, float* for_transforms, float* for_poses, float* for_activations) {
    const Sizes n = {clouds, points, groups, channels, iterations, (float)exponent};
    const auto run = weighting == SIGMOID ? backward<SIGMOID> : weighting == LINEAR ? backward<LINEAR> : backward<LQ>;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long cloud = 0; cloud < clouds; cloud++)
        run(n, cloud, poses, activations, votes, inverses, means, moments, for_means, for_agreements, for_transforms,
            for_poses, for_activations);
}
}
