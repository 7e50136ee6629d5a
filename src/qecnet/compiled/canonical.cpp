// Each point of a patch in the frame of each channel's mean pose (Algorithm 2), forward and backward (float32).
//
// Eight channels' means are taken at once. Poses are [patch][point][channel][4], activations [patch][point][channel],
// positions [patch][point][3] relative to the patch's centre, canonical positions [patch][point][channel][3]. A pose
// of activation 0 has no part in a mean. The other arguments: canonical.py.

#include "algebra.h"

namespace {

struct Patches {
    long patches, points, channels;
    const float *poses, *activations, *positions;
};

// Where the channel of each lane finds its poses and positions; what is beyond the last channel repeats it.
struct Lanes {
    long count, pose[LANES], position[LANES];
    Lanes(const Patches& p, long group) {
        const long all = p.patches * p.channels, first = group * LANES;
        count = all - first < LANES ? all - first : LANES;
        for (long i = 0; i < LANES; i++) {
            const long which = first + (i < count ? i : count - 1), patch = which / p.channels;
            pose[i] = patch * p.points * p.channels + which % p.channels;
            position[i] = patch * p.points * 3;
        }
    }
};

// The pose of each lane at a point; zero where it is masked.
inline Quaternions gather_poses(const Patches& p, const Lanes& lanes, long point) {
    Quaternions q;
    for (int i = 0; i < LANES; i++) {
        const long at = lanes.pose[i] + point * p.channels;
        const bool used = p.activations[at] > 0;
        const float* from = p.poses + at * 4;
        q.w[i] = used ? from[0] : 0, q.x[i] = used ? from[1] : 0, q.y[i] = used ? from[2] : 0,
        q.z[i] = used ? from[3] : 0;
    }
    return q;
}

void forward(const Patches& p, long group, float* means, float* moments, float* canonical) {
    const Lanes lanes(p, group);
    Symmetric moment = {};
    for (long k = 0; k < p.points; k++) add_outer(moment, gather_poses(p, lanes, k), fill(1));
    for (int i = 0; i < 10; i++) store(moments + (group * 10 + i) * LANES, moment.e[i]);
    const Quaternions q = dominant(moment);
    store_quaternions(means + group * 4 * LANES, q);
    const V r[3][3] = {{1 - 2 * (q.y * q.y + q.z * q.z), 2 * (q.x * q.y - q.w * q.z), 2 * (q.x * q.z + q.w * q.y)},
                       {2 * (q.x * q.y + q.w * q.z), 1 - 2 * (q.x * q.x + q.z * q.z), 2 * (q.y * q.z - q.w * q.x)},
                       {2 * (q.x * q.z - q.w * q.y), 2 * (q.y * q.z + q.w * q.x), 1 - 2 * (q.x * q.x + q.y * q.y)}};
    for (long k = 0; k < p.points; k++) {
        V x[3] = {};
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < LANES; i++) x[d][i] = p.positions[lanes.position[i] + k * 3 + d];
        for (int d = 0; d < 3; d++) {
            const V turned = r[0][d] * x[0] + r[1][d] * x[1] + r[2][d] * x[2];
            for (int i = 0; i < lanes.count; i++) canonical[(lanes.pose[i] + k * p.channels) * 3 + d] = turned[i];
        }
    }
}

void backward(const Patches& p, long group, const float* means, const float* moments, const float* for_canonical,
              float* for_poses) {
    const Lanes lanes(p, group);
    V g[3][3] = {};  // of the rotation matrix: Σ x dᵀ
    for (long k = 0; k < p.points; k++)
        for (int b = 0; b < 3; b++) {
            V change;
            for (int i = 0; i < LANES; i++) change[i] = for_canonical[(lanes.pose[i] + k * p.channels) * 3 + b];
            for (int a = 0; a < 3; a++) {
                V x;
                for (int i = 0; i < LANES; i++) x[i] = p.positions[lanes.position[i] + k * 3 + a];
                g[a][b] += x * change;
            }
        }
    const Quaternions q = load_quaternions(means + group * 4 * LANES);
    const V xy = g[0][1] + g[1][0], xz = g[0][2] + g[2][0], yz = g[1][2] + g[2][1];
    const V wx = g[2][1] - g[1][2], wy = g[0][2] - g[2][0], wz = g[1][0] - g[0][1];
    const Quaternions for_mean = {2 * (q.x * wx + q.y * wy + q.z * wz),
                                  2 * (q.w * wx + q.y * xy + q.z * xz - 2 * q.x * (g[1][1] + g[2][2])),
                                  2 * (q.w * wy + q.x * xy + q.z * yz - 2 * q.y * (g[0][0] + g[2][2])),
                                  2 * (q.w * wz + q.x * xz + q.y * yz - 2 * q.z * (g[0][0] + g[1][1]))};
    Symmetric moment;
    for (int i = 0; i < 10; i++) moment.e[i] = load(moments + (group * 10 + i) * LANES);
    const Quaternions y = eigenvector_gradient(moment, q, for_mean);
    for (long k = 0; k < p.points; k++) {
        const Quaternions pose = gather_poses(p, lanes, k);
        const Quaternions change = added(scaled(y, dot(q, pose)), q, dot(y, pose));
        for (int i = 0; i < lanes.count; i++) {
            float* to = for_poses + (lanes.pose[i] + k * p.channels) * 4;
            to[0] = change.w[i], to[1] = change.x[i], to[2] = change.y[i], to[3] = change.z[i];
        }
    }
}

long groups(const Patches& p) { return (p.patches * p.channels + LANES - 1) / LANES; }

}  // namespace

extern "C" {

void canonical_forward(long patches, long points, long channels, long threads, const float* poses,
                       const float* activations, const float* positions, float* means, float* moments,
                       float* canonical) {
    const Patches p = {patches, points, channels, poses, activations, positions};
#pragma omp parallel for num_threads(threads)
    for (long group = 0; group < groups(p); group++) forward(p, group, means, moments, canonical);
}

void canonical_backward(long patches, long points, long channels, long threads, const float* poses,
                        const float* activations, const float* positions, const float* means, const float* moments,
                        const float* for_canonical, float* for_poses) {
    const Patches p = {patches, points, channels, poses, activations, positions};
#pragma omp parallel for num_threads(threads)
    for (long group = 0; group < groups(p); group++)
        backward(p, group, means, moments, for_canonical, for_poses);
}
}
