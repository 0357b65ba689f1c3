// interface: jam
// ranks: 2 3
/* Remote procedures: every process asks every other for the square of a number; answers are calls back.
 *
 *   mpicc jam_rpc.c -o jam_rpc && mpiexec -n 3 ./jam_rpc
 */
#include <farpost/jam.h>
#include <stdio.h>
#include <string.h>

enum { SQUARE = 1, ANSWER = 2 };

struct question {
    double number;
};

static unsigned answers, asked;

static void square(uint32_t from, const void *argument, size_t size, void *context) {
    struct question question;
    (void)size, (void)context;
    memcpy(&question, argument, sizeof question);
    question.number *= question.number;
    JAM_rpc(from, ANSWER, &question, sizeof question);
    asked++;
}

static void answer(uint32_t from, const void *argument, size_t size, void *context) {
    struct question question;
    (void)size, (void)context;
    memcpy(&question, argument, sizeof question);
    printf("process %u: process %u says %g\n", JAM_me, from, question.number);
    answers++;
}

int main(void) {
    JAM_initialize();
    JAM_register(SQUARE, square, NULL);
    JAM_register(ANSWER, answer, NULL);
    for (uint32_t to = 0; to < JAM_size; to++) {
        const struct question question = {1.5 + JAM_me};
        if (JAM_rpc(to, SQUARE, &question, sizeof question) != JAM_OK) {
            fprintf(stderr, "%s\n", JAM_error());
            return 1;
        }
    }
    while (answers < JAM_size || asked < JAM_size)
        JAM_poll();
    JAM_finalize();
    return 0;
}
