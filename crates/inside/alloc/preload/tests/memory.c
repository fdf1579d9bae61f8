/* Tests that memory returns to the system. 900 MB of blocks are allocated, written to and freed.
 * Then the resident set is watched for long enough that only a heap that keeps the memory fails. */
#include "case.h"

#include <pthread.h>
#include <time.h>

enum { TOTAL = 900 << 20, PATIENCE_S = 60 };

static void **blocks;
static size_t count;

static void take(size_t size) {
  count = TOTAL / size;
  blocks = realloc(blocks, count * sizeof *blocks);
  for (size_t i = 0; i < count; i++) {
    CHECK(blocks[i] = malloc(size));
    memset(blocks[i], 1, size);
  }
}

static void idle(void) {
  struct timespec moment = {0, 20000000};
  nanosleep(&moment, NULL);
}

/* Like a server between two requests. */
static void a_little_activity(void) {
  for (size_t size = 16; size < 4096; size += 48) free(malloc(size));
  idle();
}

static void wait_until_below(size_t bytes, void (*meanwhile)(void)) {
  time_t start = time(NULL);
  size_t now;
  while ((now = status_bytes("VmRSS:")) > bytes) {
    if (time(NULL) - start > PATIENCE_S) CHECK_AT(now <= bytes, now, bytes);
    meanwhile();
  }
}

static void freed(size_t size, void (*meanwhile)(void)) {
  take(size);
  CHECK(status_bytes("VmRSS:") > (size_t)TOTAL / 10 * 9);
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  wait_until_below(70 << 20, meanwhile);
}

static void small_blocks_with_a_little_activity(void) { freed(256, a_little_activity); }
static void medium_blocks_with_a_little_activity(void) { freed(5000, a_little_activity); }
static void large_blocks_with_a_little_activity(void) { freed(200000, a_little_activity); }
static void huge_blocks_with_a_little_activity(void) { freed(30 << 20, a_little_activity); }
static void small_blocks_without_activity(void) { freed(256, idle); }
static void large_blocks_without_activity(void) { freed(200000, idle); }

/* Objects of a class that the program has outgrown give room to those of the next one, before
 * a tenth of a second is over. */
static void classes_that_are_outgrown(void) {
  enum { COUNT_OF_OBJECTS = 400000, LARGEST = 96, SMALLEST = 16 };
  count = COUNT_OF_OBJECTS;
  CHECK(blocks = calloc(count, sizeof *blocks));
  memset(blocks, 0, count * sizeof *blocks);
  size_t before = status_bytes("VmRSS:");
  for (size_t size = SMALLEST; size <= LARGEST; size += SMALLEST)
    for (size_t i = 0; i < count; i++) {
      CHECK(blocks[i] = realloc(blocks[i], size));
      memset(blocks[i], 1, size);
    }
  size_t used = status_bytes("VmHWM:") - before;
  CHECK_AT(used < (size_t)COUNT_OF_OBJECTS * LARGEST / 4 * 7, used, count * LARGEST);
}

/* One of 4096 blocks stays, so nearly every 64 KiB is free, but few 2 MiB are. */
static void one_in_4096_kept(void) {
  take(200);
  for (size_t i = 0; i < count; i++)
    if (i % 4096) free(blocks[i]);
  wait_until_below(200 << 20, a_little_activity);
  for (size_t i = 0; i < count; i += 4096) CHECK(((char *)blocks[i])[199] == 1);
}

/* Up and down for a long time: returned memory is used again, and nothing is lost. */
static void a_plateau_not_a_slope(void) {
  size_t after_warm_up = 0;
  for (int round = 0; round < 40; round++) {
    static void *some[40000];
    uint64_t random = (uint64_t)round + 1;
    for (size_t i = 0; i < COUNT(some); i++) {
      size_t size = random_size(&random) % 20000 + 1;
      CHECK(some[i] = malloc(size));
      memset(some[i], 1, size);
    }
    for (size_t i = 0; i < COUNT(some); i++) free(some[(i * 7919) % COUNT(some)]);
    size_t peak = status_bytes("VmHWM:");
    if (round == 10) after_warm_up = peak;
    if (round > 10) CHECK_AT(peak < after_warm_up + after_warm_up / 4, peak, after_warm_up);
  }
}

static pthread_barrier_t together;

static void *allocates_once(void *unused) {
  void *block = malloc(100);
  (void)unused;
  pthread_barrier_wait(&together);
  return block;
}

/* Threads that live at the same time allocate in the same 2 MiB, or each in its own if the variable
 * says so. */
static void threads_share_huge_pages(void) {
  enum { THREADS = 4 };
  const char *sharing = getenv("NUMAPILOT_ALLOC_SHARING");
  int apart = sharing && !strcmp(sharing, "0");
  pthread_t threads[THREADS];
  uintptr_t huge[THREADS];
  CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, allocates_once, NULL) == 0);
  for (int i = 0; i < THREADS; i++) {
    void *block;
    CHECK(pthread_join(threads[i], &block) == 0 && block);
    huge[i] = (uintptr_t)block >> 21;
    for (int k = 0; k < i; k++) CHECK_AT((huge[k] != huge[i]) == apart, k, i);
  }
}

int main(int argument_count, char **arguments) {
  static const struct test_case cases[] = {
      {"small_blocks_with_a_little_activity", small_blocks_with_a_little_activity},
      {"medium_blocks_with_a_little_activity", medium_blocks_with_a_little_activity},
      {"large_blocks_with_a_little_activity", large_blocks_with_a_little_activity},
      {"huge_blocks_with_a_little_activity", huge_blocks_with_a_little_activity},
      {"small_blocks_without_activity", small_blocks_without_activity},
      {"large_blocks_without_activity", large_blocks_without_activity},
      {"classes_that_are_outgrown", classes_that_are_outgrown},
      {"one_in_4096_kept", one_in_4096_kept},
      {"a_plateau_not_a_slope", a_plateau_not_a_slope},
      {"threads_share_huge_pages", threads_share_huge_pages},
  };
  return run_case(argument_count, arguments, cases, COUNT(cases));
}
