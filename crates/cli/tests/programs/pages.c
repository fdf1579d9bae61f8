// Touches memory and says on which nodes its pages are, under which policy, and on which
// CPU each thread ran first; then waits: pages MIB [THREADS [SECONDS]].
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Threads are there at the same time: one that has ended leaves its CPU to the next.
static pthread_barrier_t all;

static void *thread(void *number)
{
    printf("thread %ld cpu %d\n", (long)number, sched_getcpu());
    pthread_barrier_wait(&all);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 20;
    long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
    printf("cpu %d\n", sched_getcpu());
    pthread_barrier_init(&all, NULL, (unsigned)threads + 1);
    for (long i = 1; i <= threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, (void *)i) != 0)
            return 1;
    }
    pthread_barrier_wait(&all);
    char line[4096], start[32];
    snprintf(start, sizeof start, "%lx ", (unsigned long)memory);
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strncmp(line, start, strlen(start)) == 0)
            printf("pages %s", line + strlen(start));
    fflush(stdout);
    sleep(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0);
    return 0;
}
