/* The C interface between the native core and a vendor's driver.
 *
 * A driver is one constant table of functions. It opens the vendor's library at run time, so that one build of
 * portakern works on machines with every driver and on machines with none; no vendor header is needed to compile it.
 * Tables of this repository register themselves (PK_REGISTER_DRIVER); one from elsewhere is handed over at run time
 * as a capsule named "portakern.driver".
 *
 * Rules:
 * - The table grows at its end. `struct_size` says how much of it a driver fills in; a null function is one that the
 *   driver does not have, and the core then does without (or says what cannot be done).
 * - Functions never throw and never print. Every function but `probe`, the `*_destroy` ones and `last_error` returns a
 *   pk_status: 0 for success, the vendor's own positive code, or one of PK_* below. After a failure `last_error` of the
 *   same thread tells more.
 * - Everything but `synchronize`, `event_wait` and copies from and to the host only queues work.
 * - A device's functions may be called from several threads; one stream's from one at a time.
 */
#ifndef PORTAKERN_DRIVER_H
#define PORTAKERN_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define PK_DRIVER_ABI 3u
#define PK_DRIVER_CAPSULE "portakern.driver"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t pk_status;
enum {
    PK_OK = 0,
    PK_FAILED = -1,      /* see last_error */
    PK_UNSUPPORTED = -2, /* this device or driver version cannot do it */
    PK_TIMEOUT = -3,     /* the deadline passed; the work is still running */
    PK_INVALID = -4,     /* an argument makes no sense; nothing was done */
    PK_NO_DEVICE = -5    /* no driver, or no such device */
};

/* Handles. What they point at is the driver's own. */
typedef struct pk_device *pk_device_t;
typedef struct pk_stream *pk_stream_t;
typedef struct pk_event *pk_event_t;
typedef struct pk_module *pk_module_t;
typedef struct pk_kernel *pk_kernel_t;
typedef struct pk_graph *pk_graph_t;
typedef struct pk_gate *pk_gate_t;

/* Where device memory lies: an address that kernels and copies take, and to which bytes may be added. */
typedef uint64_t pk_pointer;

/* What a driver's probe found. The caller zeroes it; strings are always terminated. */
typedef struct pk_probe {
    int32_t present;      /* the library could be opened and has the functions needed */
    int32_t device_count; /* usable devices; 0 with `error` saying why there is none */
    char path[512];       /* the file that was opened */
    char version[64];     /* the driver's own version, as the vendor writes it */
    char error[256];      /* empty if all went well */
} pk_probe;

typedef struct pk_error {
    int32_t code;   /* the vendor's, or one of PK_* */
    int32_t fatal;  /* the device cannot be used any more by this process */
    char name[64];  /* the vendor's name of the code, or empty */
    char text[256]; /* which function failed, and the vendor's words for it */
} pk_error;

/* What the driver says about a device. The caller zeroes it; 0 and "" stand for unknown. */
typedef struct pk_facts {
    char name[128];
    char arch[64];    /* instruction set in the vendor's terms: sm_90, gfx942 */
    char version[64]; /* of the driver */
    char uuid[64];
    int32_t ordinal;
    int32_t units;            /* multiprocessors, compute units, cores */
    int32_t clock_khz;        /* the highest clock of the units that the driver states */
    int32_t memory_clock_khz; /* of the memory, as the driver states it */
    int32_t bus_bits;         /* width of the memory bus */
    int32_t shared_bytes;     /* most shared memory that a block may ask for */
    int64_t memory_bytes;
    int64_t cache_bytes;      /* the last level of cache before device memory */
    int64_t persisting_bytes; /* the part of it that can be set aside for persisting lines */
    int64_t timer_ns;         /* the resolution that the vendor states for event times */
    int64_t flush_bytes;      /* what one `flush` moves */
    double empty_kernel_ns;   /* what the vendor's profiler shows for `launch_empty`, measured once; what an event pair shows
                               * beyond it is the pair's own cost, which timing takes off. 0: not known, nothing taken off */
    int32_t blocking;         /* 1: a launch runs on the calling thread and has ended when it returns */
    int32_t host_memory;      /* 1: kernels may be given addresses of the host's own memory */
} pk_facts;

