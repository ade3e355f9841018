/* Reads lines "SEED SKIP COUNT exact" or "SEED SKIP COUNT mod N" and writes the outputs of Marsaglia's xorshift32
   (13, 17, 5), a line each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t step(uint32_t y)
{
    y ^= y << 13;
    y ^= y >> 17;
    return y ^ (y << 5);
}

int main(int argc, char **argv)
{
    uint32_t y, skip, count, modulus;
    char line[256], kind[16];
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("GCC %s\n", __VERSION__);
        return 0;
    }
    while (fgets(line, sizeof line, stdin)) {
        int fields = sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %15s %" SCNu32, &y, &skip, &count, kind, &modulus);
        for (uint32_t i = 0; i < skip + count; i++) {
            y = step(y);
            if (i >= skip)
                printf("%s%" PRIu32, i > skip ? " " : "", fields == 5 ? y % modulus : y);
        }
        printf("\n");
    }
    return 0;
}
