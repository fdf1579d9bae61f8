/* The functions that report on the heap, and those that tune it: mallinfo, mallinfo2, malloc_info,
 * malloc_stats, mallopt, malloc_trim. Source: the GNU manual and the pages of section 3. */
#include "case.h"

#include <fcntl.h>
#include <malloc.h>
#include <dlfcn.h>

#include "../include/numapilot_alloc.h"

enum { MANY = 4000 };

/* Allocates small and large blocks of 100 MB in total, and writes to them. */
static size_t take(void **blocks) {
  size_t total = 0;
  for (unsigned i = 0; i < MANY; i++) {
    size_t size = i % 40 == 0 ? 1 << 20 : 200 + i % 4000;
    blocks[i] = malloc(size);
    CHECK(blocks[i]);
    memset(blocks[i], 1, size);
    total += size;
  }
  return total;
}

static void give_back(void **blocks) {
  for (unsigned i = 0; i < MANY; i++) free(blocks[i]);
}

static size_t in_use(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static void mallinfo2_counts_what_is_in_use(void) {
  static void *blocks[MANY];
  size_t before = in_use();
  size_t total = take(blocks);
  size_t during = in_use();
  CHECK_AT(during >= before + total, during - before, total);
  CHECK_AT(during <= before + total * 2, during - before, total);
  give_back(blocks);
  /* Memory that a thread keeps for itself may count either way. */
  CHECK_AT(in_use() <= before + (16 << 20), in_use(), before);
}

static void mallinfo_is_mallinfo2_as_int(void) {
  void *block = malloc(10 << 20);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  struct mallinfo2 wide = mallinfo2();
  CHECK((size_t)narrow.uordblks + (size_t)narrow.hblkhd == wide.uordblks + wide.hblkhd);
  CHECK((size_t)narrow.arena == wide.arena);
  CHECK(wide.uordblks + wide.fordblks == wide.arena);
  free(block);
}

/* The elements of the document close in the reverse order in which they opened. */
static void check_xml(const char *text) {
  char names[64][32];
  unsigned depth = 0, elements = 0;
  for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
    const char *end = strchr(at, '>');
    CHECK(end);
    int closes = at[1] == '/';
    char name[32];
    CHECK(sscanf(at + 1 + closes, "%31[a-z_]", name) == 1);
    if (closes) {
      CHECK(depth > 0 && !strcmp(names[--depth], name));
    } else if (end[-1] != '/') {
      CHECK(depth < COUNT(names));
      strcpy(names[depth++], name);
    }
    elements += !closes;
    at = end;
  }
  CHECK(depth == 0 && elements > 3);
}

static void malloc_info_writes_xml(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  CHECK(stream && malloc_info(0, stream) == 0);
  CHECK(fclose(stream) == 0);
  CHECK(!strncmp(text, "<malloc version=", 16));
  check_xml(text);
  CHECK(strstr(text, "<total ") && strstr(text, "<system "));
  free(text);
}

static void malloc_info_knows_no_options(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  CHECK(malloc_info(1, stream) != 0);
  fclose(stream);
  CHECK(length == 0);
  free(text);
}

static void malloc_stats_writes_to_standard_error(void) {
  char path[] = "/tmp/malloc-stats-XXXXXX", text[256] = "";
  int file = mkstemp(path);
  CHECK(file >= 0 && unlink(path) == 0);
  fflush(stderr);
  int saved = dup(2);
  dup2(file, 2);
  malloc_stats();
  fflush(stderr);
  dup2(saved, 2);
  CHECK(pread(file, text, sizeof text - 1, 0) > 20);
  CHECK(strpbrk(text, "0123456789"));
}

static void mallopt_takes_what_is_documented(void) {
  static const int known[] = {M_MMAP_THRESHOLD, M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD, M_ARENA_MAX, M_ARENA_TEST};
  for (size_t i = 0; i < COUNT(known); i++) CHECK_AT(mallopt(known[i], 1 << 20) == 1, i, 0);
  void *block = malloc(3 << 20);
  CHECK(block);
  free(block);
}

static void malloc_trim_returns_memory(void) {
  static void *blocks[MANY];
  size_t idle = status_bytes("VmRSS:");
  for (int round = 0; round < 2; round++) {
    size_t total = take(blocks);
    CHECK(status_bytes("VmRSS:") >= idle + total);
    give_back(blocks);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
    CHECK_AT(status_bytes("VmRSS:") < idle + total / 8, status_bytes("VmRSS:"), idle);
  }
  int trimmed = malloc_trim(SIZE_MAX);
  CHECK(trimmed == 0 || trimmed == 1);
}

/* The figures of the C library's heap, which is empty, would be valid too. */
static void all_are_of_the_library(void) {
  static const char *const names[] = {"mallinfo",      "mallinfo2",   "malloc_info", "malloc_stats",
                                      "mallopt",       "malloc_trim", "free_sized",  "free_aligned_sized",
                                      "reallocarray",  "memalign",    "valloc",      "pvalloc",
                                      "aligned_alloc", "realloc",     "calloc",      "posix_memalign",
                                      "free",          "malloc_usable_size",         "numapilot_alloc_stats"};
  Dl_info home, other;
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &home));
  for (size_t i = 0; i < COUNT(names); i++) {
    void *address = dlsym(RTLD_DEFAULT, names[i]);
    if (!address || !dladdr(address, &other) || other.dli_fbase != home.dli_fbase) {
      printf("%s is not in %s\n", names[i], home.dli_fname);
      fflush(stdout);
      _exit(1);
    }
  }
}

/* The text that the library writes to a file, at most `size` bytes of it. */
static size_t statistics(const char *format, char *text, size_t size) {
  int (*write_statistics)(int, const char *) = (int (*)(int, const char *))dlsym(RTLD_DEFAULT, "numapilot_alloc_stats");
  char path[] = "/tmp/statistics-XXXXXX";
  int file = mkstemp(path);
  CHECK(write_statistics && file >= 0 && unlink(path) == 0);
  CHECK(write_statistics(file, format) == 0);
  ssize_t length = pread(file, text, size - 1, 0);
  CHECK(length > 0 && close(file) == 0);
  text[length] = 0;
  return (size_t)length;
}

static void the_header_declares_what_is_there(void) {
  static char text[1 << 20];
  __typeof__(numapilot_alloc_stats) *declared = dlsym(RTLD_DEFAULT, "numapilot_alloc_stats");
  void *block = malloc(3 << 20);
  statistics("text", text, sizeof text);
  CHECK(strchr(text, '\n'));
  statistics("json", text, sizeof text);
  CHECK(text[0] == '{');
  statistics("prometheus", text, sizeof text);
  CHECK(strstr(text, "# TYPE "));
  errno = 0;
  CHECK(declared(1, "no such format") == -1 && errno == EINVAL);
  errno = 0;
  CHECK(declared(-1, "text") == -1 && errno == EBADF);
  free(block);
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"mallinfo2_counts_what_is_in_use", mallinfo2_counts_what_is_in_use},
      {"mallinfo_is_mallinfo2_as_int", mallinfo_is_mallinfo2_as_int},
      {"malloc_info_writes_xml", malloc_info_writes_xml},
      {"malloc_info_knows_no_options", malloc_info_knows_no_options},
      {"malloc_stats_writes_to_standard_error", malloc_stats_writes_to_standard_error},
      {"mallopt_takes_what_is_documented", mallopt_takes_what_is_documented},
      {"malloc_trim_returns_memory", malloc_trim_returns_memory},
      {"the_header_declares_what_is_there", the_header_declares_what_is_there},
      {"all_are_of_the_library", all_are_of_the_library},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
