/* libnumapilot_alloc: a NUMA-aware memory allocator.
 *
 * Programs need no header for the functions of the C library: link with the library, or preload it,
 * and malloc and the related functions come from it. This header declares the functions that no C
 * library header has. */
#ifndef NUMAPILOT_ALLOC_H
#define NUMAPILOT_ALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes how the memory is used, by node and size class, to a file descriptor. `format` is "text",
 * "json" or "prometheus". Returns 0, or -1 with errno: EINVAL for another format, ENOMEM, or the
 * error of write(2). */
int numapilot_alloc_stats(int descriptor, const char *format);

/* Writes the heap profile to a file descriptor, in pprof's format. Returns 0, or -1 with errno:
 * EINVAL if NUMAPILOT_ALLOC_PROFILE did not request one, or the error of write(2). */
int numapilot_alloc_profile(int descriptor);

/* C23, before the C library declares them. `size` (and `alignment`) are those with which the block
 * was allocated; NULL is ignored. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
