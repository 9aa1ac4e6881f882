/* What a runtime tells the program around it (around.c) of a network. It is C99 and C++17. */

#ifndef NETWORK_H
#define NETWORK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a call reads its input and writes its output, and the bytes of both. `memory` is what the network takes of
 * writable memory in bytes: scratch memory, the runtime's structures in it, input and output; not the stack. */
struct network {
  void *input;
  const void *output;
  uint32_t input_bytes, output_bytes, memory;
};

/* Makes the network ready and says where its data are; called once, not counted. 0 if it is. */
int network_begin(struct network *network);

/* Computes the output of the input; its instructions are counted. 0 if it could. */
int network_run(void);

#ifdef __cplusplus
}
#endif

#endif
