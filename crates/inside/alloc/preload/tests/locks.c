/* malloc and free while the C library holds a lock of its own: that of its cache of stacks, of
 * its loader, of exit and fork handlers, of the environment, or of a stream. A free there must
 * not call a function of the C library that takes the same lock. In particular it must not
 * create a thread. Failing cases hang, and end by SIGALRM. */
#define CASE_SECONDS 60
#include "case.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { THREADS = 50, OBJECTS = 3000 };

static pid_t thread_number(void) { return (pid_t)syscall(SYS_gettid); }

/* Objects of many sizes. A thread keeps the freed ones until it ends. */
static void **take_many(void) {
  void **blocks = malloc(OBJECTS * sizeof *blocks);
  CHECK(blocks);
  for (size_t i = 0; i < OBJECTS; i++) CHECK(blocks[i] = malloc(1 + i % 1000));
  return blocks;
}

static void give_many(void **blocks) {
  for (size_t i = 0; i < OBJECTS; i++) free(blocks[i]);
  free(blocks);
}

/* Frees enough memory at once that the allocator returns it to the system. */
static void use_much(void) { use_small_objects(32 << 20); }

/* Threads that hold memory at the same time and end together. Between the second barrier and their
 * end none of them calls the allocator. So work that the first ending thread causes in the
 * allocator is due when the C library frees a stack. */
static struct {
  pthread_barrier_t all_here, all_done;
  pthread_t threads[THREADS];
  pid_t numbers[THREADS];
  unsigned count;
} group;

static void *ends_with_the_others(void *place) {
  *(pid_t *)place = thread_number();
  void **blocks = take_many();
  pthread_barrier_wait(&group.all_here);
  give_many(blocks);
  pthread_barrier_wait(&group.all_done);
  return NULL;
}

/* A stack of 0 bytes stands for the default size. */
static void start_group(unsigned count, size_t stack, int state) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setdetachstate(&attributes, state) == 0);
  if (stack) CHECK(pthread_attr_setstacksize(&attributes, stack) == 0);
  CHECK(pthread_barrier_init(&group.all_here, NULL, count) == 0);
  CHECK(pthread_barrier_init(&group.all_done, NULL, count) == 0);
  group.count = count;
  for (unsigned i = 0; i < count; i++) {
    group.numbers[i] = 0;
    int result = pthread_create(&group.threads[i], &attributes, ends_with_the_others, &group.numbers[i]);
    CHECK_AT(result == 0, i, result);
  }
  pthread_attr_destroy(&attributes);
}

static void join_group(void) {
  for (unsigned i = 0; i < group.count; i++) CHECK(pthread_join(group.threads[i], NULL) == 0);
}

/* Waits until the system has no thread of the group any more. */
static void await_group(void) {
  for (unsigned i = 0; i < group.count; i++) {
    pid_t number;
    while (!(number = __atomic_load_n(&group.numbers[i], __ATOMIC_ACQUIRE)) ||
           syscall(SYS_tgkill, getpid(), number, 0) == 0)
      usleep(1000);
  }
}

static int started;

static void *joins(void *unused) {
  while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) usleep(1000);
  await_group();
  join_group();
  return unused;
}

/* The cache of stacks (40 MiB in the GNU C library) overflows. The oldest are freed under its lock,
 * with the thread-local storage in the heap, by the threads themselves or by the thread that joins
 * them. That thread has not used the heap before. */
static void threads_end_together(size_t stack, int state) {
  for (int round = 0; round < 4; round++) {
    pthread_t joiner;
    int is_joined = state == PTHREAD_CREATE_JOINABLE;
    started = 0;
    if (is_joined) CHECK(pthread_create(&joiner, NULL, joins, NULL) == 0);
    start_group(THREADS, stack, state);
    __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
    if (is_joined) CHECK(pthread_join(joiner, NULL) == 0);
    else await_group();
  }
}

