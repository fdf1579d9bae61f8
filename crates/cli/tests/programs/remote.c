// remote: fills 4 MiB on CPU 0, goes to the last CPU, and follows pointers through it in a random
// order. Only a memory policy brings the memory near.
#define _GNU_SOURCE
#include <stdint.h>
#include <unistd.h>
#include "go_to.h"

enum { LINE = 64, LINES = 1 << 16, STEPS = 1 << 17 };

static struct { uint32_t next; char rest[LINE - sizeof(uint32_t)]; } memory[LINES];

int main(void)
{
    uint32_t at = 0;
    go_to(0);
    // A linear congruential generator with a full period (Hull and Dobell 1962).
    for (uint32_t line = 0; line < LINES; line++)
        memory[line].next = (line * 20077 + 12345) % LINES;
    go_to((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
    for (int step = 0; step < STEPS; step++)
        at = memory[at].next;
    printf("at %u\n", at);
    return 0;
}
