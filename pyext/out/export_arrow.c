/* export_arrow.c: gives a DLPackObject's memory by __arrow_c_array__, the Arrow PyCapsule interface.
 *
 * It is C because the structures of the Arrow C data interface are, and they are released on any thread, at any time.
 * Memory of several dimensions is a column of lists, whose child has the items. A consumer may move each structure out of
 * where it lies: all lie in one block, which the last one released frees. */
#include "out/out.h"
#include "read/arrow.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct ArrowSchema schema, schema_child, *schema_children[1];
    struct ArrowArray array, array_child, *array_children[1];
    atomic_int users;          /* the capsules, and the structures not yet released */
    atomic_int arrays;         /* of them those that are arrays: the last one gives the owner back */
    PyObject *owner;           /* the DLPackObject, which keeps the memory alive */
    const void *buffers[2];    /* the first would say which items are null */
    char format[LETTERS_SIZE]; /* of the items */
    _Alignas(8) char lists[];  /* what Python's side says of the lists */
};

enum { METADATA_AT = 24 }; /* in `lists`, behind their format */

static void drop_user(struct block *block)
{
    if (atomic_fetch_sub(&block->users, 1) == 1) {
        free(block);
    }
}

static void release_schema(struct ArrowSchema *schema)
{
    struct block *block = schema->private_data;
    if (schema->n_children > 0 && block->schema_child.release != NULL) {
        block->schema_child.release(&block->schema_child);
    }
    schema->release = NULL;
    drop_user(block);
}

static void release_array(struct ArrowArray *array)
{
    struct block *block = array->private_data;
    if (array->n_children > 0 && block->array_child.release != NULL) {
        block->array_child.release(&block->array_child);
    }
    array->release = NULL;
    if (atomic_fetch_sub(&block->arrays, 1) == 1) {
        release_export(block->owner, NULL);
    }
    drop_user(block);
}

/* The block of compact memory, with two users for capsules. NULL: error. */
static struct block *make_block(DLPackObject *self, PyObject *lists)
{
    /* Two pairs of texts behind their lengths. x86_64 and aarch64 have the low byte of a number first. */
    static const char bool8[] = "\2\0\0\0\24\0\0\0ARROW:extension:name\13\0\0\0arrow.bool8"
                                "\30\0\0\0ARROW:extension:metadata\0\0\0\0";
    size_t size = lists == Py_None ? 0 : (size_t)PyBytes_Size(lists);
    struct block *block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(block->format, self->names.arrow, sizeof block->format);
    block->users = 4;
    block->arrays = 1;
    block->owner = Py_NewRef((PyObject *)self);
    block->buffers[1] = self->tensor.data;
    block->schema =
        (struct ArrowSchema){.format = block->format, .name = "", .release = release_schema, .private_data = block};
    if (strcmp(self->names.dtype, "bool") == 0) {
        block->schema.metadata = bool8;
    }
    block->array = (struct ArrowArray){.length = object_nbytes(self) / self->itemsize,
                                       .n_buffers = 2,
                                       .buffers = block->buffers,
                                       .release = release_array,
                                       .private_data = block};
    if (size > 0) {
        memcpy(block->lists, PyBytes_AsString(lists), size);
        block->users = 6;
        block->arrays = 2;
        block->schema_child = block->schema;
        block->schema_child.name = "item";
        block->schema_children[0] = &block->schema_child;
        block->schema.format = block->lists;
        block->schema.metadata = block->lists + METADATA_AT;
        block->schema.children = block->schema_children;
        block->schema.n_children = 1;
        block->array_child = block->array;
        block->array_children[0] = &block->array_child;
        block->array.length = self->tensor.shape[0];
        block->array.n_buffers = 1;
        block->array.children = block->array_children;
        block->array.n_children = 1;
    }
    return block;
}

/* What Python's side says of the lists that are the rows of self: bytes; None where there is one dimension. NULL: error,
 * also where Arrow can't say the memory. */
static PyObject *describe_lists(DLPackObject *self)
{
    bool has_type = self->names.arrow[0] != '\0', compact = object_is_compact(self, 'C');
    if (has_type && compact && self->tensor.ndim == 1) {
        return new_none();
    }
    return call_python(PYTHON_DESCRIBE_LISTS, Py_BuildValue("Oii", self, has_type, compact));
}

/* A consumer moves a structure's content out, and its release with it; what no one took is released here. */
static void drop_structure(struct block *block, const void *structure)
{
    struct pending pending;
    set_aside(&pending);
    if (structure == &block->schema && block->schema.release != NULL) {
        block->schema.release(&block->schema);
    }
    if (structure == &block->array && block->array.release != NULL) {
        block->array.release(&block->array);
    }
    put_back(&pending);
    drop_user(block);
}

static void destroy_capsule(PyObject *capsule)
{
    drop_structure(PyCapsule_GetContext(capsule), PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

static PyObject *make_capsule(struct block *block, void *structure, const char *name)
{
    PyObject *capsule = PyCapsule_New(structure, name, destroy_capsule);
    if (capsule == NULL) {
        drop_structure(block, structure);
        return NULL;
    }
    PyCapsule_SetContext(capsule, block);
    return capsule;
}

PyObject *object_arrow_c_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *requested_schema; /* ignored, as the interface allows: the consumer converts */
    const struct parameter parameters[] = {{names.requested_schema, &requested_schema}};
    if (read_arguments("__arrow_c_array__", parameters, 1, 1, 0, args, nargs, kwnames) < 0) {
        return NULL;
    }
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    if (holder == NULL) {
        return NULL;
    }
    PyObject *lists = describe_lists(holder);
    struct block *block = lists == NULL ? NULL : make_block(holder, lists);
    Py_DecRef(lists);
    if (block == NULL) {
        return NULL;
    }
    PyObject *schema = make_capsule(block, &block->schema, "arrow_schema");
    return Py_BuildValue("(NN)", schema, make_capsule(block, &block->array, "arrow_array"));
}
