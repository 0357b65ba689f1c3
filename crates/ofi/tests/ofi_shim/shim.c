/* A stand-in for libfabric.so.1 that makes the real library's tcp provider behave as a provider of an adapter does:
 * the demands that adapters make on their callers, and the liberties that they take, as libfabric's sources and manual
 * pages have them (fi_mr(3), fi_domain(3), fi_endpoint(3); the provider's own sources, named below). What a caller may not do is
 * counted as a violation and told on standard error; tests ask for the counts.
 *
 * Built by the tests once per personality: -DPERSONALITY='"efa"' -DREAL='"libfabric.so.1"'. One thread per endpoint.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "personalities.h"

static const struct personality *me;

/* What tests ask for. */
struct shim_counts {
	uint64_t violations, registrations, alive, transfers, sends, injects, again, delayed, failed;
};
static struct shim_counts counts;
void shim_counts(struct shim_counts *to) { *to = counts; }
#define COUNT(what) __atomic_fetch_add(&counts.what, 1, __ATOMIC_RELAXED)

__attribute__((format(printf, 1, 2))) static void violation(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fprintf(stderr, "libfabric shim (%s): ", me->name);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	COUNT(violations);
}

/* The same for every run. */
static unsigned one_of(unsigned many)
{
	static __thread uint64_t state = 88172645463325252ull;
	if (!many)
		return 1;
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state % many;
}

