/* The driver's own functions, found past the shim's. */
#ifndef TILEWRIGHT_DRIVER_CALLS_H
#define TILEWRIGHT_DRIVER_CALLS_H

#include "driver_api.h"

/* The C library's dlsym, which the shim's own stands in front of. */
void *real_dlsym(void *library, const char *name);

/* A function of libcuda that the shim does not replace, or NULL where this driver lacks it. */
void *driver_function(const char *name);

/* Calls `name` with arguments of the given types; ERROR_NOT_FOUND where the driver lacks it. The pointer is kept. */
#define CALL(name, types, ...)                                                       \
    ({                                                                               \
        static Result(*function) types;                                              \
        if (!function) function = (Result(*) types)driver_function(name);            \
        function ? function(__VA_ARGS__) : ERROR_NOT_FOUND;                          \
    })

#endif
