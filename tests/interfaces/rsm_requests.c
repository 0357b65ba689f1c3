/* Puts and gets that go on after the call that began them: many at once from every rank to two others, ended in any order; what they are
 * refused for; given up, by themselves and by the end of their connection; and rails by name. */
// interface: rsm
#include "rsm.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, MANY = 24, ROOM = 2 << 20, SIZE = 3 * ROOM, ID = 0x500000 };

static unsigned me, nodes;

/* Request i: its bytes and where they lie. */
static size_t length(unsigned i) {
    static const size_t all[] = {1, 64, 4096, 10000, 16384, 70000, 131072, 300000};
    return all[i % 8];
}
static size_t place(unsigned i) {
    size_t at = 0;
    for (unsigned k = 0; k < i; k++)
        at += length(k);
    return at;
}
static unsigned char pattern(unsigned node, unsigned round, size_t i) {
    return (unsigned char)(node * 37 + round * 11 + i * 7 + i / 256 + 1);
}

/* Segments of a node: one for each way in, so that it may be on another controller. */
static rsm_memseg_import_handle_t connect_to(unsigned node, unsigned id) {
    rsmapi_controller_handle_t ctl;
    controller_to(node, &ctl);
    rsm_memseg_import_handle_t imported;
    int code;
    while ((code = rsm_memseg_import_connect(ctl, node, id, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
        usleep(1000);
    OK(code);
    return imported;
}

/* Everybody is as far. */
static rsm_memseg_export_handle_t exported[2];
static rsm_memseg_import_handle_t imported[2];
static void all_are_here(void) {
    /* Around twice, so that who comes last has told everybody. */
    for (int round = 0; round < 2; round++) {
        if (me != 0)
            OK(rsm_intr_signal_wait(exported[0], 60000));
        OK(rsm_intr_signal_post(imported[0], 0));
        if (me == 0)
            OK(rsm_intr_signal_wait(exported[0], 60000));
    }
}

int main(void) {
    alarm(100);
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    me = topology->topology_hdr.local_nodeid;
    unsigned most = me;
    for (int i = 0; i < topology->topology_hdr.local_cntlr_count; i++)
        for (int j = 0; j < topology->connections[i]->hdr.remote_cntlr_count; j++)
            if (topology->connections[i]->remote_cntlr[j].remote_nodeid > most)
                most = topology->connections[i]->remote_cntlr[j].remote_nodeid;
    nodes = most + 1;
    rsm_free_interconnect_topology(topology);
    CHECK(nodes > 1);
    const unsigned next = (me + 1) % nodes, previous = (me + nodes - 1) % nodes;

    /* Two segments: the rank before puts to one and gets from it, the rank after does to the other. */
    unsigned char *memory[2];
    const unsigned partner[2] = {next, previous}, user[2] = {previous, next};
    for (unsigned s = 0; s < 2; s++) {
        CHECK(posix_memalign((void **)&memory[s], PAGE, SIZE) == 0);
        memset(memory[s], 0, SIZE);
        for (size_t i = 0; i < ROOM; i++)
            memory[s][2 * ROOM + i] = pattern(me, s, i);
        rsmapi_controller_handle_t ctl;
        controller_to(user[s], &ctl);
        rsm_memseg_id_t id = ID + s;
        OK(rsm_memseg_export_create(ctl, &exported[s], memory[s], SIZE, 0));
        OK(rsm_memseg_export_publish(exported[s], &id, NULL, 0));
    }
    for (unsigned s = 0; s < 2; s++)
        imported[s] = connect_to(partner[s], ID + s);
    all_are_here();

    static unsigned char from[2][ROOM], to[2][ROOM];
    rsm_request_t puts[2][MANY], gets[2][MANY];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned s = 0; s < 2; s++) {
            for (size_t i = 0; i < ROOM; i++)
                from[s][i] = pattern(me, round + 5, i);
            memset(to[s], 0, ROOM);
        }
        /* All at once: 24 puts and 24 gets with each of two ranks. */
        for (unsigned i = 0; i < MANY; i++)
            for (unsigned s = 0; s < 2; s++) {
                OK(rsm_memseg_import_start_put(imported[s], (off_t)place(i), from[s] + place(i), length(i), &puts[s][i]));
                OK(rsm_memseg_import_start_get(imported[s], (off_t)(2 * ROOM + place(i)), to[s] + place(i), length(i), &gets[s][i]));
                CHECK(puts[s][i] != NULL && gets[s][i] != NULL);
            }
        /* Ended from the last to the first, by tests and by waiting. */
        for (unsigned i = MANY; i-- > 0;)
            for (unsigned s = 0; s < 2; s++) {
                int done = 0;
                if (i % 2 == 0)
                    while (!done)
                        OK(rsm_request_test(&puts[s][i], &done));
                else
                    OK(rsm_request_wait(&puts[s][i], -1));
                OK(rsm_request_wait(&gets[s][i], 60000));
                CHECK(puts[s][i] == NULL && gets[s][i] == NULL);
                /* What is over is over. */
                OK(rsm_request_wait(&puts[s][i], -1));
                OK(rsm_request_test(&gets[s][i], &done));
                CHECK(done == 1);
            }
        for (unsigned s = 0; s < 2; s++)
            for (size_t i = 0; i < place(MANY); i++)
                CHECK(to[s][i] == pattern(partner[s], s, i));
        /* Complete means there, without any barrier. */
        all_are_here();
        for (unsigned s = 0; s < 2; s++)
            for (size_t i = 0; i < place(MANY); i++)
                CHECK(memory[s][i] == pattern(user[s], round + 5, i));
        all_are_here();
    }

    /* What is no request. */
    rsm_request_t request = NULL, other = (rsm_request_t)imported[0];
    int done;
    CODE(RSMERR_BAD_SEG_HNDL, rsm_memseg_import_start_put(NULL, 0, from, 8, &request));
    CODE(RSMERR_BAD_ADDR, rsm_memseg_import_start_put(imported[0], 0, NULL, 8, &request));
    CODE(RSMERR_BAD_ADDR, rsm_memseg_import_start_get(imported[0], 0, to, 8, NULL));
    CODE(RSMERR_BAD_LENGTH, rsm_memseg_import_start_get(imported[0], SIZE - 4, to, 8, &request));
    CODE(RSMERR_BAD_LENGTH, rsm_memseg_import_start_put(imported[0], -8, from, 8, &request));
    CODE(RSMERR_BAD_ADDR, rsm_request_test(NULL, &done));
    CODE(RSMERR_BAD_ADDR, rsm_request_wait(NULL, -1));
    CODE(RSMERR_BAD_SEG_HNDL, rsm_request_wait(&other, -1));
    CODE(RSMERR_BAD_SEG_HNDL, rsm_request_cancel(&other));

    /* As many as there may be, and one more where they do not end at once. */
    static rsm_request_t all[RSM_MAX_REQUESTS + 1];
    int code = RSM_SUCCESS;
    unsigned begun = 0;
    while (begun <= RSM_MAX_REQUESTS && code == RSM_SUCCESS) {
        code = rsm_memseg_import_start_put(imported[0], (off_t)begun * 8, from[0], 8, &all[begun]);
        begun += code == RSM_SUCCESS;
    }
    /* On the host's memory each is over when it has begun. */
    CHECK(code == RSM_SUCCESS || code == RSMERR_INSUFFICIENT_RESOURCES);
    CHECK(begun >= RSM_MAX_REQUESTS);
    while (begun-- > 0)
        OK(rsm_request_wait(&all[begun], -1));

    /* Rails by name. */
    rsm_rail_t rails[32];
    unsigned count = 32, degree, there;
    OK(rsm_get_striping(next, &degree, &there));
    OK(rsm_get_rails(next, rails, &count));
    CHECK(count == there && count >= 1);
    unsigned only = 0;
    OK(rsm_get_rails(next, NULL, &only));
    CHECK(only == count);
    CODE(RSMERR_BAD_ADDR, rsm_get_rails(next, rails, NULL));
    CODE(RSMERR_REMOTE_NODE_UNREACHABLE, rsm_get_rails(nodes, rails, &only));
    for (unsigned i = 0; i < count; i++) {
        const char *names[] = {rails[i].name};
        CHECK(rails[i].state == RSM_CONNECTION_ACTIVE);
        OK(rsm_memseg_import_set_stripes(imported[0], names, 1));
        OK(rsm_memseg_import_start_put(imported[0], 0, from[0], 100000, &request));
        OK(rsm_request_wait(&request, -1));
    }
    unsigned chosen = 32;
    rsm_rail_t last[32];
    OK(rsm_memseg_import_get_stripes(imported[0], last, &chosen));
    /* The host's memory is no choice. */
    const int near = strcmp(rails[0].name, "shm0") == 0;
    CHECK(chosen == (near ? 0 : 1) && (near || strcmp(last[0].name, rails[count - 1].name) == 0));
    const char *wrong[] = {rails[0].name, "loopback"}, *no_such[] = {"tcp77"}, *null[] = {NULL};
    CODE(RSMERR_REMOTE_NODE_UNREACHABLE, rsm_memseg_import_set_stripes(imported[0], wrong, 2));
    CHECK(strstr(rsm_error_message(), "loopback") != NULL);
    CODE(RSMERR_CTLR_NOT_PRESENT, rsm_memseg_import_set_stripes(imported[0], no_such, 1));
    CHECK(strstr(rsm_error_message(), "tcp77") != NULL);
    CODE(RSMERR_BAD_ADDR, rsm_memseg_import_set_stripes(imported[0], null, 1));
    CODE(RSMERR_BAD_SEG_HNDL, rsm_memseg_import_set_stripes(NULL, wrong, 1));
    OK(rsm_memseg_import_set_stripes(imported[0], NULL, 0));
    chosen = 32;
    OK(rsm_memseg_import_get_stripes(imported[0], last, &chosen));
    CHECK(chosen == 0);
    all_are_here();

    /* Given up by one, then by the end of the connection: nobody touches the memory any more. */
    OK(rsm_memseg_import_start_put(imported[1], 0, from[1], ROOM, &request));
    OK(rsm_request_cancel(&request));
    CHECK(request == NULL);
    rsm_memseg_import_handle_t third = connect_to(previous, ID + 1);
    OK(rsm_memseg_import_start_get(third, 2 * ROOM, to[1], ROOM, &request));
    OK(rsm_memseg_import_start_put(third, 0, from[1], ROOM, &other));
    OK(rsm_memseg_import_disconnect(third));
    memset(to[1], 0xee, ROOM);
    code = rsm_request_wait(&request, -1);
    CHECK(code == RSM_SUCCESS || code == RSMERR_SEG_NOT_CONNECTED);
    code = rsm_request_wait(&other, -1);
    CHECK(code == RSM_SUCCESS || code == RSMERR_SEG_NOT_CONNECTED);
    CODE(RSMERR_BAD_SEG_HNDL, rsm_memseg_import_start_get(third, 0, to[1], 8, &request));
    all_are_here();
    for (size_t i = 0; i < ROOM; i++)
        CHECK(to[1][i] == 0xee);

    /* Withdrawn while somebody is connected: what is begun afterwards does not arrive, and says so. */
    OK(rsm_memseg_export_destroy(exported[1]));
    all_are_here();
    code = rsm_memseg_import_start_put(imported[1], 0, from[1], 100000, &request);
    if (code == RSM_SUCCESS)
        code = rsm_request_wait(&request, -1);
    CHECK(code == RSMERR_CONN_ABORTED && request == NULL);
    code = rsm_memseg_import_start_get(imported[1], 0, to[1], 100000, &request);
    if (code == RSM_SUCCESS)
        code = rsm_request_wait(&request, -1);
    CHECK(code == RSMERR_CONN_ABORTED && request == NULL);
    OK(rsm_memseg_import_disconnect(imported[1]));
    all_are_here();

    /* A request under way at the end of the process is given up. */
    OK(rsm_memseg_import_start_get(imported[0], 0, to[0], ROOM, &request));
    OK(rsm_request_wait(&request, -1));
    all_are_here();
    /* The other may have ended already. */
    code = rsm_memseg_import_start_put(imported[0], 0, from[0], 8, &request);
    CHECK(code == RSM_SUCCESS || code == RSMERR_CONN_ABORTED);
    return 0;
}
