/* Preloaded into a server under test: the system's clock is as many seconds ahead, or behind, as the file that MILLPOND_TEST_CLOCK
   names says. Its invariant: the clock that nobody sets (CLOCK_MONOTONIC) is not touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long ahead_s(void) {
    char text[32] = "";
    const char *name = getenv("MILLPOND_TEST_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    return count > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, time);
    if (!failed && clock == CLOCK_REALTIME)
        time->tv_sec += ahead_s();
    return failed;
}
