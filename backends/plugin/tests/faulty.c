/* A plugin that does wrong what its option `fault` names, or in a run what the first string of `text` names. A test's alone: each fault
 * is one that a host must survive, or that its worker process is there for. */
#include "millpond_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct millpond_model {
    char fault[64];
};

struct millpond_instance {
    const millpond_model *model;
    float *sums;
    size_t sums_max;
    uint64_t shape[2];
    uint64_t *ends;
    char *echo;
};

static _Thread_local char error[256];
static _Thread_local int has_error;

static int is(const char *fault, const char *name)
{
    return strcmp(fault, name) == 0;
}

static void crash(void)
{
    *(volatile int *)8 = 1;
}

static int32_t init(const millpond_init *arguments, millpond_model **made)
{
    const char *fault = "";
    for (size_t at = 0; at < arguments->options_count; at++)
        if (is(arguments->options[at].key, "fault"))
            fault = arguments->options[at].value;
    if (is(fault, "init")) {
        snprintf(error, sizeof error, "it was told to fail in\n%s", arguments->path);
        has_error = 1;
        return 7;
    }
    if (is(fault, "init-silent"))
        return 7;
    if (is(fault, "init-null"))
        return 0;
    if (is(fault, "init-crash"))
        crash();
    if (is(fault, "init-hang"))
        for (;;)
            sleep(1);
    *made = calloc(1, sizeof **made);
    snprintf((*made)->fault, sizeof (*made)->fault, "%s", fault);
    return 0;
}

static void free_model(millpond_model *model)
{
    free(model);
}

static const int64_t rows[] = {-1};
static const int64_t rows_of_one[] = {-1, 1};
static const int64_t negative[] = {-1, -7};
static const int64_t huge[] = {-1, INT64_MAX, 1000};
static const int64_t fixed[] = {3};
static const int64_t rows_of_any[] = {-1, -1};
static char long_name[1000];

static int32_t signature(millpond_model *model, millpond_signature *said)
{
    static millpond_port text, x, y, echo;
    static const millpond_port *inputs[] = {&text, &x};
    static const millpond_port *outputs[] = {&y, &echo};
    const char *fault = model->fault;
    text = (millpond_port){sizeof text, "text", MILLPOND_BYTES, 1, rows};
    x = (millpond_port){sizeof x, "x", MILLPOND_F32, 2, rows_of_any};
    y = (millpond_port){sizeof y, "y", MILLPOND_F32, 2, rows_of_one};
    echo = (millpond_port){sizeof echo, "echo", MILLPOND_BYTES, 1, rows};
    inputs[0] = &text;
    said->flags = MILLPOND_BATCHED;
    said->inputs = inputs;
    said->inputs_count = 2;
    said->outputs = outputs;
    said->outputs_count = 2;
    memset(long_name, 'x', sizeof long_name - 1);
    if (is(fault, "signature"))
        return 3;
    if (is(fault, "no-inputs"))
        said->inputs_count = 0;
    if (is(fault, "many-inputs"))
        said->inputs_count = UINT32_MAX;
    if (is(fault, "null-inputs"))
        said->inputs = NULL;
    if (is(fault, "null-port"))
        inputs[0] = NULL;
    if (is(fault, "small-port"))
        text.struct_bytes = 8;
    if (is(fault, "no-name"))
        text.name = NULL;
    if (is(fault, "name-latin1"))
        text.name = "caf\xe9";
    if (is(fault, "name-long"))
        text.name = long_name;
    if (is(fault, "name-twice"))
        text.name = "x";
    if (is(fault, "type"))
        y.type = 77;
    if (is(fault, "rank"))
        y.rank = 1000000;
    if (is(fault, "null-shape"))
        y.shape = NULL;
    if (is(fault, "negative"))
        y.shape = negative;
    if (is(fault, "huge"))
        y.shape = huge, y.rank = 3;
    if (is(fault, "unbatched-output"))
        echo.shape = fixed;
    return 0;
}

static int32_t create(millpond_model *model, millpond_instance **made)
{
    if (is(model->fault, "create"))
        return 4;
    if (is(model->fault, "create-null"))
        return 0;
    *made = calloc(1, sizeof **made);
    (*made)->model = model;
    return 0;
}

static void destroy(millpond_instance *instance)
{
    free(instance->sums);
    free(instance->ends);
    free(instance->echo);
    free(instance);
}

