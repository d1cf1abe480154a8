/* For the programs that check one family's kernels against plain loops. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

static int check_failures = 0;

/* Report a difference beyond the bound; NaN must meet NaN. */
static void check_close(const char *what, int64_t at, double got, double want, double bound)
{
    if (isnan(want) ? isnan(got) : fabs(got - want) <= bound)
        return;
    if (check_failures++ < 10)
        printf("%s: element %lld is %.9g; expected %.9g within %.3g\n", what, (long long)at, got,
               want, bound);
}

static int check_report(const char *family)
{
    printf("%s: %s\n", family, check_failures ? "FAILED" : "ok");
    return check_failures != 0;
}

/* Numbers in [-1, 1), the same in every run. */
static double check_random(void)
{
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 11) / 4503599627370496.0 - 1.0;
}

#endif
