/* One case per run: cases NAME. Exits with 0 if the case holds, else with 1 and a line that shows the
 * failed check. Run it with NUMAPILOT_BIND_CPUS=0,1 and the library preloaded, as ../../tests/preload.rs
 * does. Affinities are read from the kernel, because a library may interpose the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno);        \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* The only CPU of the caller, or -1. Uses the raw system call, which no library interposes. */
static int only_cpu(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (syscall(SYS_sched_getaffinity, 0, sizeof set, &set) <= 0 || CPU_COUNT(&set) != 1) return -1;
  for (int cpu = 0;; cpu++)
    if (CPU_ISSET(cpu, &set)) return cpu;
}

static void *cpu_of_thread(void *unused) { return (void *)(long)only_cpu(); }

static int cpu_of_new_thread(const pthread_attr_t *attributes) {
  pthread_t thread;
  void *cpu;
  CHECK(pthread_create(&thread, attributes, cpu_of_thread, NULL) == 0);
  CHECK(pthread_join(thread, &cpu) == 0);
  return (int)(long)cpu;
}

static cpu_set_t just(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

static int wait_for(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void main_and_first_thread(void) {
  CHECK(only_cpu() == 0);
  CHECK(cpu_of_new_thread(NULL) == 1);
}

/* The functions that the other preloaded libraries call for their own threads. */
extern int numapilot_bind_create_unplaced(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    __attribute__((weak));
extern const uint64_t *numapilot_bind_cpus(void) __attribute__((weak));

static void unplaced(void) {
  void *cpu;
  pthread_t thread;
  /* For threads that they create themselves: CPUs 0 and 1. The caller is pinned to CPU 0. */
  CHECK(numapilot_bind_cpus && numapilot_bind_cpus()[0] == 3 && only_cpu() == 0);
  CHECK(numapilot_bind_create_unplaced);
  CHECK(numapilot_bind_create_unplaced(&thread, NULL, cpu_of_thread, NULL) == 0);
  CHECK(pthread_join(thread, &cpu) == 0 && (int)(long)cpu == -1);
  CHECK(cpu_of_new_thread(NULL) == 1);
}

static int finished, per_cpu[2];

static void *count_cpu(void *unused) {
  int cpu = only_cpu();
  CHECK(cpu == 0 || cpu == 1);
  __atomic_fetch_add(&per_cpu[cpu], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void detached(void) {
  enum { THREADS = 3000 };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    int result;
    /* At the limit of processes: wait until some threads have ended. */
    while ((result = pthread_create(&thread, &attributes, count_cpu, NULL)) == EAGAIN) usleep(1000);
    CHECK(result == 0);
  }
  while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < THREADS) usleep(1000);
  CHECK(per_cpu[0] + per_cpu[1] == THREADS);
  CHECK(per_cpu[0] > 0 && per_cpu[1] > 0);
}

/* SCHED_RR if this user may set it. */
static int expected_policy = SCHED_OTHER;

static void *check_attributes(void *stack) {
  pthread_attr_t mine;
  void *address;
  size_t size, guard;
  int detach, policy;
  struct sched_param parameter;
  CHECK(pthread_getattr_np(pthread_self(), &mine) == 0);
  CHECK(pthread_attr_getstack(&mine, &address, &size) == 0);
  CHECK(pthread_attr_getguardsize(&mine, &guard) == 0);
  CHECK(pthread_attr_getdetachstate(&mine, &detach) == 0);
  CHECK(pthread_getschedparam(pthread_self(), &policy, &parameter) == 0);
  if (stack) {
    CHECK(address == stack && size == 1 << 20);
  } else {
    CHECK(size == 3 << 20 && guard == 64 << 10 && detach == PTHREAD_CREATE_DETACHED);
    CHECK(policy == expected_policy);
  }
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void attributes(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  struct sched_param parameter = {.sched_priority = 1}, none = {0};
  if (sched_setscheduler(0, SCHED_RR, &parameter) == 0) {
    CHECK(sched_setscheduler(0, SCHED_OTHER, &none) == 0);
    expected_policy = SCHED_RR;
  } else {
    parameter = none;
  }
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 3 << 20) == 0);
  CHECK(pthread_attr_setguardsize(&attributes, 64 << 10) == 0);
  CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
  CHECK(pthread_attr_setschedpolicy(&attributes, expected_policy) == 0);
  CHECK(pthread_attr_setschedparam(&attributes, &parameter) == 0);
  CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
  CHECK(pthread_create(&thread, &attributes, check_attributes, NULL) == 0);
  while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < 1) usleep(1000);
  pthread_attr_init(&attributes);
  void *stack = NULL;
  CHECK(posix_memalign(&stack, 4096, 1 << 20) == 0);
  CHECK(pthread_attr_setstack(&attributes, stack, 1 << 20) == 0);
  CHECK(pthread_create(&thread, &attributes, check_attributes, stack) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void affinity_attribute(void) {
  pthread_attr_t attributes;
  cpu_set_t zero = just(0);
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setaffinity_np(&attributes, sizeof zero, &zero) == 0);
  for (int i = 0; i < 3; i++) CHECK(cpu_of_new_thread(&attributes) == 0);
}

static void *sleeper(void *unused) {
  for (;;) sleep(1000);
  return unused;
}

static void cancelled(void) {
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
  }
  /* Every CPU was given back: the next thread is the only one besides main. */
  CHECK(cpu_of_new_thread(NULL) == 1);
}

static void *leave_by_exit(void *value) { pthread_exit(value); }

static void exiting_threads(void) {
  for (long i = 0; i < 200; i++) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, leave_by_exit, (void *)i) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == (void *)i);
  }
  CHECK(cpu_of_new_thread(NULL) == 1);
}

