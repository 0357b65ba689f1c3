/* Processes that wait for ever in the interfaces beside MPI, in the way that the first argument names. */
#include <farpost/fm.h>
#include <farpost/jam.h>
#include <farpost/portals3.h>
#include <farpost/rsm.h>
#include <stddef.h>
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

/* A handler that insists on a message, while the main program's own, which cannot end before, is open. */
static int insists(FM_stream *stream, unsigned sender) {
    (void)stream, (void)sender;
    while (FM_begin_message(1, 1, 9) == NULL) FM_extract(0);
    return FM_CONTINUE;
}

static void fm_begin(void) {
    FM_initialize();
    FM_register_handler(9, insists);
    if (FM_nodeid == 1) FM_send_4(0, 9, 0, 0, 0, 0);
    else FM_begin_message(1, 1, 9);
    for (;;) FM_extract(FM_ALL);
}

static void jam(void) {
    JAM_initialize();
    for (;;) JAM_poll();
}

/* A segment that nobody sends a signal to. */
static void rsm(void) {
    static unsigned char memory[4096] __attribute__((aligned(4096)));
    rsmapi_controller_handle_t controller;
    rsm_memseg_export_handle_t segment;
    rsm_memseg_id_t id = 0x650000;
    rsm_get_controller("shm0", &controller);
    rsm_memseg_export_create(controller, &segment, memory, sizeof memory, 0);
    rsm_memseg_export_publish(segment, &id, NULL, 0);
    rsm_intr_signal_wait(segment, -1);
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
    if (!strcmp(how, "fm_begin")) fm_begin();
    if (!strcmp(how, "jam")) jam();
    if (!strcmp(how, "rsm")) rsm();
    portals(how);
    return 0;
}
