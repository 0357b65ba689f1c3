// interface: fm jam portals3
// Process 0 polls so many times for what nobody sends, by the interface that the first argument names.
#include <farpost/fm.h>
#include <farpost/jam.h>
#include <farpost/portals3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void by_fm(long times) {
    FM_initialize();
    if (FM_nodeid == 0)
        while (times-- > 0) FM_extract(FM_ALL);
    FM_finalize();
}

static void by_jam(long times) {
    JAM_initialize();
    if (JAM_me == 0)
        while (times-- > 0) JAM_poll();
    JAM_finalize();
}

static void by_portals(long times) {
    int interfaces;
    unsigned rank, size;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t queue;
    ptl_event_t event;
    if (PtlInit(&interfaces) != PTL_OK || PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) != PTL_OK) exit(1);
    if (PtlEQAlloc(ni, 4, PTL_EQ_HANDLER_NONE, &queue) != PTL_OK || PtlGetRank(ni, &rank, &size) != PTL_OK) exit(1);
    if (rank == 0)
        while (times-- > 0 && PtlEQGet(queue, &event) == PTL_EQ_EMPTY) continue;
    PtlFini();
}

int main(int argc, char **argv) {
    const long times = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(argv[1], "fm")) by_fm(times);
    if (!strcmp(argv[1], "jam")) by_jam(times);
    if (!strcmp(argv[1], "portals")) by_portals(times);
    return 0;
}