static void refused(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 1ul << 46) == 0);
  for (int i = 0; i < 9; i++)
    CHECK(pthread_create(&thread, &attributes, cpu_of_thread, NULL) == EAGAIN);
  CHECK(cpu_of_new_thread(NULL) == 1);
}

static void *cpu_twice(void *unused) {
  /* A thread that is created by one that pins itself inherits its affinity. */
  cpu_set_t zero = just(0);
  CHECK(only_cpu() == 1);
  CHECK(sched_setaffinity(0, sizeof zero, &zero) == 0);
  CHECK(only_cpu() == 0);
  CHECK(cpu_of_new_thread(NULL) == 0);
  return NULL;
}

static void pins_itself(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, cpu_twice, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  /* The main thread has not pinned itself, so its threads are still placed. */
  CHECK(cpu_of_new_thread(NULL) == 1);
  cpu_set_t one = just(1);
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0);
  CHECK(only_cpu() == 1);
  for (int i = 0; i < 3; i++) CHECK(cpu_of_new_thread(NULL) == 1);
  pid_t child = fork();
  if (child == 0) _exit(only_cpu());
  CHECK(wait_for(child) == 1);
}

static void asks_for_any(void) {
  cpu_set_t set, both = just(0);
  CPU_SET(1, &both);
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  CHECK(CPU_EQUAL(&set, &both));
  CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0);
  CHECK(CPU_EQUAL(&set, &both));
  CHECK(sched_setaffinity(0, sizeof both, &both) == 0);
  CHECK(only_cpu() == 0);
  cpu_set_t none;
  CPU_ZERO(&none);
  errno = 0;
  CHECK(sched_setaffinity(0, sizeof none, &none) == -1 && errno == EINVAL);
  CHECK(only_cpu() == 0);
}

static void forks(void) {
  /* Children that live at the same time are spread like threads. */
  int pipes[2], cpus[4];
  pid_t children[4];
  CHECK(pipe(pipes) == 0);
  for (int i = 0; i < 4; i++) {
    int answer[2];
    CHECK(pipe(answer) == 0);
    children[i] = fork();
    CHECK(children[i] >= 0);
    if (children[i] == 0) {
      int cpu = only_cpu();
      char byte;
      close(pipes[1]);
      CHECK(write(answer[1], &cpu, sizeof cpu) == sizeof cpu);
      CHECK(read(pipes[0], &byte, 1) == 0);
      exit(0);
    }
    CHECK(read(answer[0], &cpus[i], sizeof cpus[i]) == sizeof cpus[i]);
    close(answer[0]);
    close(answer[1]);
  }
  close(pipes[1]);
  for (int i = 0; i < 4; i++) CHECK(wait_for(children[i]) == 0);
  CHECK(cpus[0] == 1 && cpus[1] == 0 && cpus[2] == 1 && cpus[3] == 0);
  /* The children gave their CPUs back. */
  CHECK(cpu_of_new_thread(NULL) == 1);
  /* CPUs of children that exit without handlers are given back when later processes start. */
  for (int i = 0; i < 9; i++) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(wait_for(child) == 0);
  }
  pid_t last = fork();
  if (last == 0) exit(only_cpu());
  CHECK(wait_for(last) == 1);
}

