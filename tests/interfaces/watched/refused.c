/* What `farpost top` is to show: rank 0 puts 100 messages of 8 bytes and one of 100,000 to rank 1, three that no entry of rank 1's
 * accepts, and makes mistakes with RSMAPI that are counted. Then both wait until the others have looked: rank 0 reads a line of
 * standard input. */
#include "../portals.h"
#include <farpost/rsm.h>

enum { COUNT = 100, LONG = 100000, DROPPED = 3 };
static char memory[LONG];

/* Take everything that comes for a while: what was counted is added where it can be seen by who is idle. */
static int take(ptl_handle_eq_t eq, int ms) {
    ptl_event_t event;
    int which, ends = 0;
    while (PtlEQPoll(&eq, 1, ms, &event, &which) == PTL_OK)
        ends += event.type == PTL_EVENT_PUT_END || event.type == PTL_EVENT_SEND_END;
    return ends;
}

int main(void) {
    begin();
    const ptl_handle_eq_t eq = queue(1024);
    ptl_md_t md;
    memset(&md, 0, sizeof md);
    md.start = memory;
    md.length = LONG;
    md.threshold = PTL_MD_THRESH_INF;
    md.options = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE;
    md.eq_handle = eq;
    ptl_handle_md_t mine;
    if (me == 1) {
        ptl_handle_me_t entry;
        PTL(PtlMEAttach(ni, 4, anybody, 7, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
        PTL(PtlMDAttach(entry, md, PTL_RETAIN, &mine));
    } else {
        PTL(PtlMDBind(ni, md, PTL_RETAIN, &mine));
    }
    meet();
    int ends = 0;
    if (me == 0) {
        for (int i = 0; i < COUNT; i++)
            PTL(PtlPutRegion(mine, 0, 8, PTL_NOACK_REQ, ids[1], 4, 0, 7, 0, 0));
        PTL(PtlPutRegion(mine, 0, LONG, PTL_NOACK_REQ, ids[1], 4, 0, 7, 0, 0));
        for (int i = 0; i < DROPPED; i++)
            PTL(PtlPutRegion(mine, 0, 8, PTL_NOACK_REQ, ids[1], 4, 0, 8, 0, 0));
        while (ends < COUNT + 1 + DROPPED)
            ends += take(eq, 100);

        rsmapi_controller_handle_t controller;
        rsm_memseg_import_handle_t import;
        CHECK(rsm_get_controller("wrsm0", &controller) == RSMERR_CTLR_NOT_PRESENT);
        CHECK(rsm_get_controller("shm0", &controller) == RSM_SUCCESS);
        for (int i = 0; i < 2; i++)
            CHECK(rsm_memseg_import_connect(controller, 1, 0x500000, RSM_PERM_RDWR, &import) != RSM_SUCCESS);
        /* For longer than it takes until an idle process adds to its counters. */
        take(eq, 300);
        printf("ready\n");
        fflush(stdout);
        char line[20];
        if (!fgets(line, sizeof line, stdin)) line[0] = 0;
        PTL(PtlPutRegion(mine, 0, 1, PTL_NOACK_REQ, ids[1], 4, 0, 7, 0, 0));
    } else {
        while (ends < COUNT + 2)
            ends += take(eq, 100);
    }
    end();
    return 0;
}
