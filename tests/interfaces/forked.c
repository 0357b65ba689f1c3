// interface: fm jam rsm portals3
// ranks: 1 2 3
// args: fm | jam | rsm | portals | fm jam rsm portals
// Children that a process forks end with the exit handlers of their parent, which close what it has open; nothing of that
// reaches the parent's job. What else they call says so, and ends them alone.
#include "check.h"
#include <farpost/fm.h>
#include <farpost/jam.h>
#include <farpost/portals3.h>
#include <farpost/rsm.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fm, jam, rsm, portals;
static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static rsmapi_controller_handle_t controller;

static void close_all(void) {
    if (fm) FM_finalize();
    if (jam) JAM_finalize();
    if (rsm) rsm_release_controller(controller);
    if (portals) {
        PtlEQFree(eq);
        PtlNIFini(ni);
        PtlFini();
    }
}

static int in_child(void (*body)(void), char *said, size_t room) {
    int ends[2], status = -1;
    size_t got = 0;
    ssize_t n;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], 2);
        body();
        exit(3);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + got, room - 1 - got)) > 0) got += (size_t)n;
    said[got] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void nothing(void) {}
static void use(void) {
    ptl_event_t event;
    if (portals) PtlEQGet(eq, &event);
    if (fm) FM_extract(1);
    if (jam) JAM_initialize();
    if (rsm) rsm_get_controller("loopback", &controller);
}

int main(int argc, char **argv) {
    char said[4096];
    for (int i = 1; i < argc; i++) {
        fm |= !strcmp(argv[i], "fm");
        jam |= !strcmp(argv[i], "jam");
        rsm |= !strcmp(argv[i], "rsm");
        portals |= !strcmp(argv[i], "portals");
    }
    if (fm) FM_initialize();
    if (jam) JAM_initialize();
    if (rsm) CHECK(rsm_get_controller("loopback", &controller) == RSM_SUCCESS);
    if (portals) {
        int most;
        CHECK(PtlInit(&most) == PTL_OK);
        const int made = PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni);
        CHECK(made == PTL_OK || made == PTL_IFACE_DUP);
        CHECK(PtlEQAlloc(ni, 8, PTL_EQ_HANDLER_NONE, &eq) == PTL_OK);
    }
    atexit(close_all);
    for (int round = 0; round < 3; round++) {
        CHECK(in_child(nothing, said, sizeof said) == 3 && said[0] == 0);
        CHECK(in_child(use, said, sizeof said) == 1 && strstr(said, "forked from process"));
    }
    // What is open here is open still.
    if (portals) {
        ptl_event_t event;
        CHECK(PtlEQGet(eq, &event) == PTL_EQ_EMPTY);
        CHECK(PtlJobFence(ni) == PTL_OK);
    }
    if (fm) FM_extract(1);
    if (rsm) {
        rsmapi_controller_handle_t again;
        CHECK(rsm_get_controller("loopback", &again) == RSM_SUCCESS && rsm_release_controller(again) == RSM_SUCCESS);
    }
    return 0;
}
