// Tells how many times in a millisecond this machine's time stamp counter ticks. The guest reads the same counter.
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(void)
{
	double started = now(), seconds;
	unsigned long long ticks = __rdtsc();

	do {
		seconds = now() - started;
	} while (seconds < 0.1);
	printf("%.0f\n", (__rdtsc() - ticks) / seconds / 1e3);
	return 0;
}
