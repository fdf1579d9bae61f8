/* Slurm's option --numapilot-profile: starts each task under a profile of numapilot.
 *
 * Slurm loads only plugins that were compiled for its version, so compile it where Slurm runs:
 *
 *     cc -shared -fPIC -O2 -o spank_numapilot.so spank_numapilot.c \
 *         $(pkg-config --cflags --libs numapilot_place)
 *
 * and name it in plugstack.conf:
 *
 *     required /usr/lib/slurm/spank_numapilot.so profiles=/etc/numapilot
 *
 * Source: spank(7). The profile is applied in slurm_spank_task_init, which runs in the process
 * of the task, as the user, immediately before the program is executed. */
#include <slurm/spank.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <numapilot_place.h>

SPANK_PLUGIN(numapilot, 1)

/* The exit status of a task for which numapilot itself failed. */
#define EXIT_STATUS 125
/* The result of a function of a plugin that failed. */
#define FAILURE (-1)

extern char **environ;

/* The directory of the profiles that have a name. */
static char directory[PATH_MAX] = "/etc/numapilot";
static char profile[PATH_MAX];
static unsigned int flags;

static void say(const char *kind, const char *text) {
    /* In one call, because all tasks write to one place. */
    dprintf(STDERR_FILENO, "numapilot: %s: %s\n", kind, text);
}

static int set_profile(int value, const char *name, int remote) {
    (void)value;
    (void)remote;
    const char *before = "", *after = "";
    if (!name || !*name) {
        say("error", "--numapilot-profile: the name is empty; give a name or a path");
        return FAILURE;
    }
    if (!strchr(name, '/')) {
        before = directory;
        after = ".toml";
    }
    int length = snprintf(profile, sizeof profile, "%s%s%s%s", before, *before ? "/" : "", name,
                          after);
    if (length < 0 || (size_t)length >= sizeof profile) {
        say("error", "--numapilot-profile: the path is too long");
        return FAILURE;
    }
    return ESPANK_SUCCESS;
}

static int set_strict(int value, const char *none, int remote) {
    (void)value;
    (void)none;
    (void)remote;
    flags |= NUMAPILOT_STRICT;
    return ESPANK_SUCCESS;
}

static struct spank_option options[] = {
    {"numapilot-profile", "NAME|PATH",
     "start each task under this profile of numapilot: a name in the directory of the site, or a "
     "path on the nodes",
     1, 0, set_profile},
    {"numapilot-strict", NULL, "fail where a setting of the profile is impossible", 0, 0,
     set_strict},
};

int slurm_spank_init(spank_t spank, int count, char *arguments[]) {
    for (int i = 0; i < count; i++) {
        const char *name = "profiles=";
        const char *path = arguments[i] + strlen(name);
        if (strncmp(arguments[i], name, strlen(name)) || *path != '/' ||
            strlen(path) >= sizeof directory) {
            slurm_error("numapilot: '%s' in plugstack.conf is not profiles=/DIRECTORY",
                        arguments[i]);
            return FAILURE;
        }
        strcpy(directory, path);
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        spank_err_t error = spank_option_register(spank, &options[i]);
        if (error) {
            slurm_error("numapilot: --%s: %s", options[i].name, spank_strerror(error));
            return FAILURE;
        }
    }
    return ESPANK_SUCCESS;
}

/* Ends the task after an error, even if plugstack.conf calls the plugin optional: the program
 * would run without the profile, and nobody would notice. */
static void fail(const char *text) {
    say("error", text);
    _exit(EXIT_STATUS);
}

int slurm_spank_task_init(spank_t spank, int count, char *arguments[]) {
    (void)count;
    (void)arguments;
    if (!*profile)
        return ESPANK_SUCCESS;
    int words;
    char **command, **environment;
    if (spank_get_item(spank, S_JOB_ARGV, &words, &command) ||
        spank_get_item(spank, S_JOB_ENV, &environment))
        fail("Slurm does not tell the command of the task");
    /* This process has the environment of slurmstepd; that of the program counts. */
    char **own = environ;
    environ = environment;
    numapilot_placement *placement =
        numapilot_place(profile, (const char *const *)command, flags);
    environ = own;
    const char *name, *value, *text = numapilot_placement_error(placement);
    if (text)
        fail(text);
    /* The tasks of a node get the same notes. */
    int task = 0;
    spank_get_item(spank, S_TASK_ID, &task);
    for (size_t i = 0; task == 0 && (text = numapilot_placement_note(placement, i)); i++)
        say("warning", text);
    for (size_t i = 0; (name = numapilot_placement_variable(placement, i, &value)); i++)
        if (spank_setenv(spank, name, value, 1))
            fail("Slurm does not set a variable of the profile");
    numapilot_placement_free(placement);
    return ESPANK_SUCCESS;
}
