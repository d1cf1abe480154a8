/* One instruction of a plan, as the executor runs it and a tiled operation reads it. */
#ifndef UFF_INSTRUCTION_H
#define UFF_INSTRUCTION_H

#include "slave.h"

typedef struct uff_instruction uff_instruction;

/* A tiled operation: reads and writes the instruction's operands with the team. */
typedef void (*uff_tiled_op)(const uff_instruction *ins, const uff_team *team);

struct uff_instruction {
    uff_tiled_op run;
    void **table;        /* the plan's buffers: arena values, feeds, variables, constants */
    const int32_t *args; /* operands as places in the table: outputs, inputs, workspace */
    const int64_t *ints; /* sizes, strides, attributes: as the operation's lowering wrote them */
    const double *floats;
};

/* Operand k of an instruction. */
static inline void *uff_arg(const uff_instruction *ins, int k)
{
    return ins->table[ins->args[k]];
}

#endif