/* Each of these stacks is larger than the whole cache. */
enum { LARGE_STACK = 64 << 20 };

static void detached_threads_end_together(void) { threads_end_together(0, PTHREAD_CREATE_DETACHED); }
static void joined_threads_end_together(void) { threads_end_together(0, PTHREAD_CREATE_JOINABLE); }
static void detached_threads_with_large_stacks(void) { threads_end_together(LARGE_STACK, PTHREAD_CREATE_DETACHED); }
static void joined_threads_with_large_stacks(void) { threads_end_together(LARGE_STACK, PTHREAD_CREATE_JOINABLE); }

/* A thread that frees the stacks of others does so after its own last destructor. Memory that it
 * takes from the allocator there must not be lost. */
static void threads_that_free_stacks_leave_nothing(void) {
  enum { ROUNDS = 120, WARM = 40 };
  size_t before = 0;
  for (int round = 0; round < ROUNDS; round++) {
    start_group(8, LARGE_STACK, PTHREAD_CREATE_DETACHED);
    await_group();
    if (round == WARM) before = status_bytes("VmRSS:");
  }
  size_t after = status_bytes("VmRSS:");
  CHECK_AT(after < before + (8 << 20), before, after);
}

static int stop;

/* The loader holds a lock while constructors and destructors use the heap. */
static void *loads_and_unloads(void *path) {
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    void (*use)(void) = (void (*)(void))dlsym(library, "plugin_use");
    CHECK(use);
    use();
    CHECK(dlclose(library) == 0);
  }
  return NULL;
}

static void threads_end_while_libraries_come_and_go(void) {
  pthread_t loader;
  char *path = getenv("PLUGIN");
  CHECK(path);
  CHECK(pthread_create(&loader, NULL, loads_and_unloads, path) == 0);
  for (int round = 0; round < 4; round++) {
    start_group(THREADS, 0, PTHREAD_CREATE_DETACHED);
    await_group();
    start_group(THREADS, 0, PTHREAD_CREATE_JOINABLE);
    join_group();
    use_much();
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(loader, NULL) == 0);
}

static unsigned groups_ended;

static void *has_threads_end(void *unused) {
  for (;;) {
    start_group(8, LARGE_STACK, PTHREAD_CREATE_DETACHED);
    await_group();
    __atomic_fetch_add(&groups_ended, 1, __ATOMIC_RELEASE);
  }
  return unused;
}

/* Returns once threads have started and ended meanwhile. */
static void use_much_while_threads_end(void) {
  unsigned before = __atomic_load_n(&groups_ended, __ATOMIC_ACQUIRE);
  do {
    give_many(take_many());
    use_much();
  } while (__atomic_load_n(&groups_ended, __ATOMIC_ACQUIRE) < before + 2);
}

static int ends_busy;

__attribute__((destructor)) static void destructor(void) {
  if (ends_busy) use_much_while_threads_end();
}

