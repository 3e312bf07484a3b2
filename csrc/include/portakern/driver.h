/* The C interface between the native core and a vendor's driver.
 *
 * A driver is one constant table of functions. It opens the vendor's library at run time, so that one build of
 * portakern works on machines with every driver and on machines with none; no vendor header is needed to compile it.
 * Tables of this repository register themselves (PK_REGISTER_DRIVER); one from elsewhere is handed over at run time
 * as a capsule named "portakern.driver".
 *
 * The table grows at its end. `struct_size` says how much of it a driver fills in; a null function is one that the
 * driver does not have.
 */
#ifndef PORTAKERN_DRIVER_H
#define PORTAKERN_DRIVER_H

#include <stdint.h>

#define PK_DRIVER_ABI 1u
#define PK_DRIVER_CAPSULE "portakern.driver"

#ifdef __cplusplus
extern "C" {
#endif

/* What a driver's probe found. The caller zeroes it; strings are always terminated. */
typedef struct pk_probe {
    int32_t present;      /* the library could be opened and has the functions needed */
    int32_t device_count; /* usable devices; 0 with `error` saying why there is none */
    char path[512];       /* the file that was opened */
    char version[64];     /* the driver's own version, as the vendor writes it */
    char error[256];      /* empty if all went well */
} pk_probe;

typedef struct pk_driver {
    uint32_t abi;         /* PK_DRIVER_ABI */
    uint32_t struct_size; /* sizeof(pk_driver) where the driver was compiled */
    const char *name;     /* short and unique, e.g. the library's stem */
    const char *title;    /* for people */

    /* Looks for the library and its devices. `path` names the file to open, or is null for the usual names.
     * Never throws, never leaves a context behind. */
    void (*probe)(const char *path, pk_probe *out);
} pk_driver;

#ifdef __cplusplus
}
#endif
#endif
