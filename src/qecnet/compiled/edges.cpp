// Edges of neighbourhoods seen from an up direction: a linear layer for each edge, and the maximum over the neighbours
// (float32). See edges.py for the arguments and nn/edge_reader.py for the same in PyTorch.
//
// Positions and normals are [row][point][3], neighbours [row][centre][neighbour], features [row][point][hidden], the
// weight [seen][hidden], up directions [row][ups][3], where ups is 1 or the number of centres. Centres are the first
// points of a row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr long SEEN = 14;    // as in nn/edge_reader.py
constexpr long LANES = 16;   // hidden values at once
constexpr long TOGETHER = 4; // neighbours at once

struct Vector {
    float x, y, z;
};

Vector at(const float* values, long index) { return {values[3 * index], values[3 * index + 1], values[3 * index + 2]}; }
float dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
Vector cross(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
Vector across(Vector a, Vector up) {  // what of a is across up
    const float along = dot(a, up);
    return {a.x - along * up.x, a.y - along * up.y, a.z - along * up.z};
}

// What one centre sees of its neighbours: [neighbour][SEEN].
void look(Vector up, long centre, const float* positions, const float* normals, const int64_t* neighbours, long count,
          float scale, float* seen) {
    const Vector place = at(positions, centre), normal = at(normals, centre);
    const Vector level = across(normal, up), radial = across(place, up);
    const Vector axes[6] = {up, level, cross(up, level), radial, cross(up, radial), normal};
    for (long k = 0; k < count; k++, seen += SEEN) {
        const Vector there = at(positions, neighbours[k]), theirs = at(normals, neighbours[k]);
        const Vector way = {(there.x - place.x) * scale, (there.y - place.y) * scale, (there.z - place.z) * scale};
        for (long j = 0; j < 5; j++) seen[j] = dot(way, axes[j]);
        for (long j = 0; j < 6; j++) seen[5 + j] = dot(theirs, axes[j]);
        const float square = dot(way, way);
        seen[11] = std::sqrt(square);
        seen[12] = std::sqrt(std::max(0.0f, square - seen[0] * seen[0]));
        seen[13] = dot(theirs, way);
    }
}

}  // namespace

extern "C" void pool_edges(long rows, long ups, long points, long centres, long count, long hidden, double scale,
                           const float* up, const float* positions, const float* normals, const int64_t* neighbours,
                           const float* features, const float* weight, float* pooled, uint8_t* chosen, long threads) {
#pragma omp parallel for num_threads(threads)
    for (long row = 0; row < rows; row++) {
        std::vector<float> seen(count * SEEN);
        const float* own = features + row * points * hidden;
        for (long centre = 0; centre < centres; centre++) {
            const int64_t* around = neighbours + (row * centres + centre) * count;
            const Vector above = at(up, ups * row + centre % ups);
            look(above, centre, positions + row * points * 3, normals + row * points * 3, around, count, (float)scale,
                 seen.data());
            float* best = pooled + (row * centres + centre) * hidden;
            uint8_t* which = chosen + (row * centres + centre) * hidden;
            for (long first = 0; first < hidden; first += LANES) {
                float most[LANES], winner[LANES];
                for (long h = 0; h < LANES; h++) most[h] = -INFINITY, winner[h] = 0;
                for (long k = 0; k < count; k += TOGETHER) {
                    float sums[TOGETHER][LANES];
                    for (long i = 0; i < TOGETHER; i++) {
                        const float* from = own + around[k + i] * hidden + first;
                        for (long h = 0; h < LANES; h++) sums[i][h] = from[h];
                    }
                    const float* s = seen.data() + k * SEEN;
                    for (long j = 0; j < SEEN; j++) {
                        const float* w = weight + j * hidden + first;
                        const float a = s[j], b = s[SEEN + j], c = s[2 * SEEN + j], d = s[3 * SEEN + j];
                        for (long h = 0; h < LANES; h++) {
                            const float x = w[h];
                            sums[0][h] += a * x, sums[1][h] += b * x, sums[2][h] += c * x, sums[3][h] += d * x;
                        }
                    }
                    for (long i = 0; i < TOGETHER; i++) {
                        const float number = k + i;
                        for (long h = 0; h < LANES; h++) {
                            const bool more = !(sums[i][h] <= most[h]) && most[h] == most[h];  // NaN stays
                            most[h] = more ? sums[i][h] : most[h];
                            winner[h] = more ? number : winner[h];
                        }
                    }
                }
                for (long h = 0; h < LANES; h++) best[first + h] = most[h], which[first + h] = (uint8_t)winner[h];
            }
        }
    }
}

// Gradients by features and by weight, added to what is there. One thread: rows share the weight.
extern "C" void pool_edges_backward(long rows, long ups, long points, long centres, long count, long hidden,
                                    double scale, const float* up, const float* positions, const float* normals,
                                    const int64_t* neighbours, const uint8_t* chosen, const float* gradient,
                                    float* by_features, float* by_weight) {
    std::vector<float> seen(count * SEEN), turned(count * SEEN);
    for (long row = 0; row < rows; row++)
        for (long centre = 0; centre < centres; centre++) {
            const long here = row * centres + centre;
            const int64_t* around = neighbours + here * count;
            const Vector above = at(up, ups * row + centre % ups);
            look(above, centre, positions + row * points * 3, normals + row * points * 3, around, count, (float)scale,
                 seen.data());
            for (long k = 0; k < count; k++)
                for (long j = 0; j < SEEN; j++) turned[j * count + k] = seen[k * SEEN + j];
            const float* given = gradient + here * hidden;
            const uint8_t* which = chosen + here * hidden;
            float* to = by_features + row * points * hidden;
            for (long h = 0; h < hidden; h++) to[around[which[h]] * hidden + h] += given[h];
            for (long j = 0; j < SEEN; j++)
                for (long h = 0; h < hidden; h++) by_weight[j * hidden + h] += turned[j * count + which[h]] * given[h];
        }
}

// Indices of the nearest points of each centre, in no order: centres [cloud][centre][3], points [cloud][point][3].
extern "C" void nearest_points(long clouds, long centres, long points, long count, const float* from, const float* to,
                               int64_t* found, long threads) {
#pragma omp parallel for num_threads(threads)
    for (long cloud = 0; cloud < clouds; cloud++) {
        const float* all = to + cloud * points * 3;
        std::vector<float> x(points), y(points), z(points), squares(points);
        for (long i = 0; i < points; i++) x[i] = all[3 * i], y[i] = all[3 * i + 1], z[i] = all[3 * i + 2];
        std::vector<uint64_t> keys(points);
        for (long centre = 0; centre < centres; centre++) {
            const Vector here = at(from + cloud * centres * 3, centre);
            for (long i = 0; i < points; i++) {
                const float dx = x[i] - here.x, dy = y[i] - here.y, dz = z[i] - here.z;
                squares[i] = dx * dx + dy * dy + dz * dz;
            }
            // The bits of floats that are not negative order them; the index decides ties.
            for (long i = 0; i < points; i++) {
                uint32_t bits;
                std::memcpy(&bits, &squares[i], sizeof bits);
                keys[i] = (uint64_t)bits << 32 | (uint64_t)i;
            }
            if (count < points) std::nth_element(keys.begin(), keys.begin() + count, keys.end());
            int64_t* to_here = found + (cloud * centres + centre) * count;
            for (long k = 0; k < count; k++) to_here[k] = (int64_t)(keys[k] & 0xffffffff);
        }
    }
}
