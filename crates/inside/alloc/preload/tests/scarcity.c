/* A heap with little memory. The shell sets the limits before the program starts. */
#include "case.h"

#include <malloc.h>
#include <pthread.h>

/* Not declared everywhere. */
int malloc_trim(size_t);

struct link {
  struct link *next;
};

/* Allocates until there is no more memory; returns the list of the blocks. */
static struct link *exhaust(size_t size, size_t *count) {
  struct link *list = NULL, *block;
  errno = 0;
  for (*count = 0; *count < (size_t)1 << 26 && (block = malloc(size)); ++*count) {
    block->next = list;
    list = block;
  }
  CHECK_AT(errno == ENOMEM, size, *count);
  CHECK_AT(*count > 0, size, 0);
  return list;
}

static void release(struct link *list) {
  while (list) {
    struct link *next = list->next;
    free(list);
    list = next;
  }
}

/* Every function refuses, and the heap loses nothing. */
static void says_no(size_t size) {
  void *block = malloc(16);
  errno = 0;
  CHECK(calloc(1, size) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(realloc(block, size) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(aligned_alloc(4096, size) == NULL && errno == ENOMEM);
  void *aligned;
  CHECK(posix_memalign(&aligned, 4096, size) == ENOMEM);
  free(block);
}

static void until_no_memory(void) {
  static const size_t sizes[] = {1 << 20, 100000, 3000, 64};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    size_t first, again;
    struct link *list = exhaust(sizes[i], &first);
    says_no((size_t)1 << 31);
    release(list);
    /* Returned memory can be allocated again, even after blocks of other sizes used it. */
    list = exhaust(sizes[i], &again);
    CHECK_AT(again >= first / 10 * 9, first, again);
    release(list);
    malloc_trim(0);
  }
}

static void *asks(void *argument) {
  size_t count;
  release(exhaust(50000, &count));
  return argument;
}

static void until_no_memory_in_threads(void) {
  pthread_t threads[4];
  for (unsigned i = 0; i < COUNT(threads); i++) CHECK(pthread_create(&threads[i], NULL, asks, NULL) == 0);
  for (unsigned i = 0; i < COUNT(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *frees(void *block) {
  free(block);
  return NULL;
}

/* A few blocks of each kind: the heap works. */
static void works(void) {
  static char *blocks[2000];
  uint64_t random = 9;
  for (int round = 0; round < 200000; round++) {
    char **block = &blocks[next_random(&random) % COUNT(blocks)];
    size_t size = random_size(&random) + 1;
    free(*block);
    *block = malloc(size);
    CHECK(*block);
    (*block)[0] = (*block)[size - 1] = 1;
  }
  for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  char *large = calloc(1, 40 << 20);
  CHECK(large && large[30 << 20] == 0);
  large = realloc(large, 60 << 20);
  CHECK(large && large[50 << 20] == 0);
  free(large);
  malloc_trim(0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, frees, malloc(10)) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"until_no_memory", until_no_memory},
      {"until_no_memory_in_threads", until_no_memory_in_threads},
      {"works", works},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
