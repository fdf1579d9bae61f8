/* What the C standard, POSIX.1-2024 and the GNU manual say about each function, as cases. Where
 * they leave a choice, the case says which result is ours. */
#include "case.h"

#include <malloc.h>
#include <stddef.h>

/* C23; no C library in use declares them yet. */
#ifdef LINKED
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);
#else
__attribute__((weak)) void free_sized(void *, size_t);
__attribute__((weak)) void free_aligned_sized(void *, size_t, size_t);
#endif
/* Not declared everywhere. */
void *reallocarray(void *, size_t, size_t);
void *pvalloc(size_t);
int malloc_trim(size_t);

static const size_t SIZES[] = {0,    1,     2,     7,     8,      9,      15,     16,      17,      24,      31,
                               32,   33,    48,    63,    64,     65,     96,     127,     128,     129,     200,
                               255,  256,   257,   500,   511,    512,    513,    1000,    1023,    1024,    1025,
                               2000, 2048,  4000,  4095,  4096,   4097,   8000,   8192,    10000,   16384,   16385,
                               20000, 32767, 32768, 32769, 65535, 65536,  65537,  100000,  131072,  200000,  262144,
                               400000, 524287, 524288, 524289, 1000000, 1048576, 1048577, 2097152, 3000000, 5000000};

/* More than any machine has, as a wrong subtraction may request. */
static const size_t TOO_MUCH[] = {PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX,        SIZE_MAX - 1,
                                  SIZE_MAX - 15, SIZE_MAX - 4095,         SIZE_MAX - 65535, SIZE_MAX - (1 << 21),
                                  SIZE_MAX / 2 + 4096, (size_t)1 << 62,   (size_t)1 << 60};

static int is_power_of_two(size_t n) { return n && !(n & (n - 1)); }
static int is_aligned(const void *block, size_t alignment) { return (uintptr_t)block % alignment == 0; }

/* A number that the compiler does not know, so that it does not warn. */
static size_t opaque(size_t n) {
  __asm__("" : "+r"(n));
  return n;
}

/* Checks the properties of an allocated block, and fills it to the last usable byte. */
static void check_block(void *block, size_t size) {
  CHECK_AT(block, size, 0);
  CHECK_AT(is_aligned(block, _Alignof(max_align_t)), size, block);
  size_t usable = malloc_usable_size(block);
  CHECK_AT(usable >= size, size, usable);
  memset(block, 0xa5, usable);
}

#define CHECK_NO_MEMORY(call, n)          \
  do {                                    \
    errno = 0;                            \
    CHECK_AT((call) == NULL, n, 0);       \
    CHECK_AT(errno == ENOMEM, n, errno);  \
  } while (0)

static void malloc_sizes(void) {
  void *blocks[COUNT(SIZES)];
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    blocks[i] = malloc(SIZES[i]);
    check_block(blocks[i], SIZES[i]);
    fill(blocks[i], SIZES[i], (unsigned)i);
  }
  for (size_t i = 0; i < COUNT(SIZES); i++) CHECK_AT(filled(blocks[i], SIZES[i], (unsigned)i), SIZES[i], i);
  for (size_t i = 0; i < COUNT(SIZES); i++) free(blocks[i]);
}

static void every_size_to_70000(void) {
  for (size_t size = 0; size <= 70000; size++) {
    void *block = malloc(size);
    check_block(block, size);
    free(block);
  }
}

/* Many blocks of each size at the same time, each with its own contents: no two overlap. */
static void blocks_do_not_overlap(void) {
  enum { MANY = 300 };
  for (size_t i = 0; i < COUNT(SIZES) && SIZES[i] <= 300000; i++) {
    void *blocks[MANY];
    size_t usable[MANY];
    for (unsigned j = 0; j < MANY; j++) {
      blocks[j] = malloc(SIZES[i]);
      CHECK(blocks[j]);
      usable[j] = malloc_usable_size(blocks[j]);
      fill(blocks[j], usable[j], j * 7);
    }
    for (unsigned j = 0; j < MANY; j++) CHECK_AT(filled(blocks[j], usable[j], j * 7), SIZES[i], j);
    for (unsigned j = 0; j < MANY; j++) free(blocks[j]);
  }
}

