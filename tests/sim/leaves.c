/* A thread waits for an event when its process leaves the job: it is told, and nobody waits for it. */
// interface: portals3
#include <farpost/portals3.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static ptl_handle_eq_t queue;

static void *waiter(void *unused) {
    ptl_event_t event;
    (void)unused;
    return (void *)(intptr_t)PtlEQWait(queue, &event);
}

int main(void) {
    int most;
    ptl_handle_ni_t ni;
    pthread_t thread;
    void *code;
    if (PtlInit(&most) != PTL_OK || PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) != PTL_OK)
        return 1;
    if (PtlEQAlloc(ni, 4, PTL_EQ_HANDLER_NONE, &queue) != PTL_OK || pthread_create(&thread, NULL, waiter, NULL) != 0)
        return 1;
    /* Most often it waits by then. */
    usleep(50000);
    PtlFini();
    if (pthread_join(thread, &code) != 0)
        return 1;
    const int told = (int)(intptr_t)code;
    puts(told == PTL_EQ_INVALID || told == PTL_NO_INIT ? "told" : "not told");
    return 0;
}
