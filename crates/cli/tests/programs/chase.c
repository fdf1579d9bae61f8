/* chase BYTES NODE STEPS: follows pointers through memory of a node in a random order, and prints
   the nanoseconds of a step by the clock that every program uses. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "now.h"

#define LINE 64
#define HUGE (2ul << 20)
#define MPOL_BIND 2

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    size_t bytes = strtoull(argv[1], 0, 10), steps = strtoull(argv[3], 0, 10);
    unsigned long nodes = 1ul << strtoul(argv[2], 0, 10);
    char *area = mmap(0, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return 3;
    char *memory = (char *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1));
    if (madvise(memory, bytes, MADV_HUGEPAGE) != 0 ||
        syscall(SYS_mbind, memory, bytes, MPOL_BIND, &nodes, 64, 0) != 0)
        return 4;
    size_t lines = bytes / LINE;
    uint32_t *order = malloc(lines * sizeof *order);
    uint64_t state = 1;
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        size_t other = (state >> 33) % (i + 1);
        uint32_t was = order[i];
        order[i] = order[other];
        order[other] = was;
    }
    for (size_t i = 0; i < lines; i++)
        *(char **)(memory + (size_t)order[i] * LINE) =
            memory + (size_t)order[(i + 1) % lines] * LINE;
    char **at = (char **)memory;
    double begin = now();
    for (size_t i = 0; i < steps; i++)
        at = (char **)*at;
    double end = now();
    printf("%.3f\n", (end - begin) / steps + (at == 0));
    return 0;
}
