// Steps that snap poses to the axes of normals, see geometry/snapping.py (float64).

#include <cmath>

namespace {

constexpr double TINY = 1e-30;

// Columns of the rotation matrix of a unit quaternion, one after the other.
void columns(const double* q, double r[3][3]) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0][0] = w * w + x * x - y * y - z * z, r[0][1] = 2 * (x * y + w * z), r[0][2] = 2 * (x * z - w * y);
    r[1][0] = 2 * (x * y - w * z), r[1][1] = w * w - x * x + y * y - z * z, r[1][2] = 2 * (y * z + w * x);
    r[2][0] = 2 * (x * z + w * y), r[2][1] = 2 * (y * z - w * x), r[2][2] = w * w - x * x - y * y + z * z;
}

// Davenport's matrix K, with qᵀ K q = ⟨R(q), G⟩ for the gradient G by column.
void davenport(const double g[3][3], double k[4][4]) {
    const double xx = g[0][0], yy = g[1][1], zz = g[2][2];
    const double xy = g[1][0] + g[0][1], yz = g[2][1] + g[1][2], zx = g[0][2] + g[2][0];
    k[0][0] = xx + yy + zz, k[1][1] = xx - yy - zz, k[2][2] = yy - xx - zz, k[3][3] = zz - xx - yy;
    k[0][1] = k[1][0] = g[1][2] - g[2][1];
    k[0][2] = k[2][0] = g[2][0] - g[0][2];
    k[0][3] = k[3][0] = g[0][1] - g[1][0];
    k[1][2] = k[2][1] = xy, k[2][3] = k[3][2] = yz, k[1][3] = k[3][1] = zx;
}

}  // namespace

// poses [pose][4] are changed in place; moments [pose][9][9], or one for all if `shared`.
extern "C" void climb(long poses, long shared, long steps, long squarings, const double* moments, double* to) {
    for (long pose = 0; pose < poses; pose++) {
        const double* moment = moments + (shared ? 0 : 81 * pose);
        double* q = to + 4 * pose;
        for (long step = 0; step < steps; step++) {
            double r[3][3], g[3][3] = {}, k[4][4];
            columns(q, r);
            double square = 0;
            for (int axis = 0; axis < 3; axis++) {
                double squares[9], product[9] = {};
                for (int i = 0; i < 9; i++) squares[i] = r[axis][i / 3] * r[axis][i % 3];
                for (int i = 0; i < 9; i++)
                    for (int j = 0; j < 9; j++) product[j] += squares[i] * moment[9 * i + j];
                for (int i = 0; i < 3; i++) {
                    for (int j = 0; j < 3; j++) g[axis][i] += product[3 * i + j] * r[axis][j];
                    square += g[axis][i] * g[axis][i];
                }
            }
            davenport(g, k);
            // Eigenvalues are at least −√2 |G|: shifted by that, none is negative.
            const double size = std::sqrt(2 * square) > TINY ? std::sqrt(2 * square) : TINY;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) k[i][j] = k[i][j] / size + (i == j);
            for (long squaring = 0; squaring < squarings; squaring++) {
                double twice[4][4] = {};
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++)
                        for (int m = 0; m < 4; m++) twice[i][m] += k[i][j] * k[j][m];
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) k[i][j] = twice[i][j];
            }
            double next[4] = {}, length = 0;
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) next[i] += k[i][j] * q[j];
                length += next[i] * next[i];
            }
            length = std::sqrt(length) > 1e-12 ? std::sqrt(length) : 1e-12;
            for (int i = 0; i < 4; i++) q[i] = next[i] / length;
        }
    }
}