static void vforks(void) {
  cpu_set_t one = just(1);
  pid_t child = vfork();
  if (child == 0) {
    /* This child shares our memory, but it is another process. */
    sched_setaffinity(0, sizeof one, &one);
    _exit(only_cpu());
  }
  CHECK(wait_for(child) == 1);
  CHECK(only_cpu() == 0);
  CHECK(cpu_of_new_thread(NULL) == 1);
}

static int first_word(const char *command) {
  FILE *output = popen(command, "r");
  int value = -2;
  CHECK(output && fscanf(output, "%d", &value) == 1);
  pclose(output);
  return value;
}

static void execs(const char *self) {
  char command[4096];
  snprintf(command, sizeof command, "exec %s only-cpu", self);
  /* popen uses posix_spawn. sh and the program that it executes are one process; ours is another. */
  CHECK(first_word(command) == 1);
  CHECK(first_word(command) == 1);
  snprintf(command, sizeof command, "exec taskset -c 0 %s only-cpu", self);
  CHECK(first_word(command) == 0);
  /* The affinity from taskset also holds for the children of the program that it starts. */
  snprintf(command, sizeof command, "exec taskset -c 0 sh -c '%s only-cpu; true'", self);
  CHECK(first_word(command) == 0);
}

extern char **environ;

/* The programs that these start have no library. They must see both CPUs. */
static void without_library(const char *self) {
  char *const arguments[] = {(char *)self, "only-cpu", NULL}, *const nothing[] = {NULL};
  for (int way = 0; way < 8; way++) {
    int ends[2], value = -2;
    pid_t child;
    CHECK(pipe(ends) == 0);
    if (way == 6 || way == 7) {
      posix_spawn_file_actions_t actions;
      CHECK(posix_spawn_file_actions_init(&actions) == 0);
      CHECK(posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0);
      CHECK((way == 6 ? posix_spawn : posix_spawnp)(&child, self, &actions, NULL, arguments, nothing) == 0);
      posix_spawn_file_actions_destroy(&actions);
      CHECK(only_cpu() == 0);
    } else if ((child = way == 5 ? vfork() : fork()) == 0) {
      dup2(ends[1], 1);
      if (way == 0) execve(self, arguments, nothing);
      if (way == 1) execvpe(self, arguments, nothing);
      if (way == 2) fexecve(open(self, O_RDONLY), arguments, nothing);
      if (way == 3) environ = NULL, execv(self, arguments);
      if (way == 4) environ = NULL, execvp(self, arguments);
      if (way == 5) execve(self, arguments, nothing);
      _exit(9);
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    CHECK(output && fscanf(output, "%d", &value) == 1);
    fclose(output);
    CHECK(wait_for(child) == 0);
    if (value != -1) printf("way %d: %d\n", way, value), exit(1);
  }
  CHECK(only_cpu() == 0);
  /* A call that fails pins the caller again and keeps the error. */
  CHECK(execve("/nowhere", arguments, nothing) == -1 && errno == ENOENT);
  CHECK(only_cpu() == 0);
  /* What the program has chosen holds for the programs that it starts. */
  cpu_set_t one = just(1);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  pid_t child = fork();
  if (child == 0) {
    execve(self, (char *const[]){(char *)self, "stays-pinned", NULL}, nothing);
    _exit(9);
  }
  CHECK(wait_for(child) == 0);
  child = vfork();
  if (child == 0) {
    execve(self, (char *const[]){(char *)self, "stays-pinned", NULL}, nothing);
    _exit(9);
  }
  CHECK(wait_for(child) == 0);
}

static void stays_pinned(void) { CHECK(only_cpu() == 1); }

static void keeps_errno(void) {
  pthread_t thread;
  errno = 4711;
  CHECK(pthread_create(&thread, NULL, cpu_of_thread, NULL) == 0);
  CHECK(errno == 4711);
  pthread_join(thread, NULL);
}

static int c11_thread(void *argument) { return only_cpu() + *(int *)argument; }

static void c11(void) {
  thrd_t thread;
  int result, argument = 40;
  CHECK(thrd_create(&thread, c11_thread, &argument) == thrd_success);
  CHECK(thrd_join(thread, &result) == thrd_success);
  CHECK(result == 41);
}

static void *last_one(void *unused) {
  usleep(20000);
  CHECK(cpu_of_new_thread(NULL) == 0);
  exit(0);
}

static void main_leaves(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, last_one, NULL) == 0);
  pthread_exit(NULL);
}

