/* A HIP runtime without a card. FAULT says what is broken. */
#include <stdlib.h>
#include <string.h>

static int is(const char *fault) {
    const char *set = getenv("FAULT");
    return set != NULL && strcmp(set, fault) == 0;
}

int hipInit(unsigned flags) { return is("none") ? 100 : (int)flags; }
int hipGetDeviceCount(int *count) { *count = is("many") ? 2 : 1; return 0; }
int hipSetDevice(int device) { return device == 0 ? 0 : 101; }
int hipMalloc(void **memory, size_t size) { *memory = malloc(size); return 0; }
int hipMemset(void *memory, int value, size_t size) { memset(memory, value, size); return 0; }
int hipMemcpy(void *to, const void *from, size_t size, int kind) {
    if (kind != 2) return 21;
    memcpy(to, from, size);
    if (is("memory")) ((char *)to)[size - 1] ^= 1;
    return 0;
}
const char *hipGetErrorString(int status) { return status == 100 ? "no ROCm-capable device is detected" : "?"; }
