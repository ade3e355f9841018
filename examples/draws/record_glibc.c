/* Reads lines "SEED SKIP COUNT exact", "... mod N" or "... floor N" and writes the outputs of glibc's random, a line each.
   The argument names the generator: glibc-rand (srand and rand), glibc-type0 to glibc-type4 (tables of initstate), or
   lcg:25214903917,... (nrand48's neighbour jrand48, whose state of 48 bits is the seed). */
#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static char table[256];
    static const size_t sizes[] = {8, 32, 64, 128, 256};
    char line[256], kind[16];
    uint64_t seed;
    uint32_t skip, count, n = 0;
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0) {
        printf("glibc %s\n", gnu_get_libc_version());
        return 0;
    }
    while (fgets(line, sizeof line, stdin)) {
        sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu32 " %15s %" SCNu32, &seed, &skip, &count, kind, &n);
        unsigned short state[3] = {seed & 0xffff, seed >> 16 & 0xffff, seed >> 32 & 0xffff};
        if (strcmp(name, "glibc-rand") == 0)
            srand(seed);
        else if (strncmp(name, "glibc-type", 10) == 0)
            initstate(seed, table, sizes[name[10] - '0']);
        for (uint32_t i = 0; i < skip + count; i++) {
            uint32_t made = strncmp(name, "lcg:", 4) == 0        ? (uint32_t)jrand48(state)
                            : strcmp(name, "glibc-rand") == 0 ? (uint32_t)rand()
                                                                : (uint32_t)random();
            if (strcmp(kind, "mod") == 0)
                made %= n;
            if (strcmp(kind, "floor") == 0)
                made = n * (made / (RAND_MAX + 1.0));
            if (i >= skip)
                printf("%s%" PRIu32, i > skip ? " " : "", made);
        }
        printf("\n");
    }
    return 0;
}
