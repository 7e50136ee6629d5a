// Pooling graphs: patches around farthest points, and the nearest neighbours in each (float32).
//
// Points are [cloud][point][3]. A point that is not valid is in no patch. The other arguments: pooling.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

struct Cloud {  // the valid points of one, and where they were
    std::vector<float> x, y, z, distances, nearest;
    std::vector<int64_t> index;

    Cloud(long points, const float* positions, const uint8_t* valid) {
        for (long i = 0; i < points; i++)
            if (valid[i]) {
                x.push_back(positions[3 * i]), y.push_back(positions[3 * i + 1]), z.push_back(positions[3 * i + 2]);
                index.push_back(i);
            }
        distances.resize(size()), nearest.assign(size(), INFINITY);
    }
    long size() const { return (long)index.size(); }

    void measure(long from) {  // squared distances of all points from one
        const float fx = x[from], fy = y[from], fz = z[from];
        const long n = size();
        for (long i = 0; i < n; i++) {
            const float dx = x[i] - fx, dy = y[i] - fy, dz = z[i] - fz;
            distances[i] = dx * dx + dy * dy + dz * dz;
        }
    }
};

void pool(long points, long patches, long neighbours, const float* positions, const uint8_t* valid, int64_t start,
          int64_t* centres, int64_t* found, uint8_t* present) {
    std::memset(centres, 0, patches * sizeof(int64_t));
    std::memset(found, 0, patches * neighbours * sizeof(int64_t));
    std::memset(present, 0, patches * neighbours);
    Cloud cloud(points, positions, valid);
    long centre = std::lower_bound(cloud.index.begin(), cloud.index.end(), start) - cloud.index.begin();
    const long reached = std::min(neighbours, cloud.size());
    std::vector<long> order(reached);
    std::vector<float> kept(reached);
    for (long patch = 0; patch < std::min(patches, cloud.size()); patch++) {
        centres[patch] = cloud.index[centre];
        cloud.measure(centre);
        long count = 0;
        for (long i = 0; i < cloud.size(); i++) {  // the nearest by insertion; of equally near ones, the first
            const float distance = cloud.distances[i];
            if (count == reached && distance >= kept[count - 1]) continue;
            long at = count < reached ? count++ : count - 1;
            for (; at > 0 && kept[at - 1] > distance; at--) kept[at] = kept[at - 1], order[at] = order[at - 1];
            kept[at] = distance, order[at] = i;
        }
        for (long i = 0; i < reached; i++)
            found[patch * neighbours + i] = cloud.index[order[i]], present[patch * neighbours + i] = 1;
        cloud.nearest[centre] = -1;  // a chosen point is never taken again, even where others repeat its position
        for (long i = 0; i < cloud.size(); i++) cloud.nearest[i] = std::min(cloud.nearest[i], cloud.distances[i]);
        centre = std::max_element(cloud.nearest.begin(), cloud.nearest.end()) - cloud.nearest.begin();
    }
}

}  // namespace

extern "C" void pool_clouds(long clouds, long points, long patches, long neighbours, const float* positions,
                            const uint8_t* valid, const int64_t* starts, int64_t* centres, int64_t* found,
                            uint8_t* present) {
    for (long i = 0; i < clouds; i++)
        pool(points, patches, neighbours, positions + i * points * 3, valid + i * points, starts[i],
             centres + i * patches, found + i * patches * neighbours, present + i * patches * neighbours);
}
