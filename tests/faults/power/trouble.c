/* Disks that fail: which of a program's calls on the files below the root meet with trouble, and of what kind.
 *
 * POWER_TROUBLE is a file of lines that may change at any time: it is read at each call, so that trouble begins
 * and ends while programs run. A line is `CALL PATTERN FAULT NUMBER`:
 *
 *     sync *crawl.log EIO 1         the next sync of such a file fails, and no other
 *     write *.sst ENOSPC 0          each write to them fails, as long as the line is there
 *     write *.jsonl.open short 1    one is half written, which its caller is told
 *     write *.sst slow 200          each takes 200 ms more
 *
 * CALL is `read`, `write`, `sync`, `open` (to read), `make` (opening to write, and each change of a name or of a
 * length) or `any`; PATTERN is fnmatch's, for the whole path. Whatever was struck is appended to the file of the
 * same name with `.struck` behind it: call, fault and path. Each process counts for itself.
 */
#define _GNU_SOURCE
#include "trouble.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_BYTES 4096
#define MOST_LINES 32

static int control = -1, struck = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[MOST_BYTES]; /* what the file has said: a number of times counts from when that changes */
static long times[MOST_LINES];

static const struct { const char *name; int number; } FAULTS[] = {
    {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EACCES", EACCES}, {"EMFILE", EMFILE},
};

static int opened(const char *path, int flags) {
    int descriptor = syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0644);
    int high = descriptor < 0 ? -1 : syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 710);
    if (high < 0) return descriptor; /* there are not so many */
    syscall(SYS_close, descriptor);
    return high;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_TROUBLE");
    char other[PATH_MAX];
    if (!path || snprintf(other, sizeof other, "%s.struck", path) >= (int)sizeof other) return;
    control = opened(path, O_RDONLY);
    struck = opened(other, O_WRONLY | O_APPEND);
}

static void tell(const char *call, const char *fault, const char *path) {
    char text[PATH_MAX + 64];
    int length = snprintf(text, sizeof text, "%s %s %s\n", call, fault, path);
    if (length < (int)sizeof text) syscall(SYS_write, struck, text, length);
}

static int number_of(const char *name) {
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++)
        if (!strcmp(name, FAULTS[i].name)) return FAULTS[i].number;
    return 0;
}

/* One line. Whether it has struck; then `problem` and `size` are set, and `wait_ms` grows. */
static int strikes(const char *line, long *count, const char *call, const char *path, int *problem, size_t *size,
                   long *wait_ms) {
    char on[16], pattern[256], fault[16];
    long number;
    if (sscanf(line, "%15s %255s %15s %ld", on, pattern, fault, &number) != 4) return 0;
    if ((strcmp(on, call) && strcmp(on, "any")) || fnmatch(pattern, path, 0)) return 0;
    if (!strcmp(fault, "slow")) {
        *wait_ms += number;
        tell(call, fault, path);
        return 0; /* others may come on top of that */
    }
    if (number && ++*count > number) return 0;
    if (strcmp(fault, "short")) *problem = number_of(fault);
    else if (size && *size > 1) *size /= 2;
    else return 0;
    tell(call, fault, path);
    return 1;
}

int trouble(const char *call, int descriptor, const char *path, size_t *size) {
    char text[MOST_BYTES], link[64], found[PATH_MAX];
    int saved = errno, problem = 0;
    long wait_ms = 0;
    if (control < 0) return 0;
    ssize_t length = syscall(SYS_pread64, control, text, sizeof text - 1, 0L);
    if (length <= 0) {
        errno = saved;
        return 0;
    }
    text[length] = 0;
    if (!path) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t named = readlink(link, found, sizeof found - 1);
        found[named < 0 ? 0 : named] = 0;
        path = found;
    }
    pthread_mutex_lock(&lock);
    if (strcmp(text, last)) {
        strcpy(last, text);
        memset(times, 0, sizeof times);
    }
    char *rest = text;
    for (int i = 0; i < MOST_LINES && rest; i++) {
        char *line = strsep(&rest, "\n");
        if (strikes(line, &times[i], call, path, &problem, size, &wait_ms)) break;
    }
    pthread_mutex_unlock(&lock);
    if (wait_ms) usleep(wait_ms * 1000);
    errno = problem ? problem : saved;
    return problem;
}
