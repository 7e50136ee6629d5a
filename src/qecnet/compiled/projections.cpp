// Clouds as seen along their three axes, see nn/projection_reader.py (float32).

#include <cmath>
#include <cstring>

namespace {

constexpr int CHANNELS = 5;
constexpr int PLANES[3][2] = {{1, 2}, {0, 2}, {0, 1}};

float weight(float offset, float reach, float rim) {
    const float found = (reach - std::fabs(offset)) / rim;
    return found < 0 ? 0 : found > 1 ? 1 : found;
}

}  // namespace

// positions and normals [row][point][3], drawn [row][axis][channel][resolution][resolution].
extern "C" void draw_projections(long rows, long points, long resolution, double far, double reach, double rim,
                                 const float* positions, const float* normals, float* drawn, long threads) {
    const long pixels = resolution * resolution;
    const float half = (float)resolution / 2, slope = (float)((1 - far) / 2), middle = (float)((1 + far) / 2);
#pragma omp parallel for num_threads(threads)
    for (long row = 0; row < rows; row++)
        for (int axis = 0; axis < 3; axis++) {
            float* to = drawn + (row * 3 + axis) * CHANNELS * pixels;
            std::memset(to, 0, CHANNELS * pixels * sizeof(float));
            for (long point = 0; point < points; point++) {
                const float* at = positions + (row * points + point) * 3;
                const float* normal = normals + (row * points + point) * 3;
                const float shown[CHANNELS] = {middle + slope * at[axis], middle - slope * at[axis],
                                               std::fabs(normal[0]), std::fabs(normal[1]), std::fabs(normal[2])};
                if (!std::isfinite(at[0] + at[1] + at[2])) continue;
                const float x = (at[PLANES[axis][0]] + 1) * half, y = (at[PLANES[axis][1]] + 1) * half;
                const long left = (long)std::floor(x), low = (long)std::floor(y);
                for (long v = low - 1; v <= low + 1; v++)
                    for (long u = left - 1; u <= left + 1; u++) {
                        if (v < 0 || v >= resolution || u < 0 || u >= resolution) continue;
                        const float w = weight(x - (float)u - 0.5f, (float)reach, (float)rim) *
                                        weight(y - (float)v - 0.5f, (float)reach, (float)rim);
                        float* pixel = to + v * resolution + u;
                        for (int channel = 0; channel < CHANNELS; channel++) {
                            const float value = shown[channel] * w;
                            if (value > pixel[channel * pixels]) pixel[channel * pixels] = value;
                        }
                    }
            }
        }
}
