/* A driver for tests: it runs nothing, keeps device memory in host memory, and says what it was called with.

   Kernels: "scale" (pointer, float, int), "mapped" (tensor map, pointer, int), "packed" (a structure of 208 bytes with
   a pointer at 8, a tensor map at 64 and an int at 200), "refused" (no parameters; its launch fails with 719). Their
   layout is answered for functions and for CUkernels, never for the other kind. With FAKE_ALIASES, cuGetProcAddress
   answers with addresses of its own, as a driver may. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Address;
typedef struct { const char *name; int kernel; } Function;

static const struct { const char *name; int count; size_t offsets[4], sizes[4]; } KERNELS[] = {
    {"scale", 3, {0, 8, 12}, {8, 4, 4}},
    {"mapped", 3, {0, 128, 136}, {128, 8, 4}},
    {"packed", 1, {0}, {208}},
    {"refused", 0, {0}, {0}},
};
static struct { Address start; size_t length; char *bytes; int pool; } memory[64];
static int memory_count, initialized;

static void say(const char *what, const char *name, unsigned x, unsigned y) {
    if (getenv("FAKE_LOG")) fprintf(stderr, "driver: %s %s %u %u\n", what, name, x, y);
}

int cuInit(unsigned flags) { (void)flags; return initialized = 1, 0; }

static int allocate(Address *address, size_t length, int pool) {
    memory[memory_count].start = 0x7f0000000000ull + (Address)memory_count * 0x1000000;
    memory[memory_count].length = length;
    memory[memory_count].pool = pool;
    memory[memory_count].bytes = malloc(length);
    for (size_t index = 0; index < length; index++) memory[memory_count].bytes[index] = (char)(index + memory_count);
    *address = memory[memory_count++].start;
    return 0;
}
int cuMemAlloc_v2(Address *address, size_t length) { return allocate(address, length, 0); }
int cuMemAllocAsync(Address *address, size_t length, void *stream) {
    (void)stream;
    return allocate(address, length, 1);
}

int cuMemMap(Address start, size_t length, size_t offset, unsigned long long handle, unsigned long long flags) {
    (void)offset, (void)handle, (void)flags;
    Address unused;
    allocate(&unused, length, 0);
    memory[memory_count - 1].start = start;
    return 0;
}
int cuMemUnmap(Address start, size_t length) {
    (void)length;
    for (int index = 0; index < memory_count; index++)
        if (memory[index].start == start) memory[index].pool = 2;
    return 0;
}

static int find(Address address, int pool) {
    for (int index = 0; index < memory_count; index++)
        if (memory[index].pool == pool && address >= memory[index].start &&
            address < memory[index].start + memory[index].length)
            return index;
    return -1;
}
int cuMemGetAddressRange_v2(Address *start, size_t *length, Address address) {
    int index = find(address, 0);
    if (index < 0) return 500;
    *start = memory[index].start, *length = memory[index].length;
    return 0;
}
int cuPointerGetAttribute(void *data, int attribute, Address address) {
    int index = find(address, 1);
    if (index < 0) return 1;
    if (attribute == 11) *(Address *)data = memory[index].start;
    else if (attribute == 12) *(size_t *)data = memory[index].length;
    else return 1;
    return 0;
}
int cuMemcpyDtoH_v2(void *to, Address from, size_t length) {
    int index = find(from, 0);
    if (index < 0) index = find(from, 1);
    if (index < 0) return 1;
    memcpy(to, memory[index].bytes + (from - memory[index].start), length);
    return 0;
}
int cuMemcpyHtoD_v2(Address to, const void *from, size_t length) {
    int index = find(to, 0);
    if (index < 0) return 1;
    memcpy(memory[index].bytes + (to - memory[index].start), from, length);
    return 0;
}
int cuCtxSynchronize(void) { return 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    return *value = attribute == 75 ? 9 : 0, 0;
}
int cuStreamIsCapturing(void *stream, int *status) { return *status = stream != NULL, 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0, 0; }

static int load(void **module, const char *how, unsigned size) {
    if (!initialized) return 3;
    say("load", how, size, 0);
    *module = malloc(8);
    return 0;
}
int cuModuleLoad(void **module, const char *path) { (void)path; return load(module, "module from file", 0); }
int cuModuleLoadData(void **module, const void *image) { (void)image; return load(module, "module", 0); }
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *names, void **values) {
    (void)image, (void)names, (void)values;
    return load(module, "module with options", count);
}
int cuModuleLoadFatBinary(void **module, const void *image) { (void)image; return load(module, "fat binary", 0); }
int cuModuleUnload(void *module) { return free(module), 0; }
int cuLibraryLoadData(void **library, const void *image, int *a, void **b, unsigned c, int *d, void **e, unsigned f) {
    (void)image, (void)a, (void)b, (void)d, (void)e;
    return load(library, "library", c + f);
}
int cuLibraryLoadFromFile(void **library, const char *path, int *a, void **b, unsigned c, int *d, void **e,
                          unsigned f) {
    (void)path, (void)a, (void)b, (void)d, (void)e;
    return load(library, "library from file", c + f);
}
int cuLibraryUnload(void *library) { return free(library), 0; }
int cuLibraryGetModule(void **module, void *library) { return *module = (char *)library + 1, 0; }

static int function(void **found, const char *name, int kernel) {
    for (unsigned index = 0; index < sizeof KERNELS / sizeof *KERNELS; index++) {
        if (strcmp(KERNELS[index].name, name) != 0) continue;
        Function *made = malloc(sizeof *made);
        *made = (Function){KERNELS[index].name, kernel};
        *found = made;
        return 0;
    }
    return 500;
}
int cuModuleGetFunction(void **found, void *module, const char *name) { (void)module; return function(found, name, 0); }
int cuLibraryGetKernel(void **found, void *library, const char *name) {
    (void)library;
    return function(found, name, 1);
}
int cuKernelGetFunction(void **found, void *kernel) { return function(found, ((Function *)kernel)->name, 0); }

static int layout(Function *of, size_t index, size_t *offset, size_t *size) {
    for (unsigned kernel = 0; kernel < sizeof KERNELS / sizeof *KERNELS; kernel++) {
        if (strcmp(KERNELS[kernel].name, of->name) != 0) continue;
        if ((int)index >= KERNELS[kernel].count) return 1;
        *offset = KERNELS[kernel].offsets[index], *size = KERNELS[kernel].sizes[index];
        return 0;
    }
    return 400;
}
int cuFuncGetParamInfo(void *of, size_t index, size_t *offset, size_t *size) {
    return ((Function *)of)->kernel ? 400 : layout(of, index, offset, size);
}
int cuKernelGetParamInfo(void *of, size_t index, size_t *offset, size_t *size) {
    return ((Function *)of)->kernel ? layout(of, index, offset, size) : 400;
}
int cuFuncGetAttribute(int *value, int attribute, void *of) {
    return *value = strcmp(((Function *)of)->name, "packed") == 0 && attribute == 11 ? 2 : 0, 0;
}
int cuKernelGetAttribute(int *value, int attribute, void *of, int device) {
    (void)device;
    return cuFuncGetAttribute(value, attribute, of);
}
int cuFuncGetName(const char **name, void *of) {
    if (((Function *)of)->kernel) return 400;
    return *name = ((Function *)of)->name, 0;
}
int cuFuncGetModule(void **module, void *of) { (void)of; return *module = NULL, 0; }

static int launch(const char *how, void *of, unsigned x, unsigned threads) {
    say(how, ((Function *)of)->name, x, threads);
    return strcmp(((Function *)of)->name, "refused") == 0 ? 719 : 0;
}
#define LAUNCH(name, how)                                                                                             \
    int name(void *of, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared,       \
             void *stream, void **parameters, void **extra) {                                                         \
        (void)y, (void)z, (void)b, (void)c, (void)shared, (void)stream, (void)parameters, (void)extra;                \
        return launch(how, of, x, a);                                                                                 \
    }
LAUNCH(cuLaunchKernel, "launch")
LAUNCH(cuLaunchKernel_ptsz, "launch on a thread's stream")
static LAUNCH(alias_of_launch, "launch by another address")
int cuLaunchKernelEx(const unsigned *config, void *of, void **parameters, void **extra) {
    (void)parameters, (void)extra;
    return launch("launch with attributes", of, config[0], config[3]);
}
int cuLaunchCooperativeKernel(void *of, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
                              unsigned shared, void *stream, void **parameters) {
    (void)y, (void)z, (void)b, (void)c, (void)shared, (void)stream, (void)parameters;
    return launch("cooperative launch", of, x, a);
}
int cuGraphAddKernelNode_v2(void **node, void *graph, void **needs, size_t count, const void *given) {
    (void)graph, (void)needs, (void)count, (void)given;
    return *node = NULL, 0;
}
int cuGraphLaunch(void *graph, void *stream) { (void)graph, (void)stream; return say("graph", "launch", 0, 0), 0; }

int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *extents,
                           const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                           int swizzle, int promotion, int fill) {
    uint64_t words[16] = {(uint64_t)(uintptr_t)address, (uint64_t)type << 32 | rank,
                          (uint64_t)interleave << 32 | (unsigned)swizzle,
                          (uint64_t)promotion << 32 | (unsigned)fill};
    for (unsigned axis = 0; axis < rank; axis++) words[4 + axis] = extents[axis] << 32 | box[axis] << 8 | steps[axis];
    for (unsigned axis = 0; axis + 1 < rank; axis++) words[10 + axis] = strides[axis];
    memcpy(map, words, sizeof words);
    return 0;
}

/* NVRTC's part: a program is the name of two files, NAME.cubin and NAME.ptx. */
static int nvrtc_file(const char *program, const char *suffix, char *bytes, size_t *length) {
    char path[1024];
    snprintf(path, sizeof path, "%s.%s", program, suffix);
    FILE *file = fopen(path, "rb");
    if (!file) return 4;
    static char content[1 << 20];
    *length = fread(content, 1, sizeof content, file);
    fclose(file);
    if (bytes) memcpy(bytes, content, *length);
    return 0;
}
int nvrtcGetCUBINSize(const char *program, size_t *length) { return nvrtc_file(program, "cubin", NULL, length); }
int nvrtcGetPTXSize(const char *program, size_t *length) { return nvrtc_file(program, "ptx", NULL, length); }
static size_t unused;
int nvrtcGetCUBIN(const char *program, char *bytes) { return nvrtc_file(program, "cubin", bytes, &unused); }
int nvrtcGetPTX(const char *program, char *bytes) { return nvrtc_file(program, "ptx", bytes, &unused); }

