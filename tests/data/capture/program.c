/* Programs for tests of the shim: `program HOW WHAT...`. HOW is how the driver's functions are found: linked, dlsym,
   default (dlsym of RTLD_DEFAULT), table (cuGetProcAddress), old (its first version), thread (for per-thread streams).
   WHAT are steps, in order. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long Address;
typedef int Get(const char *, void **, int, uint64_t);
typedef int Get2(const char *, void **, int, uint64_t, int *);

#ifdef LINKED
extern int cuInit(unsigned), cuMemAlloc_v2(Address *, size_t), cuMemAllocAsync(Address *, size_t, void *);
extern int cuModuleLoad(void), cuModuleLoadData(void), cuModuleLoadDataEx(void), cuModuleLoadFatBinary(void);
extern int cuModuleUnload(void), cuModuleGetFunction(void), cuLibraryLoadData(void), cuLibraryLoadFromFile(void);
extern int cuLibraryGetKernel(void), cuKernelGetFunction(void), cuLibraryGetModule(void), cuLaunchKernel(void);
extern int cuLaunchKernelEx(void), cuLaunchCooperativeKernel(void), cuGraphAddKernelNode_v2(void), cuGraphLaunch(void);
extern int cuTensorMapEncodeTiled(void), cuMemMap(void), cuMemUnmap(void), cuMemcpyHtoD_v2(void), nvrtcGetCUBIN(void);
#define SAME(name) {#name, (void *)name}
static const struct { const char *name; void *function; } LINKS[] = {
    SAME(cuInit), SAME(cuMemAlloc_v2), SAME(cuMemAllocAsync), SAME(cuModuleLoad), SAME(cuModuleLoadData),
    SAME(cuModuleLoadDataEx), SAME(cuModuleLoadFatBinary), SAME(cuModuleUnload), SAME(cuModuleGetFunction),
    SAME(cuLibraryLoadData), SAME(cuLibraryLoadFromFile), SAME(cuLibraryGetKernel), SAME(cuKernelGetFunction),
    SAME(cuLibraryGetModule), SAME(cuLaunchKernel), SAME(cuLaunchKernelEx), SAME(cuLaunchCooperativeKernel),
    SAME(cuGraphAddKernelNode_v2), SAME(cuGraphLaunch), SAME(cuTensorMapEncodeTiled), SAME(cuMemMap), SAME(cuMemUnmap),
    SAME(cuMemcpyHtoD_v2), SAME(nvrtcGetCUBIN),
};
#endif

#define MAPPED 0x7e0000000000ull
static const char *how;
static void *driver, *get;

static void fail(const char *what) {
    fprintf(stderr, "program: %s\n", what);
    exit(9);
}

static void *function(const char *name) {
    void *found = NULL;
    char symbol[64];
    strcpy(symbol, name);
    if (strlen(symbol) > 3 && strcmp(symbol + strlen(symbol) - 3, "_v2") == 0) symbol[strlen(symbol) - 3] = 0;
    if (strcmp(how, "linked") == 0) {
#ifdef LINKED
        for (unsigned index = 0; index < sizeof LINKS / sizeof *LINKS; index++)
            if (strcmp(LINKS[index].name, name) == 0) found = LINKS[index].function;
#endif
    } else if (strcmp(how, "dlsym") == 0) {
        found = dlsym(driver, name);
    } else if (strcmp(how, "default") == 0) {
        found = dlsym(RTLD_DEFAULT, name);
    } else if (strcmp(how, "old") == 0) {
        ((Get *)get)(symbol, &found, 11080, 0);
    } else {
        int status = 0;
        ((Get2 *)get)(symbol, &found, 13000, strcmp(how, "thread") == 0 ? 2 : 0, &status);
    }
    if (!found) fail(name);
    return found;
}
#define CALL(name, ...)                                                       \
    do {                                                                      \
        int result = ((int (*)())function(#name))(__VA_ARGS__);               \
        if (result) printf("%s answered %d\n", #name, result), fflush(stdout); \
    } while (0)

static void *module, *kernel;
static Address buffers[3];

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    char *bytes = calloc(1, 1 << 24);
    *length = fread(bytes, 1, (1 << 24) - 1, file);
    fclose(file);
    return bytes;
}

static void launch(Address address, float factor, int count) {
    void *parameters[] = {&address, &factor, &count};
    CALL(cuLaunchKernel, kernel, 4u, 1u, 1u, 128u, 1u, 1u, 0u, NULL, parameters, NULL);
}

static void *many(void *unused) {
    for (int index = 0; index < 500; index++) launch(buffers[0], 1.0f, index % 10);
    return unused;
}

static void tensor_map(unsigned char *map, Address address) {
    uint64_t extents[] = {64, 32}, strides[] = {128};
    unsigned box[] = {64, 8}, steps[] = {1, 1};
    CALL(cuTensorMapEncodeTiled, map, 9, 2u, (void *)address, extents, strides, box, steps, 0, 3, 2, 0);
}

/* Each step is a word and its value. */
static void step(const char *what, const char *value) {
    size_t length;
    unsigned char map[128] __attribute__((aligned(64))), packed[208] __attribute__((aligned(64))) = {0};
    if (strcmp(what, "data") == 0) {
        char *bytes = read_file(value, &length);
        CALL(cuModuleLoadData, &module, bytes);
        memset(bytes, 'x', length); /* a program may free it */
    } else if (strcmp(what, "wrapped") == 0) {
        struct { unsigned magic, version; const void *data; void *more; } wrapper = {
            0x466243b1, 1, read_file(value, &length), NULL};
        CALL(cuLibraryLoadData, &module, &wrapper, NULL, NULL, 0u, NULL, NULL, 0u);
    } else if (strcmp(what, "compile") == 0) {
        char *bytes = calloc(1, 1 << 20);
        const char *before = how;
        if (strcmp(how, "linked") != 0) how = "dlsym"; /* NVRTC has no table */
        CALL(nvrtcGetCUBIN, value, bytes);
        how = before;
        CALL(cuModuleLoadData, &module, bytes);
    } else if (strcmp(what, "point") == 0) {
        Address address = buffers[1] + (Address)atoi(value);
        CALL(cuMemcpyHtoD_v2, buffers[0] + 16, &address, sizeof address);
    } else if (strcmp(what, "file") == 0) {
        CALL(cuModuleLoad, &module, value);
    } else if (strcmp(what, "kernel") == 0) {
        CALL(cuModuleGetFunction, &kernel, module, value);
    } else if (strcmp(what, "library-kernel") == 0) {
        CALL(cuLibraryGetKernel, &kernel, module, value);
    } else if (strcmp(what, "unload") == 0) {
        CALL(cuModuleUnload, module);
    } else if (strcmp(what, "launch") == 0) {
        launch(buffers[0], 0.5f, atoi(value));
    } else if (strcmp(what, "elsewhere") == 0) {
        launch(buffers[1] + 256, 0.5f, atoi(value));
    } else if (strcmp(what, "pool") == 0) {
        launch(buffers[2] + 16, 0.5f, atoi(value));
    } else if (strcmp(what, "map") == 0) {
        CALL(cuMemMap, MAPPED + 0x1000 * (Address)atoi(value), (size_t)0x1000, (size_t)0, 0ull, 0ull);
    } else if (strcmp(what, "unmap") == 0) {
        CALL(cuMemUnmap, MAPPED + 0x1000 * (Address)atoi(value), (size_t)0x1000);
    } else if (strcmp(what, "mapping") == 0) {
        launch(MAPPED + 0x1000 * (Address)atoi(value) + 64, 0.5f, 1);
    } else if (strcmp(what, "plain") == 0) {
        CALL(cuLaunchKernel, kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, NULL, NULL, NULL);
    } else if (strcmp(what, "bytes") == 0) {
        char block[16] = {0};
        size_t size = sizeof block;
        int count = atoi(value);
        memcpy(block, &buffers[0], 8);
        memcpy(block + 12, &count, 4);
        void *extra[] = {(void *)1, block, (void *)2, &size, NULL};
        CALL(cuLaunchKernel, kernel, 4u, 1u, 1u, 128u, 1u, 1u, 1024u, NULL, NULL, extra);
    } else if (strcmp(what, "cooperative") == 0) {
        void *parameters[] = {&buffers[0], &(float){2.0f}, &(int){3}};
        CALL(cuLaunchCooperativeKernel, kernel, 2u, 1u, 1u, 64u, 1u, 1u, 0u, NULL, parameters);
    } else if (strcmp(what, "mapped") == 0) {
        void *parameters[] = {map, &buffers[0], &(int){7}};
        tensor_map(map, buffers[1] + 512);
        struct { int id, pad; unsigned x, y, z, rest[13]; } attributes[] = {{4, 0, 2, 1, 1, {0}}, {6, 0, 1, 0, 0, {0}}};
        struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } config = {
            {4, 2, 1}, {256, 1, 1}, 2048, NULL, attributes, 2};
        CALL(cuLaunchKernelEx, &config, kernel, parameters, NULL);
    } else if (strcmp(what, "packed") == 0) {
        memcpy(packed + 8, &buffers[0], 8);
        tensor_map(map, buffers[1] + 64);
        memcpy(packed + 64, map, 128);
        packed[200] = 42;
        void *parameters[] = {packed};
        CALL(cuLaunchKernel, kernel, 2u, 1u, 1u, 128u, 1u, 1u, 0u, NULL, parameters, NULL);
    } else if (strcmp(what, "graph") == 0) {
        void *node, *parameters[] = {&buffers[0], &(float){2.0f}, &(int){9}};
        struct {
            void *function;
            unsigned grid[3], block[3], shared;
            void **parameters, **extra;
            void *kernel, *context;
        } given = {
            NULL, {3, 1, 1}, {32, 1, 1}, 0, parameters, NULL, kernel, NULL};
        CALL(cuGraphAddKernelNode_v2, &node, NULL, NULL, (size_t)0, &given);
        CALL(cuGraphLaunch, NULL, NULL);
    } else if (strcmp(what, "threads") == 0) {
        pthread_t threads[8];
        for (int index = 0; index < 8; index++) pthread_create(&threads[index], NULL, many, NULL);
        for (int index = 0; index < 8; index++) pthread_join(threads[index], NULL);
    } else if (strcmp(what, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            /* As a child that starts anew does. */
            step("data", value);
            CALL(cuModuleGetFunction, &kernel, module, "scale");
            launch(buffers[0], 0.5f, 77);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (strcmp(what, "exit") == 0) {
        exit(atoi(value));
    } else if (strcmp(what, "kill") == 0) {
        kill(getpid(), atoi(value));
    } else if (strcmp(what, "say") == 0) {
        puts(value), fflush(stdout);
    } else if (strcmp(what, "sleep") == 0) {
        sleep((unsigned)atoi(value));
    } else {
        fail(what);
    }
}

int main(int count, char **arguments) {
    how = arguments[1];
    if (strcmp(how, "linked") != 0) {
        driver = dlopen("libcuda.so.1", RTLD_LAZY | (strcmp(how, "default") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
        if (!driver) fail(dlerror());
        get = dlsym(driver, strcmp(how, "old") == 0 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    }
    CALL(cuInit, 0u);
    CALL(cuMemAlloc_v2, &buffers[0], (size_t)4096);
    CALL(cuMemAlloc_v2, &buffers[1], (size_t)8192);
    CALL(cuMemAllocAsync, &buffers[2], (size_t)1000, NULL);
    for (int index = 2; index + 1 < count; index += 2) step(arguments[index], arguments[index + 1]);
    return 0;
}
