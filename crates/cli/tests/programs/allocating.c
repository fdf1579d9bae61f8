/* Threads (argument 2) that use a tenth of a second of CPU time each: "malloc" allocates and frees,
 * "compute" adds numbers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void *allocate(void *unused) {
    void *volatile blocks[256] = {0};
    while (cpu_seconds() < 0.1)
        for (int i = 0; i < 100000; i++) {
            free(blocks[i % 256]);
            blocks[i % 256] = malloc(2000 + 64 * (i % 97));
        }
    return unused;
}

static void *compute(void *unused) {
    volatile double sum = 0;
    while (cpu_seconds() < 0.1)
        for (int i = 0; i < 100000; i++)
            sum += i;
    return unused;
}

int main(int count, char **arguments) {
    void *(*work)(void *) = count > 1 && !strcmp(arguments[1], "malloc") ? allocate : compute;
    int threads = count > 2 ? atoi(arguments[2]) : 1;
    pthread_t all[64];
    for (int i = 0; i < threads && i < 64; i++)
        pthread_create(&all[i], 0, work, 0);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(all[i], 0);
    puts("done");
    return 0;
}
