/* Touches ARGV[1] huge pages of hugetlbfs, and stays for a second. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], 0, 10) : 1) << 21;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return 3;
    memset(memory, 1, bytes);
    sleep(1);
    return 0;
}
