/* Everybody puts to everybody until one does not answer, says what it takes for the reason, and goes on to its end. For tests that
   kill a client, an agent, or all. */
#include "../portals.h"
#include <time.h>
#include <unistd.h>

enum { PORTAL = 3, UNANSWERED_MS = 5000 };

static ptl_handle_md_t md;

/* Whether process `of` has acknowledged a put. */
static int answers(ptl_handle_eq_t eq, unsigned of) {
    ptl_event_t event;
    int which;
    if (PtlPut(md, PTL_ACK_REQ, ids[of], PORTAL, 0, 0, me * 8, 0) != PTL_OK)
        return 0;
    do {
        const int rc = PtlEQPoll(&eq, 1, UNANSWERED_MS, &event, &which);
        if (rc != PTL_OK || event.ni_fail_type != PTL_NI_OK)
            return 0;
    } while (event.type != PTL_EVENT_ACK);
    return 1;
}

int main(void) {
    static uint64_t window[MOST], word = 42;
    ptl_handle_eq_t eq;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin();
    const unsigned all = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE;
    ptl_handle_me_t entry;
    ptl_handle_md_t open;
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
    const ptl_md_t of_window = {window, sizeof window, PTL_MD_THRESH_INF, 0, all, NULL, PTL_EQ_NONE};
    PTL(PtlMDAttach(entry, of_window, PTL_RETAIN, &open));
    PTL(PtlEQAlloc(ni, 64, PTL_EQ_HANDLER_NONE, &eq));
    const ptl_md_t of_word = {&word, 8, PTL_MD_THRESH_INF, 0, PTL_MD_EVENT_START_DISABLE, NULL, eq};
    PTL(PtlMDBind(ni, of_word, PTL_RETAIN, &md));
    meet();
    unsigned other = me;
    for (unsigned long n = 0;; n++) {
        other = (other + 1) % size;
        if (other != me && !answers(eq, other))
            break;
        if (n == 2 * size)
            printf("process %u is at work\n", me);
        usleep(1000);
    }
    /* A process without its agent can do nothing any more, one without a peer the same as before. */
    if (PtlPut(md, PTL_NO_ACK_REQ, ids[me], PORTAL, 0, 0, 0, 0) == PTL_FAIL)
        printf("process %u: my agent has ended: %s\n", me, PtlErrorMessage());
    else
        printf("process %u goes on without %u\n", me, other);
    PtlNIFini(ni);
    PtlFini();
    printf("process %u went on\n", me);
    return 0;
}
