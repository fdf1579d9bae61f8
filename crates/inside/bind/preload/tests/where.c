/* Shows where threads run. Creates THREADS threads (default 4), optionally in PROCESSES
 * forked children (default 0), and prints for each the CPUs on which the kernel lets it run, the
 * CPU on which it runs, and the number of CPUs that it sees. For machines with several nodes:
 *
 *   cc -O2 -pthread where.c -o where && numapilot run --threads sparse -- ./where 8
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads /proc, because a library may interpose the functions. */
static void allowed(char *text, size_t size) {
  char line[8192];
  FILE *status = fopen("/proc/thread-self/status", "r");
  snprintf(text, size, "?");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "Cpus_allowed_list: %127s", text) == 1) break;
  if (status) fclose(status);
}

static void report(const char *who, long number) {
  char list[128];
  cpu_set_t told;
  allowed(list, sizeof list);
  CPU_ZERO(&told);
  sched_getaffinity(0, sizeof told, &told);
  printf("%s %ld: allowed %s, on %d, told %d\n", who, number, list, sched_getcpu(),
         CPU_COUNT(&told));
  fflush(stdout);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_here;

static void *thread(void *number) {
  pthread_barrier_wait(&all_here);
  pthread_mutex_lock(&turn);
  report("thread", (long)number);
  pthread_mutex_unlock(&turn);
  return NULL;
}

int main(int count, char **arguments) {
  long threads = count > 1 ? atol(arguments[1]) : 4;
  long processes = count > 2 ? atol(arguments[2]) : 0;
  pthread_t *ids = calloc(threads + 1, sizeof *ids);
  report("main", 0);
  pthread_barrier_init(&all_here, NULL, threads + 1);
  for (long i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, thread, (void *)(i + 1))) return perror("pthread_create"), 1;
  pthread_barrier_wait(&all_here);
  for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  /* All children live at the same time, like those of a server. */
  int go[2];
  if (pipe(go)) return perror("pipe"), 1;
  for (long i = 0; i < processes; i++) {
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    if (child == 0) {
      char byte;
      close(go[1]);
      if (read(go[0], &byte, 1) < 0) _exit(1);
      _exit(0);
    }
    /* The parent reads the child's affinity, so the children need not write in order. */
    usleep(20000);
    char path[64], line[8192], list[128] = "?";
    snprintf(path, sizeof path, "/proc/%d/status", child);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status))
      if (sscanf(line, "Cpus_allowed_list: %127s", list) == 1) break;
    if (status) fclose(status);
    printf("process %ld: allowed %s\n", i + 1, list);
    fflush(stdout);
  }
  close(go[1]);
  while (wait(NULL) > 0) {}
  return 0;
}
