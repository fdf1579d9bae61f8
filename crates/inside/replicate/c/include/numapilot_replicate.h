/* libnumapilot_replicate: data that is read often and written seldom, with a copy on every
 * NUMA node. Threads read the copy of the node where they run, without a lock or a system
 * call. A writer replaces all copies at once.
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
/* The reader of one thread. */
typedef struct numapilot_reader numapilot_reader;

/* Copies `size` bytes. Each copy begins on a page. Error: ENOMEM. */
numapilot_replicated *numapilot_replicate(const void *data, size_t size);

/* Copies a regular file, until a program opens it for writing. Errors: ETXTBSY if it is open
 * for writing; EACCES if it belongs to another user (CAP_LEASE); EINVAL if it is not a regular
 * file, or if its file system has no leases; ENOMEM, EAGAIN, or the error of open(2) or
 * read(2). */
numapilot_replicated *numapilot_replicate_file(const char *path);

/* Replaces the value on all nodes at once, by another of any size. Never waits for readers.
 * Errors: ENOMEM, and the value does not change; EINVAL if it is a file. */
int numapilot_publish(numapilot_replicated *value, const void *data, size_t size);

/* Frees a value. Free its readers first. NULL is ignored. */
void numapilot_replicated_free(numapilot_replicated *value);

/* A reader, to be used by one thread at a time. Error: ENOMEM. */
numapilot_reader *numapilot_reader_new(numapilot_replicated *value);

/* The current value, from the copy nearest to the caller, and its size unless `size` is NULL.
 * The bytes do not change until the next call with this reader, whatever is published. Returns
 * NULL with ESTALE once a program has opened the file for writing, and in the child of a fork:
 * replicate the file again, or read it directly. */
const void *numapilot_read(numapilot_reader *reader, size_t *size);

/* A reader keeps the version that it read last in memory. This releases it until the next
 * read. */
void numapilot_reader_rest(numapilot_reader *reader);

/* Frees a reader. NULL is ignored. */
void numapilot_reader_free(numapilot_reader *reader);

/* For the child of a fork: moves the whole pages of a writable range, inherited from its
 * parent, to the node where the caller runs. The contents do not change, and untouched pages
 * stay untouched. Returns the number of pages that came from other nodes. Errors: EINVAL if
 * the range is not writable or the kernel is older than 5.14, or the error of move_pages(2) or
 * madvise(2). */
ssize_t numapilot_rehome(void *start, size_t size);

#ifdef __cplusplus
}
#endif

#endif