/* The real library. */
static int (*real_getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
static void (*real_freeinfo)(struct fi_info *);
static struct fi_info *(*real_dupinfo)(const struct fi_info *);
static int (*real_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
static uint32_t (*real_version)(void);
static const char *(*real_strerror)(int);
static char real_name[64];     /* written once, under originals_lock, before anybody reads it */

__attribute__((constructor)) static void load(void)
{
	for (size_t i = 0; i < sizeof(all_of_them) / sizeof(*all_of_them); i++)
		if (!strcmp(all_of_them[i].name, PERSONALITY))
			me = &all_of_them[i];
	void *real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
	if (!me || !real)
		return;
	real_getinfo = dlsym(real, "fi_getinfo"), real_freeinfo = dlsym(real, "fi_freeinfo");
	real_dupinfo = dlsym(real, "fi_dupinfo"), real_fabric = dlsym(real, "fi_fabric");
	real_version = dlsym(real, "fi_version"), real_strerror = dlsym(real, "fi_strerror");
}

uint32_t fi_version(void) { return real_version ? real_version() : 0; }
const char *fi_strerror(int code) { return real_strerror(code); }
struct fi_info *fi_dupinfo(const struct fi_info *info) { return real_dupinfo(info); }
void fi_freeinfo(struct fi_info *info) { real_freeinfo(info); }

/* Whether the real provider is asked for addresses and keys of its own. */
static bool basic(void) { return me->mr_mode & FI_MR_VIRT_ADDR; }

static void dress(struct fi_info *info)
{
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = strdup(me->name);
	info->mode = info->tx_attr->mode = info->rx_attr->mode = me->mode;
	info->domain_attr->mr_mode = me->mr_mode;
	info->domain_attr->mr_key_size = me->key_size;
	info->tx_attr->inject_size = me->inject_size;
	info->tx_attr->size = info->rx_attr->size = me->queue ? me->queue : (size_t)-1;
	info->tx_attr->msg_order = info->rx_attr->msg_order = me->msg_order;
	info->ep_attr->max_msg_size = me->max_msg_size;
	if (!(me->msg_order & FI_ORDER_WAW))
		info->ep_attr->max_order_waw_size = 0;
}

/* Descriptions as the real provider made them. */
static struct fi_info *originals;
static pthread_mutex_t originals_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether `one`, an original, is what `info` was. */
static bool same(const struct fi_info *one, const struct fi_info *info)
{
	return one->src_addrlen == info->src_addrlen && !memcmp(one->src_addr, info->src_addr, info->src_addrlen) &&
	       !strcmp(one->domain_attr->name, info->domain_attr->name) && one->caps == info->caps;
}

static void keep(const struct fi_info *info)
{
	struct fi_info *copy = real_dupinfo(info);
	pthread_mutex_lock(&originals_lock);
	copy->next = originals, originals = copy;
	pthread_mutex_unlock(&originals_lock);
}

/* As the real provider wants it. To be given back. */
static struct fi_info *undress(const struct fi_info *info)
{
	struct fi_info *found = NULL;
	pthread_mutex_lock(&originals_lock);
	for (struct fi_info *one = originals; one && !found; one = one->next)
		if (same(one, info))
			found = real_dupinfo(one);
	pthread_mutex_unlock(&originals_lock);
	return found ? found : real_dupinfo(info);
}

/* There may be several, one layered over the other, and threads that ask at the same time: all play on the same, the last that was
 * found first. */
static void settle_on(const struct fi_info *found)
{
	pthread_mutex_lock(&originals_lock);
	if (!*real_name)
		for (; found; found = found->next)
			if (!strncmp(found->fabric_attr->prov_name, "tcp", 3))
				snprintf(real_name, sizeof real_name, "%s", found->fabric_attr->prov_name);
	pthread_mutex_unlock(&originals_lock);
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
	       struct fi_info **list)
{
	*list = NULL;
	if (flags & FI_PROV_ATTR_ONLY)
		return -FI_ENODATA;
	if (hints) {
		int wanted = me->mr_mode, given = hints->domain_attr->mr_mode;
		uint64_t order = hints->tx_attr->msg_order | hints->rx_attr->msg_order;
		if ((wanted & given) != wanted || (me->mode & hints->mode) != me->mode || (order & me->msg_order) != order)
			return -FI_ENODATA;
	}
	struct fi_info *asked = hints ? real_dupinfo(hints) : real_dupinfo(NULL), *found = NULL;
	asked->ep_attr->type = FI_EP_RDM;
	asked->caps |= FI_MSG | FI_RMA;
	asked->mode |= FI_CONTEXT | FI_CONTEXT2;
	asked->domain_attr->mr_mode = basic() ? 1 : 0;
	asked->tx_attr->msg_order = asked->rx_attr->msg_order = FI_ORDER_SAS;
	int code = real_getinfo(version, node, service, flags, asked, &found);
	real_freeinfo(asked);
	if (code)
		return code;
	settle_on(found);
	struct fi_info **end = list;
	while (found) {
		struct fi_info *info = found;
		found = info->next;
		info->next = NULL;
		if (strcmp(info->fabric_attr->prov_name, real_name)) {
			real_freeinfo(info);
			continue;
		}
		if (hints)
			keep(info);
		dress(info);
		*end = info;
		end = &info->next;
	}
	return *list ? 0 : -FI_ENODATA;
}

/* Objects: what the caller sees, then ours. */
struct domain;
struct fabric { struct fid_fabric fid; struct fid_fabric *real; };
struct av { struct fid_av fid; struct fid_av *real; };
struct held { struct fi_cq_msg_entry entry; struct held *next; };       /* a completion held back */
struct failure { struct fi_cq_err_entry entry; struct failure *next; };
struct cq {
	struct fid_cq fid;
	struct fid_cq *real;
	struct domain *domain;
	struct held *waiting;               /* taken from the real one and not yet handed out, oldest first */
	struct failure *failures;           /* of our making, and of the real one's */
};
/* An operation under way. The real library gets its address as the context, and may use the beginning. */
struct flight {
	struct fi_context2 room;
	unsigned char *context;         /* the caller's */
	unsigned char mark;             /* what we filled it with */
	struct ep *ep;
	struct mr *mr;                  /* registration of the caller's buffer */
	bool receives, fails;
	void *copy;                     /* of what was injected, which nobody is told of */
	struct flight *next;
};
struct ep {
	struct fid_ep fid;
	struct fid_ep *real;
	struct domain *domain;
	struct cq *cq;
	struct ep *next;
	struct flight *flights;
	size_t taken[2];                /* operations under way: sends and transfers, receives */
	uint64_t transfers, sends;
};
struct mr {
	struct fid_mr fid;
	struct fid_mr *real;
	struct domain *domain;
	struct mr *next, *another;
	const char *at;
	size_t len;
	uint64_t access;
	bool bound, enabled;
	int pages[2];       /* a pipe that holds the first page of what was registered */
	size_t pinned;
	char *there;
};
struct domain { struct fid_domain fid; struct fid_domain *real; struct mr *registered; struct ep *eps; uint64_t next_key; };


static int not_ours(void) { return -FI_ENOSYS; }

#include "memory.h"

/* Operations. */

/* Stands for the context of what is injected. */
static char injected[1];

/* A context for the real library, or NULL: not now. */
static struct flight *depart(struct ep *ep, void *context, struct mr *mr, bool receives)
{
	size_t limit = me->queue ? me->queue : (size_t)-1;
	if (!one_of(me->again) || ep->taken[receives] >= limit) {
		COUNT(again);
		return NULL;
	}
	size_t room = me->mode & FI_CONTEXT2 ? sizeof(struct fi_context2) : me->mode & FI_CONTEXT ? sizeof(struct fi_context) : 0;
	if (room && context != injected) {
		for (struct flight *one = ep->flights; one; one = one->next)
			if (one->context == context)
				violation("a context is used again while its operation is under way");
		if (!context)
			violation("no context");
	}
	struct flight *one = calloc(1, sizeof(*one));
	one->context = context == injected ? NULL : context, one->ep = ep, one->mr = mr, one->receives = receives;
	static __thread unsigned char mark;
	one->mark = ++mark;
	if (one->context)
		memset(context, one->mark, room);
	one->next = ep->flights, ep->flights = one;
	ep->taken[receives]++;
	return one;
}

static void arrive(struct flight *one)
{
	struct ep *ep = one->ep;
	size_t room = me->mode & FI_CONTEXT2 ? sizeof(struct fi_context2) : me->mode & FI_CONTEXT ? sizeof(struct fi_context) : 0;
	for (size_t i = 0; one->context && i < room; i++)
		if (one->context[i] != one->mark) {
			violation("a context was written to while its operation was under way");
			break;
		}
	for (struct flight **at = &ep->flights; *at; at = &(*at)->next)
		if (*at == one) {
			*at = one->next;
			break;
		}
	ep->taken[one->receives]--;
	free(one->copy);
	free(one);
}

/* After the real library's answer. */
static ssize_t answered(struct flight *one, ssize_t code)
{
	if (code) {
		memset(&one->room, 0, sizeof(one->room));
		arrive(one);
	}
	return code;
}

static void give_error(struct cq *cq, struct flight *one, int err, uint64_t flags)
{
	struct failure *failure = calloc(1, sizeof(*failure));
	failure->entry = (struct fi_cq_err_entry){ .op_context = one->context, .flags = flags, .err = err };
	struct failure **end = &cq->failures;
	while (*end)
		end = &(*end)->next;
	*end = failure;
	arrive(one);
	COUNT(failed);
}

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	struct ep *ep = (struct ep *)fid;
	struct mr *mr;
	if (!described(ep, desc, buf, len, FI_RECV, &mr))
		return -FI_EINVAL;
	struct flight *one = depart(ep, context, mr, true);
	return one ? answered(one, fi_recv(ep->real, buf, len, NULL, from, one)) : -FI_EAGAIN;
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
	struct ep *ep = (struct ep *)fid;
	struct mr *mr;
	if (len > me->max_msg_size) {
		violation("a message of %zu bytes, where %zu are allowed", len, me->max_msg_size);
		return -FI_EMSGSIZE;
	}
	if (!described(ep, desc, buf, len, FI_SEND, &mr))
		return -FI_EINVAL;
	struct flight *one = depart(ep, context, mr, false);
	if (!one)
		return -FI_EAGAIN;
	if (me->lose && ++ep->sends > me->lose) {
		give_error(ep->cq, one, FI_EIO, FI_MSG | FI_SEND);
		return 0;
	}
	ssize_t code = fi_send(ep->real, buf, len, NULL, to, one);
	if (!code)
		COUNT(sends);
	return answered(one, code);
}

static ssize_t ep_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	struct ep *ep = (struct ep *)fid;
	if (len > me->inject_size) {
		violation("%zu bytes injected, where %zu are allowed", len, me->inject_size);
		return -FI_EINVAL;
	}
	struct flight *one = depart(ep, injected, NULL, false);
	if (!one)
		return -FI_EAGAIN;
	/* A copy, because the real one may inject less. */
	one->copy = malloc(len);
	memcpy(one->copy, buf, len);
	ssize_t code = fi_send(ep->real, one->copy, len, NULL, to, one);
	if (!code)
		COUNT(injects);
	return answered(one, code);
}

