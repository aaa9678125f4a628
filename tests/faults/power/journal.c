/* A journal of all that a program does to the files below one directory, in one order.
 *
 * Preloaded (LD_PRELOAD), it stands between the program and the C library. POWER_ROOT is the directory, without
 * symbolic links; POWER_JOURNAL the journal, to which each record is appended by a single write, so that the
 * records of all threads and processes, and the marks that others append, are in one order. `records.py` has the
 * layout.
 *
 * A write is journaled before it is made, and both under one lock: the order of records is the order of writes. A
 * sync is journaled when it begins and when it has returned, and runs without the lock. Names are journaled when
 * they have changed, under the lock too.
 *
 * Data belongs to inodes, not to paths. Writes of stdio (fopen and friends go past the preloaded functions) are
 * not journaled: RocksDB writes nothing but its info LOG that way, which no start needs. A shared mapping that may
 * be written to would be missed as well, so it is journaled as something that the replayer refuses: RocksDB makes
 * none with the options that the server has.
 *
 * POWER_LIES names the end of file names (".log") whose syncs do nothing and say that all is well, as a disk
 * without a battery does: they are neither made nor journaled. POWER_SYNC_MS is how long a sync takes at least, as
 * on a disk that turns: what leaves too early leaves while nothing is durable yet. Calls that are to fail (`trouble`)
 * fail, and are journaled as far as they have done something.
 */
#define _GNU_SOURCE
#include "trouble.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FDS 65536
#define PATH_BYTES (PATH_MAX + 256)

struct __attribute__((packed)) head {
    uint32_t length; /* of the whole record */
    uint8_t kind;
    uint32_t process;
    uint64_t inode;
    int64_t a, b;
};

static char root[PATH_MAX];
static size_t root_length;
static const char *lies;
static unsigned sync_ms;
static int journal = -1;
static pid_t owner; /* a child of vfork shares our memory: it is to leave that alone */
static uint64_t serial;
static ino_t tracked[MAX_FDS]; /* by descriptor; 0: not below the root */

#define FAILS(call, descriptor, path) \
    if (trouble(call, descriptor, path, 0)) return -1
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...)                                  \
    static type (*real)(__VA_ARGS__);                          \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) {
    owner = getpid();
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("POWER_ROOT"), *path = getenv("POWER_JOURNAL");
    owner = getpid();
    lies = getenv("POWER_LIES");
    if (getenv("POWER_SYNC_MS")) sync_ms = atoi(getenv("POWER_SYNC_MS"));
    if (!directory || !path || !realpath(directory, root)) return;
    root_length = strlen(root);
    int descriptor = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) return;
    journal = syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 700);
    if (journal < 0) journal = descriptor;
    else syscall(SYS_close, descriptor);
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Append a record, all of it in one write. */
static void put(char kind, ino_t inode, int64_t a, int64_t b, const struct iovec *parts, int count) {
    struct iovec all[16];
    struct head head = {sizeof head, (uint8_t)kind, (uint32_t)getpid(), inode, a, b};
    int saved = errno;
    all[0].iov_base = &head;
    all[0].iov_len = sizeof head;
    for (int i = 0; i < count && i < 15; i++) {
        all[i + 1] = parts[i];
        head.length += parts[i].iov_len;
    }
    if (syscall(SYS_writev, journal, all, count + 1) != (ssize_t)head.length) {
        static const char words[] = "power journal: a record could not be written\n";
        syscall(SYS_write, 2, words, sizeof words - 1);
        abort();
    }
    errno = saved;
}

static void put_text(char kind, ino_t inode, int64_t a, const char *text) {
    struct iovec part = {(void *)text, strlen(text)};
    put(kind, inode, a, 0, &part, 1);
}

static void put_two(char kind, const char *one, const char *two) {
    struct iovec parts[] = {{(void *)one, strlen(one) + 1}, {(void *)two, strlen(two)}};
    put(kind, 0, 0, 0, parts, 2);
}