int cuGetProcAddress(const char *symbol, void **found, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **found, int version, uint64_t flags, int *status);
#define SAME(name) {#name, (void *)name}
static const struct { const char *symbol; void *function; } TABLE[] = {
    SAME(cuInit), {"cuMemAlloc", (void *)cuMemAlloc_v2}, SAME(cuMemAllocAsync), SAME(cuModuleLoad),
    SAME(cuModuleLoadData), SAME(cuModuleLoadDataEx), SAME(cuModuleLoadFatBinary), SAME(cuModuleUnload),
    SAME(cuLibraryLoadData),
    SAME(cuLibraryLoadFromFile), SAME(cuLibraryUnload), SAME(cuLibraryGetModule), SAME(cuModuleGetFunction),
    SAME(cuLibraryGetKernel), SAME(cuKernelGetFunction), SAME(cuLaunchKernel), SAME(cuLaunchKernelEx),
    SAME(cuLaunchCooperativeKernel), {"cuGraphAddKernelNode", (void *)cuGraphAddKernelNode_v2}, SAME(cuGraphLaunch),
    SAME(cuTensorMapEncodeTiled), SAME(cuMemMap), SAME(cuMemUnmap),
    {"cuMemcpyHtoD", (void *)cuMemcpyHtoD_v2},
};
int cuGetProcAddress_v2(const char *symbol, void **found, int version, uint64_t flags, int *status) {
    *found = NULL;
    if (status) *status = 0;
    if (strcmp(symbol, "cuGetProcAddress") == 0)
        *found = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    for (unsigned index = 0; index < sizeof TABLE / sizeof *TABLE; index++)
        if (strcmp(TABLE[index].symbol, symbol) == 0) *found = TABLE[index].function;
    if (strcmp(symbol, "cuLaunchKernel") == 0) {
        if (flags & 2) *found = (void *)cuLaunchKernel_ptsz;
        if (getenv("FAKE_ALIASES")) *found = (void *)alias_of_launch;
    }
    if (!*found && status) *status = 1;
    return *found ? 0 : 500;
}
int cuGetProcAddress(const char *symbol, void **found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, found, version, flags, NULL);
}
