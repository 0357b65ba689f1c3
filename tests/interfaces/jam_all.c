// interface: jam
// ranks: 1 2 3 8
// settings: FARPOST_JAM_RPC_MAX=200000
// JAM's mechanisms without MPI: messages, batches, blocks, procedures, and what is refused.
#include "check.h"
#include <farpost/jam.h>
#include <string.h>

enum { PING = 1, PONG = 2, SUM = 3, DONE = 4 };

static unsigned pongs, done;
static unsigned long long sum, sums;

static void ping(uint32_t from, const void *argument, size_t size, void *context) {
    CHECK(context == &pongs);
    CHECK(JAM_rpc(from, PONG, argument, size) == JAM_OK);
}

static void pong(uint32_t from, const void *argument, size_t size, void *context) {
    const unsigned char *bytes = argument;
    (void)from, (void)context;
    for (size_t i = 0; i < size; i++)
        CHECK(bytes[i] == (unsigned char)(size + i));
    pongs++;
}

static void add(uint32_t from, const void *argument, size_t size, void *context) {
    unsigned number;
    (void)context;
    CHECK(size == sizeof number);
    memcpy(&number, argument, size);
    sum += number + 1000u * from;
    sums++;
}

static void count_done(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)context;
    CHECK(size == 0);
    done++;
}

/* A barrier of calls: everybody tells everybody. */
static void meet(void) {
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, DONE, NULL, 0) == JAM_OK);
    while (done < JAM_size)
        JAM_poll();
    done -= JAM_size;
}

static void procedures(void) {
    static unsigned char argument[100000];
    const size_t sizes[] = {0, 1, 16, 83, 84, 85, 172, 2048, 2049, 9999, 100000};
    unsigned wanted = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t to = 0; to < JAM_size; to++) {
            for (size_t i = 0; i < sizes[s]; i++)
                argument[i] = (unsigned char)(sizes[s] + i);
            CHECK(JAM_rpc(to, PING, argument, sizes[s]) == JAM_OK);
            memset(argument, 0, sizes[s]);
            wanted++;
        }
    while (pongs < wanted)
        JAM_poll();
    meet();
    for (unsigned n = 0; n < 1000; n++)
        CHECK(JAM_rpc((JAM_me + n) % JAM_size, SUM, &n, sizeof n) == JAM_OK);
    /* Everybody gets a thousand calls in all, if the processes divide it. */
    meet();
    meet();
    CHECK(sums > 0);
}

static void messages(void) {
    const uint32_t next = (JAM_me + 1) % JAM_size, before = (JAM_me + JAM_size - 1) % JAM_size;
    uint32_t sent = 0, got = 0;
    while (got < 2000 || sent < 2000) {
        const uint32_t status = JAM_status();
        for (uint32_t room = status >> 24; room > 0 && sent < 2000; room--, sent++) {
            uint32_t words[22];
            const int count = 2 + (int)(sent % 21);
            for (int i = 0; i < count; i++)
                words[i] = sent * 22u + (uint32_t)i;
            CHECK(JAM_send(next, JAM_LOW, 5 * JAM_UP_ROUTE, sent, words, count) == JAM_OK);
        }
        JAM_message message;
        while (JAM_receive(JAM_LOW, &message)) {
            CHECK(message.from == before && message.tag == got && message.priority == JAM_LOW);
            CHECK(message.count == 2 + (int)(got % 21));
            for (int i = 0; i < message.count; i++)
                CHECK(message.words[i] == got * 22u + (uint32_t)i);
            got++;
        }
    }
    meet();
}

static uint32_t in_batches[64];

static void take(uint32_t from, uint32_t tag, const uint32_t *words, int count, void *context) {
    CHECK(context == in_batches && from < JAM_size && tag == in_batches[from]++);
    CHECK(count == 2 + (int)(tag % 21) && words[0] == tag && words[count - 1] == tag);
}

static void batches(void) {
    uint32_t all = 0;
    for (uint32_t to = 0; to < JAM_size; to++) {
        JAM_batch *batch = JAM_batch_create(to);
        for (uint32_t n = 0; n < 500; n++) {
            uint32_t words[22];
            for (int i = 0; i < 22; i++)
                words[i] = n;
            CHECK(JAM_batch_push(batch, n, words, 2 + (int)(n % 21)) == JAM_OK);
            if (n % 100 == 99)
                for (int code; (code = JAM_batch_launch(batch)) != JAM_OK;) {
                    CHECK(code == JAM_AGAIN);
                    all += (uint32_t)JAM_batch_receive(50, take, in_batches);
                }
        }
        JAM_batch_free(batch);
    }
    while (all < 500 * JAM_size)
        all += (uint32_t)JAM_batch_receive(1000, take, in_batches);
    meet();
}

