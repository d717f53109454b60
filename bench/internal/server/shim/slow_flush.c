/* A disk whose flushes take 1 ms longer. Preloaded into PostgreSQL, which
 * flushes its write-ahead log with fdatasync on Linux. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int fdatasync(int fd)
{
	static int (*flush)(int);
	struct timespec longer = {0, 1000000};
	int result;

	if (flush == 0)
		flush = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
	result = flush(fd);
	nanosleep(&longer, 0);
	return result;
}