/* How the device is now. -1 and "" stand for unknown. */
typedef struct pk_health {
    int32_t clock_mhz;
    int32_t memory_clock_mhz;
    int32_t temperature_c;
    int32_t power_mw;
    int32_t throttled;   /* 1: runs slower than its load asks for; 0: does not */
    char reason[128];    /* of the throttling, in the vendor's terms */
} pk_health;

/* An argument of a kernel. A pointer to device memory is a value of 8 bytes; `kind` tells drivers that must know: where
 * pointers are wrapped (OpenCL), and where floating-point values travel in other registers and small signed integers
 * are extended by the caller (functions of the host). */
enum { PK_ARG_VALUE = 0, PK_ARG_POINTER = 1, PK_ARG_FLOAT = 2, PK_ARG_SIGNED = 3 };
typedef struct pk_arg {
    const void *value;
    uint32_t size; /* in bytes */
    uint32_t kind;
} pk_arg;

/* Attributes of a launch, or-ed; a driver answers PK_UNSUPPORTED to those it does not know. */
enum {
    PK_LAUNCH_COOPERATIVE = 1u,   /* all blocks are resident together */
    PK_LAUNCH_OVERLAP_PREVIOUS = 2u /* may begin before the previous kernel has ended; the kernel itself waits for it */
};

/* One launch: sizes in blocks, in threads of a block, and in blocks of a cluster (1, 1, 1 for none). */
typedef struct pk_launch {
    pk_kernel_t kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster[3];
    uint32_t shared_bytes; /* dynamic */
    uint32_t attributes;
    uint32_t arg_count;
    const pk_arg *args;
} pk_launch;

/* An array that hardware copies boxes of by their coordinates (NVIDIA's tensor map). Dims are innermost first, whose
 * elements lie side by side; strides are those of the others, in bytes, one less than dims.
 * With corners it is seen as images: channels first, the last dim counts images, those between are spatial, and what is copied
 * at a time is box[0] channels of box[1] pixels, one after the other within the corners, every `steps`-th along each dim. */
typedef struct pk_tensor_map {
    pk_pointer address;
    const char *dtype; /* u8, i8, .. i64, f8e4m3, f8e5m2, f16, bf16, f32, f64, bool */
    uint32_t rank;
    uint32_t swizzle_bytes; /* of the copy in shared memory; 0: none */
    const uint64_t *shape;
    const uint64_t *strides;
    const uint32_t *box;
    const int32_t *lower, *upper; /* corners: of spatial dims, relative to their first and to their last element; or null */
    const uint32_t *steps;        /* along spatial dims; read with corners */
} pk_tensor_map;

