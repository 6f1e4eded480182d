#define _GNU_SOURCE
#include "launches.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver_calls.h"
#include "image.h"
#include "record.h"

#define MAX_PARAMETER_BYTES 32764
#define MAX_RANGES 256
#define MAX_BUFFER_POINTERS 65536
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

typedef struct {
    Handle handle, owner;
    char *name;
    int is_kernel;
    uint64_t number;   /* of its record; 0: not recorded yet */
    uint64_t launches; /* different ones that were recorded */
    int wanted, known_layout;
    unsigned count, total; /* parameters, and bytes up to the end of the last */
    struct Place { unsigned offset, size; } *places;
} Kernel;

typedef struct {
    uint64_t start, length;
} Range;

static Table images;         /* module or library -> number of its image */
static Table images_by_hash; /* content -> number of the image */
static Table kernels;        /* handle -> Kernel */
static Table seen;           /* hash of a launch -> number of its record */
static Table maps;           /* hash of a tensor map and its arguments */
static Range *mapped;        /* by address, none touching the next: what programs map piece by piece is one range */
static size_t mapped_count, mapped_room;
static uint64_t text_count, image_count, kernel_count, launch_count;

static void drop(Kernel *kernel) {
    if (!kernel) return;
    free(kernel->name), free(kernel->places);
    free(kernel);
}

static void forget(void) {
    for (size_t index = 0; index < kernels.room; index++) drop((Kernel *)(uintptr_t)kernels.values[index]);
    table_clear(&images), table_clear(&images_by_hash), table_clear(&kernels), table_clear(&seen), table_clear(&maps);
    text_count = image_count = kernel_count = launch_count = mapped_count = 0;
}

__attribute__((constructor)) static void start(void) { forget_everything = forget; }

static void set(Table *table, uint64_t key, uint64_t value) {
    uint64_t *place = key ? table_at(table, key) : NULL;
    if (place) *place = value;
}

static void record_image(Handle owner, const Image *image, const char *origin) {
    uint64_t hash = hash_bytes(HASH_START, image->path, strlen(image->path));
    if (*image->path) {
        hash = hash_bytes(hash, &image->offset, sizeof image->offset);
    } else {
        hash = hash_bytes(hash, image->bytes, image->length);
    }
    uint64_t number = table_find(&images_by_hash, hash);
    if (!number) {
        number = ++image_count;
        int missing = !*image->path && write_file("images", number, image->bytes, image->length);
        Payload payload = {0};
        put_u64(&payload, number);
        put_u32(&payload, missing ? 2 : *image->path ? 1 : 0);
        put_u64(&payload, image->offset);
        put_u64(&payload, image->length);
        put_text(&payload, image->path);
        put_text(&payload, origin);
        /* Where Triton keeps the text beside the cubin; the program may have set it since it started. */
        put_text(&payload, getenv("TRITON_CACHE_DIR"));
        put_text(&payload, getenv("TRITON_HOME"));
        put_u64(&payload, *image->path ? 0 : hash);
        write_record("IMAG", &payload);
        set(&images_by_hash, hash, number);
    }
    set(&images, KEY(owner), number);
}

void text_compiled(const void *cubin, size_t length, const char *text, size_t text_length) {
    if (write_file("texts", ++text_count, text, text_length)) return;
    Payload payload = {0};
    put_u64(&payload, hash_bytes(HASH_START, cubin, length));
    put_u64(&payload, length);
    put_u64(&payload, text_count);
    write_record("TEXT", &payload);
}

void image_loaded(Handle owner, const void *address) {
    Image image = image_at(address);
    if (image.bytes)
        record_image(owner, &image, "");
    else if (table_find(&images, KEY(owner)))
        set(&images, KEY(owner), 0); /* what had the handle before is no guide */
}

void file_loaded(Handle owner, const char *path) {
    /* The file may be gone when the program ends, so its bytes are kept. */
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0) return;
    if (fstat(file, &status) == 0 && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            Image image = {.bytes = bytes, .length = (size_t)status.st_size};
            record_image(owner, &image, path);
            munmap(bytes, (size_t)status.st_size);
        }
    }
    close(file);
}

