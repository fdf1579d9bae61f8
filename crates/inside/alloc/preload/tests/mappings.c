/* The mappings that the allocator adds to those of the process: how many, and which of them are in
 * core files. If there are too many, every mmap
 * of the process fails, and with it pthread_create and dlopen: see vm.max_map_count in the kernel's
 * Documentation/admin-guide/sysctl/vm.rst. */
#include "case.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

enum { MOST_BLOCKS = 1000, SMALLEST = 300000, SPREAD = 3000000, LARGEST = 8000000, PART = 16 };

/* Fewer steps for an emulated machine: STEPS_DIVIDED_BY=4. */
static size_t fewer(size_t steps) {
  const char *divisor = getenv("STEPS_DIVIDED_BY");
  return divisor ? steps / strtoul(divisor, NULL, 10) : steps;
}

static unsigned char *blocks[MOST_BLOCKS];
static size_t sizes[MOST_BLOCKS];

static size_t mappings(void) {
  char line[512];
  size_t count = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  if (!file) SKIP("there is no /proc/self/maps");
  while (fgets(line, sizeof line, file)) count += strchr(line, '\n') != NULL;
  fclose(file);
  return count;
}

/* The number that the allocator may add: a share of the system's limit, but at most 4096, and a
 * few that do not split another one. */
static size_t allowed(void) {
  size_t limit = 0;
  FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
  if (!file || fscanf(file, "%zu", &limit) != 1) SKIP("the system does not tell vm.max_map_count");
  fclose(file);
  return (limit / PART < 4096 ? limit / PART : 4096) + 64;
}

static void *nothing(void *argument) { return argument; }

/* What the process can no longer do if there are too many. */
static void process_works(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  void *pages = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  CHECK(munmap(pages, 4096) == 0);
}

static void check(size_t i) {
  unsigned char mark = (unsigned char)(i * 7 + 1);
  CHECK_AT(blocks[i][0] == mark, i, sizes[i]);
  CHECK_AT(blocks[i][sizes[i] / 2] == mark && blocks[i][sizes[i] - 1] == mark, i, sizes[i]);
}

static void mark(size_t i) {
  blocks[i][0] = blocks[i][sizes[i] / 2] = blocks[i][sizes[i] - 1] = (unsigned char)(i * 7 + 1);
}

static void release(size_t i) {
  if (blocks[i]) check(i);
  free(blocks[i]);
  blocks[i] = NULL;
  sizes[i] = 0;
}

/* Blocks grow in random order, and with a chance of one in eight a block is freed. */
static void churn(size_t count, size_t steps, uint64_t random) {
  size_t base = mappings(), most = base + allowed();
  steps = fewer(steps);
  for (size_t step = 0; step < steps; step++) {
    uint64_t r = next_random(&random);
    size_t i = (r >> 10) % count, size = SMALLEST + (r >> 30) % SPREAD;
    if (size <= sizes[i]) size = sizes[i] + 100000;
    if (r % 8 == 0 || size > LARGEST) {
      release(i);
      continue;
    }
    if (blocks[i]) check(i);
    unsigned char *grown = realloc(blocks[i], size);
    CHECK_AT(grown, size, step);
    size_t held = sizes[i];
    blocks[i] = grown;
    if (held) {
      CHECK_AT(grown[0] == (unsigned char)(i * 7 + 1) && grown[held - 1] == grown[0], i, size);
      grown[held / 2] = grown[held - 1] = 0;
    }
    sizes[i] = size;
    mark(i);
    if (step % 500 == 499) {
      size_t now = mappings();
      CHECK_AT(now <= most, now, most);
    }
  }
  process_works();
}

static void free_all(void) {
  for (size_t i = 0; i < MOST_BLOCKS; i++) release(i);
}

static void many_growing_blocks(void) { churn(MOST_BLOCKS, 12000, 3); }

/* The mappings that blocks add end with them. The second time leaves no more than the first,
 * after which the heap has its final size. malloc_trim first: pages that were moved keep a mapping
 * of their own until they are returned to the kernel, a second later or more. */
static void freed_blocks_are_merged(void) {
  size_t after[2];
  for (size_t round = 0; round < 2; round++) {
    churn(200, 3000, 5);
    free_all();
    malloc_trim(0);
    after[round] = mappings();
  }
  CHECK_AT(after[1] <= after[0] + 100, after[0], after[1]);
}

/* Nothing is merged in the child of a fork. */
static void children_of_a_fork(void) {
  churn(200, 3000, 9);
  pid_t child = fork_child();
  if (child == 0) {
    churn(200, 6000, 7);
    fflush(stdout);
    _exit(0);
  }
  CHECK(exit_status_of(child) == 0);
  churn(200, 3000, 11);
}

