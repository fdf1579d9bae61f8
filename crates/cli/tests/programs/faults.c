/* faults PAGES: touches so many new pages of 4 KiB, and prints the nanoseconds of each. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "now.h"

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    size_t pages = strtoull(argv[1], 0, 10);
    char *memory =
        mmap(0, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, pages << 12, MADV_NOHUGEPAGE) != 0)
        return 3;
    double begin = now();
    for (size_t page = 0; page < pages; page++)
        memory[page << 12] = 1;
    printf("%.1f\n", (now() - begin) / pages);
    return 0;
}
