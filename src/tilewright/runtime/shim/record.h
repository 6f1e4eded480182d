/* What the shim writes down: one file of records for each process, in the folder that TILEWRIGHT_CAPTURE names.

   A record is a tag of 4 bytes, the length of its payload (8 bytes, little-endian) and the payload. Each record goes
   out in one write, so that a process that is killed leaves a file of complete records but for the last. The file is
   opened at the first record: a process that makes no CUDA call leaves nothing. driver/capture/records.py reads it. */
#ifndef TILEWRIGHT_RECORD_H
#define TILEWRIGHT_RECORD_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned char *bytes;
    size_t length, room;
    int lost; /* memory ran out: the record is dropped */
} Payload;

void put_bytes(Payload *payload, const void *bytes, size_t length);
void put_u32(Payload *payload, uint32_t value);
void put_u64(Payload *payload, uint64_t value);
void put_text(Payload *payload, const char *text); /* its length in 4 bytes, then its bytes; NULL is empty */

/* Writes the record and frees the payload. The lock is held by the caller. */
void write_record(const char tag[4], Payload *payload);

/* Writes bytes to KIND/PROCESS-NUMBER.bin in the folder, PROCESS as in the name of the file of records. Returns 0 where
   the file is complete. */
int write_file(const char *kind, uint64_t number, const void *bytes, size_t length);

/* The shim's one lock. `enter` also notices that this process is a fork, and then forgets what its parent knew. It
   returns 0, without the lock, where nothing is to be recorded or this thread is inside the shim already. */
int enter(void);
void leave(void);

/* Set by intercept.c: forgets every table. */
extern void (*forget_everything)(void);

/* Options, read from the environment once. */
typedef struct {
    const char *folder;  /* NULL: nothing is recorded */
    const char *pattern; /* kernels to record; NULL: all */
    uint64_t limit;      /* different launches of one kernel; 0: no limit */
    uint64_t buffer_bytes; /* the largest buffer whose bytes are saved; 0: none are */
} Options;
const Options *options(void);

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length);
#define HASH_START 0xcbf29ce484222325u

/* A table from 64-bit keys, not 0, to 64-bit values. `table_at` makes room for a key that is missing, with value 0; it
   returns NULL where memory ran out. */
typedef struct {
    uint64_t *keys, *values;
    size_t used, room;
} Table;
uint64_t *table_at(Table *table, uint64_t key);
uint64_t table_find(const Table *table, uint64_t key); /* 0: not there */
void table_clear(Table *table);

#endif
