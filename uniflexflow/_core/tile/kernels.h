/* The table of tile kernels: one pointer per family, set for one instruction set. */
#ifndef UFF_KERNELS_H
#define UFF_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "families.h"

#define UFF_TABLE_TYPE(family, arg) typedef struct uff_##family##_kernels uff_##family##_kernels;
UFF_FAMILIES(UFF_TABLE_TYPE, )
#undef UFF_TABLE_TYPE

typedef struct uff_kernels {
#define UFF_TABLE_ROW(family, arg) const uff_##family##_kernels *family;
    UFF_FAMILIES(UFF_TABLE_ROW, )
#undef UFF_TABLE_ROW
} uff_kernels;

/* uff_<family>(kernels): that family's functions. */
#define UFF_TABLE_GET(family, arg)                                                       \
    static inline const uff_##family##_kernels *uff_##family(const uff_kernels *kernels) \
    {                                                                                    \
        return kernels->family;                                                          \
    }
UFF_FAMILIES(UFF_TABLE_GET, )
#undef UFF_TABLE_GET

/* UFF_FILL(family): name of the function that sets the family's row of this object file. */
#define UFF_JOIN2(family, isa) uff_fill_##family##_##isa
#define UFF_JOIN(family, isa) UFF_JOIN2(family, isa)
#define UFF_FILL(family) UFF_JOIN(family, UFF_ISA)

#endif
