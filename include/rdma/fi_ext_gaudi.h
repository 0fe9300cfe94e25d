/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fi_ext_gaudi.h - what the gaudi provider offers beyond libfabric's own interface.
 *
 * A program that knows nothing of Habana's libraries can find a Gaudi, allocate device memory, copy to
 * and from it and hand ranges of it to libfabric with this header alone:
 *
 *   struct fi_gaudi_ops *ops;
 *   uint64_t addr;
 *   fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, (void **) &ops, NULL);
 *   ops->alloc(domain, 1 << 20, &addr);
 *   ops->copy(domain, addr, (uint64_t) (uintptr_t) host, 1 << 20, FI_GAUDI_HOST_TO_DEVICE);
 *   fi_mr_regattr(domain, &attr, 0, &mr);    attr.iface = FI_HMEM_SYNAPSEAI, iov_base = (void *) addr
 *
 * A device address is never valid for the CPU: dereferencing one is a fault. It is carried as uint64_t here
 * and cast to a pointer only where libfabric's interface asks for one.
 *
 * A Gaudi that the process has open already, by a call of its own, is used through a duplicate of that descriptor where
 * FI_GAUDI_DEVICE names it or nothing: as if it were adopted (adopt_device), but nothing has to be said.
 *
 * Every function returns 0 or a negative libfabric error code, may be called from any thread, and
 * needs the domain that the ops were opened on. The domain must stay open while any of its device memory,
 * copies or exported descriptors is in use, except that an exported descriptor survives it.
 */
#ifndef FI_EXT_GAUDI_H
#define FI_EXT_GAUDI_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name for fi_open_ops on a domain of the gaudi provider. */
#define FI_GAUDI_DOMAIN_OPS "gaudi_domain_ops_1"

/*
 * Option of an FI_EP_RDM endpoint (fi_setopt, FI_OPT_ENDPOINT): an int; not 0: the event queue that is bound to the
 * endpoint is told of links that are lost and regained, as struct fi_gaudi_link_event. Without it no such event comes.
 */
enum {
	FI_OPT_GAUDI_LINK_EVENTS = -(0x6ad << 16),
};

/* The event that fi_eq_read gives with a struct fi_gaudi_link_event. */
#define FI_GAUDI_LINK_EVENT (1U | FI_PROV_SPECIFIC)

enum fi_gaudi_link_change {
	FI_GAUDI_CONNECTION_LOST = 1,	/* to the peer: what is under way waits, and another one is being made */
	FI_GAUDI_CONNECTION_REGAINED,	/* all goes on */
	FI_GAUDI_CONNECTION_GIVEN_UP,	/* there is no other one within FI_GAUDI_RECONNECT_TIMEOUT, or the peer has gone:
					   what was under way fails */
	FI_GAUDI_RAIL_LOST,		/* one of those that carry long transfers to the peer: the others do it */
	FI_GAUDI_RAIL_REGAINED,
};

/*
 * What has become of a link to a peer. Each loss is told once, and its end once, but for a rail whose connection ends and
 * for an endpoint that is closed meanwhile. It is told by the thread that makes the endpoint progress: who reads its
 * completion queue, or the provider's own with FI_PROGRESS_AUTO. Where the queue has no room, the event is missed.
 */
struct fi_gaudi_link_event {
	fid_t	  fid;			/* the endpoint; this and context are as in struct fi_eq_entry */
	void	 *context;		/* the endpoint's */
	uint64_t  missed;		/* events of the endpoint's before this one that the queue had no room for */
	uint32_t  change;		/* an fi_gaudi_link_change */
	uint32_t  rail;			/* of FI_GAUDI_RAIL_*: which, from 1 on; else 0 */
	fi_addr_t peer;			/* the lowest that the address vector has of it; FI_ADDR_NOTAVAIL: none */
	char	  peer_name[96];	/* "fi_sockaddr_in://192.0.2.1:7471" */
	int32_t	  error;		/* what it was lost or given up for, a positive libfabric code; 0: regained */
	uint32_t  moved;		/* 1: regained over another link than before */
	uint64_t  outage_us;		/* regained, given up: microseconds since it was lost */
};

enum fi_gaudi_generation {
	FI_GAUDI_GENERATION_1 = 1,
	FI_GAUDI_GENERATION_2 = 2,
	FI_GAUDI_GENERATION_3 = 3,
};

struct fi_gaudi_device_attr {
	enum fi_gaudi_generation generation;
	char	 name[32];		/* "Gaudi2", or "simulated Gaudi2" on the stand-in */
	char	 pci_addr[16];		/* "0000:19:00.0" */
	int	 index;			/* device index as FI_GAUDI_DEVICE takes it; -1 when not known */
	uint32_t module_id;
	int	 simulated;		/* 1: the stand-in library, no hardware is involved */
	int	 owned;			/* 1: opened by the provider; 0: the application's, adopted or found open, or its Synapse's */
	uint64_t hbm_size;		/* bytes the driver reports for user allocations */
	uint64_t hbm_free;		/* bytes of it not allocated */
};

