/* What is loaded: the size of a module's image in memory, and whether it lies in a file that is mapped. */
#ifndef TILEWRIGHT_IMAGE_H
#define TILEWRIGHT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const void *bytes; /* PTX text, a cubin or a fat binary (of its wrapper, what it wraps); NULL: none of them */
    size_t length;
    char path[1024]; /* the program or library that holds it, or "" */
    uint64_t offset; /* where in that file */
} Image;

Image image_at(const void *address);

#endif
