/* So many threads that compute until the end of input; prints "ready" first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *unused) {
    for (volatile unsigned long sum = 0;; sum++) {}
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    for (int at = 0; at < (count > 1 ? atoi(arguments[1]) : 1); at++)
        if (pthread_create(&thread, 0, work, 0)) return 1;
    puts("ready");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
