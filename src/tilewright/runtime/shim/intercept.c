/* The shim: a library that LD_PRELOAD puts in front of libcuda.so.1, and that records kernel launches.

   Programs get at the driver in three ways, and each leads to the functions below: by linking with libcuda (the symbols
   here come first), by dlsym on a handle of libcuda (dlsym is replaced), and by cuGetProcAddress (its answers are
   replaced), as the CUDA runtime does. Every function calls the driver's own and returns its result. Of NVRTC, one
   function is replaced in the same way.

   Not handled: dlvsym, since libcuda's symbols have no versions; cuGetExportTable, whose tables have no public layout;
   programs that are linked statically with the C library, or that run with raised privileges.
   Checked by: tests/runtime/test_shim.py, with a driver of the test's own; on a GPU by hand (docs/how-to). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "driver_calls.h"
#include "launches.h"
#include "record.h"

#define EXPORTED __attribute__((visibility("default")))

/* name, symbol for cuGetProcAddress, the first CUDA version that means this one by it, whether it is the variant for
   per-thread default streams. Of one symbol, later versions come first. */
#define HOOKS(HOOK)                                              \
    HOOK(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0)      \
    HOOK(cuGetProcAddress, "cuGetProcAddress", 0, 0)             \
    HOOK(nvrtcGetCUBIN, "nvrtcGetCUBIN", 0, 0)                   \
    HOOK(cuModuleLoad, "cuModuleLoad", 0, 0)                     \
    HOOK(cuModuleLoadData, "cuModuleLoadData", 0, 0)             \
    HOOK(cuModuleLoadDataEx, "cuModuleLoadDataEx", 0, 0)         \
    HOOK(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 0, 0)   \
    HOOK(cuModuleUnload, "cuModuleUnload", 0, 0)                 \
    HOOK(cuModuleGetFunction, "cuModuleGetFunction", 0, 0)       \
    HOOK(cuLibraryLoadData, "cuLibraryLoadData", 0, 0)           \
    HOOK(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 0, 0)   \
    HOOK(cuLibraryUnload, "cuLibraryUnload", 0, 0)               \
    HOOK(cuLibraryGetModule, "cuLibraryGetModule", 0, 0)         \
    HOOK(cuLibraryGetKernel, "cuLibraryGetKernel", 0, 0)         \
    HOOK(cuKernelGetFunction, "cuKernelGetFunction", 0, 0)       \
    HOOK(cuMemMap, "cuMemMap", 0, 0)                             \
    HOOK(cuMemUnmap, "cuMemUnmap", 0, 0)                         \
    HOOK(cuLaunchKernel_ptsz, "cuLaunchKernel", 0, 1)            \
    HOOK(cuLaunchKernel, "cuLaunchKernel", 0, 0)                 \
    HOOK(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 0, 1)        \
    HOOK(cuLaunchKernelEx, "cuLaunchKernelEx", 0, 0)             \
    HOOK(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 0, 1) \
    HOOK(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 0, 0) \
    HOOK(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode", 12000, 0) \
    HOOK(cuGraphAddKernelNode, "cuGraphAddKernelNode", 0, 0)     \
    HOOK(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0)          \
    HOOK(cuGraphAddNode, "cuGraphAddNode", 0, 0)                 \
    HOOK(cuGraphLaunch_ptsz, "cuGraphLaunch", 0, 1)              \
    HOOK(cuGraphLaunch, "cuGraphLaunch", 0, 0)                   \
    HOOK(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", 0, 0) \
    HOOK(cuTensorMapEncodeIm2col, "cuTensorMapEncodeIm2col", 0, 0) \
    HOOK(cuTensorMapEncodeIm2colWide, "cuTensorMapEncodeIm2colWide", 0, 0)

#define NUMBER(name, symbol, version, per_thread) NUMBER_##name,
enum { HOOKS(NUMBER) HOOK_COUNT };

typedef struct {
    const char *name, *symbol;
    int version, per_thread;
    void *own, *real;
} Hook;
static Hook hooks[HOOK_COUNT];
static void *driver; /* a handle of libcuda */

/* ---- finding the driver's functions ---- */

