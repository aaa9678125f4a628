#include <stddef.h>

/* What befalls a call on a file, given by its path or else by its descriptor: the number of an error, which is
 * then in errno, too, or 0. May take its time, and may make the size of a write smaller. */
int trouble(const char *call, int descriptor, const char *path, size_t *size);