/* The standard leaves this case open. As in glibc, the result is a separate block that can be
 * freed. */
static void malloc_zero(void) {
  void *a = malloc(0), *b = malloc(0);
  CHECK(a && b && a != b);
  free(a);
  free(b);
}

static void malloc_too_much(void) {
  for (size_t i = 0; i < COUNT(TOO_MUCH); i++) CHECK_NO_MEMORY(malloc(TOO_MUCH[i]), TOO_MUCH[i]);
  void *block = malloc(100);
  check_block(block, 100);
  free(block);
}

static void usable_size(void) {
  CHECK(malloc_usable_size(NULL) == 0);
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    void *block = malloc(SIZES[i]);
    size_t usable = malloc_usable_size(block);
    CHECK_AT(usable >= SIZES[i], SIZES[i], usable);
    CHECK_AT(malloc_usable_size(block) == usable, SIZES[i], usable);
    free(block);
  }
}

static void calloc_zeroed(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    for (int round = 0; round < 20; round++) {
      unsigned char *block = calloc(1, SIZES[i]);
      CHECK(block);
      for (size_t j = 0; j < SIZES[i]; j++) CHECK_AT(block[j] == 0, SIZES[i], j);
      check_block(block, SIZES[i]);
      free(block);
    }
  }
}

/* Also when many dirty blocks were freed, and their pages returned to where they came from. */
static void calloc_zeroed_after_reuse(void) {
  enum { MANY = 2000 };
  static const size_t mixed[] = {16, 64, 100, 600, 4000, 30000, 70000};
  static void *blocks[MANY];
  for (size_t round = 0; round < 4 * COUNT(mixed); round++) {
    size_t size = mixed[round % COUNT(mixed)];
    for (unsigned i = 0; i < MANY; i++) {
      blocks[i] = calloc(size / 4, 4);
      for (size_t j = 0; j < size / 4 * 4; j++) CHECK_AT(((char *)blocks[i])[j] == 0, size, j);
      memset(blocks[i], 0xff, size / 4 * 4);
    }
    for (unsigned i = 0; i < MANY; i++) free(blocks[i]);
    if (round % 3 == 2) malloc_trim(0);
  }
}

static void calloc_zero_products(void) {
  size_t most = opaque(SIZE_MAX);
  void *blocks[] = {calloc(0, 0), calloc(0, 100), calloc(100, 0), calloc(0, most), calloc(most, 0)};
  for (size_t i = 0; i < COUNT(blocks); i++) CHECK(blocks[i]);
  for (size_t i = 0; i < COUNT(blocks); i++) free(blocks[i]);
}

static const size_t OVERFLOWS[][2] = {{SIZE_MAX, 2},
                                      {2, SIZE_MAX},
                                      {SIZE_MAX / 2 + 1, 2},
                                      {(size_t)1 << 32, (size_t)1 << 32},
                                      {((size_t)1 << 32) + 1, (size_t)1 << 32},
                                      {SIZE_MAX / 16 + 2, 16},
                                      {SIZE_MAX / 3 + 1, 3},
                                      {SIZE_MAX, SIZE_MAX}};

static void calloc_overflow(void) {
  for (size_t i = 0; i < COUNT(OVERFLOWS); i++)
    CHECK_NO_MEMORY(calloc(OVERFLOWS[i][0], OVERFLOWS[i][1]), OVERFLOWS[i][0]);
  for (size_t i = 0; i < COUNT(TOO_MUCH); i++) CHECK_NO_MEMORY(calloc(1, TOO_MUCH[i]), TOO_MUCH[i]);
}

static void realloc_of_null(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    void *block = realloc(NULL, SIZES[i]);
    check_block(block, SIZES[i]);
    free(block);
  }
}

/* Undefined in C23, open before. As in glibc, the block is freed and NULL is returned. */
static void realloc_to_zero(void) {
  size_t before = 0;
  for (int round = 0; round < 200000; round++) {
    void *block = malloc(4000);
    memset(block, 1, 4000);
    CHECK(realloc(block, 0) == NULL);
    if (round == 1000) before = status_bytes("VmRSS:");
  }
  CHECK(status_bytes("VmRSS:") < before + (64 << 20));
}