static ssize_t transfer(struct ep *ep, const struct fi_msg_rma *msg, uint64_t flags, bool reads)
{
	size_t len = msg->iov_count ? msg->msg_iov[0].iov_len : 0;
	struct mr *mr;
	if (len > me->max_msg_size || msg->iov_count > 1 || msg->rma_iov_count != 1 || msg->rma_iov[0].len != len) {
		violation("a transfer of %zu bytes in %zu pieces", len, msg->iov_count);
		return -FI_EMSGSIZE;
	}
	if (!described(ep, msg->desc ? msg->desc[0] : NULL, msg->msg_iov[0].iov_base, len, reads ? FI_READ : FI_WRITE, &mr))
		return -FI_EINVAL;
	struct flight *one = depart(ep, msg->context, mr, false);
	if (!one)
		return -FI_EAGAIN;
	if (refused(msg->rma_iov[0].key, msg->rma_iov[0].addr, len, reads ? FI_REMOTE_READ : FI_REMOTE_WRITE)) {
		give_error(ep->cq, one, FI_EACCES, FI_RMA | (reads ? FI_READ : FI_WRITE));
		return 0;
	}
	struct fi_msg_rma real = *msg;
	real.desc = NULL, real.context = one;
	ssize_t code = reads ? fi_readmsg(ep->real, &real, flags) : fi_writemsg(ep->real, &real, flags);
	if (!code) {
		COUNT(transfers);
		one->fails = me->fail && ++ep->transfers > me->fail;
	}
	return answered(one, code);
}

