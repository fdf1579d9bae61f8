/* stress [THREADS [ROUNDS [OPERATIONS [SECONDS]]]] calls every function at the same time from many
 * threads, which end and are replaced in each round. Each block is filled from its own seed, and
 * read whole before it is freed, mostly by another thread than the one that allocated it. The
 * operations of a thread are the same in every run, but their interleaving is not.
 *
 * With SECONDS it is a soak test: after a warm-up the rounds continue for that time, always with
 * other operations. The resident set at the end of each round, with its blocks live, must not grow.
 *
 * With -DPREFIX=numapilot_ it calls the functions by the names that exist in addition to those of
 * the C library, so that a sanitizer may keep malloc for itself. */
#include "case.h"

#include <malloc.h>
#include <pthread.h>
#include <time.h>

#ifdef PREFIX
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(function) JOIN(PREFIX, function)
void *NAME(malloc)(size_t);
void *NAME(calloc)(size_t, size_t);
void *NAME(realloc)(void *, size_t);
void *NAME(aligned_alloc)(size_t, size_t);
void NAME(free)(void *);
size_t NAME(malloc_usable_size)(void *);
#else
#define NAME(function) function
#endif

enum { SLOTS = 4096, WARM_UP = 32 };

/* A block contains its own size and seed, which determine the rest of it. */
struct block {
  size_t size;
  unsigned seed;
  char rest[];
};

static struct block *slots[SLOTS];
static unsigned threads = 8, rounds = 6, operations = 20000, seconds;

static struct block *check(struct block *block) {
  CHECK_AT(block->size >= sizeof *block, block->size, block->seed);
  CHECK_AT(NAME(malloc_usable_size)(block) >= block->size, block->size, block->seed);
  CHECK_AT(filled(block->rest, block->size - sizeof *block, block->seed), block->size, block->seed);
  return block;
}

static struct block *sign(struct block *block, size_t size, unsigned seed) {
  CHECK_AT(block && (uintptr_t)block % 16 == 0, size, seed);
  block->size = size;
  block->seed = seed;
  fill(block->rest, size - sizeof *block, seed);
  return block;
}

static struct block *obtain(uint64_t *random) {
  uint64_t r = next_random(random);
  size_t size = sizeof(struct block) + random_size(random);
  struct block *block;
  switch (r % 8) {
    case 0: {
      char *zeroed = NAME(calloc)(1, size);
      CHECK(zeroed);
      for (size_t i = 0; i < size; i++) CHECK_AT(zeroed[i] == 0, size, i);
      block = (struct block *)zeroed;
      break;
    }
    case 1: {
      size_t alignment = (size_t)16 << (r >> 8) % 10;
      /* A multiple of the alignment, as C11 required and sanitizers still do. */
      size = (size + alignment - 1) / alignment * alignment;
      block = NAME(aligned_alloc)(alignment, size);
      CHECK_AT((uintptr_t)block % alignment == 0, alignment, size);
      break;
    }
    default: block = NAME(malloc)(size);
  }
  return sign(block, size, (unsigned)(r >> 16));
}

/* Changes its size, keeping the contents that fit into both. */
static struct block *resize(struct block *block, uint64_t *random) {
  size_t size = sizeof(struct block) + random_size(random);
  size_t kept = size < block->size ? size : block->size;
  unsigned seed = block->seed;
  block = NAME(realloc)(block, size);
  CHECK(block && filled(block->rest, kept - sizeof *block, seed));
  return sign(block, size, seed + 1);
}

static struct block *exchange(uint64_t slot, struct block *block) {
  return __atomic_exchange_n(&slots[slot % SLOTS], block, __ATOMIC_ACQ_REL);
}

static void *work(void *argument) {
  uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
  struct block *own[32] = {0};
  for (unsigned i = 0; i < operations; i++) {
    uint64_t r = next_random(&random);
    struct block **mine = &own[(r >> 8) % COUNT(own)];
    if (r % 4 == 0) {
      if (*mine) NAME(free)(check(*mine));
      *mine = obtain(&random);
    } else if (r % 16 == 1 && *mine) {
      *mine = resize(check(*mine), &random);
    } else {
      /* Left for any other thread; the block found there belongs to another thread, most of the
       * time. */
      struct block *found = exchange(r >> 20, obtain(&random));
      if (found) NAME(free)(check(found));
    }
  }
  for (unsigned i = 0; i < COUNT(own); i++)
    if (own[i]) NAME(free)(check(own[i]));
  return NULL;
}

/* The rounds, one after the other; `first` makes their operations different from earlier ones. */
static void run_rounds(uintptr_t first) {
  pthread_t running[512];
  CHECK(threads <= COUNT(running));
  for (unsigned round = 0; round < rounds; round++) {
    for (uintptr_t i = 0; i < threads; i++)
      CHECK(pthread_create(&running[i], NULL, work, (void *)(i + (first + round) * 1000)) == 0);
    for (unsigned i = 0; i < threads; i++) CHECK(pthread_join(running[i], NULL) == 0);
  }
}

static void free_all(void) {
  for (unsigned i = 0; i < SLOTS; i++) {
    struct block *left = exchange(i, NULL);
    if (left) NAME(free)(check(left));
  }
}

static unsigned since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned)(now.tv_sec - start->tv_sec);
}

/* Runs the rounds once; returns the resident set with the blocks live. Every other time they are
 * freed, so that spans become free and memory goes back. */
static size_t cycle(uintptr_t number) {
  run_rounds(number * rounds);
  size_t live = status_bytes("VmRSS:");
  if (number % 2) free_all();
  return live;
}

/* The highest resident set of the first half is the limit for the second. */
static void soak(void) {
  struct timespec start;
  size_t mark = 0, highest = 0;
  unsigned said = 0;
  uintptr_t cycles = 0;
  while (cycles < WARM_UP) cycle(cycles++);
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (unsigned now = 0; now < seconds; now = since(&start)) {
    size_t live = cycle(cycles++);
    size_t *peak = now < (seconds + 1) / 2 ? &mark : &highest;
    if (live > *peak) *peak = live;
    CHECK_AT(highest <= mark + mark / 4, highest, mark);
    if (now >= said) {
      printf("%8u s %10zu cycles %8.1f MiB live\n", now, (size_t)cycles, (double)live / (1 << 20));
      fflush(stdout);
      said = now + (seconds < 600 ? seconds / 10 + 1 : 60);
    }
  }
  printf("%zu cycles, at most %.1f MiB in the first half, %.1f MiB in the second\n", (size_t)cycles,
         (double)mark / (1 << 20), (double)highest / (1 << 20));
}

int main(int count, char **arguments) {
  unsigned *settings[] = {&threads, &rounds, &operations, &seconds};
  for (int i = 1; i < count && i <= 4; i++) *settings[i - 1] = (unsigned)strtoul(arguments[i], NULL, 10);
  alarm(560 + seconds);
  if (seconds > 0)
    soak();
  else
    run_rounds(0);
  free_all();
  return 0;
}
