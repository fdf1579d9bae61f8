/* Counts instructions in user space, exactly and without a counter in the machine: a child
 * is single-stepped through the code (ptrace(2)).
 *
 *   instructions count KIND SIZE    instructions of a round of the loop, including the call
 *                                   through the PLT and the loop itself
 *   instructions trace KIND SIZE    offsets in the library of the instructions of one round
 *   instructions free-large LIVE    instructions of a free with LIVE large blocks: the median of
 *                                   some, because a slow machine takes so long to step that one
 *                                   of them also returns memory that was idle for half a second */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t size;

static void malloc_free(long rounds) {
  for (long i = 0; i < rounds; i++) free(malloc(size));
}

static void calloc_free(long rounds) {
  for (long i = 0; i < rounds; i++) free(calloc(1, size));
}

/* A buffer that grows by 16 bytes at a time up to `size`, like that of a writer; each call is one
 * round. */
static void realloc_growing(long rounds) {
  void *block = NULL;
  size_t bytes = 0;
  for (long i = 0; i < rounds; i++) {
    bytes = bytes < size ? bytes + 16 : 16;
    block = realloc(block, bytes);
  }
  free(block);
}

static void *live[20000];
static size_t live_count;

/* Stops before each free, and after the last one. */
static void free_large(long rounds) {
  for (long i = 0; i < rounds; i++) {
    void **block = &live[(size_t)i * 7919 % live_count];
    free(*block);
    *block = NULL;
    raise(SIGSTOP);
  }
}

static const struct {
  const char *name;
  void (*loop)(long);
} KINDS[] = {{"malloc-free", malloc_free}, {"calloc-free", calloc_free}, {"realloc-growing", realloc_growing}};

static unsigned long program_counter(pid_t child) {
  struct user_regs_struct registers;
  struct iovec area = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, &area)) return 0;
#ifdef __x86_64__
  return registers.rip;
#else
  return registers.pc;
#endif
}

/* Steps from one SIGSTOP of the child to the next; -1 if it ends in between. */
static long steps(pid_t child, unsigned long base) {
  int status;
  for (long count = 0;; count++) {
    if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
      return -1;
    if (WSTOPSIG(status) == SIGSTOP) return count;
    if (base) printf("%lx\n", program_counter(child) - base);
  }
}

/* A child that has stopped before `rounds` rounds. */
static pid_t stopped(void (*loop)(long), long rounds) {
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(77);
    if (loop != free_large) loop(3000);
    raise(SIGSTOP);
    loop(rounds);
    raise(SIGSTOP);
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    puts("ptrace is not permitted");
    exit(77);
  }
  return child;
}

/* Steps from one SIGSTOP of the child to the next, which it must reach. */
static long steps_to_stop(pid_t child, unsigned long base) {
  long count = steps(child, base);
  if (count < 0) {
    puts("the program ended early");
    exit(1);
  }
  return count;
}

static void end(pid_t child) {
  int status;
  ptrace(PTRACE_KILL, child, 0, 0);
  waitpid(child, &status, 0);
}

/* Instructions of `rounds` rounds and of the code around them. */
static long measure(void (*loop)(long), long rounds, unsigned long base) {
  pid_t child = stopped(loop, rounds);
  long count = steps_to_stop(child, base);
  end(child);
  return count;
}

static int ascending(const void *one, const void *other) {
  long a = *(const long *)one, b = *(const long *)other;
  return (a > b) - (a < b);
}

enum { FREES = 33 };

/* The median of the instructions of a free and of the stop that follows it. */
static void median_of_frees(void) {
  long counts[FREES];
  pid_t child = stopped(free_large, FREES);
  for (int i = 0; i < FREES; i++) counts[i] = steps_to_stop(child, 0);
  end(child);
  qsort(counts, FREES, sizeof *counts, ascending);
  printf("%ld\n", counts[FREES / 2]);
}

static void per_round(void (*loop)(long), long rounds) {
  printf("%.2f\n", (double)(measure(loop, 3 * rounds, 0) - measure(loop, rounds, 0)) / (double)(2 * rounds));
}

int main(int count, char **arguments) {
  Dl_info library;
  if (count == 3 && !strcmp(arguments[1], "free-large")) {
    live_count = strtoul(arguments[2], NULL, 10);
    for (size_t i = 0; i < live_count; i++)
      if (!(live[i] = malloc(600000))) return 77;
    return median_of_frees(), 0;
  }
  for (size_t i = 0; count == 4 && i < sizeof KINDS / sizeof *KINDS; i++) {
    if (strcmp(arguments[2], KINDS[i].name)) continue;
    size = strtoul(arguments[3], NULL, 10);
    if (!strcmp(arguments[1], "count")) return per_round(KINDS[i].loop, i == 2 ? (long)size / 16 : 20), 0;
    if (!dladdr((void *)(uintptr_t)malloc, &library)) return 1;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    return measure(KINDS[i].loop, 1, (unsigned long)library.dli_fbase), 0;
  }
  puts("instructions count|trace KIND SIZE, or free-large LIVE");
  return 1;
}
