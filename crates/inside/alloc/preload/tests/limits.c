/* Limits that the program sets itself while it has blocks, and their inheritance by its children:
 * large blocks keep their contents, zeroed ones are zeroes, and guard pages stay or are removed.
 * Run without and with NUMAPILOT_ALLOC_HARDEN=1. */
#include "case.h"

#include <malloc.h>
#include <sys/resource.h>

enum { MIB = 1 << 20 };

static unsigned char *filled_block(size_t bytes, unsigned char with) {
  unsigned char *block = malloc(bytes);
  CHECK(block);
  memset(block, with, bytes);
  return block;
}

static void check(const unsigned char *block, size_t bytes, unsigned char with) {
  for (size_t i = 0; i < bytes; i++) CHECK_AT(block[i] == with, i, bytes);
}

/* Memory that was used, so that the next blocks need not be zero, between blocks that stay. */
static void leave_dirty_memory(void) {
  unsigned char *dirty = filled_block(40 * MIB, 0x5a);
  filled_block(MIB, 1);
  free(dirty);
}

static void grow_under(int resource, rlim_t bytes) {
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) {
    leave_dirty_memory();
    unsigned char *block = filled_block(4 * MIB, 7);
    filled_block(MIB, 1);
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(resource, &limit) == 0);
    /* There may be no memory; the block is then unchanged. */
    unsigned char *grown = realloc(block, 8 * MIB);
    check(grown ? grown : block, 4 * MIB, 7);
    _exit(0);
  }
  CHECK(exit_status_of(child) == 0);
}

static void blocks_grow_under_limits(void) {
  static const rlim_t limits[] = {MIB, 10000000, (rlim_t)2 << 30};
  for (size_t i = 0; i < COUNT(limits); i++) {
    grow_under(RLIMIT_AS, limits[i]);
    grow_under(RLIMIT_DATA, limits[i]);
  }
}

/* Memory that is freed after the limit was set can be used again, as far as there is memory. */
static void blocks_are_freed_under_limits(void) {
  leave_dirty_memory();
  unsigned char *block = filled_block(4 * MIB, 7), *others[8];
  for (size_t i = 0; i < COUNT(others); i++) others[i] = filled_block(MIB, 1);
  CHECK(block = realloc(block, 8 * MIB));
  check(block, 4 * MIB, 7);
  struct rlimit limit = {MIB, MIB};
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
  free(block);
  for (size_t i = 0; i < COUNT(others); i++) free(others[i]);
  for (size_t bytes = MIB; bytes <= 40 * (size_t)MIB; bytes += MIB) {
    unsigned char *next = malloc(bytes);
    if (next) memset(next, 3, bytes);
    free(next);
  }
}

static void zeroed_blocks_are_zero(void) {
  enum { BLOCKS = 6 };
  unsigned char *blocks[BLOCKS];
  leave_dirty_memory();
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = filled_block(4 * MIB, 7);
  for (size_t i = 1; i + 1 < BLOCKS; i++) {
    CHECK(blocks[i] = realloc(blocks[i], 12 * MIB));
    check(blocks[i], 4 * MIB, 7);
  }
  for (size_t bytes = 6 * MIB; bytes <= 16 * (size_t)MIB; bytes += MIB) {
    unsigned char *zeroed = calloc(1, bytes);
    CHECK(zeroed);
    check(zeroed, bytes, 0);
    free(zeroed);
  }
}

static void in_a_child(void (*what)(void)) {
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) {
    what();
    _exit(0);
  }
  CHECK(exit_status_of(child) == 0);
  what();
}

static void children_get_zeroes(void) { in_a_child(zeroed_blocks_are_zero); }

static int is_guarded(void) {
  char *block = malloc(MIB);
  CHECK(block);
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) {
    *(volatile char *)(block + malloc_usable_size(block)) = 1;
    _exit(0);
  }
  free(block);
  return exit_status_of(child) == 128 + SIGSEGV;
}

static void many_come_and_go(void) {
  for (int i = 0; i < 3000; i++) {
    void *block = malloc(MIB);
    CHECK(block);
    free(block);
  }
  CHECK(is_guarded());
}

/* Only with guard pages: see limits.rs. */
static void ends_stay_guarded(void) { in_a_child(many_come_and_go); }

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"blocks_grow_under_limits", blocks_grow_under_limits},
      {"blocks_are_freed_under_limits", blocks_are_freed_under_limits},
      {"children_get_zeroes", children_get_zeroes},
      {"ends_stay_guarded", ends_stay_guarded},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
