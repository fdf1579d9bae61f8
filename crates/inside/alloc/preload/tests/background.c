/* The thread that returns memory while the program does something else. It runs when it is
 * needed, and the program does not notice it. The test program has one thread of its own here,
 * so every other thread is the library's. */
#define CASE_SECONDS 60
#include "case.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { MUCH = 64 << 20 };

static pid_t thread_number(void) { return (pid_t)syscall(SYS_gettid); }

static void use_much(void) { use_small_objects(MUCH); }

static void idle(void) { usleep(10000); }

/* Most of the memory that was used is returned while the program does nothing. */
static void await_return(size_t before) {
  while (status_bytes("VmRSS:") > before + MUCH / 4) idle();
}

static void memory_returns_while_idle(void) {
  size_t before = status_bytes("VmRSS:");
  for (int round = 0; round < 3; round++) {
    use_much();
    await_return(before);
  }
}

enum { OBJECTS = 90000, SIZE = 64 };
static char *objects[OBJECTS];

static void *free_all(void *unused) {
  for (int i = 0; i < OBJECTS; i++) free(objects[i]);
  return unused;
}

/* Another thread frees what this one has allocated, and ends. This one waits, and never fetches
 * what was returned to it. */
static void what_returned_to_an_idle_thread(void) {
  memset(objects, 1, sizeof objects);
  size_t before = status_bytes("VmRSS:");
  for (int i = 0; i < OBJECTS; i++) memset(objects[i] = malloc(SIZE), 1, SIZE);
  CHECK(status_bytes("VmRSS:") > before + OBJECTS * SIZE / 2);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  /* The magazines take memory, too. */
  while (status_bytes("VmRSS:") > before + OBJECTS * SIZE / 2) idle();
}

/* Calls a function for each thread that is not the program's; returns their number. */
static unsigned each_of_the_library(void (*look)(pid_t)) {
  DIR *threads = opendir("/proc/self/task");
  if (!threads) SKIP("no /proc/self/task");
  unsigned count = 0;
  for (struct dirent *entry; (entry = readdir(threads));) {
    pid_t number = atoi(entry->d_name);
    if (number == 0 || number == getpid()) continue;
    count++;
    if (look) look(number);
  }
  closedir(threads);
  return count;
}

/* The caller makes the thread necessary, so it must be seen at least this often. */
static void with_the_thread_there(void (*look)(pid_t)) {
  for (int seen = 0; seen < 20;) {
    use_much();
    seen += each_of_the_library(look) > 0;
  }
}

/* The text of a key in /proc/self/task/THREAD/status; 0 if the thread has ended. */
static int status_of(pid_t thread, const char *key, char *value, size_t bytes) {
  char name[64], line[512];
  size_t length = strlen(key);
  int found = 0;
  snprintf(name, sizeof name, "/proc/self/task/%d/status", thread);
  FILE *file = fopen(name, "r");
  if (!file) return 0;
  while (!found && fgets(line, sizeof line, file))
    if (!strncmp(line, key, length)) {
      snprintf(value, bytes, "%s", line + length);
      found = 1;
    }
  fclose(file);
  return found;
}

static void expect_mask(pid_t thread, const char *key, uint64_t expected) {
  char value[64];
  if (!status_of(thread, key, value, sizeof value)) return;
  uint64_t mask = strtoull(value, NULL, 16);
  if (mask != expected) printf("%s of thread %d: %s", key, thread, value);
  CHECK(mask == expected);
}

/* All signals that can be blocked: not SIGKILL and SIGSTOP, but also those that the C library keeps
 * for itself (32, 33), because a thread that it does not know cannot respond to them. */
static void blocks_all(pid_t thread) {
  expect_mask(thread, "SigBlk:", ~((uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1)));
}

static void all_signals_are_blocked_in_it(void) { with_the_thread_there(blocks_all); }

/* Waits until the thread has run: a new thread has the capabilities of its creator. */
static void has_no_right(pid_t thread) {
  char value[64];
  for (int look = 0; look < 500 && status_of(thread, "CapPrm:", value, sizeof value); look++) {
    if (strtoull(value, NULL, 16) == 0) break;
    idle();
  }
  expect_mask(thread, "CapEff:", 0);
  expect_mask(thread, "CapPrm:", 0);
}

static void it_has_no_capabilities(void) {
  if (geteuid() != 0) SKIP("only root has capabilities that could be left");
  with_the_thread_there(has_no_right);
}