void image_unloaded(Handle owner) {
    /* Handles come again: what they named is forgotten. */
    for (size_t index = 0; index < kernels.room; index++) {
        Kernel *kernel = (Kernel *)(uintptr_t)kernels.values[index];
        if (!kernel || kernel->owner != owner) continue;
        drop(kernel);
        kernels.values[index] = 0;
    }
    if (table_find(&images, KEY(owner))) set(&images, KEY(owner), 0);
}

void same_image(Handle module, Handle library) {
    uint64_t number = table_find(&images, KEY(library));
    if (number) set(&images, KEY(module), number);
}

void memory_unmapped(Address start, size_t length) {
    uint64_t end = start + length;
    for (size_t index = 0; index < mapped_count; index++) {
        Range old = mapped[index];
        uint64_t old_end = old.start + old.length;
        if (old_end <= start || old.start >= end) continue;
        memmove(mapped + index, mapped + index + 1, (--mapped_count - index) * sizeof *mapped);
        index--;
        if (old.start < start) memory_mapped(old.start, start - old.start), index++;
        if (old_end > end) memory_mapped(end, old_end - end), index++;
    }
}

void memory_mapped(Address start, size_t length) {
    uint64_t end = start + length;
    if (!length) return;
    for (size_t index = 0; index < mapped_count;) {
        uint64_t old_end = mapped[index].start + mapped[index].length;
        if (old_end < start || mapped[index].start > end) {
            index++;
            continue;
        }
        if (mapped[index].start < start) start = mapped[index].start;
        if (old_end > end) end = old_end;
        memmove(mapped + index, mapped + index + 1, (--mapped_count - index) * sizeof *mapped);
    }
    if (mapped_count == mapped_room) {
        size_t room = mapped_room ? 2 * mapped_room : 64;
        Range *grown = realloc(mapped, room * sizeof *mapped);
        if (!grown) return;
        mapped = grown, mapped_room = room;
    }
    size_t place = 0;
    while (place < mapped_count && mapped[place].start < start) place++;
    memmove(mapped + place + 1, mapped + place, (mapped_count++ - place) * sizeof *mapped);
    mapped[place] = (Range){start, end - start};
}

static Kernel *kernel_of(Handle handle) { return (Kernel *)(uintptr_t)table_find(&kernels, KEY(handle)); }

void kernel_found(Handle handle, Handle owner, const char *name, int is_kernel) {
    Kernel *kernel = kernel_of(handle);
    if (kernel && kernel->owner == owner && strcmp(kernel->name, name) == 0) return;
    Kernel *found = calloc(1, sizeof *found);
    char *copy = strdup(name ? name : "");
    if (!found || !copy || !handle) {
        free(found), free(copy);
        return;
    }
    drop(kernel);
    *found = (Kernel){.handle = handle, .owner = owner, .name = copy, .is_kernel = is_kernel};
    set(&kernels, KEY(handle), (uint64_t)(uintptr_t)found);
}

void same_kernel(Handle function, Handle kernel) {
    Kernel *known = kernel_of(kernel);
    if (known) kernel_found(function, known->owner, known->name, 0);
}

/* A handle that was got in a way that the shim does not see: the driver is asked. */
static Kernel *unseen_kernel(Handle handle) {
    const char *name = NULL;
    Handle owner = NULL;
    int is_kernel = 0;
    if (CALL("cuFuncGetName", (const char **, Handle), &name, handle) == 0 && name) {
        CALL("cuFuncGetModule", (Handle *, Handle), &owner, handle);
    } else if (CALL("cuKernelGetName", (const char **, Handle), &name, handle) == 0 && name) {
        CALL("cuKernelGetLibrary", (Handle *, Handle), &owner, handle);
        is_kernel = 1;
    } else {
        return NULL;
    }
    kernel_found(handle, owner, name, is_kernel);
    return kernel_of(handle);
}

static int matches(const char *name) {
    const char *pattern = options()->pattern;
    return !pattern || (strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL);
}

