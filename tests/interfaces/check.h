/* What the programs of this directory share: a check that says where it failed and ends the job. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

#endif
