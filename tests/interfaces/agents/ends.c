/* Everybody puts to everybody until one does not answer, says what it takes for the reason, and goes on to its end. For tests that
   kill a client, an agent, or all. With a file's name as argument, what is said stands there, too: launchers that lose a process may lose
   others' last words. */
#include "../portals.h"
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

enum { PORTAL = 3, UNANSWERED_MS = 5000 };

static ptl_handle_md_t md;
static int words = -1;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    printf("%s\n", line);
    if (words >= 0)
        CHECK(dprintf(words, "%s\n", line) > 0);
}

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

int main(int argc, char **argv) {
    static uint64_t window[MOST], word = 42;
    ptl_handle_eq_t eq;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin();
    if (argc > 1)
        CHECK((words = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600)) >= 0);
    const unsigned all = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE;
    ptl_handle_me_t entry;
    ptl_handle_md_t receives;
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
    const ptl_md_t of_window = {window, sizeof window, PTL_MD_THRESH_INF, 0, all, NULL, PTL_EQ_NONE};
    PTL(PtlMDAttach(entry, of_window, PTL_RETAIN, &receives));
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
            say("process %u is at work", me);
        usleep(1000);
    }
    /* A process without its agent can do nothing any more, one without a peer the same as before. */
    if (PtlPut(md, PTL_NO_ACK_REQ, ids[me], PORTAL, 0, 0, 0, 0) == PTL_FAIL)
        say("process %u: my agent has ended: %s", me, PtlErrorMessage());
    else
        say("process %u goes on without %u", me, other);
    PtlNIFini(ni);
    PtlFini();
    say("process %u went on", me);
    return 0;
}
