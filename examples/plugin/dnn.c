/* A ranker as a plugin: two columns of strings, hashed into an embedding table that is made up here, and a small dense layer.
 *
 * It is no trained model: its weights follow from a seed, so that a test can compute the same scores. It shows all that a plugin
 * needs: options, a model that instances share, scratch memory of an instance, strings in, floats out, and errors in words.
 */
#include "millpond_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 16 };

struct millpond_model {
    size_t buckets; /* rows of the embedding table */
    size_t dim;     /* floats of each */
    float *table;   /* buckets * dim */
    float *hidden;  /* HIDDEN * 2 * dim */
    float *out;     /* HIDDEN */
};

struct millpond_instance {
    const millpond_model *model;
    float *x;         /* 2 * dim: the embeddings of one row */
    float *scores;    /* what run() hands out, until the next call */
    size_t scores_max;
    uint64_t shape[2];
};

/* What last_error() gives: one text a thread, as calls of several threads fail independently. */
static _Thread_local char error[256];

static int32_t fail(const char *what, const char *of)
{
    snprintf(error, sizeof error, "%s%s", what, of);
    return 1;
}

/* FNV-1a, over the column's number and the string. */
static uint64_t hash(unsigned char column, const unsigned char *text, size_t bytes)
{
    uint64_t value = (14695981039346656037u ^ column) * 1099511628211u;
    for (size_t at = 0; at < bytes; at++)
        value = (value ^ text[at]) * 1099511628211u;
    return value;
}

/* Weight number `at`, in -0.5 .. 0.5, the same for everybody who computes it. */
static float weight(uint64_t at)
{
    return (float)((at * 2654435761u >> 7) % 1024) / 1024.0f - 0.5f;
}

static float *weights(size_t count, uint64_t first)
{
    float *made = malloc(count * sizeof *made);
    for (size_t at = 0; made != NULL && at < count; at++)
        made[at] = weight(first + at);
    return made;
}

static int read_number(const char *text, size_t most, size_t *number)
{
    char *end;
    unsigned long long found = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || found == 0 || found > most)
        return 0;
    *number = (size_t)found;
    return 1;
}

static void free_model(millpond_model *model)
{
    free(model->table);
    free(model->hidden);
    free(model->out);
    free(model);
}

static int32_t init(const millpond_init *arguments, millpond_model **made)
{
    millpond_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return fail("no memory", "");
    model->buckets = 1024;
    model->dim = 8;
    for (size_t at = 0; at < arguments->options_count; at++) {
        const millpond_option *option = &arguments->options[at];
        int known = 1, good = 0;
        if (strcmp(option->key, "buckets") == 0)
            good = read_number(option->value, 1u << 24, &model->buckets);
        else if (strcmp(option->key, "dim") == 0)
            good = read_number(option->value, 1024, &model->dim);
        else
            known = 0;
        if (!good) {
            free(model);
            return fail(known ? "not a number in range: option " : "unknown option ", option->key);
        }
    }
    model->table = weights(model->buckets * model->dim, 0);
    model->hidden = weights(HIDDEN * 2 * model->dim, 7000000);
    model->out = weights(HIDDEN, 9000000);
    if (model->table == NULL || model->hidden == NULL || model->out == NULL) {
        free_model(model);
        return fail("no memory for the weights", "");
    }
    *made = model;
    return 0;
}

/* -1: as many rows as the batch has. */
static const int64_t rows[] = {-1};
static const int64_t rows_of_one[] = {-1, 1};
static const millpond_port user = {sizeof user, "user", MILLPOND_BYTES, 1, rows};
static const millpond_port item = {sizeof item, "item", MILLPOND_BYTES, 1, rows};
static const millpond_port score = {sizeof score, "score", MILLPOND_F32, 2, rows_of_one};
static const millpond_port *const inputs[] = {&user, &item};
static const millpond_port *const outputs[] = {&score};

static int32_t signature(millpond_model *model, millpond_signature *said)
{
    (void)model;
    said->flags = MILLPOND_BATCHED | MILLPOND_INLINE;
    said->inputs = inputs;
    said->inputs_count = 2;
    said->outputs = outputs;
    said->outputs_count = 1;
    return 0;
}

static void destroy(millpond_instance *instance)
{
    free(instance->x);
    free(instance->scores);
    free(instance);
}

static int32_t create(millpond_model *model, millpond_instance **made)
{
    millpond_instance *instance = calloc(1, sizeof *instance);
    if (instance == NULL)
        return fail("no memory", "");
    instance->model = model;
    instance->x = malloc(2 * model->dim * sizeof *instance->x);
    if (instance->x == NULL) {
        destroy(instance);
        return fail("no memory", "");
    }
    *made = instance;
    return 0;
}

/* Copies the embedding of string `row` of a column. */
static void embed(const millpond_model *model, const millpond_tensor *column, unsigned char number, size_t row, float *x)
{
    size_t start = row == 0 ? 0 : (size_t)column->ends[row - 1];
    size_t bytes = (size_t)column->ends[row] - start;
    /* NULL where all strings are empty. */
    const unsigned char *text = column->data == NULL ? NULL : (const unsigned char *)column->data + start;
    size_t bucket = hash(number, text, bytes) % model->buckets;
    memcpy(x, model->table + bucket * model->dim, model->dim * sizeof *x);
}

static int32_t run(millpond_instance *instance, const millpond_tensor *const *in, size_t in_count,
                   millpond_tensor *const *out, size_t out_count)
{
    const millpond_model *model = instance->model;
    size_t count = (size_t)in[0]->shape[0];
    (void)in_count;
    (void)out_count;
    if (count > instance->scores_max) {
        float *scores = realloc(instance->scores, count * sizeof *scores);
        if (scores == NULL)
            return fail("no memory for the scores", "");
        instance->scores = scores;
        instance->scores_max = count;
    }
    for (size_t row = 0; row < count; row++) {
        float sum = 0.0f;
        embed(model, in[0], 0, row, instance->x);
        embed(model, in[1], 1, row, instance->x + model->dim);
        for (size_t unit = 0; unit < HIDDEN; unit++) {
            float activation = 0.0f;
            for (size_t at = 0; at < 2 * model->dim; at++)
                activation += model->hidden[unit * 2 * model->dim + at] * instance->x[at];
            sum += activation > 0.0f ? activation * model->out[unit] : 0.0f;
        }
        instance->scores[row] = 1.0f / (1.0f + expf(-sum));
    }
    instance->shape[0] = count;
    instance->shape[1] = 1;
    out[0]->type = MILLPOND_F32;
    out[0]->rank = 2;
    out[0]->shape = instance->shape;
    out[0]->data = instance->scores;
    out[0]->data_bytes = count * sizeof *instance->scores;
    return 0;
}

static const char *last_error(void)
{
    return error;
}

const millpond_plugin *millpond_plugin_get(uint32_t abi_of_host)
{
    static const millpond_plugin plugin = {
        MILLPOND_PLUGIN_ABI, sizeof(millpond_plugin), init, signature, free_model, create, run, destroy, last_error,
    };
    (void)abi_of_host;
    return &plugin;
}
