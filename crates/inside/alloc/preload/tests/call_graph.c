/* A library with known calls; the test of the call graph must find them. */
#include <pthread.h>

#define APART __attribute__((noinline, noclone))
#define INSIDE static APART

INSIDE void *runs(void *unused) { return unused; }

INSIDE int creates(void) {
  pthread_t thread;
  return pthread_create(&thread, 0, runs, 0) + 1;
}

INSIDE int between(int number) { return creates() + number; }
INSIDE int adds(void) { return 1; }

/* A table of functions and other values; the whole table counts. */
static int (*const table[])(void) = {adds, adds, creates, adds};
static int (*pointer)(void) = creates;

int directly(void) {
  pthread_t thread;
  return pthread_create(&thread, 0, runs, 0) + 1;
}

int through_others(int number) { return between(number) + 1; }

/* By a jump instead of a call. */
int at_the_end(pthread_t *thread) { return pthread_create(thread, 0, runs, 0); }

int through_a_table(unsigned number) { return table[number % 4]() + 1; }

int through_a_pointer(void) { return pointer() + 1; }

void set_pointer(int (*other)(void)) { pointer = other; }

int through_an_argument(int (*function)(void)) { return function() + 1; }

/* Code that gets the address may call it. */
void *by_address(void) { return (void *)creates; }

int not_at_all(int number) { return adds() + number; }

/* A jump through a table of distances, which stays within the function. */
int by_cases(int number, volatile int *result) {
  switch (number) {
    case 0: *result = 3; break;
    case 1: *result += 5; break;
    case 2: *result *= 7; break;
    case 3: *result -= 11; break;
    case 4: *result /= 13; break;
    case 5: *result ^= 17; break;
    case 6: *result |= 19; break;
    case 7: *result &= 23; break;
  }
  return number;
}

static __thread int count __attribute__((tls_model("initial-exec")));

int counts(void) { return ++count; }
