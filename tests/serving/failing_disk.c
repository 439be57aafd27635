/* Preloaded into a server under test: the log files of ordered stores fail where the file that MILLPOND_TEST_DISK names says so.
   "sync" fails fdatasync, "slow" has it take a second, "cut" fails ftruncate. Its invariant: no other file is touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd, const char *what) {
    char link[64], path[4096], plan[64] = "";
    const char *name = getenv("MILLPOND_TEST_DISK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!name || length < 4 || memcmp(path + length - 4, ".mpl", 4) != 0)
        return 0;
    FILE *file = fopen(name, "r");
    if (!file)
        return 0;
    size_t count = fread(plan, 1, sizeof plan - 1, file);
    plan[count] = 0;
    fclose(file);
    return strstr(plan, what) != NULL;
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (fails(fd, "sync")) {
        errno = EIO;
        return -1;
    }
    if (fails(fd, "slow"))
        sleep(1);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return real(fd);
}

int ftruncate64(int fd, off64_t length) {
    static int (*real)(int, off64_t);
    if (fails(fd, "cut")) {
        errno = EIO;
        return -1;
    }
    if (!real)
        real = (int (*)(int, off64_t))dlsym(RTLD_NEXT, "ftruncate64");
    return real(fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