static void realloc_keeps_content(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++)
    for (size_t j = 0; j < COUNT(SIZES); j++) {
      if (SIZES[j] == 0) continue;
      unsigned char *block = malloc(SIZES[i]);
      fill(block, SIZES[i], (unsigned)(i + j));
      unsigned char *moved = realloc(block, SIZES[j]);
      size_t kept = SIZES[i] < SIZES[j] ? SIZES[i] : SIZES[j];
      CHECK_AT(moved && filled(moved, kept, (unsigned)(i + j)), SIZES[i], SIZES[j]);
      check_block(moved, SIZES[j]);
      free(moved);
    }
}

static void realloc_step_by_step(void) {
  unsigned char *block = NULL;
  for (size_t size = 1; size < 3000000; size += 1 + size / 7) {
    block = realloc(block, size);
    CHECK(block);
    if (size > 1) CHECK_AT(block[0] == 1 && block[(size - 1 - size / 7) / 2] <= 1, size, 0);
    memset(block, 1, size);
  }
  for (size_t size = 3000000; size > 0; size -= 1 + size / 5) {
    block = realloc(block, size);
    CHECK(block);
    if (size < 2000000)
      for (size_t i = 0; i < size; i += 97) CHECK_AT(block[i] == 1, size, i);
  }
  free(block);
}

static void realloc_within_the_block(void) {
  for (size_t i = 1; i < COUNT(SIZES); i++) {
    void *block = malloc(SIZES[i]);
    uintptr_t address = (uintptr_t)block;
    size_t usable = malloc_usable_size(block);
    block = realloc(block, usable);
    CHECK_AT((uintptr_t)block == address, SIZES[i], usable);
    block = realloc(block, SIZES[i]);
    CHECK_AT((uintptr_t)block == address, SIZES[i], usable);
    free(block);
  }
}

static void realloc_too_much(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    void *block = malloc(SIZES[i]);
    fill(block, SIZES[i], 5);
    for (size_t j = 0; j < COUNT(TOO_MUCH); j++) CHECK_NO_MEMORY(realloc(block, TOO_MUCH[j]), TOO_MUCH[j]);
    CHECK_AT(filled(block, SIZES[i], 5), SIZES[i], 0);
    free(block);
  }
}

static void reallocarray_products(void) {
  void *block = reallocarray(NULL, 10, 10);
  check_block(block, 100);
  fill(block, 100, 3);
  for (size_t i = 0; i < COUNT(OVERFLOWS); i++)
    CHECK_NO_MEMORY(reallocarray(block, OVERFLOWS[i][0], OVERFLOWS[i][1]), OVERFLOWS[i][0]);
  CHECK(filled(block, 100, 3));
  block = reallocarray(block, 1000, 10);
  CHECK(block && filled(block, 100, 3));
  check_block(block, 10000);
  free(block);
}

static void free_of_null(void) {
  errno = 1234;
  free(NULL);
  CHECK(errno == 1234);
}

/* POSIX.1-2024: free preserves errno, even when it returns memory to the kernel. */
static void free_keeps_errno(void) {
  enum { MANY = 5000 };
  static void *blocks[MANY];
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    unsigned many = SIZES[i] > 100000 ? 20 : MANY;
    for (unsigned j = 0; j < many; j++) {
      blocks[j] = malloc(SIZES[i]);
      CHECK(blocks[j]);
      *(volatile char *)blocks[j] = 1;
    }
    for (unsigned j = 0; j < many; j++) {
      errno = 1234;
      free(blocks[j]);
      CHECK_AT(errno == 1234, SIZES[i], j);
    }
  }
}

/* No standard requires this, but a program sees errno after success. */
static void success_keeps_errno(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    void *zeroed, *block, *aligned = NULL;
    errno = 1234;
    block = malloc(SIZES[i]);
    CHECK_AT(errno == 1234, SIZES[i], 0);
    zeroed = calloc(1, SIZES[i]);
    CHECK_AT(errno == 1234, SIZES[i], 1);
    block = realloc(block, SIZES[i] * 2 + 1);
    CHECK_AT(errno == 1234, SIZES[i], 2);
    CHECK(posix_memalign(&aligned, 4096, SIZES[i]) == 0);
    CHECK_AT(errno == 1234, SIZES[i], 3);
    CHECK(malloc_usable_size(block) > SIZES[i]);
    CHECK_AT(errno == 1234, SIZES[i], 4);
    free(block);
    free(zeroed);
    free(aligned);
  }
}

