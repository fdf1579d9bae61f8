/* Invalid programs. Each ends by SIGABRT, with one line on standard error that contains the
 * pointer and the cause. PROGRAM NAME prints the pointer first. */
#include "case.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

/* Printed without stdio streams, which allocate memory and may get this very block. */
static void *announce(void *pointer) {
  char line[32];
  int length = snprintf(line, sizeof line, "%p\n", pointer);
  CHECK(write(1, line, (size_t)length) == length);
  return pointer;
}

static char somewhere[4096];

static void free_of_static_memory(void) { free(announce(somewhere + 16)); }
static void free_of_stack_memory(void) {
  _Alignas(16) char here[64] = "";
  free(announce(here + 16));
}
static void free_of_mapped_memory(void) {
  char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  free(announce(page + 4096));
}
static void free_of_a_small_number(void) { free(announce((void *)0x10)); }
static void free_of_kernel_address(void) { free(announce((void *)0xffff800000001000)); }

static void *volatile keep;

static void free_inside_a_small_block(void) {
  char *block = keep = malloc(100);
  free(announce(block + 8));
}
static void free_inside_a_large_block(void) {
  char *block = keep = malloc(5 << 20);
  free(announce(block + (1 << 20)));
}
static void free_of_a_misaligned_pointer(void) {
  char *block = keep = malloc(100);
  free(announce(block + 1));
}
static void double_free_of_a_small_block(void) {
  char *block = keep = malloc(100);
  free(block);
  free(announce(block));
}
/* As many as a thread collects for another before it sends them. */
static char *collected[127];

static void *free_collected(void *unused) {
  for (size_t i = 0; i < COUNT(collected); i++) free(collected[i]);
  free(announce(collected[COUNT(collected) - 1]));
  return unused;
}
static void double_free_by_another_thread(void) {
  for (size_t i = 0; i < COUNT(collected); i++) collected[i] = malloc(64);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_collected, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}
static void double_free_of_a_large_block(void) {
  char *block = keep = malloc(5 << 20);
  free(block);
  free(announce(block));
}
static void double_free_of_a_medium_block(void) {
  char *block = keep = malloc(300000);
  free(block);
  free(announce(block));
}
static void realloc_of_a_foreign_pointer(void) { keep = realloc(announce(somewhere + 32), 100); }
static void realloc_of_a_freed_block(void) {
  char *block = keep = malloc(5 << 20);
  free(block);
  keep = realloc(announce(block), 6 << 20);
}
static void usable_size_of_a_foreign_pointer(void) { keep = (void *)malloc_usable_size(announce(somewhere + 64)); }

/* Errors that only the hardened mode detects. */
static void hardened_free_inside_a_small_block(void) {
  char *block = keep = malloc(20000);
  free(announce(block + 4096));
}
static void hardened_double_free_of_an_older_block(void) {
  char *block = keep = malloc(100), *newer = malloc(100);
  free(block);
  free(newer);
  free(announce(block));
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"free_of_static_memory", free_of_static_memory},
      {"free_of_stack_memory", free_of_stack_memory},
      {"free_of_mapped_memory", free_of_mapped_memory},
      {"free_of_a_small_number", free_of_a_small_number},
      {"free_of_kernel_address", free_of_kernel_address},
      {"free_inside_a_small_block", free_inside_a_small_block},
      {"free_inside_a_large_block", free_inside_a_large_block},
      {"free_of_a_misaligned_pointer", free_of_a_misaligned_pointer},
      {"double_free_of_a_small_block", double_free_of_a_small_block},
      {"double_free_by_another_thread", double_free_by_another_thread},
      {"double_free_of_a_medium_block", double_free_of_a_medium_block},
      {"double_free_of_a_large_block", double_free_of_a_large_block},
      {"realloc_of_a_foreign_pointer", realloc_of_a_foreign_pointer},
      {"realloc_of_a_freed_block", realloc_of_a_freed_block},
      {"usable_size_of_a_foreign_pointer", usable_size_of_a_foreign_pointer},
      {"hardened_free_inside_a_small_block", hardened_free_inside_a_small_block},
      {"hardened_double_free_of_an_older_block", hardened_double_free_of_an_older_block},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