/* The sum of each row of x, and the strings again. */
static void good(millpond_instance *instance, const millpond_tensor *const *in, millpond_tensor *const *out)
{
    size_t count = (size_t)in[1]->shape[0], width = (size_t)in[1]->shape[1];
    instance->sums = realloc(instance->sums, (count + 1) * sizeof *instance->sums);
    for (size_t row = 0; row < count; row++) {
        instance->sums[row] = 0;
        for (size_t at = 0; at < width; at++)
            instance->sums[row] += ((const float *)in[1]->data)[row * width + at];
    }
    instance->shape[0] = count;
    instance->shape[1] = 1;
    out[0]->type = MILLPOND_F32;
    out[0]->rank = 2;
    out[0]->shape = instance->shape;
    out[0]->data = instance->sums;
    out[0]->data_bytes = count * sizeof *instance->sums;
    instance->ends = realloc(instance->ends, (count + 1) * sizeof *instance->ends);
    memcpy(instance->ends, in[0]->ends, count * sizeof *instance->ends);
    instance->echo = realloc(instance->echo, in[0]->data_bytes + 1);
    if (in[0]->data_bytes > 0)
        memcpy(instance->echo, in[0]->data, in[0]->data_bytes);
    out[1]->type = MILLPOND_BYTES;
    out[1]->rank = 1;
    out[1]->shape = instance->shape;
    out[1]->data = instance->echo;
    out[1]->data_bytes = in[0]->data_bytes;
    out[1]->ends = instance->ends;
    out[1]->ends_count = count;
}

static int32_t run(millpond_instance *instance, const millpond_tensor *const *in, size_t in_count,
                   millpond_tensor *const *out, size_t out_count)
{
    static const uint64_t huge_shape[] = {UINT64_MAX, UINT64_MAX};
    char word[64] = "";
    size_t bytes = in[0]->ends_count > 0 ? (size_t)in[0]->ends[0] : 0;
    (void)in_count;
    (void)out_count;
    if (bytes > 0 && bytes < sizeof word)
        memcpy(word, in[0]->data, bytes), word[bytes] = 0;
    good(instance, in, out);
    if (is(word, "crash"))
        crash();
    if (is(word, "exit"))
        exit(3);
    if (is(word, "hang"))
        for (;;)
            sleep(1);
    if (is(word, "leak"))
        for (;;) {
            char *more = malloc(1 << 20);
            if (more == NULL)
                abort();
            memset(more, 1, 1 << 20);
        }
    if (is(word, "fail")) {
        snprintf(error, sizeof error, "it was told to");
        has_error = 1;
        return 9;
    }
    if (is(word, "print")) {
        for (int line = 0; line < 300; line++)
            fprintf(stderr, "line %d of a chatty plugin\n", line);
    }
    if (is(word, "unset"))
        memset((char *)out[0] + sizeof(size_t), 0, sizeof *out[0] - sizeof(size_t));
    if (is(word, "type"))
        out[0]->type = MILLPOND_F64;
    if (is(word, "rank"))
        out[0]->rank = 7;
    if (is(word, "shape"))
        instance->shape[0] += 1;
    if (is(word, "huge"))
        out[0]->shape = huge_shape;
    if (is(word, "no-shape"))
        out[0]->shape = NULL;
    if (is(word, "null"))
        out[0]->data = NULL;
    if (is(word, "short"))
        out[0]->data_bytes -= 1;
    if (is(word, "ends-count"))
        out[1]->ends_count += 1;
    if (is(word, "ends-null"))
        out[1]->ends = NULL;
    if (is(word, "ends-beyond"))
        instance->ends[0] = UINT64_MAX;
    if (is(word, "ends-short"))
        out[1]->data_bytes += 1;
    if (is(word, "strings-null"))
        out[1]->data = NULL;
    if (is(word, "nan"))
        instance->sums[0] = 0.0f / 0.0f;
    return 0;
}

static const char *last_error(void)
{
    if (!has_error)
        return NULL;
    has_error = 0;
    return error;
}

/* What the table lacks or has too much of is chosen when it is compiled. */
#ifndef ABI
#define ABI MILLPOND_PLUGIN_ABI
#endif
#ifndef TABLE_BYTES
#define TABLE_BYTES sizeof(millpond_plugin)
#endif
#ifndef RUN
#define RUN run
#endif
#ifndef GET
#define GET millpond_plugin_get
#endif
#ifndef TABLE
#define TABLE &plugin
#endif

__attribute__((visibility("default"))) const millpond_plugin *GET(uint32_t abi_of_host)
{
    static const millpond_plugin plugin = {
        ABI, TABLE_BYTES, init, signature, free_model, create, RUN, destroy, last_error,
    };
    (void)plugin;
    (void)abi_of_host;
    return TABLE;
}
