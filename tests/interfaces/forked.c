// interface: fm jam rsm
// ranks: 1 2 3
// args: fm | jam | rsm | fm jam rsm
// Children that a process forks end with the exit handlers of their parent, which close what it has open; nothing of that
// reaches the parent's job. What else they call says so, and ends them alone.
#include "check.h"
#include <farpost/fm.h>
#include <farpost/jam.h>
#include <farpost/rsm.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fm, jam, rsm;
static rsmapi_controller_handle_t controller;

static void close_all(void) {
    if (fm) FM_finalize();
    if (jam) JAM_finalize();
    if (rsm) rsm_release_controller(controller);
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
    }
    if (fm) FM_initialize();
    if (jam) JAM_initialize();
    if (rsm) CHECK(rsm_get_controller("loopback", &controller) == RSM_SUCCESS);
    atexit(close_all);
    for (int round = 0; round < 3; round++) {
        CHECK(in_child(nothing, said, sizeof said) == 3 && said[0] == 0);
        CHECK(in_child(use, said, sizeof said) == 1 && strstr(said, "forked from process"));
    }
    // What is open here is open still.
    if (fm) FM_extract(1);
    if (rsm) {
        rsmapi_controller_handle_t again;
        CHECK(rsm_get_controller("loopback", &again) == RSM_SUCCESS && rsm_release_controller(again) == RSM_SUCCESS);
    }
    return 0;
}
