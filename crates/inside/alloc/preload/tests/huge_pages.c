/* Huge pages: objects get them, and memory that was returned stays returned. */
#define CASE_SECONDS 120
#include "case.h"

#include <sys/mman.h>

enum { CHUNK = 2 << 20, PAGES = CHUNK / 4096 };

/* Bytes of anonymous huge pages of this process. */
static size_t huge_bytes(void) {
  char line[256];
  size_t kib = 0, sum = 0;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  if (!file) SKIP("no /proc/self/smaps_rollup");
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "AnonHugePages: %zu", &kib) == 1) sum += kib;
  fclose(file);
  return sum << 10;
}

/* Makes the kernel have huge pages ready, because the allocator avoids those that the kernel must
 * make first, or request from a hypervisor. Returns how many bytes of them it gave. */
static size_t lay_huge_pages_ready(size_t bytes) {
  char *there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(there != MAP_FAILED && madvise(there, bytes, MADV_HUGEPAGE) == 0);
  size_t before = huge_bytes();
  memset(there, 1, bytes);
  size_t given = huge_bytes() - before;
  CHECK(munmap(there, bytes) == 0);
  return given;
}

static void need_huge_pages(void) {
  char setting[64] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (!file || !fgets(setting, sizeof setting, file) || strstr(setting, "[never]"))
    SKIP("transparent huge pages are off");
  fclose(file);
}

/* In more than one attempt: if other programs take the huge pages meanwhile, the allocator pauses.
 */
static void small_objects_have_them(void) {
  enum { MANY = 3 << 20, SIZE = 64, TURNS = 4 };
  need_huge_pages();
  char *first = NULL;
  size_t ready = 0, taken = 0;
  for (unsigned turn = 0; turn < TURNS; turn++) {
    ready = lay_huge_pages_ready((size_t)MANY * SIZE);
    if (!ready) SKIP("the kernel has no huge pages at the moment");
    size_t before = huge_bytes();
    for (unsigned i = 0; i < MANY; i++) {
      char **block = malloc(SIZE);
      CHECK(block);
      *block = first;
      first = (char *)block;
    }
    taken = huge_bytes() - before;
    if (taken > ready / 4) return;
  }
  CHECK_AT(taken > ready / 4, taken, ready);
}

enum { OBJECTS = 1 << 20, SIZE = 64, EACH = CHUNK / SIZE };
static void *objects[OBJECTS];

static void take_all(void) {
  for (unsigned i = 0; i < OBJECTS; i++)
    if (!objects[i]) {
      CHECK(objects[i] = malloc(SIZE));
      memset(objects[i], 1, SIZE);
    }
}

/* Keeps an object in each chunk, and waits until most of the rest has returned to the kernel. */
static void free_most(size_t before) {
  for (unsigned i = 0; i < OBJECTS; i++)
    if (i % EACH) {
      free(objects[i]);
      objects[i] = NULL;
    }
  while (status_bytes("VmRSS:") > before + OBJECTS * SIZE / 4) usleep(10000);
}

/* How many chunks that khugepaged may fill are neither empty nor nearly full. */
static unsigned chunks_to_be_filled(void) {
  char line[512];
  unsigned char there[PAGES];
  uintptr_t start = 0, end = 0;
  unsigned count = 0;
  FILE *file = fopen("/proc/self/smaps", "r");
  if (!file) SKIP("no /proc/self/smaps");
  while (fgets(line, sizeof line, file)) {
    uintptr_t from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) start = from, end = to;
    if (strncmp(line, "VmFlags:", 8) || !strstr(line, " hg")) continue;
    uintptr_t chunk = (start + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1);
    for (; chunk + CHUNK <= end; chunk += CHUNK) {
      unsigned pages = 0;
      CHECK(mincore((void *)chunk, CHUNK, there) == 0);
      for (unsigned i = 0; i < PAGES; i++) pages += there[i] & 1;
      count += pages > 0 && pages < PAGES / 8 * 7;
    }
  }
  fclose(file);
  return count;
}

/* khugepaged makes a huge page of a chunk with a single page, unless the chunk is advised not to
 * have one. Whether it does so at this moment is not a test's choice; the advice is. */
static void returned_memory_is_not_filled_again(void) {
  need_huge_pages();
  if (sysconf(_SC_PAGESIZE) != 4096) SKIP("the huge pages of this machine have another size");
  memset(objects, 0, sizeof objects);
  if (!lay_huge_pages_ready(OBJECTS * SIZE)) SKIP("the kernel has no huge pages at the moment");
  size_t before = status_bytes("VmRSS:");
  take_all();
  size_t huge = huge_bytes();
  CHECK_AT(huge > OBJECTS * SIZE / 4, huge, OBJECTS * SIZE);
  free_most(before);
  CHECK_AT(chunks_to_be_filled() == 0, chunks_to_be_filled(), 0);
  /* What is in use again has huge pages again, as soon as the background thread has seen it. */
  take_all();
  while (huge_bytes() < huge / 4 * 3) {
    if (!lay_huge_pages_ready(OBJECTS * SIZE)) SKIP("the kernel has no huge pages any more");
    usleep(100000);
  }
}

/* A program may allocate a part of its objects long before it writes them. That their memory had
 * small pages at first is no reason to keep them. Returns whether they got huge pages before the
 * program had as much again eight times. */
static int get_them_later(void) {
  size_t bytes = OBJECTS * SIZE, ready = lay_huge_pages_ready(2 * bytes);
  if (ready < bytes) SKIP("the kernel has no huge pages at the moment");
  size_t before = huge_bytes();
  for (unsigned i = 0; i < OBJECTS; i++) CHECK(objects[i] = malloc(SIZE));
  CHECK_AT(huge_bytes() - before < bytes / 4, huge_bytes() - before, bytes);
  for (unsigned i = 0; i < OBJECTS; i++) memset(objects[i], 1, SIZE);
  /* Growth and time cause looks at earlier memory. What is added here may have huge pages, too. */
  for (size_t added = 0; added < 8 * bytes; added += CHUNK) {
    if (huge_bytes() >= before + added + bytes / 4 * 3) return 1;
    if (added % bytes == 0 && lay_huge_pages_ready(bytes) < bytes) SKIP("the kernel has no huge pages any more");
    for (unsigned i = 0; i < EACH; i++) {
      void *more = malloc(SIZE);
      CHECK(more);
      memset(more, 1, SIZE);
    }
    usleep(10000);
  }
  return 0;
}

/* In more than one attempt, each in a process of its own: if huge pages take long meanwhile because
 * the machine is busy, the allocator pauses. */
static void objects_that_are_written_later_have_them(void) {
  enum { TURNS = 8, PAUSED = 2 };
  need_huge_pages();
  if (sysconf(_SC_PAGESIZE) != 4096) SKIP("the huge pages of this machine have another size");
  int status = PAUSED;
  for (unsigned turn = 0; status == PAUSED && turn < TURNS; turn++) {
    pid_t child = fork_child();
    if (child == 0) _exit(get_them_later() ? 0 : PAUSED);
    status = exit_status_of(child);
  }
  CHECK_AT(status != PAUSED, status, TURNS);
  /* A check that failed, or a reason to skip, which the child has printed. */
  if (status) _exit(status);
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"small_objects_have_them", small_objects_have_them},
      {"objects_that_are_written_later_have_them", objects_that_are_written_later_have_them},
      {"returned_memory_is_not_filled_again", returned_memory_is_not_filled_again},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