enum fi_gaudi_copy_dir {
	FI_GAUDI_HOST_TO_DEVICE,
	FI_GAUDI_DEVICE_TO_HOST,
	FI_GAUDI_DEVICE_TO_DEVICE,	/* both ranges on one device */
};

struct fi_gaudi_addr_attr {
	uint64_t alloc_base;		/* first address of the allocation that holds the range */
	uint64_t alloc_len;		/* its length in bytes */
	uint64_t offset;		/* of the queried address in it */
	int	 device_index;
	int	 adopted;		/* 1: a range the application owns */
};

struct fi_gaudi_dmabuf {
	int	 fd;			/* a dma-buf; the caller owns it and closes it */
	uint64_t offset;		/* of the range's first byte in the dma-buf */
	uint64_t len;			/* bytes asked for */
	uint64_t base_addr;		/* device address of the dma-buf's first byte: fi_mr_dmabuf.base_addr */
};

/*
 * A range of device memory that the application (or a runtime it uses) allocated and keeps mapped.
 * map_base is the address that the driver's map call returned for the mapping that holds the range; the
 * export call wants that address exactly. (A Gaudi1 maps nothing: there it is the part of its memory that is
 * exported, in whole pages of 4 KiB.) The application keeps ownership and releases the range
 * (release_range) before it unmaps it.
 */
struct fi_gaudi_range {
	uint64_t addr;
	uint64_t len;
	uint64_t map_base;
	uint64_t map_len;
};

/*
 * Which way the bytes of a domain went so far, counted at the end that moved them: the sender of a short message, the
 * side of a longer transfer that reads or writes.
 */
struct fi_gaudi_path_stats {
	uint64_t eager_ops;		/* short messages, copied through message buffers */
	uint64_t eager_bytes;
	uint64_t direct_ops;		/* between the application's memory and the wire: not copied here */
	uint64_t direct_bytes;
	uint64_t staged_ops;		/* chunks through host buffers, by the device's copy engine; host memory that a peer on
					   this host may not copy itself, too */
	uint64_t staged_bytes;
	uint64_t zero_copy_ops;		/* of the direct ones: on device memory, which the NIC read or wrote itself */
	uint64_t zero_copy_bytes;
	uint64_t refused_registrations;	/* of device memory by the NIC: that memory is staged */
	uint64_t flushes;		/* before completions: what the NIC wrote to device memory is visible there */
	uint64_t cma_ops;		/* host memory of two processes on this host, copied from one to the other */
	uint64_t cma_bytes;
	uint64_t shm_ops;		/* of the eager and staged ones: through memory shared with a peer on this host */
	uint64_t engine_ops;		/* between endpoints of one process: within a device, by its engine */
	uint64_t engine_bytes;
	uint64_t dmabuf_ipc_ops;		/* of the direct ones: from device memory whose dma-buf a process on this host passed */
	uint64_t dmabuf_ipc_bytes;
};

/* Why transfers of long messages go the way that they go. The strings are the library's, for as long as it is loaded. */
struct fi_gaudi_path_reason {
	const char *name;		/* "source_can_be_read", one word */
	const char *text;		/* for people, what comes behind "because" */
	uint64_t transfers;		/* of the domain so far, counted at the end that chooses: the receiver */
};

/*
 * The domain's cache of registrations: of device memory, with the NIC, each of a whole allocation or a window of it. It
 * looks nothing up where the NIC does not reach device memory. See FI_GAUDI_MR_CACHE_MAX_COUNT,
 * FI_GAUDI_MR_CACHE_MAX_SIZE and FI_GAUDI_MR_WINDOW.
 */
struct fi_gaudi_cache_stats {
	uint64_t hits;			/* a memory region found one that was there */
	uint64_t misses;		/* or did not */
	uint64_t registrations;		/* made by the NIC: misses that it did not refuse */
	uint64_t evictions;		/* of unused ones, to stay within the limits or to make room for others */
	uint64_t idle;			/* unused ones that are kept now; they keep no memory from being freed */
	uint64_t idle_bytes;		/* bytes of device memory that these cover */
};

/*
 * One device's counters. They begin at 0 when the device is opened or, those of the domain, when the domain is, and never
 * go back, but for the two idle ones. Bytes are counted at the end that moved them, when that was started.
 */
