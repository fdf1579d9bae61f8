// The calling thread goes to a CPU, or the program ends.
// _GNU_SOURCE is defined by who includes it, before all else.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void go_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}
