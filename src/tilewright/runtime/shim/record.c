#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;
static int file = -1;
static pid_t owner;
static int life; /* which program of this process number */
static Options chosen;
static int options_read;
void (*forget_everything)(void);

static uint64_t number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

const Options *options(void) {
    if (!options_read) {
        const char *folder = getenv("TILEWRIGHT_CAPTURE");
        const char *pattern = getenv("TILEWRIGHT_CAPTURE_KERNEL");
        /* Copies: a program may change its environment. */
        chosen.folder = folder && *folder ? strdup(folder) : NULL;
        chosen.pattern = pattern && *pattern ? strdup(pattern) : NULL;
        chosen.limit = number_of("TILEWRIGHT_CAPTURE_LIMIT");
        chosen.buffer_bytes = number_of("TILEWRIGHT_CAPTURE_BUFFERS");
        options_read = 1;
    }
    return &chosen;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

__attribute__((constructor)) static void start(void) {
    options();
    pthread_atfork(before_fork, after_fork, after_fork);
}

int enter(void) {
    if (inside || !options()->folder) return 0;
    inside = 1;
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        /* A fork shares its parent's file offset and may not use its parent's CUDA objects. */
        if (file >= 0) close(file);
        file = -1;
        owner = getpid();
        if (forget_everything) forget_everything();
    }
    return 1;
}

void leave(void) {
    pthread_mutex_unlock(&lock);
    inside = 0;
}

static int write_all(int target, const void *bytes, size_t length) {
    const char *from = bytes;
    while (length > 0) {
        ssize_t written = write(target, from, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return -1;
        from += written;
        length -= (size_t)written;
    }
    return 0;
}

static int open_file(void) {
    char path[4096], program[1024];
    for (life = 0; life < 10000; life++) {
        /* Process numbers come again; a program that replaces itself keeps its own. */
        snprintf(path, sizeof path, "%s/%ld-%d.records", chosen.folder, (long)owner, life);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
        if (file >= 0) break;
        if (errno != EEXIST) return -1;
    }
    if (file < 0) return -1;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    Payload payload = {0};
    put_u32(&payload, 2); /* version of the format */
    put_u64(&payload, (uint64_t)owner);
    put_text(&payload, program);
    write_record("OPEN", &payload);
    return 0;
}

static void reserve(Payload *payload, size_t more) {
    size_t wanted = payload->length + more;
    if (wanted <= payload->room) return;
    size_t room = payload->room ? payload->room : 256;
    while (room < wanted) room *= 2;
    unsigned char *bytes = realloc(payload->bytes, room);
    if (!bytes) {
        payload->lost = 1;
        return;
    }
    payload->bytes = bytes;
    payload->room = room;
}

void put_bytes(Payload *payload, const void *bytes, size_t length) {
    if (payload->length == 0) reserve(payload, 12), payload->length = payload->lost ? 0 : 12; /* tag and length */
    reserve(payload, length);
    if (payload->lost || !length) return;
    memcpy(payload->bytes + payload->length, bytes, length);
    payload->length += length;
}

void put_u32(Payload *payload, uint32_t value) { put_bytes(payload, &value, sizeof value); }
void put_u64(Payload *payload, uint64_t value) { put_bytes(payload, &value, sizeof value); }

void put_text(Payload *payload, const char *text) {
    size_t length = text ? strlen(text) : 0;
    put_u32(payload, (uint32_t)length);
    put_bytes(payload, text, length);
}

void write_record(const char tag[4], Payload *payload) {
    if (!payload->lost && payload->length >= 12 && (file >= 0 || open_file() == 0)) {
        uint64_t length = payload->length - 12;
        memcpy(payload->bytes, tag, 4);
        memcpy(payload->bytes + 4, &length, 8);
        write_all(file, payload->bytes, payload->length);
    }
    free(payload->bytes);
    *payload = (Payload){0};
}

int write_file(const char *kind, uint64_t number, const void *bytes, size_t length) {
    char path[4096];
    if (file < 0 && open_file()) return -1;
    snprintf(path, sizeof path, "%s/%s", chosen.folder, kind);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/%ld-%d-%llu.bin", chosen.folder, kind, (long)owner, life,
             (unsigned long long)number);
    int target = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (target < 0) return -1;
    int failed = write_all(target, bytes, length);
    return close(target) || failed ? -1 : 0;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    for (size_t index = 0; index < length; index++) hash = (hash ^ from[index]) * 0x100000001b3u;
    return hash;
}

static size_t slot_of(const Table *table, uint64_t key) {
    size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (table->room - 1);
    while (table->keys[slot] && table->keys[slot] != key) slot = (slot + 1) & (table->room - 1);
    return slot;
}

uint64_t table_find(const Table *table, uint64_t key) {
    return table->room ? table->values[slot_of(table, key)] : 0;
}

uint64_t *table_at(Table *table, uint64_t key) {
    if (2 * (table->used + 1) > table->room) {
        Table grown = {calloc(table->room ? 2 * table->room : 256, 8), calloc(table->room ? 2 * table->room : 256, 8),
                       table->used, table->room ? 2 * table->room : 256};
        if (!grown.keys || !grown.values) {
            free(grown.keys), free(grown.values);
            return NULL;
        }
        for (size_t index = 0; index < table->room; index++) {
            if (!table->keys[index]) continue;
            size_t slot = slot_of(&grown, table->keys[index]);
            grown.keys[slot] = table->keys[index];
            grown.values[slot] = table->values[index];
        }
        table_clear(table);
        *table = grown;
    }
    size_t slot = slot_of(table, key);
    if (!table->keys[slot]) table->keys[slot] = key, table->used++;
    return &table->values[slot];
}

void table_clear(Table *table) {
    free(table->keys), free(table->values);
    *table = (Table){0};
}