static void blocks(void) {
    enum { BYTES = 300000 };
    const uint32_t next = (JAM_me + 1) % JAM_size, before = (JAM_me + JAM_size - 1) % JAM_size;
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    uint64_t transfer;
    for (int i = 0; i < BYTES; i++)
        out[i] = (unsigned char)(i * 7 + (int)JAM_me);
    CHECK(JAM_rdma_post(in, BYTES) == JAM_OK);
    CHECK(JAM_rdma_send(next, 5 + JAM_me, out, BYTES, &transfer) == JAM_OK);
    JAM_block block;
    while (!JAM_rdma_receive(&block))
        ;
    CHECK(block.from == before && block.tag == 5 + before && block.buffer == in && block.size == BYTES);
    for (int i = 0; i < BYTES; i++)
        CHECK(in[i] == (unsigned char)(i * 7 + (int)before));
    int code;
    while ((code = JAM_rdma_test(transfer)) == JAM_AGAIN)
        ;
    CHECK(code == JAM_OK);
    CHECK(JAM_rdma_test(transfer) == JAM_EINVAL);
    meet();
    /* Too long for what is posted: the sender hears it. */
    CHECK(JAM_rdma_post(in, 10) == JAM_OK);
    CHECK(JAM_rdma_send(next, 0, out, 11, &transfer) == JAM_OK);
    while ((code = JAM_rdma_test(transfer)) == JAM_AGAIN)
        ;
    CHECK(code == JAM_ELENGTH && strstr(JAM_error(), "11 bytes"));
    meet();
    /* And so does the receiver. */
    char sentence[200];
    uint32_t process;
    CHECK(JAM_next_fault(&process, sentence, sizeof sentence) == 1 && process == before);
    CHECK(strstr(sentence, "11") && strstr(sentence, "10"));
    meet();
    /* The memory is still posted, and can be taken back; a block then waits for other memory. */
    CHECK(JAM_rdma_withdraw(in) == JAM_OK && JAM_rdma_withdraw(in) == JAM_EINVAL);
    meet();
    CHECK(JAM_rdma_send(next, 6, out, 3000, &transfer) == JAM_OK);
    meet();
    CHECK(!JAM_rdma_receive(&block) && JAM_rdma_test(transfer) == JAM_AGAIN);
    meet();
    CHECK(JAM_rdma_post(in + 1000, 4000) == JAM_OK);
    while ((code = JAM_rdma_test(transfer)) == JAM_AGAIN)
        ;
    CHECK(code == JAM_OK);
    meet();
    CHECK(JAM_rdma_withdraw(in + 1000) == JAM_AGAIN);
    CHECK(JAM_rdma_receive(&block) && block.buffer == in + 1000 && block.tag == 6 && block.size == 3000);
    CHECK(JAM_rdma_withdraw(in + 1000) == JAM_EINVAL);
    meet();
    /* Nothing at all goes to memory of no bytes, which is known by its address afterwards, as before. */
    CHECK(JAM_rdma_post(in + 7, 0) == JAM_OK && JAM_rdma_withdraw(in + 7) == JAM_OK && JAM_rdma_post(in + 7, 0) == JAM_OK);
    CHECK(JAM_rdma_send(next, 8, NULL, 0, &transfer) == JAM_OK);
    while (!JAM_rdma_receive(&block))
        ;
    CHECK(block.from == before && block.tag == 8 && block.buffer == in + 7 && block.size == 0);
    while ((code = JAM_rdma_test(transfer)) == JAM_AGAIN)
        ;
    CHECK(code == JAM_OK && JAM_rdma_withdraw(in + 7) == JAM_EINVAL);
    meet();
    free(out);
    free(in);
}

