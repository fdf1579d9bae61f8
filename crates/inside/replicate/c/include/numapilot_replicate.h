/* libnumapilot_replicate: data that is read often and written seldom, with a copy on every
 * NUMA node. Threads read the copy of the node where they run, without a lock or a system
 * call; whoever writes replaces all copies at once.
 *
 *     numapilot_replicated *table = numapilot_replicate(data, size);
 *     ...                                             // in every thread that reads:
 *     numapilot_reader *reader = numapilot_reader_new(table);
 *     const struct entry *entries = numapilot_read(reader, NULL);
 *     ...                                             // at any time, in any thread:
 *     numapilot_publish(table, other, other_size);
 *
 * Functions that fail return NULL or -1 and set errno. */
#ifndef NUMAPILOT_REPLICATE_H
#define NUMAPILOT_REPLICATE_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes with a copy on every node that the process may use. */
typedef struct numapilot_replicated numapilot_replicated;
/* What one thread reads them with. */
typedef struct numapilot_reader numapilot_reader;

/* Copies `size` bytes; a copy begins on a page. ENOMEM. */
numapilot_replicated *numapilot_replicate(const void *data, size_t size);

/* Copies a regular file, for as long as nobody writes to it. ETXTBSY: it is open for
 * writing; EACCES: it belongs to another user (CAP_LEASE); EINVAL: no regular file, or a
 * file system without leases; ENOMEM, EAGAIN, or the error of open(2) or read(2). */
numapilot_replicated *numapilot_replicate_file(const char *path);

/* Replaces the value on all nodes at once, by another of any size. Never waits for readers.
 * ENOMEM: the value stays what it was; EINVAL: it is a file. */
int numapilot_publish(numapilot_replicated *value, const void *data, size_t size);

/* Frees a value; its readers are freed before. NULL is ignored. */
void numapilot_replicated_free(numapilot_replicated *value);

/* A reader, to be used by one thread at a time. ENOMEM. */
numapilot_reader *numapilot_reader_new(numapilot_replicated *value);

/* The value that is current now, by the copy nearest to the caller, and its size unless
 * `size` is NULL. The bytes stay what they are until the next call with this reader, whatever
 * is published. NULL with ESTALE for a file to which somebody writes, and in the child of a
 * fork: replicate it again, or read it from the file. */
const void *numapilot_read(numapilot_reader *reader, size_t *size);

/* A reader keeps the version that it has read last in memory; from here on it keeps none,
 * until it reads again. */
void numapilot_reader_rest(numapilot_reader *reader);

/* NULL is ignored. */
void numapilot_reader_free(numapilot_reader *reader);

/* For the child of a fork: brings the whole pages of a writable range, inherited from its
 * parent, to the node where the caller runs. The contents stay what they are, and untouched
 * pages untouched. Returns how many pages have come from other nodes. EINVAL: the range is
 * not writable, or the kernel older than 5.14; or the error of move_pages(2) or madvise(2). */
ssize_t numapilot_rehome(void *start, size_t size);

#ifdef __cplusplus
}
#endif

#endif
