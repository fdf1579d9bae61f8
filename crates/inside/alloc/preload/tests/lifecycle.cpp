/* malloc before main and after it: in constructors and destructors of libraries, in exit
 * handlers, in the destructors of thread locals and keys, in fork handlers, and in libraries
 * that are loaded and unloaded. */
#include <cstdlib>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <limits.h>
#include <thread>

#include "case.h"

static char *kept[64];
static unsigned kept_count;

/* Allocates one block of each kind and keeps it. Checks and replaces those of earlier calls. */
static void use_heap() {
  static const size_t sizes[] = {8, 100, 3000, 40000, 300000, 3000000};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    if (kept[i]) {
      CHECK(filled(kept[i], sizes[i], 7));
      free(kept[i]);
    }
    kept[i] = static_cast<char *>(malloc(sizes[i]));
    CHECK(kept[i]);
    fill(kept[i], sizes[i], 7);
    char *zeroed = static_cast<char *>(calloc(1, sizes[i]));
    CHECK(zeroed && zeroed[sizes[i] - 1] == 0);
    zeroed = static_cast<char *>(realloc(zeroed, sizes[i] * 2));
    CHECK(zeroed);
    free(zeroed);
  }
  kept_count++;
}

__attribute__((constructor(101))) static void first_constructor() { use_heap(); }
__attribute__((constructor)) static void constructor() { use_heap(); }

/* Fork handlers that allocate, if a case requests it. */
static bool handlers_allocate;
static void early_handler() {
  if (handlers_allocate) use_heap();
}

#ifdef __GLIBC__
/* Before the constructors of all libraries. */
static void before_all(int, char **, char **) {
  CHECK(pthread_atfork(early_handler, early_handler, early_handler) == 0);
  use_heap();
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = before_all;
enum { BEFORE_MAIN = 3 };
#else
enum { BEFORE_MAIN = 2 };
#endif

static void before_main() { CHECK(kept_count >= BEFORE_MAIN); }

static void at_exit_handlers() {
  for (int i = 0; i < 40; i++) CHECK(atexit(use_heap) == 0);
}

__attribute__((destructor)) static void destructor() { use_heap(); }
__attribute__((destructor(101))) static void last_destructor() { use_heap(); }

/* A hook tears down a thread's own heap at its end. Blocks that its destructors free and allocate
 * afterwards must still work. */
struct Local {
  char *block = static_cast<char *>(malloc(5000));
  Local() { fill(block, 5000, 3); }
  ~Local() {
    CHECK(filled(block, 5000, 3));
    free(block);
    for (size_t size = 1; size < 200000; size *= 3) free(malloc(size));
  }
};

static thread_local Local local;

static void thread_local_destructors() {
  for (int round = 0; round < 200; round++) std::thread([] { CHECK(local.block); }).join();
}

static pthread_key_t keys[30];

static void key_destructor(void *value) {
  auto *round = static_cast<long *>(value);
  CHECK(malloc_usable_size(round) >= sizeof *round);
  /* As often as POSIX promises to call the destructor again. */
  if (++*round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    auto *again = static_cast<long *>(malloc(sizeof *round + 100));
    *again = *round;
    CHECK(pthread_setspecific(keys[*round], again) == 0);
  }
  free(round);
  free(calloc(1, 70000));
}

static void key_destructors() {
  for (auto &key : keys) CHECK(pthread_key_create(&key, key_destructor) == 0);
  for (int round = 0; round < 200; round++)
    std::thread([] {
      for (auto key : keys) {
        auto *value = static_cast<long *>(calloc(1, sizeof(long)));
        CHECK(pthread_setspecific(key, value) == 0);
      }
    }).join();
  for (auto key : keys) pthread_key_delete(key);
}

/* The main thread ends first; the others continue with its blocks. */
static void main_leaves() {
  std::thread([] {
    for (int i = 0; i < 200; i++) {
      usleep(500);
      use_heap();
    }
    _exit(0);
  }).detach();
  pthread_exit(nullptr);
}

static void use_heap_in_a_child() {
  pid_t child = fork_child();
  CHECK(child >= 0);
  if (child == 0) {
    use_heap();
    std::thread(use_heap).join();
    _exit(7);
  }
  CHECK(exit_status_of(child) == 7);
}

static void fork_handlers() {
  CHECK(pthread_atfork(use_heap, use_heap, use_heap) == 0);
  for (int i = 0; i < 20; i++) use_heap_in_a_child();
}

/* Handlers registered before the allocator's, as by a library that is loaded earlier. Before the
 * fork they run after the allocator's; in parent and child they run before them. */
static void fork_handlers_of_an_earlier_library() {
#ifdef __GLIBC__
  handlers_allocate = true;
  bool done = false;
  std::thread busy([&] {
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) free(malloc(100000));
  });
  for (int i = 0; i < 50; i++) {
    use_heap_in_a_child();
    use_heap();
  }
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  busy.join();
#else
  SKIP("this C library runs nothing before the constructors");
#endif
}