/* Calls with arguments longer than FARPOST_JAM_RPC_MAX, where that is set, are refused at once; none is lost later. */
static void long_calls(void) {
    const char *setting = getenv("FARPOST_JAM_RPC_MAX");
    uint32_t to = 0, procedure = 0;
    size_t size = 0;
    if (setting != NULL && JAM_size > 1) {
        const size_t most = strtoul(setting, NULL, 10);
        unsigned char *argument = calloc(1, most + 1);
        CHECK(JAM_rpc((JAM_me + 1) % JAM_size, PING, argument, most + 1) == JAM_ELENGTH);
        CHECK(strstr(JAM_error(), "FARPOST_JAM_RPC_MAX"));
        free(argument);
    }
    CHECK(JAM_failed_call(&to, &procedure, &size) == JAM_OK);
    CHECK(JAM_calls(JAM_BY_MESSAGES) + JAM_calls(JAM_BY_BLOCK) + JAM_calls(JAM_BY_ITSELF) > 0 && JAM_calls(7) == 0);
    CHECK((JAM_calls(JAM_BY_BLOCK) > 0) == (JAM_size > 1));
    meet();
}

static void refused(void) {
    uint32_t words[22] = {0};
    JAM_message message;
    CHECK(JAM_send(JAM_size, JAM_LOW, 0, 0, words, 2) == JAM_EPEER && strstr(JAM_error(), "does not exist"));
    CHECK(JAM_send(0, JAM_LOW, 0, 0, words, 1) == JAM_ELENGTH && strstr(JAM_error(), "count=1"));
    CHECK(JAM_send(0, JAM_LOW, 0, 0, words, 23) == JAM_ELENGTH);
    CHECK(JAM_send(0, 2, 0, 0, words, 2) == JAM_EINVAL);
    CHECK(JAM_send(0, JAM_LOW, 8, 0, words, 2) == JAM_EINVAL);
    CHECK(JAM_send(0, JAM_LOW, 16 * JAM_UP_ROUTE, 0, words, 2) == JAM_EINVAL);
    CHECK(JAM_send(0, JAM_LOW, 0, 0, NULL, 2) == JAM_EINVAL);
    CHECK(JAM_receive(7, &message) == 0 && JAM_receive(JAM_LOW, NULL) == 0);
    CHECK(JAM_rpc(JAM_size + 3, PING, words, 4) == JAM_EPEER);
    CHECK(JAM_rpc(0, 65280, words, 4) == JAM_EPROCEDURE);
    CHECK(JAM_rpc(0, PING, NULL, 4) == JAM_EINVAL);
    CHECK(JAM_register(65280, ping, NULL) == JAM_EPROCEDURE && JAM_register(9, NULL, NULL) == JAM_EINVAL);
    CHECK(JAM_batch_launch(NULL) == JAM_EINVAL && JAM_batch_receive(1, NULL, NULL) == 0);
    CHECK(JAM_rdma_send(0, 0, NULL, 4, NULL) == JAM_EINVAL && JAM_rdma_post(NULL, 4) == JAM_EINVAL);
    CHECK(JAM_rdma_test(12345) == JAM_EINVAL);
    /* A procedure that nobody registered: the caller is counted there, and the next call still arrives. */
    const uint64_t before = JAM_refused();
    const uint32_t next = (JAM_me + 1) % JAM_size;
    meet();
    CHECK(JAM_rpc(next, 4711, words, 4) == JAM_OK);
    meet();
    while (JAM_refused() == before)
        JAM_poll();
    CHECK(JAM_refused() == before + 1);
    /* Who and what, once. */
    uint32_t process = 99;
    char sentence[200];
    CHECK(JAM_next_fault(&process, sentence, sizeof sentence) == 1);
    CHECK(process == (JAM_me + JAM_size - 1) % JAM_size);
    CHECK(strstr(sentence, "0x1267") != NULL && strstr(sentence, "procedure") != NULL);
    CHECK(JAM_next_fault(&process, sentence, sizeof sentence) == 0);
    meet();
}

int main(void) {
    CHECK(JAM_poll() == 0 && JAM_rpc(0, PING, NULL, 0) == JAM_ESTATE);
    CHECK(strstr(JAM_error(), "JAM_initialize"));
    JAM_initialize();
    CHECK(JAM_me < JAM_size && JAM_size <= 64);
    CHECK(JAM_register(PING, ping, &pongs) == JAM_OK && JAM_register(PONG, pong, NULL) == JAM_OK);
    CHECK(JAM_register(SUM, add, NULL) == JAM_OK && JAM_register(DONE, count_done, NULL) == JAM_OK);
    meet();
    procedures();
    messages();
    batches();
    blocks();
    long_calls();
    refused();
    JAM_finalize();
    return 0;
}