void *real_dlsym(void *library, const char *name) {
    typedef void *Lookup(void *, const char *);
    static Lookup *found;
    if (!found) {
        static const char *versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.27", "GLIBC_2.0"};
        for (unsigned index = 0; index < sizeof versions / sizeof *versions && !found; index++)
            found = (Lookup *)dlvsym(RTLD_NEXT, "dlsym", versions[index]);
        if (!found) abort(); /* no program can go on without dlsym */
    }
    /* A call in the last place: RTLD_NEXT counts from whoever returns, which must not be this library. */
    return found(library, name);
}

static void *open_driver(void) {
    if (!driver) driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver;
}

void *driver_function(const char *name) {
    void *function = open_driver() ? real_dlsym(driver, name) : NULL;
    return function ? function : real_dlsym(RTLD_NEXT, name);
}

static void *real(int number) {
    Hook *hook = &hooks[number];
    void *found = __atomic_load_n(&hook->real, __ATOMIC_ACQUIRE);
    if (!found) {
        found = driver_function(hook->name);
        if (found == hook->own) found = NULL;
        __atomic_store_n(&hook->real, found, __ATOMIC_RELEASE);
    }
    return found;
}

static Hook *hook_named(const char *name) {
    if (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvrtc", 5) != 0) return NULL;
    for (int number = 0; number < HOOK_COUNT; number++)
        if (strcmp(hooks[number].name, name) == 0) return &hooks[number];
    return NULL;
}

EXPORTED void *dlsym(void *library, const char *name) {
    if (options()->folder && library != RTLD_NEXT) {
        Hook *hook = hook_named(name);
        if (hook) {
            void *found = real_dlsym(library, name);
            /* By RTLD_DEFAULT it is the shim's own that is found, driver or no driver. */
            if (found == hook->own) return real((int)(hook - hooks)) ? found : NULL;
            if (!found) return NULL;
            if (name[0] == 'c' && !open_driver() && library != RTLD_DEFAULT) driver = library; /* it has another name */
            __atomic_store_n(&hook->real, found, __ATOMIC_RELEASE);
            return hook->own;
        }
    }
    return real_dlsym(library, name);
}

/* What cuGetProcAddress answered for `symbol`, or the shim's function where it is one that is replaced. */
static void *replaced(const char *symbol, void *found, int version, uint64_t flags) {
    if (!found || !symbol || !options()->folder) return found;
    int matching = -1;
    for (int number = 0; number < HOOK_COUNT; number++) {
        Hook *hook = &hooks[number];
        if (found == hook->own) return found;
        if (strcmp(symbol, hook->symbol) != 0 && strcmp(symbol, hook->name) != 0) continue;
        if (real(number) == found) {
            matching = number;
            break;
        }
        int per_thread = (flags & PER_THREAD_STREAM) != 0;
        if (matching < 0 && version >= hook->version && (!hook->per_thread || per_thread)) matching = number;
    }
    if (matching < 0) return found;
    __atomic_store_n(&hooks[matching].real, found, __ATOMIC_RELEASE);
    return hooks[matching].own;
}

/* ---- the functions that are replaced ---- */

/* Calls the driver's function; without one the program is answered as by a driver that was not initialized. */
#define DRIVER(name, ...) \
    (real(NUMBER_##name) ? ((__typeof__(name) *)real(NUMBER_##name))(__VA_ARGS__) : ERROR_NOT_INITIALIZED)
#define AFTER(condition, ...)           \
    if ((condition) && enter()) {       \
        __VA_ARGS__;                    \
        leave();                        \
    }

EXPORTED Result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    Result result = DRIVER(cuGetProcAddress_v2, symbol, function, version, flags, status);
    if (result == 0 && function) *function = replaced(symbol, *function, version, flags);
    return result;
}

EXPORTED Result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    Result result = DRIVER(cuGetProcAddress, symbol, function, version, flags);
    if (result == 0 && function) *function = replaced(symbol, *function, version, flags);
    return result;
}

/* A program that compiles a kernel while it runs takes the cubin and leaves the text: it is asked for here. */
static void keep_text(Handle program, const char *cubin) {
    Dl_info where;
    if (!dladdr(real(NUMBER_nvrtcGetCUBIN), &where) || !where.dli_fname) return;
    void *library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    typedef Result Size(Handle, size_t *);
    Size *cubin_size = (Size *)real_dlsym(library, "nvrtcGetCUBINSize");
    Size *text_size = (Size *)real_dlsym(library, "nvrtcGetPTXSize");
    Result (*get_text)(Handle, char *) = (Result(*)(Handle, char *))real_dlsym(library, "nvrtcGetPTX");
    size_t length = 0, text_length = 0;
    if (cubin_size && text_size && get_text && cubin_size(program, &length) == 0 && length > 1 &&
        text_size(program, &text_length) == 0 && text_length > 1) {
        char *text = malloc(text_length);
        if (text && get_text(program, text) == 0) text_compiled(cubin, length, text, text_length);
        free(text);
    }
    dlclose(library);
}

EXPORTED Result nvrtcGetCUBIN(Handle program, char *cubin) {
    Result (*get)(Handle, char *) = (Result(*)(Handle, char *))real(NUMBER_nvrtcGetCUBIN);
    if (!get) return 3; /* NVRTC_ERROR_INVALID_INPUT */
    Result result = get(program, cubin);
    AFTER(result == 0, keep_text(program, cubin));
    return result;
}

EXPORTED Result cuModuleLoad(Handle *module, const char *path) {
    Result result = DRIVER(cuModuleLoad, module, path);
    AFTER(result == 0, file_loaded(*module, path));
    return result;
}

EXPORTED Result cuModuleLoadData(Handle *module, const void *image) {
    Result result = DRIVER(cuModuleLoadData, module, image);
    AFTER(result == 0, image_loaded(*module, image));
    return result;
}

EXPORTED Result cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, int *names, void **values) {
    Result result = DRIVER(cuModuleLoadDataEx, module, image, count, names, values);
    AFTER(result == 0, image_loaded(*module, image));
    return result;
}