static void nobody_is_waited_for(pid_t thread) {
  int status;
  (void)thread;
  CHECK(waitpid(-1, &status, __WALL | WNOHANG) == -1 && errno == ECHILD);
  CHECK(waitpid(-1, &status, __WCLONE | WNOHANG) == -1 && errno == ECHILD);
}

/* The thread is not a child, whether the process has other children or not. */
static void no_wait_sees_it(void) {
  int status;
  with_the_thread_there(nobody_is_waited_for);
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) _exit(3);
  use_much();
  CHECK(waitpid(-1, &status, __WALL) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  nobody_is_waited_for(0);
}

static volatile sig_atomic_t handled, handled_elsewhere;

static void handler(int signal) {
  (void)signal;
  handled++;
  if (thread_number() != getpid()) handled_elsewhere = 1;
}

static void sends_a_signal(pid_t thread) {
  sig_atomic_t before = handled;
  (void)thread;
  CHECK(kill(getpid(), SIGUSR1) == 0);
  while (handled == before) idle();
  CHECK(!handled_elsewhere);
}

static void is_not_handled(pid_t thread) {
  (void)thread;
  idle();
  CHECK(handled == 0);
}

/* A signal to the process goes to a thread of the program, even while that thread blocks it. */
static void signals_come_to_the_program(void) {
  struct sigaction action = {.sa_handler = handler};
  sigset_t mine, pending;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &mine, NULL) == 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  with_the_thread_there(is_not_handled);
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
  CHECK(sigprocmask(SIG_UNBLOCK, &mine, NULL) == 0);
  CHECK(handled == 1);
  with_the_thread_there(sends_a_signal);
}

/* Also in a child of a child, and while its parent has a thread. */
static void it_works_again_after_fork(void) {
  size_t before = status_bytes("VmRSS:");
  for (int generation = 0; generation < 3; generation++) {
    with_the_thread_there(NULL);
    pid_t child = fork_child();
    CHECK(child >= 0);
    if (child > 0) {
      CHECK(exit_status_of(child) == 0);
      use_much();
      await_return(before);
      _exit(0);
    }
    alarm(CASE_SECONDS);
    use_much();
    await_return(before);
  }
  _exit(0);
}

static unsigned of_root;

/* Real, effective, saved and file system IDs. */
static void count_of_root(pid_t thread) {
  char value[128];
  unsigned numbers[4];
  for (int i = 0; i < 2; i++) {
    if (!status_of(thread, i ? "Gid:" : "Uid:", value, sizeof value)) continue;
    CHECK(sscanf(value, "%u %u %u %u", &numbers[0], &numbers[1], &numbers[2], &numbers[3]) == 4);
    for (size_t k = 0; k < COUNT(numbers); k++) of_root += numbers[k] == 0;
  }
}

/* Like a server that starts as root. The C library makes every thread that it knows change its
 * user. A thread that it does not know must not stay root while there is work for it. */
static void the_user_changes(void) {
  enum { NOBODY = 65534 };
  if (geteuid() != 0) SKIP("only root may become another user");
  size_t before = status_bytes("VmRSS:");
  with_the_thread_there(NULL);
  CHECK(setgroups(0, NULL) == 0);
  CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
  CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
  /* It takes a second or two on an idle machine. */
  alarm(20);
  do {
    of_root = 0;
    use_much();
    each_of_the_library(count_of_root);
  } while (of_root > 0);
  alarm(CASE_SECONDS);
  /* And no thread is root again. */
  with_the_thread_there(count_of_root);
  CHECK_AT(of_root == 0, of_root, 0);
  use_much();
  await_return(before);
}

/* The thread uses no file descriptor that the program relies on: the lowest free one is the
 * next. */
static void files_are_the_programs(void) {
  for (int seen = 0; seen < 20;) {
    use_much();
    for (int i = 0; i < 20000; i++) {
      CHECK(close(0) == 0);
      int file = open("/dev/null", O_RDONLY);
      CHECK_AT(file == 0, file, i);
    }
    seen += each_of_the_library(NULL) > 0;
  }
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"memory_returns_while_idle", memory_returns_while_idle},
      {"what_returned_to_an_idle_thread", what_returned_to_an_idle_thread},
      {"all_signals_are_blocked_in_it", all_signals_are_blocked_in_it},
      {"it_has_no_capabilities", it_has_no_capabilities},
      {"no_wait_sees_it", no_wait_sees_it},
      {"signals_come_to_the_program", signals_come_to_the_program},
      {"it_works_again_after_fork", it_works_again_after_fork},
      {"the_user_changes", the_user_changes},
      {"files_are_the_programs", files_are_the_programs},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