static void exit_handlers_while_threads_end(void) {
  pthread_t starter;
  CHECK(pthread_create(&starter, NULL, has_threads_end, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(atexit(use_much_while_threads_end) == 0);
  ends_busy = 1;
}

static void *forks(void *unused) {
  for (int i = 0; i < 5; i++) {
    pid_t child = fork_child();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(CASE_SECONDS);
      use_much();
      start_group(8, LARGE_STACK, PTHREAD_CREATE_JOINABLE);
      join_group();
      use_much();
      _exit(7);
    }
    CHECK_AT(exit_status_of(child) == 7, i, 0);
    use_much();
  }
  return unused;
}

static int handlers_are_busy, handled;

static void handler(void) {
  if (!handlers_are_busy) return;
  give_many(take_many());
  use_much();
  handled++;
}

/* In the parent's memory, `prepare` and `parent` count once for each fork. */
static void fork_with_handlers(void) {
  handlers_are_busy = 1;
  forks(NULL);
  CHECK_AT(handled == 10, handled, 0);
}

static void fork_handlers(void) {
  CHECK(pthread_atfork(handler, handler, handler) == 0);
  fork_with_handlers();
}

static pthread_key_t keys[60];

struct value {
  size_t key;
  int round;
};

static void make_value(size_t key, int round) {
  struct value *value = malloc(sizeof *value);
  CHECK(value);
  *value = (struct value){key, round};
  CHECK(pthread_setspecific(keys[key], value) == 0);
}

static void key_destructor(void *old) {
  struct value *value = old;
  /* As often as POSIX promises to call the destructor again. */
  if (value->round + 1 < PTHREAD_DESTRUCTOR_ITERATIONS) make_value(value->key, value->round + 1);
  free(value);
  free(calloc(1, 70000));
  free(malloc(100));
}

static void make_keys(void) {
  for (size_t i = 0; i < COUNT(keys); i++) CHECK(pthread_key_create(&keys[i], key_destructor) == 0);
}

static void *has_values(void *unused) {
  for (size_t i = 0; i < COUNT(keys); i++) make_value(i, 0);
  give_many(take_many());
  return unused;
}

/* The GNU C library takes the table of keys from 32 on out of the heap, and frees it after the last
 * destructor. Memory that the allocator needs for that must not be lost either. */
static void threads_with_values(void) {
  enum { ROUNDS = 900, WARM = 300 };
  size_t before = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, has_values, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (round == WARM) before = status_bytes("VmRSS:");
  }
  size_t after = status_bytes("VmRSS:");
  CHECK_AT(after < before + (8 << 20), before, after);
}

static void many_keys(void) {
  make_keys();
  threads_with_values();
}

/* Called before the constructors of all libraries, so that its handlers are registered before
 * theirs. It allocates nothing. */
#ifdef __GLIBC__
static void before_all(int count, char **arguments, char **environment) {
  (void)environment;
  if (count < 2) return;
  if (!strcmp(arguments[1], "fork_handlers_from_before_all")) CHECK(pthread_atfork(handler, handler, handler) == 0);
  if (!strcmp(arguments[1], "many_keys_from_before_all")) make_keys();
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = before_all;

static void fork_handlers_from_before_all(void) { fork_with_handlers(); }
static void many_keys_from_before_all(void) { threads_with_values(); }
#else
static void fork_handlers_from_before_all(void) { SKIP("nothing of the program runs before its libraries"); }
static void many_keys_from_before_all(void) { SKIP("nothing of the program runs before its libraries"); }
#endif

static void *waits_for_the_main_thread(void *main_thread) {
  CHECK(pthread_join(*(pthread_t *)main_thread, NULL) == 0);
  for (int i = 0; i < 5; i++) use_much();
  give_many(take_many());
  return NULL;
}

static void main_thread_ends(void) {
  static pthread_t main_thread, worker;
  main_thread = pthread_self();
  use_much();
  CHECK(pthread_create(&worker, NULL, waits_for_the_main_thread, &main_thread) == 0);
  pthread_detach(worker);
  pthread_exit(NULL);
}

/* The process ends by itself, with status 0, when the last of its own threads ends. Another process
 * watches, because SIGALRM does not end a process whose only thread blocks it. */
static void the_main_thread_ends_first(void) {
  if (getenv("LOOKED_ON")) main_thread_ends();
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) {
    setenv("LOOKED_ON", "1", 1);
    execl("/proc/self/exe", "locks", __func__, (char *)NULL);
    _exit(9);
  }
  int status;
  for (unsigned waited = 0; waitpid(child, &status, WNOHANG) == 0; waited++) {
    if (waited == CASE_SECONDS * 100 / 2) {
      kill(child, SIGKILL);
      CHECK(!"the process ends with its last thread");
    }
    usleep(10000);
  }
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, status, 0);
}