EXPORTED Result cuModuleLoadFatBinary(Handle *module, const void *image) {
    Result result = DRIVER(cuModuleLoadFatBinary, module, image);
    AFTER(result == 0, image_loaded(*module, image));
    return result;
}

EXPORTED Result cuModuleUnload(Handle module) {
    AFTER(1, image_unloaded(module));
    return DRIVER(cuModuleUnload, module);
}

EXPORTED Result cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    Result result = DRIVER(cuModuleGetFunction, function, module, name);
    AFTER(result == 0, kernel_found(*function, module, name, 0));
    return result;
}

EXPORTED Result cuLibraryLoadData(Handle *library, const void *image, int *names, void **values, unsigned count,
                                  int *library_names, void **library_values, unsigned library_count) {
    Result result = DRIVER(cuLibraryLoadData, library, image, names, values, count, library_names, library_values,
                           library_count);
    AFTER(result == 0, image_loaded(*library, image));
    return result;
}

EXPORTED Result cuLibraryLoadFromFile(Handle *library, const char *path, int *names, void **values, unsigned count,
                                      int *library_names, void **library_values, unsigned library_count) {
    Result result = DRIVER(cuLibraryLoadFromFile, library, path, names, values, count, library_names,
                           library_values, library_count);
    AFTER(result == 0, file_loaded(*library, path));
    return result;
}

EXPORTED Result cuLibraryUnload(Handle library) {
    AFTER(1, image_unloaded(library));
    return DRIVER(cuLibraryUnload, library);
}

EXPORTED Result cuLibraryGetModule(Handle *module, Handle library) {
    Result result = DRIVER(cuLibraryGetModule, module, library);
    AFTER(result == 0, same_image(*module, library));
    return result;
}

EXPORTED Result cuLibraryGetKernel(Handle *kernel, Handle library, const char *name) {
    Result result = DRIVER(cuLibraryGetKernel, kernel, library, name);
    AFTER(result == 0, kernel_found(*kernel, library, name, 1));
    return result;
}

EXPORTED Result cuKernelGetFunction(Handle *function, Handle kernel) {
    Result result = DRIVER(cuKernelGetFunction, function, kernel);
    AFTER(result == 0, same_kernel(*function, kernel));
    return result;
}

EXPORTED Result cuMemMap(Address start, size_t length, size_t offset, Address memory, unsigned long long flags) {
    Result result = DRIVER(cuMemMap, start, length, offset, memory, flags);
    AFTER(result == 0, memory_mapped(start, length));
    return result;
}

EXPORTED Result cuMemUnmap(Address start, size_t length) {
    AFTER(1, memory_unmapped(start, length));
    return DRIVER(cuMemUnmap, start, length);
}

