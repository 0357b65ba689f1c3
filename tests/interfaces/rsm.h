/* What the programs about RSMAPI share: codes that are told with their sentence, and the controller that leads to a node. */
#ifndef RSM_H
#define RSM_H

#include "check.h"
#include <farpost/rsm.h>
#include <string.h>

#define OK(call) CODE(RSM_SUCCESS, call)
#define CODE(wanted, call)                                                                                              \
    do {                                                                                                                \
        const int code_ = (call);                                                                                       \
        if (code_ != (wanted)) {                                                                                        \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* The controller that leads to a node: loopback to none but oneself. */
static void controller_to(unsigned node, rsmapi_controller_handle_t *ctl) {
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    for (int i = topology->topology_hdr.local_cntlr_count - 1; i > 0; i--) {
        const rsm_connections_t *of = topology->connections[i];
        for (int j = 0; j < of->hdr.remote_cntlr_count; j++)
            if (of->remote_cntlr[j].remote_nodeid == node) {
                OK(rsm_get_controller(of->hdr.cntlr_name, ctl));
                rsm_free_interconnect_topology(topology);
                return;
            }
    }
    fprintf(stderr, "FAIL: no controller leads to node %u\n", node);
    exit(1);
}

#endif