struct fi_gaudi_device_stats {
	/* Of the process: of all its domains. */
	uint64_t exports;		/* dma-bufs that the driver made, one for each of its mappings, and one more each time that
					   one is needed whose descriptor was closed since there were too few; no duplicates */
	uint64_t stale_refusals;	/* regions and copies refused because the memory that was found was being freed */
	uint64_t copies;		/* that the copy engine was given; a long one counts once for each of its parts */
	uint64_t host_to_device_bytes;	/* that the engine was given to copy */
	uint64_t device_to_host_bytes;
	uint64_t device_to_device_bytes;
	uint64_t zero_copy_bytes;	/* that a NIC read from or wrote to this device's memory; for FI_EP_MSG endpoints in their
					   own sends, reads and writes, while no other open device has the address: what they
					   receive or peers do to their memory is the core's alone */
	uint64_t staged_bytes;		/* that went between it and host buffers, by the engine or the NIC, for FI_EP_RDM ones */

	/* Of this domain: registrations of the device's memory, as struct fi_gaudi_cache_stats has them for all devices. */
	uint64_t registrations;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t idle;
	uint64_t idle_bytes;
	uint64_t refused_registrations;	/* by the NIC, or by the driver that was to export: that memory is staged or,
					   by FI_EP_MSG endpoints and with FI_GAUDI_DMABUF=on, not registered */
	int	 last_refusal;		/* 0: none, else the error of the last one, a negative libfabric code */
};

struct fi_gaudi_ops {
	size_t size;			/* bytes of this structure that the provider filled in */

	/*
	 * The device that the domain's calls use: the default one, unless select_device or adopt_device says another.
	 * -FI_ENODEV: none; the first call opens it (see FI_GAUDI_DEVICE).
	 */
	int (*query_device)(struct fid_domain *domain, struct fi_gaudi_device_attr *attr);

	/*
	 * len bytes (> 0) of device memory, aligned to 4 KiB. Not initialised. -FI_ENOMEM: HBM is full;
	 * -FI_ENODEV, -FI_EBUSY, -FI_EAGAIN: no device, taken by another process, in reset;
	 * -FI_EOPNOTSUPP: an adopted Gaudi1, whose memory is the application's to manage, or a device of Synapse's,
	 * which allocates all of it (synDeviceMalloc); -FI_EIO, -FI_ENODEV: the device was lost (reset, removed), and
	 * is opened anew when all that was allocated there is freed.
	 */
	int (*alloc)(struct fid_domain *domain, uint64_t len, uint64_t *addr);

	/*
	 * addr as alloc returned it, else -FI_EINVAL. -FI_EBUSY: a memory region still covers the
	 * allocation, close it first, or an operation still uses it; nothing is freed then.
	 */
	int (*free)(struct fid_domain *domain, uint64_t addr);

	/*
	 * Copies len bytes (0 is allowed) and returns when they are there. Host addresses need not be registered
	 * or aligned. -FI_EINVAL: a device range is not inside one allocation; -FI_EIO, -FI_ENODEV: the device
	 * was lost; -FI_EOPNOTSUPP: a Gaudi3, which offers no copies through libhl-thunk, and no RDMA NIC of a domain
	 * for FI_EP_RDM that reaches its memory and copies instead (errors of fi_mr_reg then, too).
	 */
	int (*copy)(struct fid_domain *domain, uint64_t dst, uint64_t src, uint64_t len,
		    enum fi_gaudi_copy_dir dir);

	/*
	 * Starts the same copy. The ranges must stay as they are until copy_test or copy_wait reports the end of it;
	 * *ticket names the copy and is given back by the call that reports its end. No order among copies. One that the
	 * NIC makes for a Gaudi3 has ended when this returns.
	 */
	int (*copy_async)(struct fid_domain *domain, uint64_t dst, uint64_t src, uint64_t len,
			  enum fi_gaudi_copy_dir dir, uint64_t *ticket);

	/* 0: done; -FI_EAGAIN: not yet; another error: failed. The ticket is used up unless -FI_EAGAIN. */
	int (*copy_test)(struct fid_domain *domain, uint64_t ticket);

	/* Waits up to timeout_ms (-1: for ever). -FI_ETIMEDOUT: not yet, the ticket stays valid. */
	int (*copy_wait)(struct fid_domain *domain, uint64_t ticket, int timeout_ms);

	/* -FI_ENOENT: not device memory known here; -FI_EINVAL: runs past its allocation's end. */
	int (*query_addr)(struct fid_domain *domain, uint64_t addr, uint64_t len,
			  struct fi_gaudi_addr_attr *attr);

	/*
	 * A dma-buf that holds the range [addr, addr + len). -FI_EOPNOTSUPP: this driver cannot export
	 * (Gaudi2 on a 6.1 kernel).
	 */
	int (*export_dmabuf)(struct fid_domain *domain, uint64_t addr, uint64_t len,
			     struct fi_gaudi_dmabuf *dmabuf);

