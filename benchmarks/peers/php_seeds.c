/* A search for the seeds of PHP's mt_rand (7.1 and later) by the method php_mt_seed 4.0 (openwall) publishes, written
 * anew from its description: the first output needs the state words 0, 1 and 397 alone; eight vectors of seeds go side by
 * side, so that a multiplication need not wait for the one before; only seeds whose first output fits are looked at one
 * by one, from the words 1 and 397 on that are known already.
 *
 *     php_seeds START COUNT SIZE TARGET [TARGET ...]
 *
 * The targets are the first outputs of mt_rand(0, SIZE - 1), or with SIZE 0 of mt_rand(). START and COUNT are multiples of
 * the seeds side by side. Prints the CPU-seconds, then the seeds, one a line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define VECTORS 8
#define STEP (LANES * VECTORS)
#define M 397
#define MOST 64

typedef uint32_t vec __attribute__((vector_size(LANES * 4)));

static const uint32_t MULTIPLIER = 1812433253u, MATRIX = 0x9908b0dfu;

static uint32_t size, limit, targets[MOST];
static int count;

static inline uint32_t next(uint32_t x, uint32_t i) { return MULTIPLIER * (x ^ (x >> 30)) + i; }

static inline uint32_t tempered(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t y = c ^ (((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1) ^ (-(b & 1) & MATRIX);
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* The outputs of one seed, with word 397 known; numbers drawn again included. */
static int fits(uint32_t seed, uint32_t far) {
    uint32_t a = seed, b = next(seed, 1), c = far;
    int found = 0;
    for (uint32_t i = 1; found < count; i++) {
        uint32_t y = tempered(a, b, c);
        if (size == 0) {
            if (y >> 1 != targets[found++]) return 0;
        } else if (y <= limit) {
            if (y % size != targets[found++]) return 0;
        }
        a = b, b = next(b, i + 1), c = next(c, M + i);
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc - 4 > MOST) return 2;
    uint64_t start = strtoull(argv[1], 0, 10), stop = start + strtoull(argv[2], 0, 10);
    size = strtoul(argv[3], 0, 10), count = argc - 4;
    for (int i = 0; i < count; i++) targets[i] = strtoul(argv[4 + i], 0, 10);
    if (start % STEP || stop % STEP || stop > 1ull << 32) return 2;
    limit = size == 0 || (size & (size - 1)) == 0 ? UINT32_MAX : UINT32_MAX - UINT32_MAX % size - 1;

    /* y % size == target where (y - target) / size is whole: by the inverse of its odd part, turned by its power of two. */
    uint32_t odd = size ? size : 2, turn = __builtin_ctz(odd), inverse = 1, most = UINT32_MAX / odd;
    odd >>= turn;
    for (int i = 0; i < 5; i++) inverse *= 2 - odd * inverse;

    static uint32_t seeds[1 << 20];
    size_t hits = 0;
    clock_t began = clock();
    for (uint64_t base = start; base < stop; base += STEP) {
        vec seed[VECTORS], x[VECTORS], one[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            for (int l = 0; l < LANES; l++) seed[v][l] = (uint32_t)base + v * LANES + l;
            one[v] = x[v] = MULTIPLIER * (seed[v] ^ (seed[v] >> 30)) + 1;
        }
        for (uint32_t i = 2; i <= M; i++)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; v++) x[v] = MULTIPLIER * (x[v] ^ (x[v] >> 30)) + i;
        for (int v = 0; v < VECTORS; v++) {
            vec y = x[v] ^ (((seed[v] & 0x80000000u) | (one[v] & 0x7fffffffu)) >> 1) ^ (-(one[v] & 1) & MATRIX);
            y ^= y >> 11;
            y ^= (y << 7) & 0x9d2c5680u;
            y ^= (y << 15) & 0xefc60000u;
            y ^= y >> 18;
            vec hit;
            if (size == 0) {
                hit = (vec)((y >> 1) == targets[0]);
            } else {
                vec q = (y - targets[0]) * inverse;
                q = turn ? (q >> turn) | (q << (32 - turn)) : q;
                hit = (vec)(q <= most) | (vec)(y > limit);
            }
            uint32_t any = 0;
            for (int l = 0; l < LANES; l++) any |= (hit[l] & 1) << l;
            for (; any; any &= any - 1) {
                int l = __builtin_ctz(any);
                if (fits(seed[v][l], x[v][l]) && hits < sizeof seeds / sizeof *seeds) seeds[hits++] = seed[v][l];
            }
        }
    }
    printf("%.6f\n", (double)(clock() - began) / CLOCKS_PER_SEC);
    for (size_t i = 0; i < hits; i++) printf("%u\n", seeds[i]);
    return 0;
}