static void sized_free(void) {
#ifndef LINKED
  CHECK(free_sized && free_aligned_sized);
#endif
  free_sized(NULL, 0);
  free_sized(NULL, 100);
  free_aligned_sized(NULL, 64, 100);
  for (int round = 0; round < 50; round++)
    for (size_t i = 0; i < COUNT(SIZES); i++) {
      void *block = malloc(SIZES[i]);
      check_block(block, SIZES[i]);
      errno = 1234;
      free_sized(block, SIZES[i]);
      block = calloc(1, SIZES[i]);
      free_sized(block, SIZES[i]);
      block = realloc(malloc(10), SIZES[i] + 1);
      free_sized(block, SIZES[i] + 1);
      /* The size is that of the last realloc, wherever the block is. */
      block = realloc(malloc(SIZES[i] + 1), SIZES[i] / 3 * 2 + 1);
      free_sized(block, SIZES[i] / 3 * 2 + 1);
      for (size_t alignment = 1; alignment <= 65536; alignment *= 8) {
        block = aligned_alloc(alignment, SIZES[i]);
        CHECK(block);
        memset(block, 1, SIZES[i]);
        free_aligned_sized(block, alignment, SIZES[i]);
      }
      CHECK(errno == 1234);
    }
}

/* Fills the beginning and the last byte. */
static void fill_ends(char *block, size_t size, unsigned seed) {
  fill(block, size < 4000 ? size : 4000, seed);
  if (size) block[size - 1] = (char)seed;
}

static int ends_filled(const char *block, size_t size, unsigned seed) {
  if (size <= 4000 && size > 0) return filled(block, size - 1, seed) && block[size - 1] == (char)seed;
  return size == 0 || (filled(block, 4000, seed) && block[size - 1] == (char)seed);
}

/* Every function with an alignment, so that one table serves them all. */
static void *by_posix_memalign(size_t alignment, size_t size) {
  void *block = (void *)1;
  int result = posix_memalign(&block, alignment, size);
  if (result == 0) return block;
  CHECK(block == (void *)1); /* Untouched on failure. */
  errno = result;
  return NULL;
}

static void *by_reallocated(size_t alignment, size_t size) {
  void *block = aligned_alloc(alignment, size / 2);
  if (!block) return NULL;
  fill(block, size / 2, 9);
  CHECK(malloc_usable_size(block) >= size / 2);
  void *grown = realloc(block, size + 1);
  CHECK(grown && filled(grown, size / 2, 9));
  free(grown);
  return aligned_alloc(alignment, size);
}

static const struct {
  void *(*call)(size_t, size_t);
  size_t least;
} ALIGNED[] = {{by_posix_memalign, sizeof(void *)}, {aligned_alloc, 1}, {memalign, 1}, {by_reallocated, 1}};

static void alignments(void) {
  for (size_t call = 0; call < COUNT(ALIGNED); call++)
    for (size_t alignment = ALIGNED[call].least; alignment <= (size_t)1 << 30; alignment *= 2)
      for (size_t i = 0; i < COUNT(SIZES); i += alignment > (1 << 20) ? 6 : 1) {
        void *blocks[3];
        for (unsigned j = 0; j < COUNT(blocks); j++) {
          blocks[j] = ALIGNED[call].call(alignment, SIZES[i]);
          CHECK_AT(blocks[j], alignment, SIZES[i]);
          CHECK_AT(is_aligned(blocks[j], alignment), alignment, SIZES[i]);
          CHECK_AT(malloc_usable_size(blocks[j]) >= SIZES[i], alignment, SIZES[i]);
          fill_ends(blocks[j], SIZES[i], j);
        }
        for (unsigned j = 0; j < COUNT(blocks); j++) {
          CHECK_AT(ends_filled(blocks[j], SIZES[i], j), alignment, SIZES[i]);
          free(blocks[j]);
        }
      }
}

