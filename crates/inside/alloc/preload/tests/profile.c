/* Programs in which each function allocates a known amount, for the heap profile. Each prints
 * the addresses of its functions, so that the test can identify the addresses of a profile. */
#include "case.h"

#include <pthread.h>
#include <sys/wait.h>

static void **small, **large, **population;
void *grown;

enum { SMALL = 400000, LARGE = 300, POPULATION = 300000, LARGE_BYTES = 200000 };

#define FUNCTION __attribute__((noinline, noclone)) static void

static void *allocates(void *nothing) {
  for (int i = 0; i < 100000; i++) free(malloc((size_t)i % 3000 + 1));
  return nothing;
}

/* 25.6 MB that are kept. */
FUNCTION keeps_small(void) {
  for (int i = 0; i < SMALL; i++) CHECK(small[i] = malloc(64));
}

/* 60 MB that are kept. */
FUNCTION keeps_large(void) {
  for (int i = 0; i < LARGE; i++) CHECK(large[i] = malloc(LARGE_BYTES));
}

/* 128 MB that are freed at once, always in the same few objects. */
FUNCTION frees_at_once(void) {
  for (int i = 0; i < 500000; i++) {
    void *object = malloc(256);
    CHECK(object);
    free(object);
  }
}

/* 38.4 MB, which the next function replaces block by block. */
FUNCTION is_replaced(void) {
  for (int i = 0; i < POPULATION; i++) CHECK(population[i] = malloc(128));
}

FUNCTION replaces(void) {
  for (int i = 0; i < POPULATION; i++) {
    free(population[i]);
    CHECK(population[i] = malloc(128));
  }
}

/* 32 MB by growth, so the blocks end elsewhere than they began. */
FUNCTION grows(void) {
  char *block = NULL;
  for (size_t size = 1 << 20; size <= 32 << 20; size += 1 << 20) CHECK(block = realloc(block, size));
  grown = block;
}

FUNCTION prepare(void) {
  small = calloc(SMALL, sizeof *small);
  large = calloc(LARGE, sizeof *large);
  population = calloc(POPULATION, sizeof *population);
  CHECK(small && large && population);
#define TELL(function) printf(#function " %p\n", (void *)function)
  TELL(keeps_small);
  TELL(keeps_large);
  TELL(frees_at_once);
  TELL(is_replaced);
  TELL(replaces);
  TELL(grows);
  TELL(prepare);
  TELL(allocates);
  fflush(stdout);
}

static void all(void) {
  prepare();
  keeps_small();
  frees_at_once();
  keeps_large();
  is_replaced();
  replaces();
  grows();
}

static void *frees_large(void *nothing) {
  for (int i = 0; i < LARGE; i++) free(large[i]);
  return nothing;
}

static void another_thread_frees(void) {
  pthread_t thread;
  prepare();
  keeps_large();
  CHECK(pthread_create(&thread, NULL, frees_large, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

/* Both parent and child continue, and both write. */
static void a_child_writes_its_own(void) {
  pthread_t threads[4];
  int status;
  prepare();
  for (size_t i = 0; i < COUNT(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, allocates, NULL) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    keeps_small();
    exit(0);
  }
  for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argument_count, char **arguments) {
  static const struct test_case cases[] = {
      {"all", all},
      {"another_thread_frees", another_thread_frees},
      {"a_child_writes_its_own", a_child_writes_its_own},
  };
  return run_case(argument_count, arguments, cases, COUNT(cases));
}