static void *returns(void *unused) {
  usleep(20000);
  return unused;
}

/* The process ends when its last thread returns. */
static void no_exit(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, returns, NULL) == 0);
  pthread_exit(NULL);
}

/* Waits until this thread is pinned to one CPU from outside. */
static void *wait_to_be_placed(void *unused) {
  for (int i = 0; i < 20000 && only_cpu() < 0; i++) usleep(1000);
  return (void *)(long)only_cpu();
}

static pthread_barrier_t all_placed;

static void *wait_for_all(void *unused) {
  void *cpu = wait_to_be_placed(unused);
  pthread_barrier_wait(&all_placed);
  return cpu;
}

static void watched(void) {
  pthread_t threads[3];
  int on[2] = {0};
  /* The only thread of a process may run on all CPUs, even if a placed thread started the process. */
  for (int i = 0; i < 20000 && only_cpu() >= 0; i++) usleep(1000);
  CHECK(only_cpu() == -1);
  pthread_barrier_init(&all_placed, NULL, 4);
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, wait_for_all, NULL) == 0);
  on[(long)wait_for_all(NULL)]++;
  for (int i = 0; i < 3; i++) {
    void *cpu;
    CHECK(pthread_join(threads[i], &cpu) == 0);
    on[(long)cpu]++;
  }
  CHECK(on[0] == 2 && on[1] == 2);
}

static void *changes_its_mind(void *unused) {
  wait_to_be_placed(NULL);
  int other = 1 - only_cpu();
  cpu_set_t set = just(other);
  CHECK(syscall(SYS_sched_setaffinity, 0, sizeof set, &set) == 0);
  /* Longer than any pause of the watcher. */
  for (int i = 0; i < 25; i++) {
    usleep(100000);
    CHECK(only_cpu() == other);
  }
  return NULL;
}

static void watched_and_pins_itself(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, changes_its_mind, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void *stays(void *unused) {
  /* Longer than any pause of the watcher. */
  for (int i = 0; i < 15; i++) {
    CHECK(only_cpu() == 1);
    usleep(100000);
  }
  return unused;
}

static void stays_on_1(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, stays, NULL) == 0);
  stays(NULL);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
  const char *name = count > 1 ? arguments[1] : "";
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {
      {"main-and-first-thread", main_and_first_thread},
      {"unplaced", unplaced},
      {"detached", detached},
      {"attributes", attributes},
      {"affinity-attribute", affinity_attribute},
      {"cancelled", cancelled},
      {"exiting-threads", exiting_threads},
      {"refused", refused},
      {"pins-itself", pins_itself},
      {"asks-for-any", asks_for_any},
      {"forks", forks},
      {"vforks", vforks},
      {"stays-pinned", stays_pinned},
      {"keeps-errno", keeps_errno},
      {"c11", c11},
      {"main-leaves", main_leaves},
      {"no-exit", no_exit},
      {"watched", watched},
      {"stays-on-1", stays_on_1},
      {"watched-and-pins-itself", watched_and_pins_itself},
  };
  if (!strcmp(name, "only-cpu")) return printf("%d\n", only_cpu()), 0;
  if (!strcmp(name, "execs")) return execs(arguments[0]), 0;
  if (!strcmp(name, "without-library")) return without_library(arguments[0]), 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(name, cases[i].name)) return cases[i].run(), 0;
  printf("no case %s\n", name);
  return 1;
}
