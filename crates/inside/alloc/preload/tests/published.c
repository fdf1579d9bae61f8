/* Defects of the paper's published code (numalloc), one case each. They were found in the code
 * and seen in runs of it. Cases that need a single function are in conformance.c: aligned_alloc,
 * valloc and pvalloc that return NULL, posix_memalign misaligned, no malloc_usable_size, calloc
 * overflow. */
#include "case.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void *nothing(void *argument) { return argument; }

/* The published code calls itself by the name that glibc 2.34 moved into libc.so. */
static void pthread_create_does_not_recurse(void) {
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    void *result, *argument = &result;
    CHECK(pthread_create(&thread, NULL, nothing, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == argument);
  }
}

static void *attributes_here(void *unused) {
  pthread_attr_t now;
  size_t stack, guard;
  int detached;
  CHECK(pthread_getattr_np(pthread_self(), &now) == 0);
  /* musl adds its own data there; its default is 128 KiB, that of glibc 8 MiB. */
  CHECK(pthread_attr_getstacksize(&now, &stack) == 0 && stack > 2 << 20 && stack < 4 << 20);
  CHECK(pthread_attr_getguardsize(&now, &guard) == 0 && guard == 64 << 10);
  CHECK(pthread_attr_getdetachstate(&now, &detached) == 0 && detached == PTHREAD_CREATE_JOINABLE);
  pthread_attr_destroy(&now);
  free(malloc(100));
  return unused;
}

static void thread_attributes_are_kept(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 3 << 20) == 0);
  CHECK(pthread_attr_setguardsize(&attributes, 64 << 10) == 0);
  CHECK(pthread_create(&thread, &attributes, attributes_here, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static pthread_barrier_t all_here;

static void *holds_blocks(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  char *blocks[6];
  size_t sizes[] = {16, 100, 1000, 10000, 50000, 200000};
  for (unsigned i = 0; i < COUNT(blocks); i++) {
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i]);
    fill(blocks[i], i < 4 ? sizes[i] : 100, seed + i);
  }
  pthread_barrier_wait(&all_here);
  for (unsigned i = 0; i < COUNT(blocks); i++) {
    CHECK(filled(blocks[i], i < 4 ? sizes[i] : 100, seed + i));
    free(blocks[i]);
  }
  return NULL;
}

/* Alive at the same time, each with blocks of its own; the published code has 1,023 places. */
static void two_thousand_threads_at_once(void) {
  enum { THREADS = 2000 };
  static pthread_t threads[THREADS];
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 128 << 10) == 0);
  CHECK(pthread_barrier_init(&all_here, NULL, THREADS) == 0);
  for (uintptr_t i = 0; i < THREADS; i++) {
    int result = pthread_create(&threads[i], &attributes, holds_blocks, (void *)i);
    if (result == EAGAIN) SKIP("this machine does not let a process have 2000 threads");
    CHECK_AT(result == 0, i, result);
  }
  for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static int finished;

static void *counts(void *unused) {
  free(malloc(3000));
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
  return unused;
}

/* Threads that run one after the other and are not joined: the memory of an ended thread is used
 * again. */
static void detached_threads_leave_nothing(void) {
  enum { THREADS = 3000 };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  size_t before = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    int result;
    while ((result = pthread_create(&thread, &attributes, counts, NULL)) == EAGAIN) usleep(1000);
    CHECK(result == 0);
    /* Rarely more than a few at the same time. */
    while (i - __atomic_load_n(&finished, __ATOMIC_ACQUIRE) > 20) sched_yield();
    if (i == THREADS / 3) before = status_bytes("VmRSS:");
  }
  while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < THREADS) usleep(1000);
  CHECK_AT(status_bytes("VmRSS:") < before + (16 << 20), before, status_bytes("VmRSS:"));
}

/* The published code never grows a block in place, at any size. */
static void realloc_grows_in_place(void) {
  /* Within a block, because no class is exact for all of these sizes. */
  unsigned in_place = 0;
  for (size_t size = 500; size < 600; size++) {
    void *block = malloc(size);
    uintptr_t address = (uintptr_t)block;
    block = realloc(block, size + 1);
    in_place += (uintptr_t)block == address;
    free(block);
  }
  CHECK(in_place >= 90);
  /* Step by step to 64 MB; copying at every step would touch 30 times as many pages. */
  struct rusage before, after;
  char *block = NULL;
  getrusage(RUSAGE_SELF, &before);
  for (size_t size = 1 << 20; size <= 64 << 20; size += 1 << 20) {
    block = realloc(block, size);
    CHECK(block);
    block[size - 1] = block[size - (1 << 20)] = 1;
  }
  getrusage(RUSAGE_SELF, &after);
  free(block);
  CHECK_AT(after.ru_minflt - before.ru_minflt < (64 << 20) / 4096, after.ru_minflt - before.ru_minflt, 0);
}