/* The path below the root, or 0 if it is elsewhere. */
static const char *below(int directory, const char *path, char *buffer) {
    char joined[PATH_BYTES], parent[PATH_BYTES];
    if (journal < 0 || !path || !*path) return 0;
    if (path[0] == '/' || directory == AT_FDCWD) {
        if (snprintf(joined, sizeof joined, "%s", path) >= (int)sizeof joined) return 0;
    } else {
        char link[64], base[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length <= 0) return 0;
        base[length] = 0;
        if (snprintf(joined, sizeof joined, "%s/%s", base, path) >= (int)sizeof joined) return 0;
    }
    size_t end = strlen(joined);
    while (end > 1 && joined[end - 1] == '/') joined[--end] = 0;
    char *slash = strrchr(joined, '/'), *name = slash ? slash + 1 : joined;
    if (!slash) strcpy(parent, ".");
    else if (slash == joined) strcpy(parent, "/");
    else snprintf(parent, sizeof parent, "%.*s", (int)(slash - joined), joined);
    int saved = errno;
    char resolved[PATH_MAX];
    int found = strcmp(name, ".") && strcmp(name, "..") ? !!realpath(parent, resolved) : 0;
    errno = saved;
    if (!found) return 0;
    if (snprintf(buffer, PATH_BYTES, "%s/%s", resolved, name) >= PATH_BYTES) return 0;
    if (strncmp(buffer, root, root_length) || (buffer[root_length] != '/' && buffer[root_length])) return 0;
    return buffer[root_length] ? buffer + root_length + 1 : "";
}

static int ours(void) { return journal >= 0 && getpid() == owner; }

/* The inode of a descriptor below the root, or 0. */
static ino_t inode_of(int descriptor) {
    struct stat it;
    if (!ours() || descriptor < 0 || descriptor >= MAX_FDS || !tracked[descriptor]) return 0;
    int saved = errno;
    int told = fstat(descriptor, &it);
    errno = saved;
    if (told || it.st_ino != tracked[descriptor]) return tracked[descriptor] = 0;
    return it.st_ino;
}

static void track(int descriptor, ino_t inode) {
    if (descriptor >= 0 && descriptor < MAX_FDS && ours()) tracked[descriptor] = inode;
}

/* Names. */