/* Recorded before the launch, since a kernel that hangs is one of interest. */
static uint64_t before(const KernelLaunch *launch) {
    uint64_t number = 0;
    AFTER(1, number = record_launch(launch));
    return number;
}

static Result after(Result result, uint64_t number) {
    AFTER(result != 0 && number, record_failure(number, result));
    return result;
}

#define LAUNCH(name)                                                                                                  \
    EXPORTED Result name(Handle kernel, unsigned x, unsigned y, unsigned z, unsigned width, unsigned height,          \
                         unsigned depth, unsigned shared_bytes, Handle stream, void **parameters, void **extra) {     \
        KernelLaunch how = {kernel,       stream, {x, y, z},  {width, height, depth}, {0},                            \
                            shared_bytes, 0,      parameters, extra};                                                 \
        uint64_t number = before(&how);                                                                               \
        return after(DRIVER(name, kernel, x, y, z, width, height, depth, shared_bytes, stream, parameters, extra),    \
                     number);                                                                                         \
    }
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernel_ptsz)

#define LAUNCH_COOPERATIVE_KERNEL(name)                                                                              \
    EXPORTED Result name(Handle kernel, unsigned x, unsigned y, unsigned z, unsigned width, unsigned height,         \
                         unsigned depth, unsigned shared_bytes, Handle stream, void **parameters) {                  \
        KernelLaunch how = {kernel,       stream,             {x, y, z},  {width, height, depth}, {0},               \
                            shared_bytes, LAUNCH_COOPERATIVE, parameters, NULL};                                     \
        uint64_t number = before(&how);                                                                              \
        return after(DRIVER(name, kernel, x, y, z, width, height, depth, shared_bytes, stream, parameters), number); \
    }
LAUNCH_COOPERATIVE_KERNEL(cuLaunchCooperativeKernel)
LAUNCH_COOPERATIVE_KERNEL(cuLaunchCooperativeKernel_ptsz)

static KernelLaunch configured(const LaunchConfig *config, Handle kernel, void **parameters, void **extra) {
    KernelLaunch launch = {.kernel = kernel, .stream = config->stream, .shared_bytes = config->shared_bytes,
                           .parameters = parameters, .extra = extra};
    memcpy(launch.grid, config->grid, sizeof launch.grid);
    memcpy(launch.block, config->block, sizeof launch.block);
    for (unsigned index = 0; config->attributes && index < config->attribute_count; index++) {
        const LaunchAttribute *attribute = &config->attributes[index];
        if (attribute->id == ATTRIBUTE_CLUSTER)
            memcpy(launch.cluster, &attribute->value.cluster, sizeof launch.cluster);
        if (attribute->id == ATTRIBUTE_COOPERATIVE && attribute->value.number) launch.flags |= LAUNCH_COOPERATIVE;
        if (attribute->id == ATTRIBUTE_PROGRAMMATIC && attribute->value.number) launch.flags |= LAUNCH_PROGRAMMATIC;
    }
    return launch;
}

#define LAUNCH_EX(name)                                                                                   \
    EXPORTED Result name(const LaunchConfig *config, Handle kernel, void **parameters, void **extra) {    \
        if (!config) return DRIVER(name, config, kernel, parameters, extra);                              \
        KernelLaunch how = configured(config, kernel, parameters, extra);                                 \
        uint64_t number = before(&how);                                                                   \
        return after(DRIVER(name, config, kernel, parameters, extra), number);                            \
    }
LAUNCH_EX(cuLaunchKernelEx)
LAUNCH_EX(cuLaunchKernelEx_ptsz)

static uint64_t before_node(const KernelNode *node, int has_kernel) {
    KernelLaunch launch = {.kernel = node->function || !has_kernel ? node->function : node->kernel,
                           .shared_bytes = node->shared_bytes, .flags = LAUNCH_IN_GRAPH,
                           .parameters = node->parameters, .extra = node->extra};
    memcpy(launch.grid, node->grid, sizeof launch.grid);
    memcpy(launch.block, node->block, sizeof launch.block);
    return before(&launch);
}

