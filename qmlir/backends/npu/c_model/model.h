/* A device of qmlir, executed: each call computes what one command of its instruction set computes, bit for bit.
 *
 * The code is C99 without floats, dynamic memory or a library. It needs integers in two's complement that shift right
 * arithmetically, as on every processor that qmlir compiles for. Commands have their words in the processor's byte
 * order; the device's memories are little-endian, whatever the processor is.
 *
 * The model trusts a program's addresses: `qmlir compile` and `qmlir run` have checked that each command stays within
 * its memories, and that no command overwrites what it still has to read. */

#ifndef QMLIR_NPU_MODEL_H
#define QMLIR_NPU_MODEL_H

#include <stdint.h>

/* A device: its memories in the order of the device file, and the words of the last set-context of each number. */
typedef struct qmlir_npu_device {
  uint8_t *const *memories;
  const uint32_t *contexts[16];
} qmlir_npu_device;

/* What the model answers. */
enum qmlir_npu_status {
@STATUS@
};

/* Executes a command, given as its words (qmlir_npu_commands.h): those that compute, move bytes or set a context. The
 * others (sync, host, mark, end) and all waits are their caller's, and the model answers 0.
 *
 * The words of a context must stay where they are until another context has the same number. After a status other than
 * 0, the bytes that the command writes may have any value. */
int qmlir_npu_model(qmlir_npu_device *device, const uint32_t *command);

#endif
