// Where an allocator's objects lie: one thread on each node allocates, then every thread frees
// what its neighbour has, and allocates again, then all move to another node and allocate
// again. Prints how many objects were on the node of the thread that asked for them, and how many
// pages of blocks that one thread asked for on that of the thread that touched them first: slices
// side by side, of each thread one, and a large block: origin CPUS_PER_NODE.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OBJECTS = 20000, SIZE = 200, LOOKED_AT = 20, THREADS = 64, SLICE = 640 << 10, LARGE = 8 << 20, PAGE = 4096 };

static char *objects[THREADS][OBJECTS], *slices[THREADS];
static long threads, cpus_per_node;
static long local[3], others[3], local_slices;
static pthread_barrier_t all;

static int node_of(char *object)
{
    void *page = (void *)((unsigned long)object & ~(PAGE - 1ul));
    int node = -1;
    return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0) ? -1 : node;
}

static int move_to(long number)
{
    unsigned node;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(number % threads * cpus_per_node, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) || syscall(SYS_getcpu, NULL, &node, NULL))
        exit(1);
    return (int)node;
}

static void fill(char **list, int node, int phase)
{
    for (int i = 0; i < OBJECTS; i++)
        memset(list[i] = malloc(SIZE), 1, SIZE);
    for (int i = 0; i < OBJECTS; i += LOOKED_AT)
        __atomic_fetch_add(node_of(list[i]) == node ? &local[phase] : &others[phase], 1, __ATOMIC_RELAXED);
}

static void release(char **list)
{
    for (int i = 0; i < OBJECTS; i++)
        free(list[i]);
}

// Touches a block for the first time; how many of its pages are on this node then.
static long touch(char *block, long bytes, int node)
{
    long count = 0;
    memset(block, 1, (size_t)bytes);
    for (long i = 0; i < bytes; i += PAGE)
        count += node_of(block + i) == node;
    return count;
}

static void *work(void *number)
{
    long me = (long)number;
    int node = move_to(me);
    __atomic_fetch_add(&local_slices, touch(slices[me], SLICE, node), __ATOMIC_RELAXED);
    fill(objects[me], node, 0);
    pthread_barrier_wait(&all);
    release(objects[(me + 1) % threads]);
    pthread_barrier_wait(&all);
    fill(objects[me], node, 1);
    pthread_barrier_wait(&all);
    node = move_to(me + threads / 2);
    release(objects[me]);
    fill(objects[me], node, 2);
    if (me == 0) {
        // Asked for here, touched elsewhere.
        char *block = malloc(LARGE);
        node = move_to(me);
        printf("local large block %ld of %d\n", touch(block, LARGE, node), LARGE / PAGE);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    static const char *phases[] = {"at first", "after frees elsewhere", "after moving"};
    pthread_t thread[THREADS];
    cpus_per_node = count > 1 ? atol(arguments[1]) : 1;
    threads = sysconf(_SC_NPROCESSORS_ONLN) / (cpus_per_node ? cpus_per_node : 1);
    if (threads < 2 || threads > THREADS)
        return 1;
    pthread_barrier_init(&all, NULL, (unsigned)threads);
    for (long i = 0; i < threads; i++)
        slices[i] = malloc(SLICE);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (int phase = 0; phase < 3; phase++)
        printf("local %s %ld of %ld\n", phases[phase], local[phase], local[phase] + others[phase]);
    printf("local slices %ld of %ld\n", local_slices, threads * SLICE / PAGE);
    return 0;
}
