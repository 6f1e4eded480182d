#define _GNU_SOURCE
#include "image.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* Source: fatbinary_section.h (the wrapper); the container's header is 4 bytes of magic, 2 of version, 2 of the
   header's own size and 8 of the size of what follows. */
#define WRAPPER_MAGIC 0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u

typedef struct {
    uint32_t magic, version;
    const void *data;
    void *more;
} Wrapper;

static size_t elf_length(const unsigned char *bytes) {
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
    size_t length = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    for (unsigned index = 0; index < header.e_shnum; index++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + header.e_shoff + (size_t)index * header.e_shentsize, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > length)
            length = section.sh_offset + section.sh_size;
    }
    size_t segments = header.e_phoff + (size_t)header.e_phnum * header.e_phentsize;
    return segments > length ? segments : length;
}

static int find_file(struct dl_phdr_info *object, size_t size, void *wanted) {
    (void)size;
    Image *image = wanted;
    uintptr_t address = (uintptr_t)image->bytes;
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        uintptr_t end = start + segment->p_filesz;
        if (segment->p_type != PT_LOAD || address < start || address + image->length > end) continue;
        if (object->dlpi_name && *object->dlpi_name) {
            strncpy(image->path, object->dlpi_name, sizeof image->path - 1);
        } else if (readlink("/proc/self/exe", image->path, sizeof image->path - 1) < 0) {
            image->path[0] = 0;
        }
        image->offset = segment->p_offset + (address - start);
        return 1;
    }
    return 0;
}

Image image_at(const void *address) {
    Image image = {0};
    uint32_t magic;
    if (!address) return image;
    const unsigned char *bytes = address;
    /* Text may be shorter than 4 bytes. */
    if (!bytes[0] || !bytes[1] || !bytes[2]) return image;
    memcpy(&magic, bytes, sizeof magic);
    if (magic == WRAPPER_MAGIC) {
        Wrapper wrapper;
        memcpy(&wrapper, bytes, sizeof wrapper);
        if (!wrapper.data) return image;
        bytes = wrapper.data;
        memcpy(&magic, bytes, sizeof magic);
        if (magic != CONTAINER_MAGIC && memcmp(bytes, ELFMAG, SELFMAG) != 0) return image;
    }
    if (magic == CONTAINER_MAGIC) {
        uint16_t header;
        uint64_t rest;
        memcpy(&header, bytes + 6, sizeof header);
        memcpy(&rest, bytes + 8, sizeof rest);
        image.length = header + rest;
    } else if (memcmp(bytes, ELFMAG, SELFMAG) == 0) {
        image.length = elf_length(bytes);
    } else if (bytes[0] == '.' || bytes[0] == '/' || bytes[0] == '\n' || bytes[0] == '\r' || bytes[0] == ' ' ||
               bytes[0] == '\t') {
        image.length = strlen((const char *)bytes); /* PTX begins with a comment, a blank or a directive */
    }
    if (!image.length) return image;
    image.bytes = bytes;
    dl_iterate_phdr(find_file, &image);
    return image;
}
