// Makes PAGES pages on the node of CPU 0; then a thread on each of the given CPUs reads and
// writes them: each its own part ("parts"), or all of them all ("shared"). Ends when nine
// tenths of the parts are with their threads, or no node has more than half of what is shared,
// and some seconds have shown that this is so, or after SECONDS. Prints where the pages are
// then, by node.
// workers KIND SECONDS PAGES CPU...
// "steady" is "parts" until the time is over: for what is to happen to it meanwhile.
// "restless" is "parts" by a program that meanwhile forks, executes itself and unmaps memory
// until its time is over.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "go_to.h"

enum { PAGE = 4096, NODES = 64, MOST = 64, LINE = 64, PASSING = 64, SHOWN = 6 };

static char *memory;
static long pages, threads;
static int parts;
static int cpus[MOST], nodes[MOST];
static atomic_int over;
static pthread_barrier_t all_there;

static void *work(void *argument)
{
    long me = (long)argument;
    long first = parts ? pages * me / threads : 0;
    long last = parts ? pages * (me + 1) / threads : pages;
    unsigned node = 0;
    go_to(cpus[me]);
    syscall(SYS_getcpu, NULL, &node, NULL);
    nodes[me] = (int)node;
    // No interval has the accesses of some of them alone.
    pthread_barrier_wait(&all_there);
    while (!over)
        for (long page = first; page < last; page++)
            for (long line = 0; line < PAGE; line += LINE)
                ((volatile char *)memory)[page * PAGE + line]++;
    return NULL;
}

static void look(int *status)
{
    void **where = calloc(pages, sizeof *where);
    for (long i = 0; i < pages; i++)
        where[i] = memory + i * PAGE;
    syscall(SYS_move_pages, 0, pages, where, NULL, status, 0);
    free(where);
}

static int well_placed(const int *status)
{
    long at_home = 0, most = 0, count[NODES] = { 0 };
    for (long i = 0; i < pages; i++) {
        if (status[i] < 0 || status[i] >= NODES)
            return 0;
        at_home += status[i] == nodes[i * threads / pages];
        count[status[i]]++;
    }
    for (int node = 0; node < NODES; node++)
        most = count[node] > most ? count[node] : most;
    return parts ? at_home * 10 >= pages * 9 : most * 2 <= pages;
}

// Memory that is there for a moment, and a child that is another program.
static void restless(char *self)
{
    char *passing = mmap(NULL, PASSING * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(passing, 1, PASSING * PAGE);
    pid_t child = fork();
    if (child == 0) {
        memset(passing, 2, PASSING * PAGE);
        execl(self, self, "parts", "0", "8", "0", NULL);
        _exit(1);
    }
    munmap(passing, PASSING * PAGE);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) {
        puts("a child failed");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    pthread_t all[MOST];
    if (argc < 5 || argc - 4 > MOST)
        return 2;
    int moves = strcmp(argv[1], "restless") == 0;
    int stays = strcmp(argv[1], "steady") == 0;
    parts = strcmp(argv[1], "shared") != 0;
    long seconds = atol(argv[2]);
    pages = atol(argv[3]);
    threads = argc - 4;
    go_to(0);
    memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, pages * PAGE);
    int *status = calloc(pages, sizeof *status), count[NODES] = { 0 };
    pthread_barrier_init(&all_there, NULL, threads);
    for (long i = 0; i < threads; i++) {
        cpus[i] = atoi(argv[4 + i]);
        pthread_create(&all[i], NULL, work, (void *)i);
    }
    time_t end = time(NULL) + seconds;
    int placed = 0;
    while (time(NULL) < end) {
        usleep(500000);
        look(status);
        if (moves)
            restless(argv[0]);
        else if (!stays && !placed && (placed = well_placed(status)) && time(NULL) + SHOWN < end)
            end = time(NULL) + SHOWN;
    }
    over = 1;
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    look(status);
    for (long i = 0; i < pages; i++)
        if (status[i] >= 0 && status[i] < NODES)
            count[status[i]]++;
    if (seconds > 0)
        for (int node = 0; node < NODES; node++)
            if (count[node])
                printf("node %d pages %d\n", node, count[node]);
    return 0;
}
