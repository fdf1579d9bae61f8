/* The library's statistics of its memory while the program stands still. */
#include "case.h"
#include <malloc.h>
#include <pthread.h>

#ifdef LINKED
int numapilot_alloc_stats(int descriptor, const char *format);
#else
int numapilot_alloc_stats(int descriptor, const char *format) __attribute__((weak));
#endif

/* mallinfo is tested although it is deprecated. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void *objects[3000];

static void *thread(void *from) {
  for (int i = 0; i < 1000; i++) ((void **)from)[i] = malloc(5000);
  return from;
}

/* Writes one document before and one after it allocated 3,000 objects of 5,000 bytes, 1,000 of them
 * in a thread that ended, and 2 blocks. Writes another one when half of them are freed. */
static void known_amounts(void) {
  pthread_t other;
  free(malloc(5000));
  CHECK(numapilot_alloc_stats(1, "json") == 0);
  for (int i = 0; i < 2000; i++) CHECK(objects[i] = malloc(5000));
  CHECK(pthread_create(&other, NULL, thread, objects + 2000) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  void *first = malloc(1 << 20), *second = malloc(3 << 20);
  CHECK(first && second);
  CHECK(numapilot_alloc_stats(1, "json") == 0);
  for (int i = 0; i < 3000; i += 2) free(objects[i]);
  free(second);
  CHECK(numapilot_alloc_stats(1, "json") == 0);
  for (int i = 1; i < 3000; i += 2) free(objects[i]);
  free(first);
  CHECK(malloc_trim(0) == 1);
  CHECK(numapilot_alloc_stats(1, "json") == 0);
}

static pthread_key_t keys[40];

static void use_heap_again(void *value) {
  free(value);
  free(malloc(100));
  free(malloc(100000));
}

static void *thread_with_values(void *unused) {
  for (size_t i = 0; i < COUNT(keys); i++) CHECK(pthread_setspecific(keys[i], malloc(50)) == 0);
  return unused;
}

/* Threads that allocate and free after the allocator's own destructor: in the destructors of
 * later keys, which are so many that the C library frees memory for them after the last
 * destructor. Writes one document after the first thread, and one after all of them. */
static void threads_that_allocate_at_their_end(void) {
  enum { THREADS = 2000 };
  for (size_t i = 0; i < COUNT(keys); i++) CHECK(pthread_key_create(&keys[i], use_heap_again) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_with_values, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (i == 0) CHECK(numapilot_alloc_stats(1, "json") == 0);
  }
  CHECK(numapilot_alloc_stats(1, "json") == 0);
}

static void prometheus(void) {
  void *block = malloc(1 << 20), *object = malloc(100);
  CHECK(block && object);
  CHECK(numapilot_alloc_stats(1, "prometheus") == 0);
}

static void xml(void) {
  CHECK(malloc(100));
  CHECK(malloc_info(0, stdout) == 0);
  CHECK(fflush(stdout) == 0);
}

static void formats_and_descriptors_are_checked(void) {
  errno = 0;
  CHECK(numapilot_alloc_stats(1, "yaml") == -1 && errno == EINVAL);
  errno = 0;
  CHECK(numapilot_alloc_stats(1, NULL) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(numapilot_alloc_stats(-1, "text") == -1 && errno == EBADF);
  CHECK(malloc_info(1, stdout) == EINVAL);
}

static void mallinfo_counts(void) {
  struct mallinfo2 before = mallinfo2();
  void *block = malloc(8 << 20), *object = malloc(9000);
  CHECK(block && object);
  struct mallinfo2 held = mallinfo2();
  CHECK(held.uordblks == before.uordblks + (8 << 20) + 9216);
  CHECK(held.arena == held.uordblks + held.fordblks);
  CHECK((size_t)mallinfo().uordblks == held.uordblks);
  free(block);
  struct mallinfo2 freed = mallinfo2();
  CHECK(freed.uordblks == before.uordblks + 9216);
  CHECK(freed.keepcost >= 8 << 20);
  CHECK(malloc_trim(0) == 1);
  CHECK(mallinfo2().keepcost == 0);
  /* A value that is too large for an int becomes the largest one. */
  CHECK(block = malloc((size_t)3 << 30));
  CHECK(mallinfo().uordblks == INT32_MAX && mallinfo2().uordblks > INT32_MAX);
  free(block);
  free(object);
}

static void mallopt_accepts_what_may_be_ignored(void) {
  CHECK(mallopt(M_TRIM_THRESHOLD, 1) == 1 && mallopt(M_MMAP_THRESHOLD, 1) == 1);
  CHECK(mallopt(M_ARENA_MAX, 1) == 1 && mallopt(M_MXFAST, 0) == 1);
  CHECK(mallopt(M_PERTURB, 1) == 0 && mallopt(0, 0) == 0 && mallopt(1000, 0) == 0);
}

/* Sends itself a signal, and waits until the statistics are in the file named by PROGRAM's
 * second argument. With FORK, a child does so; it has no thread that waits. */
static void signalled(int in_child) {
  const char *path = getenv("NUMAPILOT_ALLOC_STATS_FILE");
  /* It is written after the statistics. */
  const char *profile = getenv("NUMAPILOT_ALLOC_PROFILE");
  CHECK(path);
  pid_t child = in_child ? fork_child() : 0;
  if (child > 0) {
    CHECK(exit_status_of(child) == 0);
    return;
  }
  CHECK(kill(getpid(), SIGUSR2) == 0);
  while (access(path, F_OK) != 0 || (profile && access(profile, F_OK) != 0)) {
    /* The thread waits for work, or the caller takes the slow path. */
    if (in_child) free(malloc(1 << 20));
    else usleep(1000);
  }
  _exit(0);
}
static void on_a_signal(void) { signalled(0); }
static void on_a_signal_in_a_child(void) { signalled(1); }

static void at_the_end(void) { CHECK(malloc(100)); }

static void at_the_end_with_errors_closed(void) {
  CHECK(malloc(100));
  close(2);
}

static void at_the_end_with_errors_replaced(void) {
  CHECK(malloc(100));
  for (int i = 2; i < 200; i++) close(i);
  for (int i = 2; i < 200; i++) CHECK(dup(0) >= 0);
}

static const struct test_case cases[] = {
    {"known_amounts", known_amounts},
    {"threads_that_allocate_at_their_end", threads_that_allocate_at_their_end},
    {"prometheus", prometheus},
    {"xml", xml},
    {"formats_and_descriptors_are_checked", formats_and_descriptors_are_checked},
    {"mallinfo_counts", mallinfo_counts},
    {"mallopt_accepts_what_may_be_ignored", mallopt_accepts_what_may_be_ignored},
    {"on_a_signal", on_a_signal},
    {"on_a_signal_in_a_child", on_a_signal_in_a_child},
    {"at_the_end", at_the_end},
    {"at_the_end_with_errors_closed", at_the_end_with_errors_closed},
    {"at_the_end_with_errors_replaced", at_the_end_with_errors_replaced},
};

int main(int count, char **arguments) {
  return run_case(count, arguments, cases, COUNT(cases));
}
