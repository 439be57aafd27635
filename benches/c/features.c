/* What the bars of feature tables are held against: lookups in a shard file of format 2 (docs/formats/feature-shard.md) and nothing
 * else. No checks of the file, no types but 32-bit floats, one shard.
 *
 *     features loop SHARD           million keys a second, in batches of 100 random keys
 *     features serve PORT SHARD     answers features.lookup in FPNN's frames: one thread, epoll, no word of the request read but its keys
 *
 * Build: cc -O3 -o features features.c */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 100, KEYS_MAX = 1024, HEADER = 128, LOOP_KEYS = 1 << 22, LOOP_S = 2 };

struct table {
    uint64_t rows, slots, buckets, seed;
    size_t row_bytes, slot_bytes;
    const uint8_t *pilots, *data;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t u64_at(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, 8);
    return number;
}

/* The whole file, in huge pages where there are any. */
static struct table load(const char *path)
{
    int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about)) die(path);
    size_t bytes = about.st_size;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    madvise(memory, bytes, MADV_HUGEPAGE);
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(file, memory + done, bytes - done);
        if (count <= 0) die("read");
        done += count;
    }
    close(file);
    struct table table = {
        .rows = u64_at(memory + 32), .slots = u64_at(memory + 40),
        .buckets = u64_at(memory + 48), .seed = u64_at(memory + 56),
        .pilots = memory + HEADER,
    };
    uint32_t row_bytes;
    memcpy(&row_bytes, memory + 20, 4);
    table.row_bytes = row_bytes;
    table.slot_bytes = 8 + table.row_bytes;
    table.data = table.pilots + (table.buckets * 2 + 63) / 64 * 64;
    return table;
}

static inline uint64_t hash(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    return key ^ (key >> 31);
}

static inline uint64_t high(uint64_t x, uint64_t n)
{
    return (unsigned __int128)x * n >> 64;
}