static int stop;

static void *is_busy(void *argument) {
  uint64_t random = (uintptr_t)argument * 77 + 1;
  char *blocks[200] = {0};
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    char **block = &blocks[next_random(&random) % COUNT(blocks)];
    free(*block);
    size_t size = random_size(&random);
    *block = malloc(size);
    CHECK(*block);
    if (size) **block = 1;
  }
  for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  return NULL;
}

static void *short_work(void *argument) {
  uint64_t random = 3;
  for (int i = 0; i < 2000; i++) free(malloc(random_size(&random)));
  return argument;
}

/* The threads do not exist in the child, so their unfinished operations are never completed. */
static void fork_with_busy_threads(void) {
  enum { THREADS = 4, FORKS = 300 };
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, is_busy, (void *)i) == 0);
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork_child();
    CHECK(child >= 0);
    if (child == 0) {
      pthread_t thread;
      short_work(NULL);
      free(malloc(5 << 20));
      if (i % 10 == 0) CHECK(pthread_create(&thread, NULL, short_work, NULL) == 0 && pthread_join(thread, NULL) == 0);
      if (i % 50 == 0) {
        pid_t grandchild = fork_child();
        if (grandchild == 0) short_work(NULL), _exit(0);
        CHECK(exit_status_of(grandchild) == 0);
      }
      _exit(0);
    }
    CHECK_AT(exit_status_of(child) == 0, i, 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The main thread forks while others allocate for the first time in the process. */
static void race(int delay) {
  pthread_t threads[2];
  for (unsigned i = 0; i < COUNT(threads); i++) CHECK(pthread_create(&threads[i], NULL, short_work, NULL) == 0);
  for (volatile int turn = 0; turn < delay; turn++) {}
  pid_t child = fork_child();
  if (child == 0) alarm(20), short_work(NULL), _exit(0);
  CHECK_AT(exit_status_of(child) == 0, delay, 0);
  for (unsigned i = 0; i < COUNT(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Each process has only one first allocation, so this program runs itself repeatedly. */
static void fork_during_the_first_allocation(void) {
  enum { PROCESSES = 300, STEP = 100 };
  const char *delay = getenv("DELAY");
  if (delay) return race(atoi(delay));
  for (int i = 0; i < PROCESSES; i++) {
    pid_t child = fork_child();
    if (child == 0) {
      char text[16];
      snprintf(text, sizeof text, "%d", i * STEP);
      setenv("DELAY", text, 1);
      execl("/proc/self/exe", "published", __func__, (char *)NULL);
      _exit(9);
    }
    CHECK_AT(exit_status_of(child) == 0, i, 0);
  }
}

/* Whole magazines of one size come and go, so that threads exchange them continuously. */
static void *exchanges(void *argument) {
  char *blocks[200];
  for (size_t turn = (uintptr_t)argument; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); turn++) {
    size_t size = 16 + turn % 8 * 16;
    for (unsigned i = 0; i < COUNT(blocks); i++) blocks[i] = malloc(size), *blocks[i] = 1;
    for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  }
  return NULL;
}

/* Fills blocks, and checks that no two are the same. */
static void own_memory(uintptr_t *kept[], unsigned count, uintptr_t tag) {
  for (unsigned i = 0; i < count; i++) CHECK((kept[i] = malloc(16 + i % 8 * 16)) && (kept[i][0] = tag + i));
  for (unsigned i = 0; i < count; i++) CHECK_AT(kept[i][0] == tag + i, i, kept[i][0]);
}

/* A child sees memory as it was at slightly different moments, page by page. Objects that other
 * threads moved meanwhile must neither be there twice nor be taken from their owner. */
static void children_own_their_memory(void) {
  enum { THREADS = 4, FORKS = 200, MINE = 4000, OF_CHILD = 20000 };
  static uintptr_t *mine[MINE], *of_child[OF_CHILD];
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, exchanges, (void *)(i * 3)) == 0);
  for (int i = 0; i < FORKS; i++) {
    own_memory(mine, MINE, 1 << 20);
    pid_t child = fork_child();
    CHECK(child >= 0);
    if (child == 0) {
      own_memory(of_child, OF_CHILD, 2 << 20);
      for (unsigned k = 0; k < MINE; k++) CHECK_AT(mine[k][0] == (1 << 20) + k, k, mine[k][0]);
      for (unsigned k = 0; k < OF_CHILD; k++) free(of_child[k]);
      _exit(0);
    }
    CHECK_AT(exit_status_of(child) == 0, i, 0);
    for (unsigned k = 0; k < MINE; k++) free(mine[k]);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *frees_large(void *argument) {
  uint64_t random = (uintptr_t)argument + 11;
  char *blocks[16] = {0};
  for (int i = 0; i < 3000; i++) {
    unsigned at = next_random(&random) % COUNT(blocks);
    size_t size = ((size_t)1 << 18) << next_random(&random) % 4;
    if (blocks[at]) CHECK(blocks[at][0] == (char)at);
    free(blocks[at]);
    blocks[at] = malloc(size + next_random(&random) % 100000);
    CHECK(blocks[at]);
    blocks[at][0] = blocks[at][size - 1] = (char)at;
  }
  for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  return NULL;
}

/* The published code walks a list there without a lock. */
static void large_blocks_of_many_threads(void) {
  pthread_t threads[8];
  for (uintptr_t i = 0; i < COUNT(threads); i++) CHECK(pthread_create(&threads[i], NULL, frees_large, (void *)i) == 0);
  for (unsigned i = 0; i < COUNT(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Powers of two above 256 bytes waste up to half. (Larger blocks are whole pages; untouched pages
 * take no memory.) */
static void classes_fit(void) {
  for (size_t size = 257; size <= 32 << 10; size += 1 + size / 50) {
    enum { MANY = 64 };
    void *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++) {
      blocks[i] = malloc(size);
      size_t usable = malloc_usable_size(blocks[i]);
      CHECK_AT(usable <= size + size / 4, size, usable);
    }
    for (unsigned i = 0; i < MANY; i++) free(blocks[i]);
  }
}

/* 257 bytes, a million times: the classes, the metadata, and no more. */
static void little_is_lost(void) {
  enum { MANY = 1000000, SIZE = 257 };
  static void *blocks[MANY];
  memset(blocks, 1, sizeof blocks);
  size_t before = status_bytes("VmRSS:");
  for (unsigned i = 0; i < MANY; i++) {
    blocks[i] = malloc(SIZE);
    CHECK(blocks[i]);
    memset(blocks[i], 1, SIZE);
  }
  size_t taken = status_bytes("VmRSS:") - before;
  CHECK_AT(taken < (size_t)MANY * SIZE / 100 * 112, taken, (size_t)MANY * SIZE);
  for (unsigned i = 0; i < MANY; i++) free(blocks[i]);
}

/* Memory that no thread wrote to is not resident: 1,500 blocks of 600 KB. */
static void untouched_memory_stays_untouched(void) {
  static void *blocks[1500];
  size_t before = status_bytes("VmRSS:");
  for (unsigned i = 0; i < COUNT(blocks); i++) CHECK(blocks[i] = malloc(600000));
  CHECK_AT(status_bytes("VmRSS:") < before + (16 << 20), before, status_bytes("VmRSS:"));
  for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
}

/* The same with 300 MB in objects, with huge pages or without. */
static void untouched_objects_stay_untouched(void) {
  size_t before = status_bytes("VmRSS:");
  for (unsigned i = 0; i < 600000; i++) CHECK(malloc(512));
  CHECK_AT(status_bytes("VmRSS:") < before + (16 << 20), before, status_bytes("VmRSS:"));
}

/* The allocator does not change the affinity that a program has chosen, or was given. */
static void affinity_is_left_alone(void) {
  cpu_set_t before, after, one;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  free(malloc(100000));
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) cpu++;
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, short_work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&one, &after));
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"pthread_create_does_not_recurse", pthread_create_does_not_recurse},
      {"thread_attributes_are_kept", thread_attributes_are_kept},
      {"two_thousand_threads_at_once", two_thousand_threads_at_once},
      {"detached_threads_leave_nothing", detached_threads_leave_nothing},
      {"realloc_grows_in_place", realloc_grows_in_place},
      {"fork_with_busy_threads", fork_with_busy_threads},
      {"fork_during_the_first_allocation", fork_during_the_first_allocation},
      {"children_own_their_memory", children_own_their_memory},
      {"large_blocks_of_many_threads", large_blocks_of_many_threads},
      {"classes_fit", classes_fit},
      {"little_is_lost", little_is_lost},
      {"untouched_memory_stays_untouched", untouched_memory_stays_untouched},
      {"untouched_objects_stay_untouched", untouched_objects_stay_untouched},
      {"affinity_is_left_alone", affinity_is_left_alone},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
