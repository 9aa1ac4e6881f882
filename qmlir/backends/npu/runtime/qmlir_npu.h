/* The runtime of networks for an accelerator: it walks the commands of a program and calls the hooks of a board.

   It is C99 and C++17, needs no library and allocates nothing. One copy of it serves all networks of a firmware. */
#ifndef QMLIR_NPU_H
#define QMLIR_NPU_H

#include <stdint.h>

#define QMLIR_NPU_VERSION 1
#define QMLIR_NPU_QUEUES 16
#define QMLIR_NPU_NONE 0xffffffffu /* no layer; or a tensor that is no state */

#ifdef __cplusplus
extern "C" {
#endif

/* What goes wrong, besides the codes of the hooks, which are greater than 0. `command` of struct qmlir_npu is the
   number of the command, counted from 0. */
enum {
  QMLIR_NPU_DAMAGED = -1,   /* the words are no program: a command is cut off, or waits for a later one */
  QMLIR_NPU_UNLOADED = -2   /* a call came before the network was initialized, or after that had failed */
};

struct qmlir_npu;

/* What a board does for the runtime. A function that is 0 is not called; `submit` has to be there. Functions that
   return int return 0, or a code greater than 0 that the call of the network returns.

   submit      gives a run of commands to a queue: `count` words, of `commands` commands behind one another; it may
               return before they are done. If it fails, it first adds the number of good ones to npu->command
   wait        returns when a queue has finished so many commands since the call of the network began
   barrier     returns when all queues have finished all commands
   host        computes a routine of the host in place of the function npu->network->routines[routine].call
   copy        copies bytes between the program's memory and a memory of the device, in place of a loop of bytes
   clean       makes bytes that the processor wrote visible to the device
   invalidate  makes bytes that the device wrote visible to the processor
   layer       is called where a layer begins and where it has ended, when all commands before are finished
   waits       1 if the device itself keeps the order that the waits in the words of its commands state. Then the
               runtime waits only for its own commands, and gives queues those that wait, too */
struct qmlir_npu_hooks {
  int (*submit)(struct qmlir_npu *npu, uint32_t queue, const uint32_t *words, uint32_t count, uint32_t commands);
  int (*wait)(struct qmlir_npu *npu, uint32_t queue, uint32_t finished);
  int (*barrier)(struct qmlir_npu *npu);
  int (*host)(struct qmlir_npu *npu, uint32_t routine);
  void (*copy)(struct qmlir_npu *npu, uint8_t *to, const uint8_t *from, uint32_t bytes);
  void (*clean)(struct qmlir_npu *npu, const uint8_t *at, uint32_t bytes);
  void (*invalidate)(struct qmlir_npu *npu, const uint8_t *at, uint32_t bytes);
  void (*layer)(struct qmlir_npu *npu, uint32_t layer, int begins);
  int waits;
};

/* A tensor in a memory of the device; `state` is its place among the states, or QMLIR_NPU_NONE. */
struct qmlir_npu_tensor {
  uint32_t memory, address, bytes, state;
};

/* Constants that lie in a memory before the first command; `offset` is their place among the weights. */
struct qmlir_npu_image {
  uint32_t memory, address, bytes, offset;
};

/* What the processor computes between commands; `tensors` are its inputs, then its outputs. */
struct qmlir_npu_routine {
  void (*call)(struct qmlir_npu *npu);
  const struct qmlir_npu_tensor *tensors;
  uint32_t inputs, outputs;
};

/* A network; a bundle has it as a constant. `program` is the place of its words among the weights. */
struct qmlir_npu_network {
  uint32_t program, words;
  const struct qmlir_npu_image *images;
  uint32_t image_count;
  const struct qmlir_npu_routine *routines;
  uint32_t routine_count;
  const struct qmlir_npu_tensor *inputs;
  uint32_t input_count;
  const struct qmlir_npu_tensor *outputs;
  uint32_t output_count;
};

/* A device with a network in its memories. `board` is for the hooks. */
struct qmlir_npu {
  const struct qmlir_npu_network *network;
  const struct qmlir_npu_hooks *hooks;
  void *board;
  uint8_t *const *memories;
  const uint8_t *weights;
  uint8_t *arena;
  uint32_t command;
  uint32_t layer;
  uint32_t issued[QMLIR_NPU_QUEUES], finished[QMLIR_NPU_QUEUES];
};

/* Copies the constants of a network into the memories. `memories` has the first byte of each memory of the device
   file, by its number, at which the processor sees it. */
int qmlir_npu_init(struct qmlir_npu *npu, const struct qmlir_npu_network *network, const uint8_t *weights,
                   uint8_t *const *memories, const struct qmlir_npu_hooks *hooks, void *board);

/* Computes the outputs from the inputs, both without states; the states are overwritten if nothing fails. */
int qmlir_npu_run(struct qmlir_npu *npu, uint8_t *arena, uint8_t *state, const void *const *inputs,
                  void *const *outputs);

/* The place of a byte of the device. */
static inline uint8_t *qmlir_npu_at(const struct qmlir_npu *npu, uint32_t memory, uint32_t address) {
  return npu->memories[memory] + address;
}

/* Copies bytes; compilers make no call of memcpy of it. */
static inline void qmlir_npu_bytes(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  volatile uint8_t *at = to;
  uint32_t i;
  for (i = 0; i < bytes; ++i) at[i] = from[i];
}

#ifdef __cplusplus
}
#endif

#endif /* QMLIR_NPU_H */