static ssize_t ep_rma(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t addr, uint64_t key,
		      void *context, bool reads)
{
	struct iovec here = { buf, len };
	struct fi_rma_iov there = { addr, len, key };
	struct fi_msg_rma msg = { &here, &desc, 1, peer, &there, 1, context, 0 };
	return transfer((struct ep *)fid, &msg, FI_COMPLETION, reads);
}

static ssize_t ep_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr, uint64_t key,
		       void *context)
{
	return ep_rma(fid, buf, len, desc, from, addr, key, context, true);
}

static ssize_t ep_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr, uint64_t key,
			void *context)
{
	return ep_rma(fid, (void *)buf, len, desc, to, addr, key, context, false);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return transfer((struct ep *)fid, msg, flags, false);
}

static struct fi_ops_msg ep_msg_ops = { .size = sizeof(ep_msg_ops), .recv = ep_recv, .send = ep_send, .inject = ep_inject };
static struct fi_ops_rma ep_rma_ops = { .size = sizeof(ep_rma_ops), .read = ep_read, .write = ep_write, .writemsg = ep_writemsg };

/* Completions. */

static void take_error(struct cq *cq)
{
	struct { struct fi_cq_err_entry entry; uint64_t more[8]; } roomy;
	memset(&roomy, 0, sizeof roomy);
	if (fi_cq_readerr(cq->real, &roomy.entry, 0) != 1)
		return;
	struct failure *failure = calloc(1, sizeof(*failure));
	failure->entry = roomy.entry;
	struct flight *one = roomy.entry.op_context;
	failure->entry.op_context = one ? one->context : NULL;
	if (one)
		arrive(one);
	struct failure **end = &cq->failures;
	while (*end)
		end = &(*end)->next;
	*end = failure;
}

