/* One case per run: PROGRAM NAME. Exits with 0 if the case holds, with 77 and a reason if it cannot
 * be decided on this machine, and with 1 and the failed check otherwise. PROGRAM alone lists the
 * names. Compiled with -fno-builtin, because the compiler may otherwise remove whole pairs of
 * malloc and free. */
#ifndef CASE_H
#define CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

/* SIGALRM ends a case that hangs after this many seconds; the longest takes some seconds. */
#ifndef CASE_SECONDS
#define CASE_SECONDS 240
#endif

struct test_case {
  const char *name;
  void (*run)(void);
};

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);            \
      fflush(stdout);                                                                     \
      _exit(1);                                                                           \
    }                                                                                     \
  } while (0)

/* The same with two numbers that identify the round of a loop. */
#define CHECK_AT(condition, a, b)                                                         \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      printf("%s:%d: %s at %zu, %zu (errno %d)\n", __FILE__, __LINE__, #condition,        \
             (size_t)(a), (size_t)(b), errno);                                            \
      fflush(stdout);                                                                     \
      _exit(1);                                                                           \
    }                                                                                     \
  } while (0)

#define SKIP(reason)                                                                      \
  do {                                                                                    \
    puts(reason);                                                                         \
    fflush(stdout);                                                                       \
    _exit(77);                                                                            \
  } while (0)

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Every byte of a block depends on its address and number, so that a block that overlaps another,
 * or was moved without its contents, is detected. */
static inline void fill(void *block, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i++) ((unsigned char *)block)[i] = (unsigned char)(seed + i * 31 + (i >> 8));
}

static inline int filled(const void *block, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i++)
    if (((const unsigned char *)block)[i] != (unsigned char)(seed + i * 31 + (i >> 8))) return 0;
  return 1;
}

/* xorshift64*: the same operations in every run. */
static inline uint64_t next_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 2685821657736338717u;
}

/* Mostly small, sometimes large, as in programs. */
static inline size_t random_size(uint64_t *state) {
  uint64_t r = next_random(state);
  unsigned bits = (r & 15) == 0 ? 18 : (r & 15) < 4 ? 13 : 9;
  return (r >> 8) & (((uint64_t)1 << (r >> 40) % (bits + 1)) - 1);
}

/* Takes this many bytes in small objects, and frees them all at once. */
static inline void use_small_objects(size_t bytes) {
  enum { SIZE = 200 };
  void **first = NULL;
  for (size_t taken = 0; taken < bytes; taken += SIZE) {
    void **block = (void **)malloc(SIZE);
    CHECK(block);
    *block = first;
    first = block;
  }
  while (first) {
    void **next = (void **)*first;
    free(first);
    first = next;
  }
}

/* A line of /proc/self/status in bytes, 0 if there is none. */
static inline size_t status_bytes(const char *key) {
  char line[256];
  size_t kib = 0, length = strlen(key);
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, key, length)) kib = strtoull(line + length, NULL, 10);
  fclose(file);
  return kib << 10;
}

/* A child that cannot outlive its parent: a child that hangs is killed with the case. */
static inline pid_t fork_child(void) {
  pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

static inline int exit_status_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int run_case(int count, char **arguments, const struct test_case *cases, size_t cases_count) {
  if (count < 2) {
    for (size_t i = 0; i < cases_count; i++) puts(cases[i].name);
    return 0;
  }
  alarm(CASE_SECONDS);
  for (size_t i = 0; i < cases_count; i++)
    if (!strcmp(arguments[1], cases[i].name)) return cases[i].run(), 0;
  printf("no case %s\n", arguments[1]);
  return 1;
}

#endif