static int opened(int directory, const char *path, int flags, mode_t mode) {
    char buffer[PATH_BYTES];
    const char *name = ours() ? below(directory, path, buffer) : 0;
    if (!name || (flags & O_TMPFILE) == O_TMPFILE) { /* a file without a name is gone after any cut */
        int plain = syscall(SYS_openat, directory, path, flags | O_LARGEFILE, mode);
        track(plain, 0);
        return plain;
    }
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    FAILS(writes ? "make" : "open", 0, path);
    struct stat it;
    pthread_mutex_lock(&lock);
    int was = !fstatat(directory, path, &it, 0);
    errno = 0;
    int descriptor = syscall(SYS_openat, directory, path, flags | O_LARGEFILE, mode);
    if (descriptor >= 0 && !fstat(descriptor, &it)) {
        if (!was && S_ISREG(it.st_mode)) put_text('C', it.st_ino, it.st_mode, name);
        else if ((flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY) put('T', it.st_ino, 0, 0, 0, 0);
        track(descriptor, it.st_ino);
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}

#define OPEN(name)                                        \
    int name(const char *path, int flags, ...) {          \
        va_list more;                                     \
        va_start(more, flags);                            \
        mode_t mode = va_arg(more, int);                  \
        va_end(more);                                     \
        return opened(AT_FDCWD, path, flags, mode);       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                               \
    int name(int directory, const char *path, int flags, ...) {    \
        va_list more;                                              \
        va_start(more, flags);                                     \
        mode_t mode = va_arg(more, int);                           \
        va_end(more);                                              \
        return opened(directory, path, flags, mode);               \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int directory, const char *path, int flags) { return opened(directory, path, flags, 0); }
int __openat64_2(int directory, const char *path, int flags) { return opened(directory, path, flags, 0); }

int close(int descriptor) {
    track(descriptor, 0);
    return syscall(SYS_close, descriptor);
}

static int copied(int from, int to) {
    if (to >= 0) track(to, from >= 0 && from < MAX_FDS ? tracked[from] : 0);
    return to;
}
int dup(int from) { return copied(from, syscall(SYS_dup, from)); }
int dup2(int from, int to) {
    REAL(int, "dup2", int, int);
    return copied(from, real(from, to));
}
int dup3(int from, int to, int flags) { return copied(from, syscall(SYS_dup3, from, to, flags)); }

static int controlled(int descriptor, int command, long argument) {
    int answer = syscall(SYS_fcntl, descriptor, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(descriptor, answer) : answer;
}
#define FCNTL(name)                                  \
    int name(int descriptor, int command, ...) {     \
        va_list more;                                \
        va_start(more, command);                     \
        long argument = va_arg(more, long);          \
        va_end(more);                                \
        return controlled(descriptor, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define CHANGE(call, journaled)            \
    pthread_mutex_lock(&lock);             \
    int result = call;                     \
    if (!result) { journaled; }            \
    pthread_mutex_unlock(&lock);           \
    return result

static int moved(int d1, const char *one, int d2, const char *two, unsigned flags) {
    char b1[PATH_BYTES], b2[PATH_BYTES];
    const char *from = ours() ? below(d1, one, b1) : 0, *to = ours() ? below(d2, two, b2) : 0;
    if (!from && !to) return syscall(SYS_renameat2, d1, one, d2, two, flags);
    FAILS("make", 0, two);
    CHANGE(syscall(SYS_renameat2, d1, one, d2, two, flags),
           if (!from || !to || (flags & RENAME_EXCHANGE)) put_text('X', 0, 0, "a rename across the root, or an exchange");
           else put_two('N', from, to));
}
int rename(const char *one, const char *two) { return moved(AT_FDCWD, one, AT_FDCWD, two, 0); }
int renameat(int d1, const char *one, int d2, const char *two) { return moved(d1, one, d2, two, 0); }
int renameat2(int d1, const char *one, int d2, const char *two, unsigned flags) {
    return moved(d1, one, d2, two, flags);
}

static int linked(int d1, const char *one, int d2, const char *two, int flags) {
    char b1[PATH_BYTES], b2[PATH_BYTES];
    const char *from = ours() ? below(d1, one, b1) : 0, *to = ours() ? below(d2, two, b2) : 0;
    if (!from && !to) return syscall(SYS_linkat, d1, one, d2, two, flags);
    FAILS("make", 0, two);
    CHANGE(syscall(SYS_linkat, d1, one, d2, two, flags),
           if (!from || !to) put_text('X', 0, 0, "a link across the root");
           else put_two('L', from, to));
}
int link(const char *one, const char *two) { return linked(AT_FDCWD, one, AT_FDCWD, two, 0); }
int linkat(int d1, const char *one, int d2, const char *two, int flags) { return linked(d1, one, d2, two, flags); }

int symlinkat(const char *target, int directory, const char *path) {
    char buffer[PATH_BYTES];
    if (ours() && below(directory, path, buffer)) put_text('X', 0, 0, "a symbolic link");
    return syscall(SYS_symlinkat, target, directory, path);
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int unlinkat(int directory, const char *path, int flags) {
    char buffer[PATH_BYTES];
    const char *name = ours() ? below(directory, path, buffer) : 0;
    if (!name) return syscall(SYS_unlinkat, directory, path, flags);
    FAILS("make", 0, path);
    CHANGE(syscall(SYS_unlinkat, directory, path, flags), put_text('U', 0, 0, name));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int result = unlink(path);
    return result && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int directory, const char *path, mode_t mode) {
    char buffer[PATH_BYTES];
    struct stat it;
    const char *name = ours() ? below(directory, path, buffer) : 0;
    if (!name) return syscall(SYS_mkdirat, directory, path, mode);
    FAILS("make", 0, path);
    CHANGE(syscall(SYS_mkdirat, directory, path, mode),
           if (!fstatat(directory, path, &it, 0)) put_text('D', it.st_ino, 0, name));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* Data. */

static int64_t end_of(int descriptor) {
    struct stat it;
    return fstat(descriptor, &it) ? 0 : it.st_size;
}

/* Write at a place, or where the descriptor stands (offset -1). */
static ssize_t written(int descriptor, const struct iovec *parts, int count, int64_t offset) {
    ino_t inode = inode_of(descriptor);
    if (!inode) {
        if (offset >= 0) return syscall(SYS_pwritev, descriptor, parts, count, (long)offset, 0L);
        return syscall(SYS_writev, descriptor, parts, count);
    }
    size_t whole = 0, most;
    ssize_t done;
    for (int i = 0; i < count; i++) whole += parts[i].iov_len;
    most = whole;
    if (trouble("write", descriptor, 0, &most)) return -1;
    char *joined = 0;
    struct iovec one;
    if (most < whole || count > 15) { /* in one piece, as a record has to be, and as much as is to be written */
        char *end = joined = malloc(whole);
        for (int i = 0; i < count; i++) end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
        one = (struct iovec){joined, most};
        parts = &one;
        count = 1;
    }
    pthread_mutex_lock(&lock);
    int appends = syscall(SYS_fcntl, descriptor, F_GETFL) & O_APPEND;
    int64_t at = appends ? end_of(descriptor) : offset >= 0 ? offset : lseek(descriptor, 0, SEEK_CUR);
    put('W', inode, at, 0, parts, count);
    if (offset >= 0) done = syscall(SYS_pwritev, descriptor, parts, count, (long)offset, 0L);
    else done = syscall(SYS_writev, descriptor, parts, count);
    if (done != (ssize_t)most) put_text('X', inode, done, "a write that failed, or was short");
    pthread_mutex_unlock(&lock);
    free(joined);
    return done;
}

ssize_t write(int descriptor, const void *data, size_t size) {
    if (descriptor < 0 || descriptor >= MAX_FDS || !tracked[descriptor])
        return syscall(SYS_write, descriptor, data, size);
    struct iovec one = {(void *)data, size};
    return written(descriptor, &one, 1, -1);
}
ssize_t writev(int descriptor, const struct iovec *parts, int count) { return written(descriptor, parts, count, -1); }
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    struct iovec one = {(void *)data, size};
    return written(descriptor, &one, 1, offset);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    return pwrite(descriptor, data, size, offset);
}
ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return written(descriptor, parts, count, offset);
}
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    return written(descriptor, parts, count, offset);
}

ssize_t read(int descriptor, void *data, size_t size) {
    if (inode_of(descriptor)) FAILS("read", descriptor, 0);
    return syscall(SYS_read, descriptor, data, size);
}
ssize_t pread(int descriptor, void *data, size_t size, off_t offset) {
    if (inode_of(descriptor)) FAILS("read", descriptor, 0);
    return syscall(SYS_pread64, descriptor, data, size, offset);
}
ssize_t pread64(int descriptor, void *data, size_t size, off64_t offset) {
    return pread(descriptor, data, size, offset);
}

/* What the system copies between files goes through a buffer of ours, so that it is known. */
static ssize_t carried(int to, off64_t *to_offset, int from, off64_t *from_offset, size_t most) {
    static __thread char buffer[65536];
    size_t some = most < sizeof buffer ? most : sizeof buffer;
    ssize_t got = from_offset ? pread(from, buffer, some, *from_offset) : read(from, buffer, some);
    if (got <= 0) return got;
    struct iovec one = {buffer, got};
    ssize_t done = written(to, &one, 1, to_offset ? *to_offset : -1);
    if (done > 0 && from_offset) *from_offset += done;
    if (done > 0 && to_offset) *to_offset += done;
    return done;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t most) {
    if (!inode_of(to)) return syscall(SYS_sendfile, to, from, offset, most);
    return carried(to, 0, from, offset, most);
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t most) { return sendfile(to, from, offset, most); }
ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t most, unsigned flags) {
    if (!inode_of(to)) return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, most, flags);
    return carried(to, to_offset, from, from_offset, most);
}

int ftruncate(int descriptor, off_t size) {
    ino_t inode = inode_of(descriptor);
    if (!inode) return syscall(SYS_ftruncate, descriptor, size);
    FAILS("make", descriptor, 0);
    CHANGE(syscall(SYS_ftruncate, descriptor, size), put('T', inode, size, 0, 0, 0));
}
int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }
int truncate(const char *path, off_t size) {
    char buffer[PATH_BYTES];
    struct stat it;
    if (!ours() || !below(AT_FDCWD, path, buffer)) return syscall(SYS_truncate, path, size);
    FAILS("make", 0, path);
    CHANGE(syscall(SYS_truncate, path, size), if (!stat(path, &it)) put('T', it.st_ino, size, 0, 0, 0));
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }

int fallocate(int descriptor, int mode, off_t offset, off_t size) {
    ino_t inode = inode_of(descriptor);
    if (!inode) return syscall(SYS_fallocate, descriptor, mode, offset, size);
    FAILS("write", descriptor, 0);
    int64_t before = end_of(descriptor);
    CHANGE(syscall(SYS_fallocate, descriptor, mode, offset, size),
           if (mode & ~FALLOC_FL_KEEP_SIZE) put_text('X', inode, mode, "a hole");
           else if (!mode && offset + size > before) put('T', inode, offset + size, 0, 0, 0));
}
int fallocate64(int descriptor, int mode, off64_t offset, off64_t size) {
    return fallocate(descriptor, mode, offset, size);
}
int posix_fallocate(int descriptor, off_t offset, off_t size) {
    return fallocate(descriptor, 0, offset, size) ? errno : 0;
}
int posix_fallocate64(int descriptor, off64_t offset, off64_t size) {
    return posix_fallocate(descriptor, offset, size);
}

static void *mapped(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    if (descriptor >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED) && inode_of(descriptor))
        put_text('X', inode_of(descriptor), 0, "a shared mapping that may be written to");
    return (void *)syscall(SYS_mmap, address, size, protection, flags, descriptor, offset);
}
void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    return mapped(address, size, protection, flags, descriptor, offset);
}
void *mmap64(void *address, size_t size, int protection, int flags, int descriptor, off64_t offset) {
    return mapped(address, size, protection, flags, descriptor, offset);
}

/* Durability. */

static int lied_to(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!lies) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path);
    size_t end = strlen(lies);
    return length >= (ssize_t)end && !memcmp(path + length - end, lies, end);
}

static int synced(int descriptor, long call) {
    ino_t inode = inode_of(descriptor);
    if (!inode) return syscall(call, descriptor);
    if (lied_to(descriptor)) return 0;
    int64_t number = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    put('S', inode, number, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    usleep(sync_ms * 1000);
    int result = trouble("sync", descriptor, 0, 0) ? -1 : syscall(call, descriptor);
    int saved = errno;
    pthread_mutex_lock(&lock);
    put('E', inode, number, result, 0, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

/* It makes no sizes and no names durable, so nobody may count on it: it is noted, and covers nothing. */
int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned flags) {
    ino_t inode = inode_of(descriptor);
    if (inode) put('R', inode, offset, size, 0, 0);
    return syscall(SYS_sync_file_range, descriptor, offset, size, flags);
}
