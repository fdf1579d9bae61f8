// Touches memory on CPU 0, goes to another CPU, and reads it there until most of it has come
// along or the time is over: migrate CPU SECONDS. Prints where the pages are, by node, and
// how many page table entries the kernel has prepared for hint faults meanwhile.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "go_to.h"

enum { PAGES = 1024, PAGE = 4096, NODES = 64 };

static long hinted(void)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "numa_pte_updates %ld", &value);
    if (file)
        fclose(file);
    return value;
}

int main(int argc, char **argv)
{
    int cpu = argc > 1 ? atoi(argv[1]) : 0;
    long seconds = argc > 2 ? atol(argv[2]) : 1;
    static void *pages[PAGES];
    static int status[PAGES];
    long begin = hinted();
    go_to(0);
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, PAGES * PAGE);
    for (int i = 0; i < PAGES; i++)
        pages[i] = memory + (size_t)i * PAGE;
    go_to(cpu);
    time_t end = time(NULL) + seconds;
    volatile char sink;
    int count[NODES], home;
    do {
        for (int round = 0; round < 200; round++)
            for (int i = 0; i < PAGES; i++)
                sink = memory[(size_t)i * PAGE];
        syscall(SYS_move_pages, 0, PAGES, pages, NULL, status, 0);
        memset(count, 0, sizeof count);
        for (int i = 0; i < PAGES; i++)
            if (status[i] >= 0 && status[i] < NODES)
                count[status[i]]++;
        home = count[0];
    } while (time(NULL) < end && home > PAGES / 10);
    (void)sink;
    for (int node = 0; node < NODES; node++)
        if (count[node])
            printf("node %d pages %d\n", node, count[node]);
    printf("hinted %ld\n", hinted() - begin);
    return 0;
}