static void record_kernel(Kernel *kernel) {
    kernel->number = ++kernel_count;
    kernel->wanted = matches(kernel->name);
    if (!kernel->wanted) return;
    size_t offset, size;
    Result result = 0;
    for (unsigned index = 0;; index++) {
        if (kernel->is_kernel)
            result = CALL("cuKernelGetParamInfo", (Handle, size_t, size_t *, size_t *), kernel->handle, index, &offset,
                          &size);
        else
            result = CALL("cuFuncGetParamInfo", (Handle, size_t, size_t *, size_t *), kernel->handle, index, &offset,
                          &size);
        if (result || offset + size > MAX_PARAMETER_BYTES) break;
        struct Place *places = realloc(kernel->places, (index + 1) * sizeof *places);
        if (!places) break;
        kernel->places = places;
        places[index] = (struct Place){(unsigned)offset, (unsigned)size};
        kernel->count = index + 1;
        if (offset + size > kernel->total) kernel->total = (unsigned)(offset + size);
    }
    kernel->known_layout = result != ERROR_NOT_FOUND && result != ERROR_NOT_INITIALIZED;
    int device = 0, major = 0, minor = 0;
    if (CALL("cuCtxGetDevice", (int *), &device) == 0) {
        CALL("cuDeviceGetAttribute", (int *, int, int), &major, DEVICE_MAJOR, device);
        CALL("cuDeviceGetAttribute", (int *, int, int), &minor, DEVICE_MINOR, device);
    }
    Payload payload = {0};
    put_u64(&payload, kernel->number);
    put_u64(&payload, table_find(&images, KEY(kernel->owner)));
    put_u32(&payload, (uint32_t)(10 * major + minor));
    put_u32(&payload, (uint32_t)kernel->known_layout);
    put_text(&payload, kernel->name);
    put_u32(&payload, kernel->count);
    for (unsigned index = 0; index < kernel->count; index++) {
        put_u32(&payload, kernel->places[index].offset);
        put_u32(&payload, kernel->places[index].size);
    }
    write_record("KERN", &payload);
}

/* The kernel's bytes of parameters; 0 where they are not known. */
static unsigned gather(const KernelLaunch *launch, const Kernel *kernel, unsigned char *bytes) {
    if (launch->extra) {
        const void *from = NULL;
        size_t size = 0;
        for (void **item = launch->extra; *item != (void *)EXTRA_END; item += 2) {
            if (*item == (void *)EXTRA_BYTES) from = item[1];
            if (*item == (void *)EXTRA_SIZE && item[1]) size = *(size_t *)item[1];
        }
        if (from && size <= MAX_PARAMETER_BYTES) {
            memcpy(bytes, from, size);
            return (unsigned)size;
        }
        return 0;
    }
    if (!launch->parameters) return 0;
    memset(bytes, 0, kernel->total);
    for (unsigned index = 0; index < kernel->count; index++) {
        const struct Place *place = &kernel->places[index];
        if (launch->parameters[index]) memcpy(bytes + place->offset, launch->parameters[index], place->size);
    }
    return kernel->total;
}

static int range_of(uint64_t word, Range *range) {
    Address start = 0;
    size_t length = 0;
    if (word < (1ull << 32) || word >> 57) return 0; /* no address of a device */
    for (size_t index = 0; index < mapped_count; index++) {
        if (word < mapped[index].start || word - mapped[index].start >= mapped[index].length) continue;
        *range = mapped[index];
        return 1;
    }
    if (CALL("cuMemGetAddressRange_v2", (Address *, size_t *, Address), &start, &length, word) != 0 || !length) {
        if (CALL("cuPointerGetAttribute", (void *, int, Address), &start, POINTER_RANGE_START, word) != 0) return 0;
        if (CALL("cuPointerGetAttribute", (void *, int, Address), &length, POINTER_RANGE_SIZE, word) != 0) return 0;
    }
    if (!length || word < start || word - start > length) return 0;
    *range = (Range){start, length};
    return 1;
}

/* Adds a range to those that are met, if it is new. Returns its index, or MAX_RANGES where there is no room. */
static unsigned range_index(Range *ranges, unsigned *count, Range range) {
    unsigned index = 0;
    while (index < *count && ranges[index].start != range.start) index++;
    if (index == *count && *count < MAX_RANGES) ranges[(*count)++] = range;
    return index;
}