	/*
	 * Uses the device that the application opened (an hl-thunk descriptor): in place of the one the provider
	 * would open, where FI_GAUDI_DEVICE names one or none and it is not open yet, or of one that was lost, else as
	 * one more, with the next number. The domain's calls use it from now on. The descriptor stays the
	 * application's; a duplicate of it is used here, which keeps the device open until every domain is closed that
	 * used the device, or it is lost. Of a device that was found open already, all this is so, and nothing changes
	 * but the domain's calls.
	 * -FI_EBUSY: that device is in use here already; -FI_EINVAL: not a Gaudi's descriptor; -FI_ENOSPC: 64 devices
	 * are listed; -FI_EIO, -FI_ENODEV: something is left on the lost one that it would follow.
	 */
	int (*adopt_device)(struct fid_domain *domain, int device_fd);

	/* Makes a range known. -FI_EINVAL: outside its mapping; -EEXIST: overlaps a known one. */
	int (*adopt_range)(struct fid_domain *domain, const struct fi_gaudi_range *range);

	/* Forgets an adopted range by its first address. -FI_EBUSY: a memory region still covers it. */
	int (*release_range)(struct fid_domain *domain, uint64_t addr);

	/* The domain's counters; they never go back. */
	int (*path_stats)(struct fid_domain *domain, struct fi_gaudi_path_stats *stats);

	/* The domain's cache of registrations. There if size reaches to its end, as all that came after path_stats. */
	int (*cache_stats)(struct fid_domain *domain, struct fi_gaudi_cache_stats *stats);

	/*
	 * Several devices in one process. A device has a number: its place in FI_GAUDI_DEVICE, from 0, the default
	 * device; those that the application adopts follow. Different devices hand out the same addresses, so the
	 * number is needed wherever an address is: each domain has one device that its calls here use
	 * (select_device), and fi_mr_attr.device.synapseai is the number of the device that a region is on, whatever the
	 * domain's is. The region's descriptor and key then stand for the device, and one endpoint can use regions of
	 * all. A device is opened by the first call that uses it.
	 */

	/*
	 * How many there are to number, whether they can be opened or not. -FI_EINVAL: FI_GAUDI_DEVICE does not parse;
	 * -FI_ENOSYS: it says all, and there is no libhl-thunk.
	 */
	int (*device_count)(struct fid_domain *domain, int *count);

	/*
	 * The device that this domain's calls use from now on, of all its threads; first it is 0. Copies that were started
	 * stay with theirs. Opens nothing. -FI_EINVAL: no such number; errors of device_count.
	 */
	int (*select_device)(struct fid_domain *domain, int device);

	/* Its number. */
	int (*selected_device)(struct fid_domain *domain, int *device);

	/* Counters of the selected device. Opens nothing: all are 0 while it is not open. */
	int (*device_stats)(struct fid_domain *domain, struct fi_gaudi_device_stats *stats);

	/*
	 * Pools: device memory that is exported to the NIC and registered when the pool is created, so that the first
	 * message on a piece of it pays for neither. fi_mr_regattr with the pool's access, on a piece or a part of it, then
	 * costs no system call; with another access it registers the whole pool once more. One allocation holds the pool:
	 * ranges are checked against its ends, not a piece's, and a key that is good for a piece is good for all of it.
	 */

	/*
	 * A pool of len bytes (> 0), rounded up to 4 KiB, of the selected device; access as fi_mr_regattr takes it. *pool
	 * names it. The domain closes (-FI_EBUSY until then) after its pools. Errors of alloc. Where the NIC cannot have the
	 * memory, the pool is there all the same and its data is staged, but for FI_EP_MSG endpoints and with
	 * FI_GAUDI_DMABUF=on, where that is the error.
	 */
	int (*pool_create)(struct fid_domain *domain, uint64_t len, uint64_t access, uint64_t *pool);

	/* len bytes (> 0) of the pool, aligned to 4 KiB. Not initialised. -FI_ENOMEM: no such gap; -FI_EINVAL: no such pool. */
	int (*pool_alloc)(struct fid_domain *domain, uint64_t pool, uint64_t len, uint64_t *addr);

	/*
	 * addr as pool_alloc returned it, else -FI_EINVAL. Close the memory regions on the piece first: nobody looks, and the
	 * next piece may be there.
	 */
	int (*pool_free)(struct fid_domain *domain, uint64_t pool, uint64_t addr);

	/* -FI_EBUSY: pieces are not freed, or a memory region or a copy uses some of it; -FI_EINVAL: no such pool. */
	int (*pool_destroy)(struct fid_domain *domain, uint64_t pool);

	/*
	 * Writes the first *count reasons, or all that there are, and sets *count to how many there are. A later release may
	 * know more. -FI_EOPNOTSUPP: of FI_EP_MSG, where every operation is the core's.
	 */
	int (*path_reasons)(struct fid_domain *domain, struct fi_gaudi_path_reason *reasons, uint64_t *count);
};

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_GAUDI_H */