/* What the real queue has, behind what is held back. */
static ssize_t take(struct cq *cq)
{
	struct fi_cq_msg_entry entries[16];
	ssize_t got = fi_cq_read(cq->real, entries, 16);
	if (got == -FI_EAVAIL)
		take_error(cq);
	struct held **end = &cq->waiting;
	while (*end)
		end = &(*end)->next;
	for (ssize_t i = 0; i < got; i++) {
		struct flight *one = entries[i].op_context;
		if (one && one->copy) {
			arrive(one);
		} else if (one && one->fails) {
			give_error(cq, one, FI_EIO, entries[i].flags);
		} else {
			*end = calloc(1, sizeof(**end));
			(*end)->entry = entries[i];
			end = &(*end)->next;
		}
	}
	return got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct cq *cq = (struct cq *)fid;
	struct fi_cq_msg_entry *to = buf;
	ssize_t code = take(cq);
	if (cq->failures)
		return -FI_EAVAIL;
	if (code < 0 && code != -FI_EAGAIN && code != -FI_EAVAIL)
		return code;
	size_t given = 0;
	for (struct held **at = &cq->waiting; *at && given < count;) {
		/* No provider promises an order of completions; a message that comes in several parts is overtaken by short ones. */
		if (!one_of(me->delay)) {
			COUNT(delayed);
			at = &(*at)->next;
			continue;
		}
		struct held *held = *at;
		struct flight *one = held->entry.op_context;
		to[given] = held->entry;
		to[given++].op_context = one->context;
		arrive(one);
		*at = held->next;
		free(held);
	}
	if (cq->domain->registered)
		for (struct mr *mr = cq->domain->registered; mr; mr = mr->next)
			if ((mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && stale(mr))
				violation("memory is exposed that was mapped anew since it was registered");
	return given ? (ssize_t)given : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *to, uint64_t flags)
{
	struct cq *cq = (struct cq *)fid;
	struct failure *first = cq->failures;
	(void)flags;
	if (!first)
		return -FI_EAGAIN;
	*to = first->entry;
	cq->failures = first->next;
	free(first);
	return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int code, const void *data, char *buf, size_t len)
{
	return fi_cq_strerror(((struct cq *)fid)->real, code, data, buf, len);
}

static int cq_close(struct fid *fid)
{
	struct cq *cq = (struct cq *)fid;
	for (struct held *next, *held = cq->waiting; held; held = next)
		next = held->next, free(held);
	for (struct failure *next, *failure = cq->failures; failure; failure = next)
		next = failure->next, free(failure);
	int code = fi_close(&cq->real->fid);
	free(cq);
	return code;
}

static int cq_control(struct fid *fid, int command, void *arg) { return fi_control(&((struct cq *)fid)->real->fid, command, arg); }

static struct fi_ops cq_fid_ops = { sizeof(cq_fid_ops), cq_close, (void *)not_ours, cq_control, (void *)not_ours };
static struct fi_ops_cq cq_ops = { .size = sizeof(cq_ops), .read = cq_read, .readerr = cq_readerr, .strerror = cq_strerror };

static int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct domain *domain = (struct domain *)fid;
	if (attr->wait_obj == FI_WAIT_FD && me->no_descriptor)
		return -FI_ENOSYS;
	struct cq *cq = calloc(1, sizeof(*cq));
	struct fi_cq_attr real = *attr;
	/* The way of the real one that is well trodden. */
	real.wait_obj = FI_WAIT_FD;
	int code = fi_cq_open(domain->real, &real, &cq->real, NULL);
	if (code) {
		free(cq);
		return code;
	}
	cq->domain = domain;
	cq->fid.fid = (struct fid){ FI_CLASS_CQ, context, &cq_fid_ops };
	cq->fid.ops = &cq_ops;
	*out = &cq->fid;
	return 0;
}

/* Addresses, endpoints, domains. */

static int av_close(struct fid *fid)
{
	int code = fi_close(&((struct av *)fid)->real->fid);
	free(fid);
	return code;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *to, uint64_t flags, void *context)
{
	return fi_av_insert(((struct av *)fid)->real, addr, count, to, flags, context);
}

static struct fi_ops av_fid_ops = { sizeof(av_fid_ops), av_close, (void *)not_ours, (void *)not_ours, (void *)not_ours };
static struct fi_ops_av av_ops = { .size = sizeof(av_ops), .insert = av_insert };

static int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct av *av = calloc(1, sizeof(*av));
	int code = fi_av_open(((struct domain *)fid)->real, attr, &av->real, NULL);
	if (code) {
		free(av);
		return code;
	}
	av->fid.fid = (struct fid){ FI_CLASS_AV, context, &av_fid_ops };
	av->fid.ops = &av_ops;
	*out = &av->fid;
	return 0;
}

static int ep_close(struct fid *fid)
{
	struct ep *ep = (struct ep *)fid;
	int code = fi_close(&ep->real->fid);
	for (struct ep **at = &ep->domain->eps; *at; at = &(*at)->next)
		if (*at == ep) {
			*at = ep->next;
			break;
		}
	for (struct flight *next, *one = ep->flights; one; one = next)
		next = one->next, free(one->copy), free(one);
	free(ep);
	return code;
}

