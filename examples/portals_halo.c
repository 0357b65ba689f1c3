// interface: portals3
// ranks: 1 2 3
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
/* A halo exchange: heat on a rod, each process with a piece of it. The values at the ends go to the neighbours' ghost cells by put,
 * into one of two pairs of them in turn, and a process goes on when the events of its two puts have come.
 *
 *   mpicc portals_halo.c -o portals_halo && mpiexec -n 3 ./portals_halo
 */
#include <farpost/portals3.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORTAL = 2, CELLS = 200, STEPS = 500, LEFT = 0, RIGHT = 1 };

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, PtlErrorStr(code), PtlErrorMessage());
    exit(1);
}

static void step(const double *now, double *next, size_t cells, double left, double right) {
    for (size_t i = 0; i < cells; i++) {
        const double before = i == 0 ? left : now[i - 1], after = i + 1 == cells ? right : now[i + 1];
        next[i] = now[i] + 0.25 * (before - 2 * now[i] + after);
    }
}

static double initial(size_t cell) { return cell % 37 == 0 ? 100.0 : 1.0; }

int main(void) {
    int interfaces;
    unsigned rank, size;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t arrived, sent;
    ptl_handle_me_t entry;
    ptl_handle_md_t edge_md;
    check(PtlInit(&interfaces), "PtlInit");
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni), "PtlNIInit");
    check(PtlGetRank(ni, &rank, &size), "PtlGetRank");

    /* ghost[turn][side]; the match bits say which, so that neighbours write each its own. */
    static double ghost[2][2], edge[2];
    const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};
    check(PtlEQAlloc(ni, 16, PTL_EQ_HANDLER_NONE, &arrived), "PtlEQAlloc");
    check(PtlEQAlloc(ni, 16, PTL_EQ_HANDLER_NONE, &sent), "PtlEQAlloc");
    for (unsigned cell = 0; cell < 4; cell++) {
        const ptl_md_t md = {&ghost[cell / 2][cell % 2],
                             sizeof(double),
                             PTL_MD_THRESH_INF,
                             0,
                             PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                             NULL,
                             arrived};
        check(PtlMEAttach(ni, PORTAL, anybody, cell, 0, PTL_RETAIN, PTL_INS_AFTER, &entry), "PtlMEAttach");
        check(PtlMDAttach(entry, md, PTL_RETAIN, NULL), "PtlMDAttach");
    }
    const ptl_md_t edges = {edge, sizeof edge, PTL_MD_THRESH_INF, 0, PTL_MD_EVENT_START_DISABLE, NULL, sent};
    check(PtlMDBind(ni, edges, PTL_RETAIN, &edge_md), "PtlMDBind");
    ptl_process_id_t neighbour[2];
    check(PtlGetRankId(ni, (rank + size - 1) % size, &neighbour[LEFT]), "PtlGetRankId");
    check(PtlGetRankId(ni, (rank + 1) % size, &neighbour[RIGHT]), "PtlGetRankId");
    check(PtlJobFence(ni), "PtlJobFence");

    double rod[2][CELLS];
    for (size_t i = 0; i < CELLS; i++)
        rod[0][i] = initial(rank * CELLS + i);
    unsigned early = 0;
    for (unsigned n = 0; n < STEPS; n++) {
        const unsigned turn = n % 2;
        const double *now = rod[turn];
        edge[LEFT] = now[0], edge[RIGHT] = now[CELLS - 1];
        for (unsigned side = 0; side < 2; side++)
            /* My left end is my left neighbour's right ghost. */
            check(PtlPutRegion(edge_md, side * sizeof(double), sizeof(double), PTL_NO_ACK_REQ, neighbour[side], PORTAL, 0,
                               2 * turn + (1 - side), 0, n),
                  "PtlPutRegion");
        ptl_event_t event;
        for (unsigned put = 0; put < 2; put++)
            check(PtlEQWait(sent, &event), "PtlEQWait");
        /* A neighbour may be one step ahead, never two: it needs what this one sends in between. */
        unsigned ghosts = early;
        early = 0;
        while (ghosts < 2) {
            check(PtlEQWait(arrived, &event), "PtlEQWait");
            ghosts += event.hdr_data == n;
            early += event.hdr_data != n;
        }
        step(now, rod[1 - turn], CELLS, ghost[turn][LEFT], ghost[turn][RIGHT]);
    }

    /* The whole rod, computed here. */
    const size_t all = (size_t)size * CELLS;
    double *whole = malloc(2 * all * sizeof *whole), worst = 0;
    for (size_t i = 0; i < all; i++)
        whole[i] = initial(i);
    for (unsigned n = 0; n < STEPS; n++) {
        const double *now = whole + n % 2 * all;
        step(now, whole + (1 - n % 2) * all, all, now[all - 1], now[0]);
    }
    for (size_t i = 0; i < CELLS; i++) {
        const double off = rod[STEPS % 2][i] - whole[STEPS % 2 * all + rank * CELLS + i];
        worst = off > worst ? off : -off > worst ? -off : worst;
    }
    free(whole);
    printf("process %u: %d steps, largest difference from one process %g\n", rank, STEPS, worst);
    check(PtlJobFence(ni), "PtlJobFence");
    check(PtlNIFini(ni), "PtlNIFini");
    PtlFini();
    return worst < 1e-9 ? 0 : 1;
}