#define ADD_KERNEL(name, has_kernel)                                                                               \
    EXPORTED Result name(Handle *node, Handle graph, const Handle *needs, size_t count, const KernelNode *given) { \
        uint64_t number = given ? before_node(given, has_kernel) : 0;                                              \
        return after(DRIVER(name, node, graph, needs, count, given), number);                                      \
    }
ADD_KERNEL(cuGraphAddKernelNode, 0)
ADD_KERNEL(cuGraphAddKernelNode_v2, 1)

EXPORTED Result cuGraphAddNode(Handle *node, Handle graph, const Handle *needs, size_t count, GraphNode *given) {
    uint64_t number = given && given->type == 0 ? before_node(&given->kernel, 1) : 0;
    return after(DRIVER(cuGraphAddNode, node, graph, needs, count, given), number);
}

EXPORTED Result cuGraphAddNode_v2(Handle *node, Handle graph, const Handle *needs, const void *edges, size_t count,
                                  GraphNode *given) {
    uint64_t number = given && given->type == 0 ? before_node(&given->kernel, 1) : 0;
    return after(DRIVER(cuGraphAddNode_v2, node,
                        graph, needs, edges, count, given), number);
}

#define GRAPH_LAUNCH(name)                                                     \
    EXPORTED Result name(Handle graph, Handle stream) {                        \
        AFTER(1, record_graph_launch());                                       \
        return DRIVER(name, graph, stream);                  \
    }
GRAPH_LAUNCH(cuGraphLaunch)
GRAPH_LAUNCH(cuGraphLaunch_ptsz)

/* Interleave, swizzle, promotion and fill come last in each list of numbers. */
EXPORTED Result cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, Address address, const uint64_t *extents,
                                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                       int interleave, int swizzle, int promotion, int fill) {
    Result result = DRIVER(cuTensorMapEncodeTiled, map, type, rank, address, extents, strides, box, steps,
                           interleave, swizzle, promotion, fill);
    if (result == 0 && rank <= 5 && enter()) {
        int64_t numbers[9] = {0};
        for (uint32_t axis = 0; axis < rank; axis++) numbers[axis] = box[axis];
        int64_t ways[4] = {interleave, swizzle, promotion, fill};
        memcpy(numbers + rank, ways, sizeof ways);
        record_tensor_map(0, map, (unsigned)type, rank, address, extents, strides, steps, numbers, rank + 4);
        leave();
    }
    return result;
}

EXPORTED Result cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, Address address, const uint64_t *extents,
                                        const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                                        uint32_t pixels, const uint32_t *steps, int interleave, int swizzle,
                                        int promotion, int fill) {
    Result result = DRIVER(cuTensorMapEncodeIm2col, map, type, rank, address, extents, strides, lower, upper,
                           channels, pixels, steps, interleave, swizzle, promotion, fill);
    if (result == 0 && rank >= 3 && rank <= 5 && enter()) {
        int64_t numbers[12] = {channels, pixels};
        unsigned count = 2;
        for (uint32_t axis = 0; axis + 2 < rank; axis++) numbers[count++] = lower[axis];
        for (uint32_t axis = 0; axis + 2 < rank; axis++) numbers[count++] = upper[axis];
        int64_t ways[4] = {interleave, swizzle, promotion, fill};
        memcpy(numbers + count, ways, sizeof ways);
        record_tensor_map(1, map, (unsigned)type, rank, address, extents, strides, steps, numbers, count + 4);
        leave();
    }
    return result;
}

EXPORTED Result cuTensorMapEncodeIm2colWide(void *map, int type, uint32_t rank, Address address,
                                            const uint64_t *extents, const uint64_t *strides, int lower, int upper,
                                            uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave,
                                            int mode, int swizzle, int promotion, int fill) {
    Result result = DRIVER(cuTensorMapEncodeIm2colWide, map, type, rank, address, extents, strides, lower, upper,
                           channels, pixels, steps, interleave, mode, swizzle, promotion, fill);
    AFTER(result == 0, {
        int64_t numbers[9] = {channels, pixels, lower, upper, mode, interleave, swizzle, promotion, fill};
        record_tensor_map(2, map, (unsigned)type, rank, address, extents, strides, steps, numbers, 9);
    });
    return result;
}

#define ENTRY(name, symbol, version, per_thread) {#name, symbol, version, per_thread, (void *)name, NULL},
static Hook hooks[HOOK_COUNT] = {HOOKS(ENTRY)};
