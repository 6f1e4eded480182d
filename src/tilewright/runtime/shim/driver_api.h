/* The part of the CUDA driver API that the shim needs, so that it compiles where no CUDA toolkit is installed.
   Source: cuda.h of CUDA 13.0; layouts and numbers of a driver API do not change. */
#ifndef TILEWRIGHT_DRIVER_API_H
#define TILEWRIGHT_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

typedef int Result; /* CUresult: 0 is success */
typedef void *Handle; /* CUmodule, CUlibrary, CUfunction, CUkernel, CUstream, CUgraph, ... */
typedef unsigned long long Address; /* CUdeviceptr */

typedef struct {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int number;
        struct { unsigned x, y, z; } cluster;
    } value;
} LaunchAttribute;
enum { ATTRIBUTE_COOPERATIVE = 2, ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_PROGRAMMATIC = 6 };

typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    LaunchAttribute *attributes;
    unsigned attribute_count;
} LaunchConfig;

/* CUDA_KERNEL_NODE_PARAMS_v2; version 1 ends before `kernel`. */
typedef struct {
    Handle function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    Handle kernel, context;
} KernelNode;

/* CUgraphNodeParams, of which kernel nodes (type 0) are CUDA_KERNEL_NODE_PARAMS_v3, laid out as version 2 is. */
typedef struct {
    int type, reserved[3];
    KernelNode kernel;
} GraphNode;

enum { FUNCTION_CLUSTER_WIDTH = 11 }; /* CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH; then HEIGHT and DEPTH */
enum { POINTER_RANGE_START = 11, POINTER_RANGE_SIZE = 12 };
enum { DEVICE_MAJOR = 75, DEVICE_MINOR = 76 };
enum { EXTRA_END = 0, EXTRA_BYTES = 1, EXTRA_SIZE = 2 }; /* CU_LAUNCH_PARAM_... */
enum { PER_THREAD_STREAM = 2 }; /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
enum { CAPTURE_RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_RELAXED */
enum { ERROR_NOT_INITIALIZED = 3, ERROR_NOT_FOUND = 500 };

#endif
