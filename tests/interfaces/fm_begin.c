// interface: fm
// ranks: 1 2 3 8
// Beginning and end of Fast Messages without MPI.
#include "check.h"
#include <farpost/fm.h>

int main(void) {
    CHECK(FM_nodeid == 0 && FM_numnodes == 0);
    FM_initialize();
    const char *size = getenv("FARPOST_SIZE");
    CHECK(FM_numnodes >= 1 && FM_nodeid < FM_numnodes);
    CHECK(size == NULL || FM_numnodes == strtoul(size, NULL, 10));
    const char *rank = getenv("FARPOST_RANK");
    CHECK(rank == NULL || FM_nodeid == strtoul(rank, NULL, 10));
    FM_finalize();
    return 0;
}
