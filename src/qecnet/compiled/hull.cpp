// Faces of a convex hull, merged and tilted: the two steps of geometry/_hull.py that compare all with all (float64).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace {

struct Axes {  // vectors [row][3] as three rows
    std::vector<double> x, y, z;

    Axes(long count, const double* rows) : x(count), y(count), z(count) {
        for (long i = 0; i < count; i++) x[i] = rows[3 * i], y[i] = rows[3 * i + 1], z[i] = rows[3 * i + 2];
    }
    void along(const double* direction, double* to) const {
        const double a = direction[0], b = direction[1], c = direction[2];
        for (size_t i = 0; i < x.size(); i++) to[i] = a * x[i] + b * y[i] + c * z[i];
    }
};

}  // namespace

// Normals [face][3] that make an angle with a cosine above `same` with one that has most area near it become one face;
// at most `most` of them. Returns how many: sums [merged][3] of area times normal, and the lowest index of each.
extern "C" void merge_faces(long faces, long most, double same, const double* normals, const double* areas,
                            const int64_t* indices, double* sums, int64_t* lowest, int64_t* count) {
    const Axes axes(faces, normals);
    std::vector<double> cosines(faces), near(faces);
    for (long face = 0; face < faces; face++) {
        axes.along(normals + 3 * face, cosines.data());
        double total = 0;
        for (long other = 0; other < faces; other++) total += cosines[other] > same ? areas[other] : 0.0;
        near[face] = total;
    }
    std::vector<long> order(faces);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return near[a] > near[b]; });
    std::vector<char> free(faces, 1);
    *count = 0;
    for (const long seed : order) {
        if (!free[seed]) continue;
        axes.along(normals + 3 * seed, cosines.data());
        double* sum = sums + 3 * *count;
        sum[0] = sum[1] = sum[2] = 0;
        lowest[*count] = std::numeric_limits<int64_t>::max();
        for (long other = 0; other < faces; other++)
            if (free[other] && cosines[other] > same) {
                free[other] = 0;
                for (long i = 0; i < 3; i++) sum[i] += areas[other] * normals[3 * other + i];
                lowest[*count] = std::min(lowest[*count], indices[other]);
            }
        if (++*count == most) return;
    }
}

// How far corners [corner][3] reach along each direction [direction][3].
extern "C" void reach_along(long corners, long directions, const double* points, const double* along, double* reach) {
    const Axes axes(corners, points);
    constexpr long LANES = 16;
    for (long direction = 0; direction < directions; direction++) {
        const double a = along[3 * direction], b = along[3 * direction + 1], c = along[3 * direction + 2];
        double most[LANES];
        std::fill(most, most + LANES, -std::numeric_limits<double>::infinity());
        long i = 0;
        for (; i + LANES <= corners; i += LANES)
            for (long k = 0; k < LANES; k++) {
                const double height = a * axes.x[i + k] + b * axes.y[i + k] + c * axes.z[i + k];
                most[k] = height > most[k] ? height : most[k];
            }
        for (; i < corners; i++) most[0] = std::max(most[0], a * axes.x[i] + b * axes.y[i] + c * axes.z[i]);
        reach[direction] = *std::max_element(most, most + LANES);
    }
}