static void alignments_that_are_none(void) {
  static const size_t bad[] = {0, 3, 5, 6, 7, 12, 24, 48, 100, 4095, 4097, 65537, SIZE_MAX, SIZE_MAX - 1};
  for (size_t call = 0; call < COUNT(ALIGNED); call++)
    for (size_t i = 0; i < COUNT(bad); i++) {
      CHECK(!is_power_of_two(bad[i]));
      errno = 0;
      CHECK_AT(ALIGNED[call].call(bad[i], 100) == NULL, call, bad[i]);
      CHECK_AT(errno == EINVAL, call, bad[i]);
    }
  /* A power of two, but not a multiple of sizeof(void *). */
  for (size_t alignment = 1; alignment < sizeof(void *); alignment *= 2) {
    CHECK_AT(by_posix_memalign(alignment, 100) == NULL, alignment, 0);
    CHECK_AT(errno == EINVAL, alignment, 0);
  }
}

static void aligned_too_much(void) {
  for (size_t call = 0; call < COUNT(ALIGNED) - 1; call++)
    for (size_t alignment = 16; alignment <= (size_t)1 << 30; alignment *= 4)
      for (size_t i = 0; i < COUNT(TOO_MUCH); i++)
        CHECK_NO_MEMORY(ALIGNED[call].call(alignment, TOO_MUCH[i]), TOO_MUCH[i]);
  for (size_t call = 0; call < COUNT(ALIGNED) - 1; call++)
    for (size_t alignment = (size_t)1 << 61; alignment; alignment *= 2)
      CHECK_NO_MEMORY(ALIGNED[call].call(alignment, 1), alignment);
}

static void posix_memalign_keeps_errno(void) {
  void *block;
  errno = 1234;
  CHECK(posix_memalign(&block, 3, 100) == EINVAL);
  CHECK(posix_memalign(&block, 64, SIZE_MAX) == ENOMEM);
  CHECK(errno == 1234);
}

static void page_alignment(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    void *a = valloc(SIZES[i]), *b = pvalloc(SIZES[i]);
    CHECK_AT(a && is_aligned(a, page), SIZES[i], a);
    CHECK_AT(b && is_aligned(b, page), SIZES[i], b);
    size_t whole = (SIZES[i] + page - 1) / page * page;
    CHECK_AT(malloc_usable_size(b) >= whole, SIZES[i], malloc_usable_size(b));
    memset(a, 1, SIZES[i]);
    memset(b, 2, whole);
    free(a);
    free(b);
  }
  for (size_t i = 0; i < COUNT(TOO_MUCH); i++) {
    CHECK_NO_MEMORY(valloc(TOO_MUCH[i]), TOO_MUCH[i]);
    CHECK_NO_MEMORY(pvalloc(TOO_MUCH[i]), TOO_MUCH[i]);
  }
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"malloc_sizes", malloc_sizes},
      {"every_size_to_70000", every_size_to_70000},
      {"blocks_do_not_overlap", blocks_do_not_overlap},
      {"malloc_zero", malloc_zero},
      {"malloc_too_much", malloc_too_much},
      {"usable_size", usable_size},
      {"calloc_zeroed", calloc_zeroed},
      {"calloc_zeroed_after_reuse", calloc_zeroed_after_reuse},
      {"calloc_zero_products", calloc_zero_products},
      {"calloc_overflow", calloc_overflow},
      {"realloc_of_null", realloc_of_null},
      {"realloc_to_zero", realloc_to_zero},
      {"realloc_keeps_content", realloc_keeps_content},
      {"realloc_step_by_step", realloc_step_by_step},
      {"realloc_within_the_block", realloc_within_the_block},
      {"realloc_too_much", realloc_too_much},
      {"reallocarray_products", reallocarray_products},
      {"free_of_null", free_of_null},
      {"free_keeps_errno", free_keeps_errno},
      {"success_keeps_errno", success_keeps_errno},
      {"sized_free", sized_free},
      {"alignments", alignments},
      {"alignments_that_are_none", alignments_that_are_none},
      {"aligned_too_much", aligned_too_much},
      {"posix_memalign_keeps_errno", posix_memalign_keeps_errno},
      {"page_alignment", page_alignment},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
