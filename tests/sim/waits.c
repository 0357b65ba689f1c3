// interface: jam
// Process 0 waits for a descriptor, which nobody makes readable if there is an argument.
#include <farpost/jam.h>
#include <poll.h>
#include <stdio.h>

int main(int argc, char **argv) {
    (void)argv;
    JAM_initialize();
    const uint32_t words[2] = {1, 2};
    if (JAM_me == 0) {
        struct pollfd polled = {JAM_descriptor(), POLLIN, 0};
        JAM_message message;
        while (JAM_arm() == JAM_OK) {
            const int ready = poll(&polled, 1, argc > 1 ? 1500 : -1);
            if (ready == 0) break;
        }
        printf("%s\n", JAM_receive(JAM_HIGH, &message) ? "came" : "nothing");
    } else if (argc == 1) {
        while (JAM_send(0, JAM_HIGH, 0, 0, words, 2) == JAM_AGAIN) JAM_poll();
    }
    JAM_finalize();
    return 0;
}
