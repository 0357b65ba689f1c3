/* Processes that wait for ever in the interfaces beside MPI, in the way that the first argument names. */
#include <farpost/fm.h>
#include <farpost/jam.h>
#include <farpost/portals3.h>
#include <string.h>
#include <unistd.h>

/* A message whose receiver takes nothing out: in the end its sender waits. */
static void fm(int sends) {
    static char bytes[100];
    FM_initialize();
    while (sends && FM_nodeid == 0) FM_send(1, 0, bytes, sizeof bytes);
    if (sends) return;
    for (;;) FM_extract(FM_ALL);
}

static void jam(void) {
    JAM_initialize();
    for (;;) JAM_poll();
}

static void portals(const char *how) {
    int interfaces, which;
    unsigned rank, size;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_event_t event;
    PtlInit(&interfaces);
    PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni);
    PtlGetRank(ni, &rank, &size);
    PtlEQAlloc(ni, 8, PTL_EQ_HANDLER_NONE, &eq);
    if (!strcmp(how, "fence") && rank == 0) PtlJobFence(ni);
    while (!strcmp(how, "poll")) PtlEQPoll(&eq, 1, 0, &event, &which);
    PtlEQWait(eq, &event);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "fm")) fm(0);
    if (!strcmp(how, "fm_send")) fm(1);
    if (!strcmp(how, "jam")) jam();
    portals(how);
    return 0;
}
