// interface: rsm
// ranks: 1 2
// Mistakes: each is refused with a code and a sentence that names node and value, counted by kind, and what is right still works.
// (What strangers do wrong: rsm_strangers.sh.)
#include "check.h"
#include <farpost/rsm.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x500000 };
#define REFUSED(code, words, call)                                                                                      \
    do {                                                                                                                \
        int got_ = (call);                                                                                              \
        if (got_ != (code) || strstr(rsm_error_message(), words) == NULL) {                                             \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, got_, rsm_error_message());          \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* What was refused since the last call, of one kind and of no other. */
#define COUNTED(kind, many)                                                                                             \
    do {                                                                                                                \
        rsm_refused_t now_;                                                                                             \
        CHECK(rsm_get_refused(&now_) == RSM_SUCCESS);                                                                   \
        before.kind += (many);                                                                                          \
        CHECK(memcmp(&before, &now_, sizeof now_) == 0);                                                                \
    } while (0)

int main(void) {
    rsmapi_controller_handle_t ctl = NULL;
    rsm_refused_t before = {0};
    char words[64];
    rsm_memseg_export_handle_t exported;
    rsm_memseg_import_handle_t imported, reader;
    /* Before anything was opened there is nothing to name. */
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_memseg_import_put((void *)&ctl, 0, &ctl, 1));
    REFUSED(RSMERR_BAD_CTLR_HNDL, "controller", rsm_release_controller((void *)&ctl));
    REFUSED(RSMERR_CTLR_NOT_PRESENT, "tcp7", rsm_get_controller("tcp7", &ctl));
    REFUSED(RSMERR_CTLR_NOT_PRESENT, "loopback, shm0", rsm_get_controller("", &ctl));
    COUNTED(controllers, 2);
    CHECK(rsm_get_controller("shm0", &ctl) == RSM_SUCCESS);

    unsigned char *memory;
    CHECK(posix_memalign((void **)&memory, PAGE, 2 * PAGE) == 0);
    memset(memory, 3, 2 * PAGE);
    /* Code, and memory that is nobody's, cannot be exported. */
    void *code = (void *)((uintptr_t)main & ~(uintptr_t)(PAGE - 1));
    REFUSED(RSMERR_BAD_ADDR, "ordinary private memory", rsm_memseg_export_create(ctl, &exported, code, PAGE, 0));
    REFUSED(RSMERR_BAD_ADDR, "mapped", rsm_memseg_export_create(ctl, &exported, (void *)PAGE, PAGE, 0));
    REFUSED(RSMERR_LOCKS_NOT_SUPPORTED, "0x5", rsm_memseg_export_create(ctl, &exported, memory, PAGE, RSM_ALLOW_REBIND | RSM_LOCK_OPS));
    CHECK(rsm_memseg_export_create(ctl, &exported, memory, 2 * PAGE, 0) == RSM_SUCCESS);
    rsm_topology_t *topology;
    CHECK(rsm_get_interconnect_topology(&topology) == RSM_SUCCESS);
    const unsigned me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
    rsm_memseg_id_t id = ID;
    rsmapi_access_entry_t list[2] = {{me, 0600}, {9999, 0600}};
    REFUSED(RSMERR_BAD_ACL, "9999", rsm_memseg_export_publish(exported, &id, list, 2));
    list[1].ae_node = me;
    REFUSED(RSMERR_BAD_ACL, "listed already", rsm_memseg_export_publish(exported, &id, list, 2));
    list[0].ae_permission = 07600;
    REFUSED(RSMERR_BAD_PERMS, "07600", rsm_memseg_export_publish(exported, &id, list, 1));
    list[0].ae_permission = 0600;
    CHECK(rsm_memseg_export_publish(exported, &id, list, 1) == RSM_SUCCESS);

    /* Never published; a node that is not there. */
    snprintf(words, sizeof words, "node %u has not published segment 0x7654321", me);
    REFUSED(RSMERR_SEG_NOT_PUBLISHED, words, rsm_memseg_import_connect(ctl, me, 0x7654321, RSM_PERM_READ, &imported));
    COUNTED(segments, 1);
    REFUSED(RSMERR_REMOTE_NODE_UNREACHABLE, "shm0 is not connected to node 4711", rsm_memseg_import_connect(ctl, 4711, ID, RSM_PERM_READ, &imported));
    COUNTED(controllers, 1);
    /* An empty list of what this process did wrong to others. */
    CHECK(rsm_next_fault(NULL, words, sizeof words) == 0);
    REFUSED(RSMERR_BAD_ADDR, "refused", rsm_get_refused(NULL));
    CHECK(rsm_memseg_import_connect(ctl, me, ID, RSM_PERM_RDWR, &imported) == RSM_SUCCESS);
    CHECK(rsm_memseg_import_connect(ctl, me, ID, RSM_PERM_READ, &reader) == RSM_SUCCESS);
    rsmapi_barrier_t barrier, wrong;
    CHECK(rsm_memseg_import_init_barrier(imported, 0, &barrier) == RSM_SUCCESS);
    CHECK(rsm_memseg_import_init_barrier(reader, 0, &wrong) == RSM_SUCCESS);

    /* Past the end; more than the connection may. */
    uint64_t word = 1;
    snprintf(words, sizeof words, "8 bytes at 8192: segment 0x500000 of node %u has 8192", me);
    REFUSED(RSMERR_BAD_LENGTH, words, rsm_memseg_import_put64(imported, 2 * PAGE, &word, 1));
    snprintf(words, sizeof words, "2 bytes at 8191: segment 0x500000 of node %u has 8192", me);
    REFUSED(RSMERR_BAD_LENGTH, words, rsm_memseg_import_get(imported, 2 * PAGE - 1, &word, 2));
    COUNTED(ranges, 2);
    CHECK(rsm_memseg_import_put64(imported, 2 * PAGE - 8, &word, 1) == RSM_SUCCESS);
    CHECK(*(uint64_t *)(void *)(memory + 2 * PAGE - 8) == 1);
    REFUSED(RSMERR_PERM_DENIED, "0400", rsm_memseg_import_put64(reader, 0, &word, 1));
    void *at;
    REFUSED(RSMERR_PERM_DENIED, "0400", rsm_memseg_import_map(reader, &at, RSM_MAP_NONE, RSM_PERM_RDWR, 0, PAGE));
    wrong.bar_segment = imported;
    REFUSED(RSMERR_BAD_BARRIER_PTR, "barrier", rsm_memseg_import_open_barrier(&wrong));

    /* A store to a mapping that is for reading faults who stores, and nobody else. */
    CHECK(rsm_memseg_import_map(reader, &at, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE) == RSM_SUCCESS);
    CHECK(((unsigned char *)at)[7] == 3);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Libraries below libfabric may have a handler of their own. */
        signal(SIGSEGV, SIG_DFL);
        ((volatile unsigned char *)at)[7] = 4;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK(memory[7] == 3);
    CHECK(rsm_memseg_import_unmap(reader) == RSM_SUCCESS);

    /* A child has its parent's handles, and may not withdraw what the parent has made. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        list[0].ae_permission = 0;
        const int ok = rsm_memseg_export_unpublish(exported) == RSMERR_NOT_CREATOR &&
                       rsm_memseg_export_republish(exported, list, 1) == RSMERR_NOT_CREATOR &&
                       rsm_memseg_export_rebind(exported, memory, 0, 2 * PAGE) == RSMERR_NOT_CREATOR &&
                       rsm_memseg_export_destroy(exported) == RSMERR_NOT_CREATOR;
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* Signals go by handles, and a handle that is not one is found out. */
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_intr_signal_post(ctl, 0));
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_intr_signal_post((char *)imported + 160, 0));
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_intr_signal_wait(&word, 0));
    struct pollfd fds;
    int ready;
    REFUSED(RSMERR_BAD_ADDR, "null", rsm_intr_signal_wait_pollfd(NULL, 1, 0, &ready));
    CHECK(rsm_memseg_get_pollfd(imported, &fds) == RSM_SUCCESS);
    REFUSED(RSMERR_TIMEOUT, "time", rsm_intr_signal_wait_pollfd(&fds, 1, 1, &ready));
    CHECK(ready == 0 && rsm_memseg_release_pollfd(imported) == RSM_SUCCESS);

    /* Ranges of identifiers. */
    rsm_memseg_id_t base;
    uint32_t length;
    REFUSED(RSMERR_BAD_APPID, "appid", rsm_get_segmentid_range(NULL, &base, &length));
    char path[] = "/tmp/farpost-segmentid.XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK(setenv("FARPOST_RSM_SEGMENTID_FILE", path, 1) == 0);
    const char good[] = "# ranges\nreserved mine 0x600000 4096\n";
    CHECK(write(file, good, sizeof good - 1) == sizeof good - 1);
    CHECK(rsm_get_segmentid_range("mine", &base, &length) == RSM_SUCCESS && base == 0x600000 && length == 4096);
    REFUSED(RSMERR_BAD_APPID, "yours", rsm_get_segmentid_range("yours", &base, &length));
    CHECK(write(file, "malformed\n", 10) == 10);
    REFUSED(RSMERR_BAD_CONF, "malformed", rsm_get_segmentid_range("mine", &base, &length));
    close(file);
    unlink(path);
    REFUSED(RSMERR_BAD_CONF, path, rsm_get_segmentid_range("mine", &base, &length));

    /* What is right still works. */
    word = 42;
    CHECK(rsm_memseg_import_put64(imported, 8, &word, 1) == RSM_SUCCESS);
    CHECK(*(uint64_t *)(void *)(memory + 8) == 42);
    CHECK(rsm_intr_signal_post(imported, 0) == RSM_SUCCESS && rsm_intr_signal_wait(exported, 10000) == RSM_SUCCESS);
    /* Handles of what is gone. */
    CHECK(rsm_memseg_import_disconnect(imported) == RSM_SUCCESS);
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_memseg_import_put64(imported, 8, &word, 1));
    REFUSED(RSMERR_BAD_SEG_HNDL, "memseg", rsm_memseg_import_close_barrier(&barrier));
    CHECK(rsm_memseg_export_destroy(exported) == RSM_SUCCESS);
    CHECK(memory[7] == 3 && *(uint64_t *)(void *)(memory + 8) == 42);
    free(memory);
    return 0;
}