static int ep_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
	struct ep *ep = (struct ep *)fid;
	if (with->fclass == FI_CLASS_CQ)
		ep->cq = (struct cq *)with;
	struct fid *real = with->fclass == FI_CLASS_CQ ? &((struct cq *)with)->real->fid : &((struct av *)with)->real->fid;
	return fi_ep_bind(ep->real, real, flags);
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	return fi_control(&((struct ep *)fid)->real->fid, command, arg);
}

static int ep_getname(fid_t fid, void *addr, size_t *len) { return fi_getname(&((struct ep *)fid)->real->fid, addr, len); }

static struct fi_ops ep_fid_ops = { sizeof(ep_fid_ops), ep_close, ep_bind, ep_control, (void *)not_ours };
static struct fi_ops_cm ep_cm_ops = { .size = sizeof(ep_cm_ops), .getname = ep_getname };

static int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct domain *domain = (struct domain *)fid;
	struct ep *ep = calloc(1, sizeof(*ep));
	struct fi_info *real = undress(info);
	int code = fi_endpoint(domain->real, real, &ep->real, NULL);
	real_freeinfo(real);
	if (code) {
		free(ep);
		return code;
	}
	ep->domain = domain;
	ep->next = domain->eps, domain->eps = ep;
	ep->fid.fid = (struct fid){ FI_CLASS_EP, context, &ep_fid_ops };
	ep->fid.cm = &ep_cm_ops, ep->fid.msg = &ep_msg_ops, ep->fid.rma = &ep_rma_ops;
	*out = &ep->fid;
	return 0;
}

static int domain_close(struct fid *fid)
{
	struct domain *domain = (struct domain *)fid;
	if (domain->registered)
		violation("a domain is closed before its registrations");
	int code = fi_close(&domain->real->fid);
	free(domain);
	return code;
}

static struct fi_ops domain_fid_ops = { sizeof(domain_fid_ops), domain_close, (void *)not_ours, (void *)not_ours, (void *)not_ours };
static struct fi_ops_domain domain_ops = { .size = sizeof(domain_ops), .av_open = av_open, .cq_open = cq_open, .endpoint = ep_open };
static struct fi_ops_mr domain_mr_ops = { .size = sizeof(domain_mr_ops), .reg = mr_reg };

static int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
	struct domain *domain = calloc(1, sizeof(*domain));
	struct fi_info *real = undress(info);
	int code = fi_domain(((struct fabric *)fid)->real, real, &domain->real, NULL);
	real_freeinfo(real);
	if (code) {
		free(domain);
		return code;
	}
	domain->fid.fid = (struct fid){ FI_CLASS_DOMAIN, context, &domain_fid_ops };
	domain->fid.ops = &domain_ops, domain->fid.mr = &domain_mr_ops;
	*out = &domain->fid;
	return 0;
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct cq *cq = (struct cq *)fids[0];
	struct fid *real = &cq->real->fid;
	if (count != 1 || cq->waiting || cq->failures)
		return -FI_EAGAIN;
	return fi_trywait(((struct fabric *)fid)->real, &real, 1);
}

static int fabric_close(struct fid *fid)
{
	int code = fi_close(&((struct fabric *)fid)->real->fid);
	free(fid);
	return code;
}

static struct fi_ops fabric_fid_ops = { sizeof(fabric_fid_ops), fabric_close, (void *)not_ours, (void *)not_ours, (void *)not_ours };
static struct fi_ops_fabric fabric_ops = { .size = sizeof(fabric_ops), .domain = domain_open, .trywait = fabric_trywait };

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));
	char *dressed = attr->prov_name;
	attr->prov_name = real_name;
	int code = real_fabric(attr, &fabric->real, NULL);
	attr->prov_name = dressed;
	if (code) {
		free(fabric);
		return code;
	}
	fabric->fid.fid = (struct fid){ FI_CLASS_FABRIC, context, &fabric_fid_ops };
	fabric->fid.ops = &fabric_ops;
	*out = &fabric->fid;
	return 0;
}
