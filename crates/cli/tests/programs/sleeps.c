/* Prints the shortest and the longest of some sleeps of a millisecond, in milliseconds. */
#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(void) {
    const struct timespec millisecond = {0, 1000000};
    double shortest = 1e9, longest = 0;
    for (int i = 0; i < 100; i++) {
        double before = now();
        nanosleep(&millisecond, NULL);
        double took = now() - before;
        shortest = took < shortest ? took : shortest;
        longest = took > longest ? took : longest;
    }
    printf("%f\n%f\n", shortest, longest);
    return 0;
}
