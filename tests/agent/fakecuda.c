/* A CUDA driver without a card: memory is the host's, and a launch runs the search here.

   FAULT says what is broken, or names a file (by its whole path) that says so; `wrong@1` is of the card 1 alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t address;

static int is(const char *fault) {
    const char *set = getenv("FAULT"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[64] = "", here[64];
    if (set != NULL && *set == '/') {
        FILE *file = fopen(set, "r");
        if (file == NULL || fscanf(file, "%63s", text) != 1) text[0] = 0;
        if (file != NULL) fclose(file);
        set = text;
    }
    snprintf(here, sizeof here, "%s@%s", fault, visible != NULL ? visible : "");
    return set != NULL && (strcmp(set, fault) == 0 || strcmp(set, here) == 0);
}

int cuInit(unsigned flags) {
    if (is("hang")) for (;;) pause();
    if (is("crash")) abort();
    if (is("unknown")) return 999;
    if (is("none")) return 100;
    return flags == 0 ? 0 : 1;
}
/* FAKE_UUIDS lists the cards of the machine; without it there are four that have no UUID. */
static int all(void) {
    const char *uuids = getenv("FAKE_UUIDS");
    int count = uuids != NULL ? 1 : 4;
    for (; uuids != NULL && *uuids; uuids++) count += *uuids == ',';
    return count;
}
int cuDeviceGetCount(int *count) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int listed = visible != NULL && *visible != 0;
    for (const char *at = visible; listed && *at; at++) listed += *at == ',';
    *count = is("many") || visible == NULL ? all() : is("gone") ? 0 : listed;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    int count;
    cuDeviceGetCount(&count);
    *device = 7 + ordinal;
    return ordinal >= 0 && ordinal < count ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = context; return device == 7 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "Fake") > 0 && device >= 7 ? 0 : 101; }
/* The entry of a list, from 0; the empty text if there is none. */
static void entry(const char *list, int at, char text[64]) {
    for (; *list && at > 0; list++) at -= *list == ',';
    snprintf(text, 64, "%.*s", (int)strcspn(list, ","), list);
}
static int index_of(int device) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *uuids = getenv("FAKE_UUIDS");
    char wanted[64], uuid[64];
    if (is("shuffled")) return 0;
    if (visible == NULL) return device - 7;
    entry(visible, device - 7, wanted);
    if (strncmp(wanted, "GPU-", 4) != 0) return atoi(wanted);
    for (int at = 0; at < all(); at++) {
        entry(uuids, at, uuid);
        if (strncmp(uuid, wanted, strlen(wanted)) == 0) return at;
    }
    return -1;
}
int cuDeviceGetUuid_v2(uint8_t bytes[16], int device) {
    char uuid[64] = "";
    int index = index_of(device), filled = 0;
    if (index < 0 || getenv("FAKE_UUIDS") == NULL) return 101;
    entry(getenv("FAKE_UUIDS"), index, uuid);
    for (const char *at = uuid + 4; filled < 16 && at[0] && at[1]; at += 2) {
        if (*at == '-') at++;
        unsigned value;
        if (sscanf(at, "%2x", &value) != 1) return 1;
        bytes[filled++] = (uint8_t)value;
    }
    return filled == 16 ? 0 : 1;
}
/* FAKE_MEMORY is a folder in which a process notes what it has of which card. */
static void note(size_t size) {
    const char *folder = getenv("FAKE_MEMORY");
    char path[512];
    if (folder == NULL) return;
    snprintf(path, sizeof path, "%s/%d.%d", folder, index_of(7), (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL) return;
    fprintf(file, "%zu\n", size >> 20);
    fclose(file);
}
int cuCtxSetCurrent(void *context) { return context != NULL ? 0 : 201; }
int cuMemAlloc_v2(address *memory, size_t size) {
    if (is("full")) return 2;
    *memory = (address)malloc(size);
    note(size);
    return 0;
}
int cuMemsetD32_v2(address memory, unsigned word, size_t count) {
    for (size_t at = 0; at < count; at++) ((uint32_t *)memory)[at] = word;
    return 0;
}
int cuMemcpyDtoH_v2(void *to, address from, size_t size) {
    memcpy(to, (void *)from, size);
    if (is("memory") && size > 4) ((uint8_t *)to)[size / 2] ^= 1;
    return 0;
}
int cuModuleLoadData(void **module, const char *image) {
    *module = module;
    return strstr(image, ".entry canary(") != NULL ? 0 : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = function;
    return module != NULL && strcmp(name, "canary") == 0 ? 0 : 500;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **given, void **extra) {
    if (function == NULL || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
    uint32_t *found = (uint32_t *)*(address *)given[0];
    uint32_t start = *(uint32_t *)given[1], count = *(uint32_t *)given[2];
    uint32_t steps = *(uint32_t *)given[3], target = *(uint32_t *)given[4];
    if (is("idle")) return 0;
    for (uint64_t thread = 0; thread < (uint64_t)gx * bx && thread < count; thread++) {
        uint32_t state = start + (uint32_t)thread;
        for (uint32_t step = 0; step < steps; step++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
        }
        uint32_t seed = start + (uint32_t)thread + (is("wrong") ? 1 : 0);
        if (state == target && seed < *found) *found = seed;
    }
    return 0;
}
int cuCtxSynchronize(void) { return is("illegal") ? 700 : 0; }
int cuGetErrorString(int status, const char **text) {
    *text = status == 999 ? "unknown error" : status == 100 ? "no CUDA-capable device is detected" : NULL;
    return *text != NULL ? 0 : 1;
}