/* Writes which words of a saved buffer point into memory of the device, each with the range. */
static void put_pointers(Payload *payload, const unsigned char *bytes, size_t length, uint64_t prefix, Range *ranges,
                         unsigned *range_count) {
    Payload found = {0};
    uint32_t count = 0;
    for (size_t at = 0; at + 8 <= length && count < MAX_BUFFER_POINTERS; at += 8) {
        uint64_t word;
        Range range;
        memcpy(&word, bytes + at, 8);
        /* The driver is asked about few words only: those near the buffer itself. */
        if (word >> 40 != prefix || !range_of(word, &range)) continue;
        range_index(ranges, range_count, range);
        put_u64(&found, at);
        put_u64(&found, range.start);
        put_u64(&found, range.length);
        count++;
    }
    put_u32(payload, found.lost ? 0 : count);
    if (count && !found.lost) put_bytes(payload, found.bytes + 12, found.length - 12);
    free(found.bytes);
}

/* Saves the buffers that parameters point into, and those that these point into. */
static void save_buffers(uint64_t launch, const KernelLaunch *how, Range *ranges, unsigned count) {
    int capturing = 0, mode = CAPTURE_RELAXED;
    if (how->flags & LAUNCH_IN_GRAPH) return;
    if (CALL("cuStreamIsCapturing", (Handle, int *), how->stream, &capturing) != 0 || capturing) return;
    CALL("cuThreadExchangeStreamCaptureMode", (int *), &mode);
    /* What runs now may still write the buffers. */
    int ready = CALL("cuCtxSynchronize", (void)) == 0;
    for (unsigned index = 0; ready && index < count; index++) {
        Range range = ranges[index];
        if (range.length > options()->buffer_bytes) continue;
        void *copy = malloc(range.length);
        uint64_t number = launch * MAX_RANGES + index;
        if (copy && CALL("cuMemcpyDtoH_v2", (void *, Address, size_t), copy, range.start, range.length) == 0 &&
            write_file("buffers", number, copy, range.length) == 0) {
            Payload payload = {0};
            put_u64(&payload, launch);
            put_u64(&payload, range.start);
            put_u64(&payload, range.length);
            put_u64(&payload, number);
            put_pointers(&payload, copy, range.length, range.start >> 40, ranges, &count);
            write_record("DATA", &payload);
        }
        free(copy);
    }
    CALL("cuThreadExchangeStreamCaptureMode", (int *), &mode);
}

static void count_launch(const char tag[4], uint64_t number) {
    Payload payload = {0};
    put_u64(&payload, number);
    write_record(tag, &payload);
}

