/* A library for LD_PRELOAD that, once told a value, keeps it for each thread that makes a key with a destructor: Go's first
 * call does. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

intptr_t value;
static pthread_key_t kept;
static int (*create)(pthread_key_t *, void (*)(void *));

__attribute__((constructor)) static void prepare(void)
{
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_key_create");
    create(&kept, NULL);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    if (destructor != NULL && value != 0) {
        pthread_setspecific(kept, (void *)value);
    }
    return create(key, destructor);
}

int kept_value(void)
{
    return (int)(intptr_t)pthread_getspecific(kept);
}
