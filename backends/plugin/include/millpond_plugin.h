/* A model as a shared library: what `backend = "plugin"` of a Millpond server loads. docs/plugins.md explains it.
 *
 * A plugin exports one function, millpond_plugin_get, which returns a table of functions. It includes this header and nothing
 * else of Millpond. Rules that hold for all of them:
 *
 * - A function that returns int32_t returns 0 when it succeeded. After any other value the host asks last_error() on the same thread.
 * - No C++ exception and no longjmp may leave a function.
 * - Calls come from any thread; what may be called at the same time is said below.
 * - Every struct begins with its size in bytes as its writer knows it. A later header may add fields behind the last one of this
 *   version, and a reader uses no field beyond the size that it finds. The host sets the size of what it passes; a plugin sets that
 *   of its millpond_plugin and of each millpond_port.
 * - The host passes memory that is valid until the function returns. Text that is passed to a plugin ends with a zero byte.
 */
#ifndef MILLPOND_PLUGIN_H
#define MILLPOND_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A host refuses a plugin with another number. Fields that are added behind others do not change it. */
#define MILLPOND_PLUGIN_ABI 1u

/* Types of elements. The numbers never change; a later header may add some, and a host refuses a model of a type that it does not know. */
enum {
    MILLPOND_F32 = 1,
    MILLPOND_F64 = 2,
    MILLPOND_F16 = 3,
    MILLPOND_BF16 = 4,
    MILLPOND_I64 = 5,
    MILLPOND_I32 = 6,
    MILLPOND_U8 = 7,
    MILLPOND_BOOL = 8, /* a byte each; any but 0 is true */
    MILLPOND_BYTES = 9, /* byte strings of any length each */
    MILLPOND_I8 = 10,
    MILLPOND_I16 = 11,
    MILLPOND_U16 = 12,
    MILLPOND_U32 = 13,
    MILLPOND_U64 = 14
};

/* Of a signature: dimension 0 of every input and output is the batch (its size is -1), and several requests may share a run. */
#define MILLPOND_BATCHED 1u
/* Of a signature: a run is short work of the calling thread alone, and another instance costs little. Threads that serve
 * connections may then run the model themselves. Never for what waits, locks or starts threads. */
#define MILLPOND_INLINE 2u

/* The most that a host accepts: inputs, and outputs, of a model; dimensions of a tensor; bytes of a name without its end. */
#define MILLPOND_PORTS_MAX 64
#define MILLPOND_RANK_MAX 16
#define MILLPOND_NAME_BYTES_MAX 256

/* What init() made; the plugin says what is in it. */
typedef struct millpond_model millpond_model;
/* What create() made: the scratch memory of one thread. */
typedef struct millpond_instance millpond_instance;

/* A key of `options` and its value: a text as it is, anything else as JSON. */
typedef struct millpond_option {
    const char *key;
    const char *value;
} millpond_option;

typedef struct millpond_init {
    size_t struct_bytes;
    /* The plugin's own file, links resolved. */
    const char *path;
    /* In the order of their keys. */
    const millpond_option *options;
    size_t options_count;
} millpond_init;

/* One input or output. */
typedef struct millpond_port {
    size_t struct_bytes;
    /* UTF-8 without control characters, unique among the inputs or the outputs. */
    const char *name;
    uint32_t type;
    uint32_t rank;
    /* `rank` sizes; -1 is free. */
    const int64_t *shape;
} millpond_port;

/* All of it belongs to the plugin and stays valid until free_model(). */
typedef struct millpond_signature {
    size_t struct_bytes;
    uint32_t flags;
    uint32_t inputs_count;
    uint32_t outputs_count;
    const millpond_port *const *inputs;
    const millpond_port *const *outputs;
} millpond_signature;

/* A dense, row-major tensor. */
typedef struct millpond_tensor {
    size_t struct_bytes;
    uint32_t type;
    uint32_t rank;
    /* `rank` sizes. */
    const uint64_t *shape;
    /* The elements. Of MILLPOND_BYTES: all strings one after the other, without ends. NULL only where data_bytes is 0. */
    const void *data;
    size_t data_bytes;
    /* Of MILLPOND_BYTES: where in `data` each string ends, which is where the next begins. NULL for other types. */
    const uint64_t *ends;
    /* How many ends there are: the number of elements. 0 for other types. */
    size_t ends_count;
} millpond_tensor;

typedef struct millpond_plugin {
    /* MILLPOND_PLUGIN_ABI. The first two fields are where they are in every version. */
    uint32_t abi;
    uint32_t struct_bytes;

    /* Makes a model. Called once for each configured model, again when it is loaded anew. */
    int32_t (*init)(const millpond_init *init, millpond_model **model);
    /* What the model takes and gives. The host has set struct_bytes and zeroed the rest. */
    int32_t (*signature)(millpond_model *model, millpond_signature *signature);
    /* The last call for a model; its instances are gone by then. */
    void (*free_model)(millpond_model *model);

    /* Makes an instance. Several threads may call it for one model at once. */
    int32_t (*create)(millpond_model *model, millpond_instance **instance);
    /* Runs the model. Inputs come in the order of the signature, checked against it: types, shapes, equal rows of a batch,
     * no NaN and no infinity; they are read only. `outputs` has a zeroed tensor for each output of the signature, whose fields
     * behind struct_bytes the plugin sets. What they point to belongs to the instance: it stays valid until the next call with this
     * instance, and the host copies it before that. One thread at a time uses an instance, not always the same one. */
    int32_t (*run)(millpond_instance *instance, const millpond_tensor *const *inputs, size_t inputs_count,
                   millpond_tensor *const *outputs, size_t outputs_count);
    void (*destroy)(millpond_instance *instance);

    /* What went wrong in the last call of this thread that failed: UTF-8, valid until this thread's next call; or NULL. */
    const char *(*last_error)(void);
} millpond_plugin;

/* The one symbol of a plugin. `abi_of_host` is the host's MILLPOND_PLUGIN_ABI. A plugin that speaks several versions chooses by it;
 * others return their own table, and the host sees by its `abi` whether it can use it. The table lives as long as the process. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const millpond_plugin *millpond_plugin_get(uint32_t abi_of_host);

#ifdef __cplusplus
}
#endif

#endif
