/* So many threads that sleep; argument 2 "pin": the first pins itself to the first CPU that it
 * may use. Prints "ready" when all of them run, and waits for the end of its input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t all;

static void *sleeper(void *pin) {
    if (pin) {
        cpu_set_t may, one;
        sched_getaffinity(0, sizeof may, &may);
        CPU_ZERO(&one);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &may)) {
                CPU_SET(cpu, &one);
                break;
            }
        sched_setaffinity(0, sizeof one, &one);
    }
    pthread_barrier_wait(&all);
    pause();
    return 0;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    int pin = count > 2 && !strcmp(arguments[2], "pin");
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, 0, threads + 1);
    for (int at = 0; at < threads; at++)
        if (pthread_create(&thread, &small, sleeper, pin && !at ? &pin : 0)) return 1;
    pthread_barrier_wait(&all);
    puts("ready");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
