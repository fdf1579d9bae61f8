/* forbid ERRNO CALL... -- PROGRAM [ARGUMENT...]: runs a program under a seccomp filter that rejects
 * these system calls with that error, as container runtimes do. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char *name;
  int number;
} CALLS[] = {
    {"mbind", SYS_mbind},     {"get_mempolicy", SYS_get_mempolicy},
    {"getcpu", SYS_getcpu},   {"madvise", SYS_madvise},
    {"mremap", SYS_mremap},   {"membarrier", SYS_membarrier},
    {"clone3", SYS_clone3},   {"rseq", SYS_rseq},
    {"prctl", SYS_prctl},     {"sched_getaffinity", SYS_sched_getaffinity},
};

int main(int count, char **arguments) {
  struct sock_filter filter[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short length = 1;
  int at = 2;
  for (; at < count && strcmp(arguments[at], "--"); at++)
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
      if (!strcmp(arguments[at], CALLS[i].name)) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (atoi(arguments[1]) & SECCOMP_RET_DATA));
      }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
    perror("seccomp");
    return 77;
  }
  execv(arguments[at + 1], arguments + at + 1);
  perror(arguments[at + 1]);
  return 127;
}