/* Two passes ahead of the copy: the pilots of all keys are asked for, then their slots. */
static size_t lookup(const struct table *table, const uint64_t *keys, size_t count, uint8_t *values, uint8_t *found)
{
    uint64_t spread[KEYS_MAX];
    const uint8_t *slot[KEYS_MAX];
    size_t hits = 0;
    for (size_t i = 0; i < count; i++) {
        spread[i] = hash(keys[i]) * table->seed;
        __builtin_prefetch(table->pilots + 2 * high(spread[i], table->buckets));
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t pilot;
        memcpy(&pilot, table->pilots + 2 * high(spread[i], table->buckets), 2);
        uint64_t turned = spread[i] ^ pilot * 0x9e3779b97f4a7c15;
        slot[i] = table->data + table->slot_bytes * high(turned * 0xd6e8feb86659fd93, table->slots);
        __builtin_prefetch(slot[i]);
        __builtin_prefetch(slot[i] + table->slot_bytes - 1);
    }
    memset(found, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++, values += table->row_bytes) {
        if (u64_at(slot[i]) == keys[i]) {
            memcpy(values, slot[i] + 8, table->row_bytes);
            found[i / 8] |= 1 << i % 8;
            hits++;
        } else {
            memset(values, 0, table->row_bytes);
        }
    }
    return hits;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void loop(const struct table *table)
{
    uint64_t *keys = malloc(LOOP_KEYS * sizeof *keys);
    uint8_t *values = malloc(BATCH * table->row_bytes), found[BATCH / 8 + 1];
    for (uint64_t i = 0; i < LOOP_KEYS; i++) keys[i] = high(hash(i + 1), table->rows);
    double began = now();
    size_t done = 0;
    while (now() - began < LOOP_S) {
        for (size_t at = 0; at + BATCH <= LOOP_KEYS; at += BATCH, done += BATCH) {
            if (lookup(table, keys + at, BATCH, values, found) != BATCH) {
                fputs("a key is absent\n", stderr);
                exit(1);
            }
        }
    }
    printf("%.3f\n", done / (now() - began) / 1e6);
}

struct connection {
    int socket;
    size_t filled, begin, end;
    uint8_t in[1 << 16], out[1 << 21];
};

/* {"version": 1, "dim": 10, "type": "f32", "found": bin, "values": bin}, as the server writes it. */
static size_t answer(const struct table *table, const uint8_t *request, const uint8_t *payload_end, uint8_t *out)
{
    static const uint8_t begin[] = "\x85\xa7version\x01\xa3" "dim";
    uint64_t keys[BATCH];
    memcpy(keys, payload_end - sizeof keys, sizeof keys);
    uint8_t *at = out + 16, *found;
    size_t values_bytes = BATCH * table->row_bytes;
    memcpy(at, begin, sizeof begin - 1);
    at += sizeof begin - 1;
    *at++ = table->row_bytes / 4;
    memcpy(at, "\xa4type\xa3" "f32\xa5" "found\xc4", 16);
    at[16] = (BATCH + 7) / 8;
    found = at + 17;
    at = found + (BATCH + 7) / 8;
    memcpy(at, "\xa6values\xc5", 8);
    at[8] = values_bytes >> 8;
    at[9] = values_bytes;
    at += 10;
    lookup(table, keys, BATCH, at, found);
    at += values_bytes;
    uint32_t payload_bytes = at - out - 16;
    memcpy(out, "FPNN\x01\x80\x02\x00", 8);
    memcpy(out + 8, &payload_bytes, 4);
    memcpy(out + 12, request + 12, 4);
    return at - out;
}

/* Reads what is there and answers all of it; 0 where the other side has gone. */
static int serve_one(const struct table *table, struct connection *c)
{
    if (c->begin == c->end) {
        ssize_t count = read(c->socket, c->in + c->filled, sizeof c->in - c->filled);
        if (count == 0 || (count < 0 && errno != EAGAIN)) return 0;
        if (count > 0) c->filled += count;
        size_t at = 0;
        c->begin = c->end = 0;
        while (c->filled - at >= 16) {
            uint32_t payload_bytes;
            memcpy(&payload_bytes, c->in + at + 8, 4);
            size_t frame_bytes = 16 + c->in[at + 7] + payload_bytes;
            if (c->filled - at < frame_bytes) break;
            c->end += answer(table, c->in + at, c->in + at + frame_bytes, c->out + c->end);
            at += frame_bytes;
        }
        memmove(c->in, c->in + at, c->filled - at);
        c->filled -= at;
    }
    while (c->begin < c->end) {
        ssize_t count = write(c->socket, c->out + c->begin, c->end - c->begin);
        if (count < 0 && errno == EAGAIN) break;
        if (count <= 0) return 0;
        c->begin += count;
    }
    return 1;
}

static void serve(const struct table *table, int port)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), one = 1;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) die("listen");
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event ready[256];
        int count = epoll_wait(epoll, ready, 256, -1);
        for (int i = 0; i < count; i++) {
            struct connection *c = ready[i].data.ptr;
            if (!c) {
                c = calloc(1, sizeof *c);
                c->socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                /* Edges alone would lose what stays unread behind a full send buffer. */
                event = (struct epoll_event){ .events = EPOLLIN, .data.ptr = c };
                epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event);
            } else if (!serve_one(table, c)) {
                close(c->socket);
                free(c);
            } else {
                int waits = c->begin < c->end;
                event = (struct epoll_event){ .events = waits ? EPOLLOUT : EPOLLIN, .data.ptr = c };
                if (waits || ready[i].events & EPOLLOUT) epoll_ctl(epoll, EPOLL_CTL_MOD, c->socket, &event);
            }
        }
    }
}

int main(int count, char **words)
{
    if (count == 3 && !strcmp(words[1], "loop")) {
        struct table table = load(words[2]);
        loop(&table);
    } else if (count == 4 && !strcmp(words[1], "serve")) {
        struct table table = load(words[3]);
        if (BATCH * table.row_bytes > 0xffff) die("rows too long");
        serve(&table, atoi(words[2]));
    } else {
        fputs("usage: features loop SHARD | features serve PORT SHARD\n", stderr);
        return 2;
    }
}