uint64_t record_launch(const KernelLaunch *given) {
    KernelLaunch launch = *given;
    Kernel *kernel = kernel_of(launch.kernel);
    if (!kernel) kernel = unseen_kernel(launch.kernel);
    if (!kernel) {
        count_launch("LOST", 0);
        return 0;
    }
    if (!kernel->number) record_kernel(kernel);
    if (!kernel->wanted) return 0;
    if (!launch.cluster[0]) {
        int extents[3] = {0}, device = 0;
        CALL("cuCtxGetDevice", (int *), &device);
        for (int axis = 0; axis < 3; axis++) {
            int attribute = FUNCTION_CLUSTER_WIDTH + axis;
            if (kernel->is_kernel)
                CALL("cuKernelGetAttribute", (int *, int, Handle, int), &extents[axis], attribute, kernel->handle,
                     device);
            else
                CALL("cuFuncGetAttribute", (int *, int, Handle), &extents[axis], attribute, kernel->handle);
        }
        if (extents[0] > 0) {
            launch.flags |= LAUNCH_CLUSTER_OF_KERNEL;
            for (int axis = 0; axis < 3; axis++) launch.cluster[axis] = extents[axis] > 0 ? (unsigned)extents[axis] : 1;
        }
    }
    static unsigned char bytes[MAX_PARAMETER_BYTES]; /* the lock is held */
    static unsigned char identity[MAX_PARAMETER_BYTES];
    static Range ranges[MAX_RANGES];
    static struct { uint32_t at, range; } pointers[MAX_PARAMETER_BYTES / 8];
    unsigned total = gather(&launch, kernel, bytes);
    unsigned range_count = 0, pointer_count = 0;
    memcpy(identity, bytes, total);
    for (unsigned at = 0; at + 8 <= total; at += 8) {
        uint64_t word;
        Range range;
        memcpy(&word, bytes + at, 8);
        if (!range_of(word, &range)) continue;
        unsigned index = range_index(ranges, &range_count, range);
        if (index == MAX_RANGES) continue;
        pointers[pointer_count].at = at;
        pointers[pointer_count++].range = index;
        /* Two launches are alike though their buffers lie elsewhere. */
        uint64_t place = word - range.start + ((uint64_t)index << 48);
        memcpy(identity + at, &place, 8);
    }
    uint64_t hash = hash_bytes(HASH_START, &kernel->number, sizeof kernel->number);
    hash = hash_bytes(hash, launch.grid, sizeof launch.grid + sizeof launch.block + sizeof launch.cluster);
    hash = hash_bytes(hash, &launch.shared_bytes, 2 * sizeof launch.shared_bytes);
    hash = hash_bytes(hash, identity, total);
    for (unsigned index = 0; index < range_count; index++) hash = hash_bytes(hash, &ranges[index].length, 8);
    uint64_t known = table_find(&seen, hash ? hash : 1);
    if (known) {
        count_launch("SAME", known);
        return known;
    }
    if (options()->limit && kernel->launches >= options()->limit) {
        count_launch("OVER", kernel->number);
        return 0;
    }
    kernel->launches++;
    uint64_t number = ++launch_count;
    set(&seen, hash ? hash : 1, number);
    Payload payload = {0};
    put_u64(&payload, number);
    put_u64(&payload, kernel->number);
    for (int axis = 0; axis < 3; axis++) put_u32(&payload, launch.grid[axis]);
    for (int axis = 0; axis < 3; axis++) put_u32(&payload, launch.block[axis]);
    for (int axis = 0; axis < 3; axis++) put_u32(&payload, launch.cluster[axis]);
    put_u32(&payload, launch.shared_bytes);
    put_u32(&payload, launch.flags);
    put_u32(&payload, total);
    put_bytes(&payload, bytes, total);
    put_u32(&payload, range_count);
    for (unsigned index = 0; index < range_count; index++) {
        put_u64(&payload, ranges[index].start);
        put_u64(&payload, ranges[index].length);
    }
    put_u32(&payload, pointer_count);
    put_bytes(&payload, pointers, pointer_count * sizeof pointers[0]);
    write_record("LNCH", &payload);
    if (options()->buffer_bytes) save_buffers(number, &launch, ranges, range_count);
    return number;
}

void record_failure(uint64_t launch, Result result) {
    Payload payload = {0};
    put_u64(&payload, launch);
    put_u32(&payload, (uint32_t)result);
    write_record("FAIL", &payload);
}

void record_graph_launch(void) { count_launch("GRPH", 1); }

void record_tensor_map(unsigned kind, const void *encoded, unsigned data_type, unsigned rank, Address address,
                       const uint64_t *extents, const uint64_t *strides, const uint32_t *element_strides,
                       const int64_t *numbers, unsigned number_count) {
    if (rank < 1 || rank > 5) return;
    Range range = {0};
    range_of(address, &range);
    Payload payload = {0};
    put_u32(&payload, kind);
    put_bytes(&payload, encoded, 128);
    put_u32(&payload, data_type);
    put_u32(&payload, rank);
    put_u64(&payload, address);
    put_u64(&payload, range.start);
    put_u64(&payload, range.length);
    for (unsigned axis = 0; axis < rank; axis++) put_u64(&payload, extents[axis]);
    for (unsigned axis = 0; axis + 1 < rank; axis++) put_u64(&payload, strides[axis]);
    for (unsigned axis = 0; axis < rank; axis++) put_u32(&payload, element_strides[axis]);
    put_u32(&payload, number_count);
    put_bytes(&payload, numbers, number_count * sizeof *numbers);
    /* Programs encode the same map before each launch. */
    uint64_t hash = payload.lost ? 0 : hash_bytes(HASH_START, payload.bytes + 12, payload.length - 12);
    if (hash && table_find(&maps, hash)) {
        free(payload.bytes);
        return;
    }
    set(&maps, hash, 1);
    write_record("TMAP", &payload);
}