static void *changes_the_environment(void *unused) {
  static char value[] = "NUMAPILOT_TEST_PUT=1";
  for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
    char name[40];
    snprintf(name, sizeof name, "NUMAPILOT_TEST_%u", i % 200);
    CHECK(setenv(name, name, 1) == 0);
    CHECK(putenv(value) == 0);
    if (i % 3 == 0) CHECK(unsetenv(name) == 0);
  }
  return unused;
}

static void the_environment_changes(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, changes_the_environment, NULL) == 0);
  for (int round = 0; round < 4; round++) {
    start_group(THREADS, 0, PTHREAD_CREATE_JOINABLE);
    join_group();
    use_much();
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void *uses_streams(void *unused) {
  for (int i = 0; i < 50; i++) {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file);
    flockfile(file);
    CHECK(setvbuf(file, NULL, _IOFBF, (size_t)1 << (10 + i % 8)) == 0);
    CHECK(fprintf(file, "%*d", 3000, i) == 3000);
    give_many(take_many());
    CHECK(fprintf(file, "%*d", 300000, i) == 300000);
    funlockfile(file);
    CHECK(fclose(file) == 0);
  }
  return unused;
}

/* With the program's standard streams locked, which the library may need for a message. */
static void streams_are_locked(void) {
  pthread_t threads[4];
  flockfile(stdout);
  flockfile(stderr);
  for (size_t i = 0; i < COUNT(threads); i++) CHECK(pthread_create(&threads[i], NULL, uses_streams, NULL) == 0);
  use_much();
  uses_streams(NULL);
  for (size_t i = 0; i < COUNT(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
  use_much();
  funlockfile(stderr);
  funlockfile(stdout);
}

static void a_thread_forks(void) {
  pthread_t thread;
  use_much();
  CHECK(pthread_create(&thread, NULL, forks, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

extern char **environ;

static void spawned_while_threads_end(void) {
  pthread_t starter;
  char *arguments[] = {"true", NULL};
  CHECK(pthread_create(&starter, NULL, has_threads_end, NULL) == 0);
  for (int i = 0; i < 10 || __atomic_load_n(&groups_ended, __ATOMIC_ACQUIRE) < 3; i++) {
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    CHECK(exit_status_of(child) == 0);
    use_much();
  }
}

/* A child of vfork uses its parent's memory, and its end must not affect the parent: memory still
 * goes back without activity. POSIX only allows such a child to exec, but programs allocate
 * arguments there. */
static void a_child_of_vfork_frees_much(void) {
  size_t before = status_bytes("VmRSS:");
  pid_t child = vfork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(CASE_SECONDS);
    use_much();
    _exit(0);
  }
  CHECK(exit_status_of(child) == 0);
  use_much();
  while (status_bytes("VmRSS:") > before + (16 << 20)) usleep(10000);
}

int main(int count, char **arguments) {
  static const struct test_case cases[] = {
      {"detached_threads_end_together", detached_threads_end_together},
      {"joined_threads_end_together", joined_threads_end_together},
      {"detached_threads_with_large_stacks", detached_threads_with_large_stacks},
      {"joined_threads_with_large_stacks", joined_threads_with_large_stacks},
      {"threads_that_free_stacks_leave_nothing", threads_that_free_stacks_leave_nothing},
      {"threads_end_while_libraries_come_and_go", threads_end_while_libraries_come_and_go},
      {"exit_handlers_while_threads_end", exit_handlers_while_threads_end},
      {"fork_handlers", fork_handlers},
      {"fork_handlers_from_before_all", fork_handlers_from_before_all},
      {"many_keys", many_keys},
      {"many_keys_from_before_all", many_keys_from_before_all},
      {"the_main_thread_ends_first", the_main_thread_ends_first},
      {"the_environment_changes", the_environment_changes},
      {"streams_are_locked", streams_are_locked},
      {"a_thread_forks", a_thread_forks},
      {"spawned_while_threads_end", spawned_while_threads_end},
      {"a_child_of_vfork_frees_much", a_child_of_vfork_frees_much},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
