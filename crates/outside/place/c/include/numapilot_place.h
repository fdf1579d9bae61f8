/* libnumapilot_place: applies a profile of numapilot to the calling process, which then
 * executes a program. For launchers that execute programs themselves; everybody else starts
 * programs by `numapilot run`.
 *
 *     numapilot_placement *placement = numapilot_place("app.toml", (const char *const *)argv,
 *                                                      NUMAPILOT_STRICT);
 *     const char *name, *value, *error = numapilot_placement_error(placement);
 *     if (error)
 *         errx(125, "%s", error);
 *     for (size_t i = 0; (name = numapilot_placement_variable(placement, i, &value)); i++)
 *         setenv(name, value, 1);
 *     numapilot_placement_free(placement);
 *     execvp(argv[0], argv);
 *
 * No process of numapilot stays while the program runs. So machine-wide settings of a profile
 * are not changed, because nothing would restore them, and threads are placed only in programs
 * that can load numapilot's library. Both are notes. */
#ifndef NUMAPILOT_PLACE_H
#define NUMAPILOT_PLACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A setting that is impossible is an error instead of a note. */
#define NUMAPILOT_STRICT 1u

/* What was applied, and what is left to do. */
typedef struct numapilot_placement numapilot_placement;

/* Applies CPUs, memory policy and huge pages of a profile to the calling thread and process,
 * and reads them back. `profile` is the path of its file. `command` is the program and its
 * arguments, and ends with NULL. Neither may be NULL, which is an error. The environment of the calling process counts as that of the
 * program. Call it in the thread that executes the program. */
numapilot_placement *numapilot_place(const char *profile, const char *const command[],
                                     unsigned int flags);

/* The error with cause and remedy, or NULL. After an error the program should not be executed,
 * because a part of the profile may have been applied. */
const char *numapilot_placement_error(const numapilot_placement *placement);

/* Cause and remedy of a setting that is impossible, counted from 0; NULL after the last one. */
const char *numapilot_placement_note(const numapilot_placement *placement, size_t at);

/* The name of a variable to set for the program, counted from 0, and its value; NULL after the
 * last one. The malloc and the threads of the profile take effect by variables. */
const char *numapilot_placement_variable(const numapilot_placement *placement, size_t at,
                                         const char **value);

/* Frees it with its texts. NULL is ignored. */
void numapilot_placement_free(numapilot_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
