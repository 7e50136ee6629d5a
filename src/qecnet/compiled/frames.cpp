// What local reference frames are made of: farthest points of a cloud, and sums over the neighbours of a place. See
// geometry/_compiled.py for the arguments, and geometry/sampling.py and geometry/normals.py for the same in NumPy.
//
// Points are [axis][cell][LEAF]: the leaves of a k-d tree, of which the last one is filled up with points far away.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// Distances are rounded as NumPy rounds them, so that both choose the same points.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace {

constexpr long LEAF = 16;  // as in geometry/_support.py

template <class T>
struct Cells {
    const T *x, *y, *z;
    long count;
    std::vector<T> low[3], high[3];  // of the box around each cell

    Cells(const T* points, long cells) : count(cells) {
        x = points, y = x + cells * LEAF, z = y + cells * LEAF;
        const T* axes[3] = {x, y, z};
        for (long axis = 0; axis < 3; axis++)
            for (long cell = 0; cell < cells; cell++) {
                const auto [least, most] = std::minmax_element(axes[axis] + cell * LEAF, axes[axis] + (cell + 1) * LEAF);
                low[axis].push_back(*least), high[axis].push_back(*most);
            }
    }

    void squares(const T* from, T* to) const {  // of the distances from a point to the boxes
        for (long cell = 0; cell < count; cell++) to[cell] = 0;
        for (long axis = 0; axis < 3; axis++) {
            const T *least = low[axis].data(), *most = high[axis].data(), here = from[axis];
            for (long cell = 0; cell < count; cell++) {
                T gap = std::max(least[cell] - here, here - most[cell]);
                gap = std::max(gap, T(0));
                to[cell] += gap * gap;
            }
        }
    }
};

template <class T>
void choose_farthest(long cells, long count, const T* points, const int64_t* index, int64_t start, int64_t* chosen) {
    const Cells<T> in(points, cells);
    // Places without a point have none that is nearest, and are never farthest.
    std::vector<T> nearest(cells * LEAF), farthest(cells, std::numeric_limits<T>::infinity()), boxes(cells);
    for (long i = 0; i < cells * LEAF; i++) nearest[i] = index[i] < 0 ? -1 : std::numeric_limits<T>::infinity();
    long at = std::find(index, index + cells * LEAF, start) - index;
    for (long i = 0; i < count; i++) {
        chosen[i] = index[at];
        nearest[at] = -1;  // a chosen point is never taken again, even where all that is left repeats a position
        const T here[3] = {in.x[at], in.y[at], in.z[at]};
        in.squares(here, boxes.data());
        boxes[at / LEAF] = -1;
        T most = -2;
        for (long cell = 0; cell < cells; cell++) {
            // What is rounded may be nearer by a hair than its box.
            if (boxes[cell] * T(0.9999) <= farthest[cell]) {
                const long first = cell * LEAF;
                T* to = nearest.data() + first;
                T best[LEAF];
                for (long k = 0; k < LEAF; k++) {
                    const T dx = in.x[first + k] - here[0], dy = in.y[first + k] - here[1], dz = in.z[first + k] - here[2];
                    const T square = dx * dx + dy * dy + dz * dz;
                    to[k] = square < to[k] ? square : to[k];
                    best[k] = to[k];
                }
                for (long half = LEAF / 2; half > 0; half /= 2)
                    for (long k = 0; k < half; k++) best[k] = best[k + half] > best[k] ? best[k + half] : best[k];
                farthest[cell] = best[0];
            }
            most = std::max(most, farthest[cell]);
        }
        int64_t lowest = std::numeric_limits<int64_t>::max();  // ties go to the lower index
        for (long cell = 0; cell < cells; cell++)
            if (farthest[cell] == most)
                for (long k = cell * LEAF; k < (cell + 1) * LEAF; k++)
                    if (nearest[k] == most && index[k] >= 0 && index[k] < lowest) lowest = index[k], at = k;
    }
}

template <class T>
void sum_within(long cells, long queries, double radius, const T* points, const T* places, double* sums, long threads) {
    const Cells<T> in(points, cells);
    const T square = T(radius * radius), reach = T(1.0001 * radius * radius);
#pragma omp parallel num_threads(threads)
    {
        std::vector<T> boxes(cells);
#pragma omp for
        for (long query = 0; query < queries; query++) {
            const T* here = places + 3 * query;
            in.squares(here, boxes.data());
            T total[10][LEAF] = {};
            for (long cell = 0; cell < cells; cell++) {
                if (!(boxes[cell] <= reach)) continue;
                const long first = cell * LEAF;
                for (long k = 0; k < LEAF; k++) {
                    const T x = in.x[first + k] - here[0], y = in.y[first + k] - here[1], z = in.z[first + k] - here[2];
                    const T xx = x * x, yy = y * y, zz = z * z;
                    const bool near = xx + yy + zz <= square;
                    const T terms[10] = {1, x, y, z, xx, yy, zz, x * y, y * z, x * z};
                    for (long j = 0; j < 10; j++) total[j][k] += near ? terms[j] : T(0);
                }
            }
            for (long j = 0; j < 10; j++) {
                double sum = 0;
                for (long k = 0; k < LEAF; k++) sum += total[j][k];
                sums[j * queries + query] = sum;
            }
        }
    }
}

}  // namespace

extern "C" {

void farthest_float(long cells, long count, const float* points, const int64_t* index, long start, int64_t* chosen) {
    choose_farthest(cells, count, points, index, start, chosen);
}

void farthest_double(long cells, long count, const double* points, const int64_t* index, long start, int64_t* chosen) {
    choose_farthest(cells, count, points, index, start, chosen);
}

void sums_float(long cells, long queries, double radius, const float* points, const float* places, double* sums,
                long threads) {
    sum_within(cells, queries, radius, points, places, sums, threads);
}

void sums_double(long cells, long queries, double radius, const double* points, const double* places, double* sums,
                 long threads) {
    sum_within(cells, queries, radius, points, places, sums, threads);
}
}
