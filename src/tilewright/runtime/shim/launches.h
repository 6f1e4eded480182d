/* What is known of modules, kernels and launches, and what is recorded of them. The lock is held in every call. */
#ifndef TILEWRIGHT_LAUNCHES_H
#define TILEWRIGHT_LAUNCHES_H

#include "driver_api.h"

/* A module or library was loaded from an image in memory, or from a file. */
void image_loaded(Handle owner, const void *image);
void file_loaded(Handle owner, const char *path);
/* NVRTC made a cubin of a program of which it has the text, too. */
void text_compiled(const void *cubin, size_t length, const char *text, size_t text_length);
void image_unloaded(Handle owner);
/* `module` is a library's module. */
void same_image(Handle module, Handle library);

/* Memory was mapped to addresses, or its mapping was removed. */
void memory_mapped(Address start, size_t length);
void memory_unmapped(Address start, size_t length);

/* A handle names a kernel of a module or library. is_kernel: it is a CUkernel. */
void kernel_found(Handle kernel, Handle owner, const char *name, int is_kernel);
/* `function` is what a CUkernel is in one context. */
void same_kernel(Handle function, Handle kernel);

enum { LAUNCH_COOPERATIVE = 1, LAUNCH_PROGRAMMATIC = 2, LAUNCH_IN_GRAPH = 4, LAUNCH_CLUSTER_OF_KERNEL = 8 };
typedef struct {
    Handle kernel, stream;
    unsigned grid[3], block[3], cluster[3]; /* cluster of 0: not given */
    unsigned shared_bytes, flags;
    void **parameters, **extra;
} KernelLaunch;

/* Called before the launch. Returns the number of its record, 0 where there is none. */
uint64_t record_launch(const KernelLaunch *launch);
void record_failure(uint64_t launch, Result result);
void record_graph_launch(void);

/* kind: 0 tiled, 1 im2col, 2 im2col of mode w. numbers: the rest of the arguments, as
   driver/capture/maps.py names them. */
void record_tensor_map(unsigned kind, const void *encoded, unsigned data_type, unsigned rank, Address address,
                       const uint64_t *extents, const uint64_t *strides, const uint32_t *element_strides,
                       const int64_t *numbers, unsigned number_count);

#endif
