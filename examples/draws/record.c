/* Reads lines "SEED SKIP COUNT exact" or "SEED SKIP COUNT mod N" and writes the outputs of an xorshift generator, a line
   each, in the C of the papers: Marsaglia's xorshift32 (13, 17, 5), xorshift64 (13, 7, 17) and xorshift128 (11, 8, 19; the
   lowest word of the seed is x, the highest w), Vigna's xorshift64star. The argument names it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t y;
static uint64_t x64;
static uint32_t x, ys, z, w;

static uint64_t xorshift32(void)
{
    y ^= y << 13;
    y ^= y >> 17;
    return y ^= y << 5;
}

static uint64_t xorshift64(void)
{
    x64 ^= x64 << 13;
    x64 ^= x64 >> 7;
    return x64 ^= x64 << 17;
}

static uint64_t xorshift64star(void)
{
    x64 ^= x64 >> 12;
    x64 ^= x64 << 25;
    x64 ^= x64 >> 27;
    return x64 * UINT64_C(2685821657736338717);
}

static uint64_t xorshift128(void)
{
    uint32_t t = x ^ (x << 11);
    x = ys;
    ys = z;
    z = w;
    return w = (w ^ (w >> 19)) ^ (t ^ (t >> 8));
}

int main(int argc, char **argv)
{
    uint64_t modulus, skip, count;
    char line[256], kind[16], seed[64];
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0) {
        printf("GCC %s\n", __VERSION__);
        return 0;
    }
    uint64_t (*next)(void) = strcmp(name, "xorshift32") == 0       ? xorshift32
                             : strcmp(name, "xorshift64") == 0     ? xorshift64
                             : strcmp(name, "xorshift64star") == 0 ? xorshift64star
                                                                   : xorshift128;
    while (fgets(line, sizeof line, stdin)) {
        int fields = sscanf(line, "%63s %" SCNu64 " %" SCNu64 " %15s %" SCNu64, seed, &skip, &count, kind, &modulus);
        if (next == xorshift128) {
            /* decimal to four words, the lowest being x */
            uint32_t words[4] = {0, 0, 0, 0};
            for (const char *digit = seed; *digit; digit++) {
                uint64_t carry = *digit - '0';
                for (int i = 0; i < 4; i++) {
                    carry += (uint64_t)words[i] * 10;
                    words[i] = carry;
                    carry >>= 32;
                }
            }
            x = words[0], ys = words[1], z = words[2], w = words[3];
        } else {
            sscanf(seed, "%" SCNu64, &x64);
            y = x64;
        }
        for (uint64_t i = 0; i < skip + count; i++) {
            uint64_t made = next();
            if (i >= skip)
                printf("%s%" PRIu64, i > skip ? " " : "", fields == 5 ? made % modulus : made);
        }
        printf("\n");
    }
    return 0;
}
