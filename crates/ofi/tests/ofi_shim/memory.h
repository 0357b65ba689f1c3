/* Registrations: who may do what with them, and whether they still mean what is mapped. */

static bool readable(const char *at, char *to, size_t len)
{
	struct iovec here = { to, len }, there = { (void *)at, len };
	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)len;
}

static size_t first_page(const struct mr *mr)
{
	size_t left = 4096 - ((uintptr_t)mr->at & 4095);
	return left < mr->len ? left : mr->len;
}

/* Hold on to the page that is there now, as an adapter does: a pipe keeps the page itself, not a copy. */
static void pin(struct mr *mr)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)mr->at, 1 };
	/* The page of zeroes that all untouched memory shares would be left at the first store. */
	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1 || process_vm_writev(getpid(), &here, 1, &there, 1, 0) != 1)
		return;
	if (pipe2(mr->pages, O_CLOEXEC | O_NONBLOCK))
		return;
	struct iovec page = { (void *)mr->at, first_page(mr) };
	ssize_t got = vmsplice(mr->pages[1], &page, 1, 0);
	mr->pinned = got > 0 ? (size_t)got : 0;
}

static void unpin(struct mr *mr)
{
	if (mr->pages[0] >= 0)
		close(mr->pages[0]), close(mr->pages[1]);
}

/* Whether other pages lie there now. */
static bool stale(const struct mr *mr)
{
	char kept[4096], there[4096];
	int copy[2];
	if (!mr->pinned || !readable(mr->at, there, mr->pinned) || pipe2(copy, O_CLOEXEC | O_NONBLOCK))
		return false;
	bool differ = tee(mr->pages[0], copy[1], mr->pinned, SPLICE_F_NONBLOCK) == (ssize_t)mr->pinned &&
		      read(copy[0], kept, mr->pinned) == (ssize_t)mr->pinned && memcmp(kept, there, mr->pinned);
	close(copy[0]), close(copy[1]);
	return differ;
}

/* All registrations of this process, whichever endpoint's. */
static struct mr *everybody;
static pthread_mutex_t everybody_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether a peer's adapter would refuse: the key is one of this process's, and none of that key has such a place for such a use. The
 * real provider would break the connection. */
static bool refused(uint64_t key, uint64_t addr, size_t len, uint64_t access)
{
	bool known = false, granted = false;
	pthread_mutex_lock(&everybody_lock);
	for (struct mr *mr = everybody; mr; mr = mr->another) {
		uint64_t base = basic() ? (uintptr_t)mr->at : 0;
		if (!mr->enabled || mr->fid.key != key || !(mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
			continue;
		known = true;
		granted |= (mr->access & access) && addr >= base && addr - base <= mr->len && len <= mr->len - (addr - base);
	}
	pthread_mutex_unlock(&everybody_lock);
	return known && !granted;
}

static int activate(struct mr *mr)
{
	uint64_t key = mr->fid.key;
	if (me->mr_mode & FI_MR_PROV_KEY)
		key = ++mr->domain->next_key * 7;
	else if (me->key_size < 8 && key >> (8 * me->key_size))
		violation("a key of more than %zu bytes is asked for", me->key_size);
	int code = mr->domain->real->mr->reg(&mr->domain->real->fid, mr->at, mr->len, mr->access, 0, key, 0, &mr->real, NULL);
	if (code)
		return code;
	mr->enabled = true;
	mr->fid.key = mr->real->key;
	mr->fid.mem_desc = mr;
	if (me->pins)
		pin(mr);
	return 0;
}

static int mr_close(struct fid *fid)
{
	struct mr *mr = (struct mr *)fid;
	struct domain *domain = mr->domain;
	if (mr->pinned && (mr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && stale(mr))
		violation("memory was exposed until after it was unmapped");
	pthread_mutex_lock(&everybody_lock);
	for (struct mr **at = &everybody; *at; at = &(*at)->another)
		if (*at == mr) {
			*at = mr->another;
			break;
		}
	pthread_mutex_unlock(&everybody_lock);
	for (struct mr **at = &domain->registered; *at; at = &(*at)->next)
		if (*at == mr) {
			*at = mr->next;
			break;
		}
	for (struct ep *ep = domain->eps; ep; ep = ep->next)
		for (struct flight *one = ep->flights; one; one = one->next)
			if (one->mr == mr)
				violation("a registration is closed under an operation");
	if (mr->real)
		fi_close(&mr->real->fid);
	unpin(mr);
	__atomic_fetch_sub(&counts.alive, 1, __ATOMIC_RELAXED);
	free(mr);
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
	struct mr *mr = (struct mr *)fid;
	(void)with, (void)flags;
	if (!(me->mr_mode & FI_MR_ENDPOINT) || mr->enabled)
		violation("a registration is bound that needs no binding");
	mr->bound = true;
	return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct mr *mr = (struct mr *)fid;
	(void)arg;
	if (command != FI_ENABLE || mr->enabled || !mr->bound) {
		violation("a registration is enabled that is %s", mr->enabled ? "enabled already" : "not bound");
		return -FI_EINVAL;
	}
	return activate(mr);
}

static struct fi_ops mr_ops = { sizeof(mr_ops), mr_close, mr_bind, mr_control, (void *)not_ours };

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
		  uint64_t flags, struct fid_mr **out, void *context)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	if (offset || flags || !len || !access)
		violation("an empty registration or one with an offset or flags");
	if (me->mr_mode & FI_MR_ALLOCATED) {
		char byte;
		for (size_t at = 0; at < len; at += 4096)
			if (!readable((const char *)buf + at, &byte, 1)) {
				violation("memory is registered that is not there");
				break;
			}
	}
	mr->fid.fid = (struct fid){ FI_CLASS_MR, context, &mr_ops };
	mr->fid.key = me->mr_mode & FI_MR_PROV_KEY ? FI_KEY_NOTAVAIL : requested_key;
	mr->domain = (struct domain *)fid;
	mr->at = buf, mr->len = len, mr->access = access;
	mr->pages[0] = mr->pages[1] = -1;
	if (!(me->mr_mode & FI_MR_ENDPOINT)) {
		int code = activate(mr);
		if (code) {
			free(mr);
			return code;
		}
	}
	mr->next = mr->domain->registered, mr->domain->registered = mr;
	pthread_mutex_lock(&everybody_lock);
	mr->another = everybody, everybody = mr;
	pthread_mutex_unlock(&everybody_lock);
	COUNT(registrations), COUNT(alive);
	*out = &mr->fid;
	return 0;
}

/* The registration that a caller gives with a buffer. False: it may not be used so. */
static bool described(struct ep *ep, void *desc, const void *buf, size_t len, uint64_t access, struct mr **found)
{
	*found = NULL;
	if (!desc) {
		if (len && (me->mr_mode & FI_MR_LOCAL)) {
			violation("%zu bytes without a descriptor", len);
			return false;
		}
		return true;
	}
	struct mr *mr;
	for (mr = ep->domain->registered; mr && mr != desc; mr = mr->next)
		;
	if (!mr || !mr->enabled) {
		violation("a descriptor that is none");
		return false;
	}
	if ((const char *)buf < mr->at || (const char *)buf + len > mr->at + mr->len || (mr->access & access) != access) {
		violation("a descriptor of other memory, or for other uses (%#llx for %#llx)", (unsigned long long)mr->access,
			  (unsigned long long)access);
		return false;
	}
	if (stale(mr))
		violation("an operation on memory that was mapped anew since it was registered");
	*found = mr;
	return true;
}
