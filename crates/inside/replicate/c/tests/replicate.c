/* The library as C programs use it. Exits with 0, or prints the failed check. */
#include <errno.h>
#include <fcntl.h>
#include <numapilot_replicate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

enum { WORDS = 10000, VERSIONS = 200 };

static void *read_until_last(void *value) {
    numapilot_reader *reader = numapilot_reader_new(value);
    CHECK(reader);
    unsigned last = 0;
    while (last < VERSIONS) {
        size_t size = 0;
        const unsigned *words = numapilot_read(reader, &size);
        CHECK(words && size == WORDS * sizeof *words);
        for (int i = 0; i < WORDS; i++) CHECK(words[i] == words[0]);
        CHECK(words[0] >= last);
        last = words[0];
    }
    numapilot_reader_free(reader);
    return NULL;
}

static void values(void) {
    static unsigned words[WORDS];
    numapilot_replicated *value = numapilot_replicate(words, sizeof words);
    CHECK(value);
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&readers[i], NULL, read_until_last, value));
    for (unsigned version = 1; version <= VERSIONS; version++) {
        for (int i = 0; i < WORDS; i++) words[i] = version;
        CHECK(!numapilot_publish(value, words, sizeof words));
    }
    for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
    numapilot_reader *reader = numapilot_reader_new(value);
    size_t size = 1;
    const unsigned *now = numapilot_read(reader, NULL);
    CHECK(now[0] == VERSIONS);
    CHECK(!numapilot_publish(value, NULL, 0));
    CHECK(now[WORDS - 1] == VERSIONS);
    CHECK(numapilot_read(reader, &size) && size == 0);
    numapilot_reader_rest(reader);
    numapilot_reader_free(reader);
    /* Larger than any address space. */
    errno = 0;
    CHECK(numapilot_publish(value, words, (size_t)1 << 62) == -1 && errno == ENOMEM);
    numapilot_replicated_free(value);
    numapilot_replicated_free(NULL);
    numapilot_reader_free(NULL);
}

static void files(const char *path) {
    errno = 0;
    CHECK(!numapilot_replicate_file("/nonexistent") && errno == ENOENT);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "before", 6) == 6);
    CHECK(!numapilot_replicate_file(path) && errno == ETXTBSY);
    close(file);
    numapilot_replicated *value = numapilot_replicate_file(path);
    if (!value && (errno == EINVAL || errno == EACCES)) {
        printf("skipped: no leases on %s\n", path);
        return;
    }
    CHECK(value);
    numapilot_reader *reader = numapilot_reader_new(value);
    size_t size;
    CHECK(!memcmp(numapilot_read(reader, &size), "before", 6) && size == 6);
    CHECK(numapilot_publish(value, "x", 1) == -1 && errno == EINVAL);
    file = open(path, O_WRONLY);
    CHECK(!numapilot_read(reader, &size) && errno == ESTALE);
    close(file);
    numapilot_reader_free(reader);
    numapilot_replicated_free(value);
}

static void children(void) {
    size_t size = 1 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, 7, size);
    pid_t child = fork();
    if (!child) {
        CHECK(numapilot_rehome(memory, size) >= 0);
        for (size_t i = 0; i < size; i++) CHECK(memory[i] == 7);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    values();
    files(argv[1]);
    children();
    return 0;
}