static void vforks() {
  for (int i = 0; i < 50; i++) {
    pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", static_cast<char *>(nullptr));
      _exit(1);
    }
    CHECK(exit_status_of(child) == 0);
    use_heap();
  }
}

/* Memory of an unloaded library stays valid; its thread locals are torn down. */
static void libraries_come_and_go() {
  const char *path = getenv("PLUGIN");
  CHECK(path);
  for (int round = 0; round < 60; round++) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) printf("%s\n", dlerror());
    CHECK(library);
    auto *make = reinterpret_cast<char *(*)(size_t)>(dlsym(library, "plugin_make"));
    auto *use = reinterpret_cast<void (*)()>(dlsym(library, "plugin_use"));
    CHECK(make && use);
    char *blocks[20];
    for (size_t i = 0; i < COUNT(blocks); i++) blocks[i] = make(i * 3000 + 1);
    std::thread(use).join();
    use();
    CHECK(dlclose(library) == 0);
    for (size_t i = 0; i < COUNT(blocks); i++) {
      CHECK(blocks[i][i * 3000] == 'p');
      free(blocks[i]);
    }
  }
}

/* Interrupted anywhere, and resumed. The handler itself allocates nothing, as POSIX requires. */
static volatile sig_atomic_t alarms;
static void count_alarm(int) { alarms++; }

static void signals() {
  struct sigaction action = {};
  action.sa_handler = count_alarm;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  pthread_t worker = pthread_self();
  bool done = false;
  std::thread sender([&] {
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
      pthread_kill(worker, SIGUSR1);
      usleep(50);
    }
  });
  uint64_t random = 5;
  static char *blocks[500];
  for (int i = 0; i < 400000 || alarms < 100; i++) {
    char *&block = blocks[next_random(&random) % COUNT(blocks)];
    free(block);
    size_t size = random_size(&random) + 1;
    block = static_cast<char *>(malloc(size));
    CHECK(block);
    block[size - 1] = 1;
  }
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  sender.join();
}

static void jump_out(int) { throw 1; }

static void exceptions() {
  for (int i = 0; i < 20000; i++) {
    try {
      char *block = static_cast<char *>(malloc(100 + i % 1000));
      block[0] = 1;
      free(block);
      jump_out(i);
    } catch (int) {
    }
  }
}

int main(int count, char **arguments) {
  static const test_case cases[] = {
      {"before_main", before_main},
      {"at_exit_handlers", at_exit_handlers},
      {"thread_local_destructors", thread_local_destructors},
      {"key_destructors", key_destructors},
      {"main_leaves", main_leaves},
      {"fork_handlers", fork_handlers},
      {"fork_handlers_of_an_earlier_library", fork_handlers_of_an_earlier_library},
      {"vforks", vforks},
      {"libraries_come_and_go", libraries_come_and_go},
      {"signals", signals},
      {"exceptions", exceptions},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
