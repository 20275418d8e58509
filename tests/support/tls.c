/* A library that takes room for thread-local variables that the loader can't get later: static TLS. */
__attribute__((tls_model("initial-exec"))) __thread char room[SIZE];

char *get_room(void)
{
    return room;
}