typedef struct pk_driver {
    uint32_t abi;         /* PK_DRIVER_ABI */
    uint32_t struct_size; /* sizeof(pk_driver) where the driver was compiled */
    const char *name;     /* short and unique, e.g. the library's stem */
    const char *title;    /* for people */

    /* Looks for the library and its devices. `path` names the file to open, or is null for the usual names.
     * Never throws, never leaves a context behind. */
    void (*probe)(const char *path, pk_probe *out);

    /* ---- devices */
    pk_status (*open)(const char *path, int32_t ordinal, pk_device_t *out); /* may give the same device again */
    void (*close)(pk_device_t device);
    pk_status (*facts)(pk_device_t device, pk_facts *out);
    pk_status (*health)(pk_device_t device, pk_health *out);
    void (*last_error)(pk_device_t device, pk_error *out); /* of this thread; `device` may be null after a failed open */

    /* ---- memory. Copies with the host are finished when they return; copy and fill are queued. */
    pk_status (*allocate)(pk_device_t device, size_t bytes, pk_pointer *out);
    pk_status (*free)(pk_device_t device, pk_pointer pointer);
    pk_status (*copy_in)(pk_device_t device, pk_pointer to, const void *from, size_t bytes);
    pk_status (*copy_out)(pk_device_t device, void *to, pk_pointer from, size_t bytes);
    pk_status (*copy)(pk_device_t device, pk_stream_t stream, pk_pointer to, pk_pointer from, size_t bytes);
    pk_status (*fill)(pk_device_t device, pk_stream_t stream, pk_pointer to, uint8_t value, size_t bytes);

    /* ---- kernels. `load` takes the driver's binary format and leaves nothing to be loaded at the first launch. */
    pk_status (*load)(pk_device_t device, const void *binary, size_t bytes, pk_module_t *out);
    void (*unload)(pk_device_t device, pk_module_t module);
    pk_status (*kernel)(pk_device_t device, pk_module_t module, const char *name, uint32_t shared_bytes, pk_kernel_t *out);
    pk_status (*launch)(pk_device_t device, pk_stream_t stream, const pk_launch *launch);

    /* ---- streams: in order. `stream_wrap` takes a stream of another library by its native handle (0: the default
     * stream) and owns nothing; `stream_destroy` ends both kinds. */
    pk_status (*stream_create)(pk_device_t device, pk_stream_t *out);
    pk_status (*stream_wrap)(pk_device_t device, uint64_t native, pk_stream_t *out);
    void (*stream_destroy)(pk_device_t device, pk_stream_t stream);
    /* Waits for the stream (null: for everything on the device) for at most `timeout_ns` (negative: for ever). */
    pk_status (*synchronize)(pk_device_t device, pk_stream_t stream, int64_t timeout_ns);

    /* ---- events. Elapsed time is between two events that have happened, in nanoseconds. */
    pk_status (*event_create)(pk_device_t device, pk_event_t *out);
    void (*event_destroy)(pk_device_t device, pk_event_t event);
    pk_status (*event_record)(pk_device_t device, pk_stream_t stream, pk_event_t event);
    pk_status (*event_elapsed)(pk_device_t device, pk_event_t begin, pk_event_t end, double *nanoseconds);

    /* ---- the gate: the stream stands still behind a closed one, so that everything is queued before anything runs.
     * `gate_open` may be called from another thread than the one that queues. */
    pk_status (*gate_create)(pk_device_t device, pk_gate_t *out);
    void (*gate_destroy)(pk_device_t device, pk_gate_t gate);
    pk_status (*gate_close)(pk_device_t device, pk_stream_t stream, pk_gate_t gate);
    pk_status (*gate_open)(pk_device_t device, pk_gate_t gate);

    /* ---- graphs: what is queued on `stream` between begin and end is recorded, not run. */
    pk_status (*capture_begin)(pk_device_t device, pk_stream_t stream);
    pk_status (*capture_end)(pk_device_t device, pk_stream_t stream, pk_graph_t *out);
    pk_status (*graph_launch)(pk_device_t device, pk_stream_t stream, pk_graph_t graph);
    void (*graph_destroy)(pk_device_t device, pk_graph_t graph);

    /* ---- between samples. `flush` empties the caches by moving `flush_bytes` and leaves no line that must be written
     * back; `reset_persisting` returns persisting lines to normal use; `launch_empty` queues a kernel that does nothing. */
    pk_status (*flush)(pk_device_t device, pk_stream_t stream);
    pk_status (*reset_persisting)(pk_device_t device);
    pk_status (*launch_empty)(pk_device_t device, pk_stream_t stream);

    /* The native handle of a stream, as `stream_wrap` takes it. */
    uint64_t (*stream_native)(pk_device_t device, pk_stream_t stream);

    /* ---- launches as a graph, where queueing that costs the host less than launching them. `graph_make` takes them in
     * order and runs nothing; `graph_update` gives the one with that index other arguments, from the next launch of the
     * graph on. `graph_launch` answers PK_UNSUPPORTED, and does nothing, on a stream that is being captured. */
    pk_status (*graph_make)(pk_device_t device, const pk_launch *launches, uint32_t count, pk_graph_t *out);
    pk_status (*graph_update)(pk_device_t device, pk_graph_t graph, uint32_t index, const pk_launch *launch);

    /* What a kernel takes by value to copy boxes of an array; `out` has 128 bytes. What lies outside the array is 0. */
    pk_status (*tensor_map)(pk_device_t device, const pk_tensor_map *what, void *out);
} pk_driver;

#ifdef __cplusplus
}
#endif
#endif
