/* Where replicated values and the memory of forked children lie, as the kernel says
 * (move_pages). Prints a line for everything that is right, ends with 1 at what is not.
 *
 *     replicate values   one thread after another on every CPU
 *     replicate child    a child on the last CPU brings its parent's memory home
 *     replicate server   libnumapilot_bind does it for a child that knows nothing of it */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <numapilot_replicate.h>

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno);    \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

enum { PAGE = 4096, PAGES = 512, BYTES = PAGE * PAGES };

/* Pages of a range that are on a node. */
static int on_node(const void *start, int node) {
    static void *pages[PAGES];
    static int nodes[PAGES];
    for (int i = 0; i < PAGES; i++) pages[i] = (char *)start + i * PAGE;
    CHECK(!syscall(SYS_move_pages, 0, (long)PAGES, pages, NULL, nodes, 0));
    int count = 0;
    for (int i = 0; i < PAGES; i++) count += nodes[i] == node;
    return count;
}

static int current_node(void) {
    unsigned node = 0;
    CHECK(!syscall(SYS_getcpu, NULL, &node, NULL));
    return (int)node;
}

/* Goes to a CPU; its node. */
static int go_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (syscall(SYS_sched_setaffinity, 0, sizeof set, &set) < 0) return -1;
    return current_node();
}

static char *filled(void) {
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    memset(memory, 7, BYTES);
    return memory;
}

/* Every CPU reads from its own node, or from that of the node given for it. */
static void values(int argc, char **argv) {
    char *data = filled();
    numapilot_replicated *value = numapilot_replicate(data, BYTES);
    CHECK(value);
    numapilot_reader *reader = numapilot_reader_new(value);
    CHECK(reader);
    int seen = 0;
    for (int version = 7; version < 9; version++) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            int node = go_to(cpu);
            if (node < 0) continue;
            if (node + 1 < argc) node = atoi(argv[node + 1]);
            size_t size;
            const char *copy = numapilot_read(reader, &size);
            CHECK(size == BYTES && copy[0] == version && copy[BYTES - 1] == version);
            CHECK(on_node(copy, node) == PAGES);
            seen |= 1 << node;
        }
        memset(data, version + 1, BYTES);
        CHECK(!numapilot_publish(value, data, BYTES));
    }
    printf("copies on %d nodes\n", __builtin_popcount(seen));
}

static void child(int by_itself) {
    int node = go_to(0);
    char *memory = filled();
    /* Untouched pages stay untouched. */
    char *rest = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(rest != MAP_FAILED);
    CHECK(on_node(memory, node) == PAGES);
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        int last = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
        /* Otherwise libnumapilot_bind has placed it. */
        int here = by_itself ? go_to(last) : current_node();
        CHECK(here != node);
        if (by_itself) CHECK(numapilot_rehome(memory, BYTES) == PAGES);
        if (by_itself) CHECK(numapilot_rehome(rest, BYTES) == 0);
        CHECK(on_node(memory, here) == PAGES);
        CHECK(on_node(rest, here) == 0 && on_node(rest, node) == 0);
        for (int i = 0; i < BYTES; i++) CHECK(memory[i] == 7);
        memory[0] = 8;
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && !status);
    CHECK(on_node(memory, node) == PAGES && memory[0] == 7);
    printf("the child has its own\n");
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    if (!strcmp(argv[1], "values")) values(argc - 1, argv + 1);
    if (!strcmp(argv[1], "child")) child(1);
    if (!strcmp(argv[1], "server")) child(0);
    return 0;
}
