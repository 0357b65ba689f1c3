/* What providers demand, promise and take, from libfabric's sources. */
#define UNLIMITED ((size_t)-1)
#define WITHOUT_ORDER 0

struct personality {
	const char *name;       /* as the provider calls itself */
	int mr_mode;
	size_t key_size;
	size_t inject_size;
	size_t max_msg_size;
	size_t queue;           /* operations that an endpoint takes; 0: as many as a size_t counts */
	uint64_t mode;          /* FI_CONTEXT, FI_CONTEXT2 */
	uint64_t msg_order;     /* what is promised */
	bool no_descriptor;     /* no FI_WAIT_FD */
	bool pins;              /* a registration is the pages of that moment */
	unsigned again;         /* one operation of so many is told FI_EAGAIN; 0: none */
	unsigned delay;         /* one completion of so many is held back and overtaken by others; 0: none */
	unsigned fail;          /* after so many transfers each one fails; 0: none */
	unsigned lose;          /* after so many sends each one fails; 0: none */
};

static const struct personality all_of_them[] = {
	/* prov/verbs/src/verbs_info.c: OFI_MR_BASIC_MAP | FI_MR_LOCAL, keys of the size of an lkey, SAS and SAW; prov/rxm adds
	 * FI_CONTEXT and leaves registration modes to the core. Small inject_size as adapters have, max_msg_size of a QP. */
	{ "verbs;ofi_rxm", FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, 4, 64, 1 << 30, 1024, FI_CONTEXT,
	  FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_RMA_WAW, .pins = true, .again = 7 },
	/* prov/efa/src/efa_prov_info.c, efa_prov_info_set_rdm: no FI_MR_LOCAL, messages ordered by a buffer, nothing between
	 * messages and writes. */
	{ "efa", FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, 4, 8192, UNLIMITED, 4096, 0, FI_ORDER_SAS, .pins = true,
	  .again = 5, .delay = 3 },
	/* The same file, efa_prov_info_set_direct: the device itself. FI_MR_LOCAL, FI_CONTEXT2, EFA_MSG_ORDER 0, a message is what
	 * the port takes, 32 bytes inline. */
	{ "efa-direct", FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, 4, 32, 8928, 256, FI_CONTEXT2, WITHOUT_ORDER,
	  .pins = true, .again = 5, .delay = 3 },
	/* prov/cxi/src/cxip_info.c: cxip_prov_key_domain_attr, cxip_ep_attr; C_MAX_IDC_PAYLOAD_UNR. Keys are known when enabled. */
	{ "cxi", FI_MR_PROV_KEY | FI_MR_ALLOCATED | FI_MR_ENDPOINT, 8, 192, UINT32_MAX, 1024, 0,
	  FI_ORDER_SAS | FI_ORDER_WAW | FI_ORDER_RMA_WAW, .pins = true, .again = 9, .delay = 5 },
	/* prov/psm3/src/psmx3_attr.c: FI_CONTEXT, inject_size 64, sizes UINT64_MAX; keys are ours, positions offsets. */
	{ "psm3", 0, 8, 64, (1u << 30) & ~0xfff, 0, FI_CONTEXT, FI_ORDER_SAS, .no_descriptor = true, .again = 4, .delay = 4 },
	/* prov/opx: fi_opx.h, FI_OPX_DEFAULT_MSG_ORDER has atomics only; fi_opx_hfi1_packet.h, FI_OPX_HFI1_PACKET_IMM. */
	{ "opx", 0, 8, 16, UNLIMITED, 128, 0, WITHOUT_ORDER, .no_descriptor = true, .delay = 2 },
	/* All demands at once, in little room: none such exists. */
	{ "narrow", FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT, 4, 0, 1000, 4, FI_CONTEXT | FI_CONTEXT2,
	  WITHOUT_ORDER, .no_descriptor = true, .pins = true, .again = 2, .delay = 2 },
	/* Errors on completions. */
	{ "failing", FI_MR_LOCAL | FI_MR_PROV_KEY, 8, 64, UNLIMITED, 1024, 0, FI_ORDER_SAS, .fail = 3 },
	{ "losing", 0, 8, 0, UNLIMITED, 1024, 0, FI_ORDER_SAS, .lose = 40 },
};