static void *churn_thread(void *argument) {
  enum { OWN = 40 };
  uint64_t random = (uintptr_t)argument;
  unsigned char *own[OWN] = {0};
  size_t size[OWN] = {0};
  size_t steps = fewer(700);
  for (size_t step = 0; step < steps; step++) {
    uint64_t r = next_random(&random);
    size_t i = (r >> 10) % OWN, more = size[i] + 200000 + (r >> 30) % 1000000;
    if (more > LARGEST) more = 0;
    if (own[i]) CHECK_AT(own[i][0] == i + 1 && own[i][size[i] - 1] == i + 1, i, size[i]);
    if (more == 0) {
      free(own[i]);
      own[i] = NULL;
    } else {
      CHECK(own[i] = realloc(own[i], more));
      own[i][0] = own[i][more - 1] = (unsigned char)(i + 1);
    }
    size[i] = more;
  }
  for (size_t i = 0; i < OWN; i++) free(own[i]);
  return NULL;
}

/* On machines with several nodes the threads run on all of them. */
static void threads_with_growing_blocks(void) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  size_t most = mappings() + allowed() + 4 * THREADS;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, churn_thread, (void *)(i + 1)) == 0);
  for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  size_t now = mappings();
  CHECK_AT(now <= most, now, most);
  process_works();
}

/* Consecutive blocks whose ranges might get huge pages, with blocks in between that might not. */
static void large_and_small_in_turns(void) {
  size_t most = mappings() + allowed();
  for (size_t i = 0; i < MOST_BLOCKS; i++) {
    sizes[i] = i % 2 ? 5000000 : SMALLEST;
    CHECK(blocks[i] = malloc(sizes[i]));
    mark(i);
    for (int objects = 0; objects < 20; objects++) CHECK(malloc(20000));
  }
  size_t now = mappings();
  CHECK_AT(now <= most, now, most);
  process_works();
  free_all();
}

/* Each block has a guard page with NUMAPILOT_ALLOC_HARDEN=1; see mappings.rs. */
static void many_blocks(void) {
  enum { BLOCKS = 40000 };
  static void *all[BLOCKS];
  size_t most = mappings() + allowed();
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(all[i] = malloc(40000));
    *(char *)all[i] = 1;
  }
  size_t now = mappings();
  CHECK_AT(now <= most, now, most);
  process_works();
  for (size_t i = 0; i < BLOCKS; i++) free(all[i]);
  /* The guard pages are available to other blocks again. */
  for (size_t i = 0; i < BLOCKS; i++) CHECK(all[i] = malloc(40000));
  for (size_t i = 0; i < BLOCKS; i++) free(all[i]);
  now = mappings();
  CHECK_AT(now <= most, now, most);
}

/* A long block that grows is moved, not copied, so untouched memory is not resident afterwards. */
static void a_long_block_is_moved(void) {
  enum { FIRST = 12 << 20, LAST = FIRST << 4 };
  unsigned char *block = malloc(FIRST);
  CHECK(block);
  memset(block, 1, FIRST);
  size_t before = status_bytes("VmRSS:");
  for (size_t size = 2 * FIRST; size <= LAST; size *= 2) {
    /* This keeps it from growing in place. */
    CHECK(malloc(40000));
    CHECK(block = realloc(block, size));
    for (size_t i = 0; i < FIRST; i++) CHECK_AT(block[i] == 1, size, i);
  }
  size_t after = status_bytes("VmRSS:");
  CHECK_AT(after < before + LAST / 4, after, before);
  free(block);
}

/* What a debugger writes into a core file of this process, which includes memory that was never
 * touched; whether that includes an address. */
static size_t dumped(void *address, int *includes) {
  char line[512];
  uintptr_t start = 0, end = 0, sum = 0;
  FILE *file = fopen("/proc/self/smaps", "r");
  if (!file) SKIP("there is no /proc/self/smaps");
  *includes = 0;
  while (fgets(line, sizeof line, file)) {
    uintptr_t from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) start = from, end = to;
    if (strncmp(line, "VmFlags:", 8) || strstr(line, " dd")) continue;
    sum += end - start;
    *includes |= start <= (uintptr_t)address && (uintptr_t)address < end;
  }
  fclose(file);
  return sum;
}

static void reserved_memory_is_not_in_core_files(void) {
  int includes;
  size_t size = 0;
  for (size_t bytes = 16; bytes <= 100 << 20; bytes *= 4) {
    unsigned char *block = malloc(bytes);
    CHECK(block);
    block[0] = 1;
    size = dumped(block, &includes);
    CHECK_AT(includes, bytes, size);
  }
  CHECK_AT(size < (size_t)1 << 30, size, 0);
}

int main(int count, char **arguments) {
  static const struct test_case CASES[] = {
      {"many_growing_blocks", many_growing_blocks},
      {"freed_blocks_are_merged", freed_blocks_are_merged},
      {"children_of_a_fork", children_of_a_fork},
      {"threads_with_growing_blocks", threads_with_growing_blocks},
      {"large_and_small_in_turns", large_and_small_in_turns},
      {"many_blocks", many_blocks},
      {"a_long_block_is_moved", a_long_block_is_moved},
      {"reserved_memory_is_not_in_core_files", reserved_memory_is_not_in_core_files},
  };
  return run_case(count, arguments, CASES, COUNT(CASES));
}
