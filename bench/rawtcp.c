/* The floor of `make compare HOSTS=2`: a ping-pong between two hosts over one TCP connection, non-blocking, both sides
 * polling, nothing else.
 *
 *   rawtcp serve PORT            wait for the other side, answer until it is gone
 *   rawtcp ping ADDRESS PORT     prints `result NAME VALUE UNIT`, names as bench/compare.c's
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TRIALS = 15, LARGEST = 4 << 20 };

static char *buffer;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0: the other side is gone. */
static int receive(int s, char *to, long bytes) {
    while (bytes > 0) {
        ssize_t n = recv(s, to, (size_t)bytes, 0);
        if (n == 0) return 0;
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) continue;
            if (errno == ECONNRESET) return 0;
            die("rawtcp: recv");
        }
        to += n;
        bytes -= n;
    }
    return 1;
}

static void transmit(int s, const char *from, long bytes) {
    while (bytes > 0) {
        ssize_t n = send(s, from, (size_t)bytes, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR) continue;
            die("rawtcp: send");
        }
        from += n;
        bytes -= n;
    }
}

static void prepare(int s) {
    int one = 1;
    if (setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) die("rawtcp: TCP_NODELAY");
    if (fcntl(s, F_SETFL, O_NONBLOCK) != 0) die("rawtcp: O_NONBLOCK");
}

static void pingpong(int s, long bytes, long times) {
    for (long i = 0; i < times; i++) {
        transmit(s, buffer, bytes);
        if (!receive(s, buffer, bytes)) {
            fprintf(stderr, "rawtcp: the other side is gone\n");
            exit(1);
        }
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds one way: the median of trials of about 20 ms. The other side is told bytes and times before each. */
static double measure(int s, long bytes) {
    double times[TRIALS];
    long n = 1;
    for (int t = -1; t < TRIALS; t++) {
        for (;;) {
            long order[2] = {bytes, n};
            transmit(s, (char *)order, sizeof order);
            double start = now();
            pingpong(s, bytes, n);
            double took = now() - start;
            if (t >= 0) times[t] = took / (double)n / 2;
            if (t >= 0 || took > 0.01) break;
            n *= 2;
        }
    }
    qsort(times, TRIALS, sizeof *times, ascending);
    return times[TRIALS / 2];
}

int main(int argc, char **argv) {
    buffer = calloc(1, LARGEST);
    if (!buffer) die("rawtcp");
    struct sockaddr_in address = {.sin_family = AF_INET};
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (s < 0) die("rawtcp: socket");
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        address.sin_port = htons((unsigned short)atoi(argv[2]));
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(s, (struct sockaddr *)&address, sizeof address) != 0 || listen(s, 1) != 0) die("rawtcp: listen");
        int peer = accept(s, NULL, NULL);
        if (peer < 0) die("rawtcp: accept");
        prepare(peer);
        long order[2];
        while (receive(peer, (char *)order, sizeof order)) {
            if (order[0] < 1 || order[0] > LARGEST) return 1;
            for (long i = 0; i < order[1]; i++) {
                if (!receive(peer, buffer, order[0])) return 1;
                transmit(peer, buffer, order[0]);
            }
        }
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "ping") == 0) {
        address.sin_port = htons((unsigned short)atoi(argv[3]));
        if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
            fprintf(stderr, "rawtcp: %s is not an address\n", argv[2]);
            return 2;
        }
        for (int tries = 0; connect(s, (struct sockaddr *)&address, sizeof address) != 0; tries++) {
            if (tries == 100) die("rawtcp: connect");
            usleep(50000);
            close(s);
            s = socket(AF_INET, SOCK_STREAM, 0);
        }
        prepare(s);
        printf("result latency_8 %.9g us\n", measure(s, 8) * 1e6);
        for (long bytes = 64 << 10; bytes <= LARGEST; bytes *= bytes == 64 << 10 ? 16 : 4)
            printf("result bandwidth_%ld %.9g GB/s\n", bytes, (double)bytes / measure(s, bytes) / 1e9);
        return 0;
    }
    fprintf(stderr, "usage: rawtcp serve PORT | rawtcp ping ADDRESS PORT\n");
    return 2;
}
