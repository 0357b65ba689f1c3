/* Calls a module of NetPIPE in the order in which NetPIPE does, and looks at the data: driver put|get pingpong|stream|both cache|pool SOFFSET ROFFSET. */
#include "netpipe.h"

static ArgStruct p;
static int is_get, is_stream;

/* What the sender `from` sends at turn `turn`. */
static void fill(char *at, int bytes, int from, int turn) {
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(i * 7 + turn * 31 + from * 101 + 1);
}

static void look(const char *at, int bytes, int from, int turn) {
    for (int i = 0; i < bytes; i++) {
        const char wanted = (char)(i * 7 + turn * 31 + from * 101 + 1);
        if (at[i] != wanted) {
            printf("FAIL %d bytes, turn %d: byte %d is %d, not %d\n", bytes, turn, i, at[i], wanted);
            exit(1);
        }
    }
}

static void advance(char **at, char *start, int block) {
    *at = *at + block < start + MEMSIZE - block ? *at + block : start;
}

static void *room(size_t bytes) {
    void *at = malloc(bytes);
    if (at == NULL)
        exit(2);
    return memset(at, 0, bytes);
}

int main(int argc, char **argv) {
    static const int sizes[] = {1, 13, 64, 129, 4099, 65536, 300003, 2000000, 5};
    const int turns = 50;
    Init(&p, &argc, &argv);
    if (argc != 6)
        return 2;
    is_get = strcmp(argv[1], "get") == 0;
    is_stream = strcmp(argv[2], "stream") == 0;
    p.bidir = strcmp(argv[2], "both") == 0;
    p.cache = strcmp(argv[3], "cache") == 0;
    p.soffset = atoi(argv[4]);
    p.roffset = atoi(argv[5]);
    p.prot.use_get = is_get;
    Setup(&p);
    const int me = p.prot.iproc;
    const int most = MAX(p.soffset, p.roffset);
    if (p.prot.nbor != 1 - me || p.tr != (me == 0) || p.rcv != (me == 1))
        return 3;

    /* NetPIPE's first round, which tells how long the first size takes. */
    p.bufflen = 1;
    p.r_buff = room(1);
    p.s_buff = p.cache ? p.r_buff : room(1);
    p.r_ptr = p.r_buff;
    p.s_ptr = p.s_buff;
    AfterAlignmentInit(&p);
    Sync(&p);
    for (int i = 0; i < 3000; i++) {
        const int first = p.bidir ? 1 : p.tr;
        if (first)
            SendData(&p);
        RecvData(&p);
        if (!first)
            SendData(&p);
    }
    Sync(&p);
    Reset(&p);
    /* NetPIPE frees what a round is over with before the next one begins. */
    if (!p.cache)
        free(p.s_buff);
    free(p.r_buff);

    if (!p.cache) {
        p.r_buff = room(MEMSIZE + (size_t)most);
        p.s_buff = room(MEMSIZE + (size_t)most);
        AfterAlignmentInit(&p);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (!p.cache && sizes[s] > MEMSIZE / 2)
            continue;
        const int block = sizes[s] + 64 - sizes[s] % 64;
        int repeat = p.tr ? turns : 0;
        Sync(&p);
        if (p.tr)
            SendRepeat(&p, repeat);
        else
            RecvRepeat(&p, &repeat);
        if (repeat != turns)
            return 4;
        p.bufflen = sizes[s];
        if (p.cache) {
            p.r_buff = p.s_buff = room((size_t)(sizes[s] + most));
            AfterAlignmentInit(&p);
        }
        p.r_ptr = p.r_buff + p.roffset;
        p.s_ptr = p.s_buff + p.soffset;
        /* Where there is one buffer, or the other fetches when it likes, what is sent is there before. */
        const int once = is_get || (p.cache && p.bidir);
        if (is_get && !p.cache)
            for (int i = 0; i < MEMSIZE + p.soffset; i++)
                p.s_buff[i] = (char)(me + 1);
        if (is_get && p.cache)
            memset(p.s_buff, 5, (size_t)(sizes[s] + most));
        const char *const first = p.r_ptr;
        const char *last = first;
        Sync(&p);
        for (int i = 0; i < turns; i++) {
            if (is_stream ? p.tr : (p.tr || p.bidir)) {
                /* An answer says that a put has left; what comes by itself, both ways at once, does not. */
                if (!once && p.bidir)
                    Reset(&p);
                if (!once && !is_stream)
                    fill(p.s_ptr, sizes[s], me, i);
                if (!once && is_stream && i == 0)
                    fill(p.s_ptr, sizes[s], me, 0);
                SendData(&p);
                if (!is_stream) {
                    RecvData(&p);
                    last = p.r_ptr;
                    if (!once && !p.bidir)
                        look(p.r_ptr, sizes[s], 1 - me, i);
                }
            } else {
                RecvData(&p);
                if (!once && !is_stream)
                    look(p.r_ptr, sizes[s], 1 - me, i);
                if (is_get && !p.cache)
                    for (int b = 0; b < sizes[s]; b++)
                        if (p.r_ptr[b] != (char)(2 - me)) {
                            printf("FAIL get of %d bytes, turn %d\n", sizes[s], i);
                            exit(1);
                        }
                if (!is_stream) {
                    if (!once)
                        fill(p.s_ptr, sizes[s], me, i);
                    SendData(&p);
                }
            }
            if (!p.cache) {
                advance(&p.r_ptr, p.r_buff, block);
                advance(&p.s_ptr, p.s_buff, block);
            }
        }
        /* Puts of which several are under way may end in any order: looked at when all have. */
        if (!once && is_stream && p.rcv)
            look(first, sizes[s], 1 - me, 0);
        if (!once && p.bidir)
            look(last, sizes[s], 1 - me, turns - 1);
        Reset(&p);
        if (p.cache)
            free(p.r_buff);
        if (is_stream) {
            double t = p.rcv ? 0.25 + (double)s : 0;
            if (p.rcv)
                SendTime(&p, &t);
            else
                RecvTime(&p, &t);
            if (t != 0.25 + (double)s)
                return 5;
        }
    }
    CleanUp(&p);
    if (me == 0)
        printf("all went well\n");
    return 0;
}
