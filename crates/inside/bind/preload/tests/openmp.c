/* An OpenMP program. It prints the number of its CPUs, the CPU of each thread, and the number of CPUs
 * of a program that it starts without the library. With an argument, its main thread then chooses
 * CPU 1 itself. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *cpus(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  /* The raw system call, which no library interposes. */
  syscall(SYS_sched_getaffinity, 0, sizeof set, &set);
  int on_0 = CPU_ISSET(0, &set), on_1 = CPU_ISSET(1, &set);
  return on_0 && on_1 ? "both" : on_0 ? "0" : "1";
}

int main(int count, char **arguments) {
  printf("%d:", omp_get_num_procs());
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < 2; i++) {
#pragma omp ordered
    printf(" %s", cpus());
  }
  printf(" ");
  fflush(stdout);
  if (count == 1) return system("env -i nproc");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(1, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  printf("%s\n", cpus());
}
