/* Walks the commands of a program, as qmlir_npu.h describes. */
#include "qmlir_npu.h"

/* Commands of the runtime's own, by the first byte of their first word; queues get all others. */
enum { SYNC = 0x02, HOST = 0x03, MARK = 0x04, END = 0x05 };

#define OP(head) ((head) & 0xff)
#define LENGTH(head) ((head) >> 8 & 0xff)
#define QUEUE(head) ((head) >> 16 & 0xf)
#define WAITS(head) ((head) >> 24 & 0x3)

static void copy(struct qmlir_npu *npu, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  if (npu->hooks->copy)
    npu->hooks->copy(npu, to, from, bytes);
  else
    qmlir_npu_bytes(to, from, bytes);
}

static void clean(struct qmlir_npu *npu, const struct qmlir_npu_tensor *tensor) {
  if (npu->hooks->clean) npu->hooks->clean(npu, qmlir_npu_at(npu, tensor->memory, tensor->address), tensor->bytes);
}

static void invalidate(struct qmlir_npu *npu, const struct qmlir_npu_tensor *tensor) {
  if (npu->hooks->invalidate)
    npu->hooks->invalidate(npu, qmlir_npu_at(npu, tensor->memory, tensor->address), tensor->bytes);
}

/* Waits until a queue has finished so many commands, unless it is known to have. */
static int wait_for(struct qmlir_npu *npu, uint32_t queue, uint32_t finished) {
  int error;
  if (finished > npu->issued[queue]) return QMLIR_NPU_DAMAGED;
  if (finished <= npu->finished[queue]) return 0;
  if (npu->hooks->wait && (error = npu->hooks->wait(npu, queue, finished)) != 0) return error;
  npu->finished[queue] = finished;
  return 0;
}

static int wait_for_all(struct qmlir_npu *npu) {
  uint32_t queue;
  int error;
  if (npu->hooks->barrier && (error = npu->hooks->barrier(npu)) != 0) return error;
  for (queue = 0; queue < QMLIR_NPU_QUEUES; ++queue) npu->finished[queue] = npu->issued[queue];
  return 0;
}

/* Waits for what the words of a command name. */
static int wait_as_told(struct qmlir_npu *npu, const uint32_t *words) {
  uint32_t i;
  int error;
  for (i = 1; i <= WAITS(words[0]); ++i)
    if ((error = wait_for(npu, words[i] >> 28, words[i] & 0xfffffff)) != 0) return error;
  return 0;
}

/* Ends the layer before a mark and begins the next; QMLIR_NPU_NONE is none. */
static int enter(struct qmlir_npu *npu, uint32_t layer) {
  int error;
  if (!npu->hooks->layer) return 0;
  if ((error = wait_for_all(npu)) != 0) return error;
  if (npu->layer != QMLIR_NPU_NONE) npu->hooks->layer(npu, npu->layer, 0);
  npu->layer = layer;
  if (layer != QMLIR_NPU_NONE) npu->hooks->layer(npu, layer, 1);
  return 0;
}

/* Runs a routine when the commands before it in its queue are finished. */
static int call_host(struct qmlir_npu *npu, uint32_t queue, uint32_t number) {
  const struct qmlir_npu_routine *routine = npu->network->routines + number;
  uint32_t i;
  int error;
  if (number >= npu->network->routine_count) return QMLIR_NPU_DAMAGED;
  if ((error = wait_for(npu, queue, npu->issued[queue])) != 0) return error;
  for (i = 0; i < routine->inputs; ++i) invalidate(npu, routine->tensors + i);
  if (!npu->hooks->host)
    routine->call(npu);
  else if ((error = npu->hooks->host(npu, number)) != 0)
    return error;
  for (i = 0; i < routine->outputs; ++i) clean(npu, routine->tensors + routine->inputs + i);
  return 0;
}

/* Whether a command is whole, and not the runtime's own. */
static int is_queued(const uint32_t *words, uint32_t left) {
  uint32_t head = words[0];
  if (LENGTH(head) > left || LENGTH(head) < 1 + WAITS(head)) return 0;
  return OP(head) < SYNC || OP(head) > END;
}

/* Gives commands to a queue from `words` on, as many as follow without a wait; returns their words, or 0. */
static uint32_t submit(struct qmlir_npu *npu, const uint32_t *words, uint32_t left, int *error) {
  uint32_t queue = QUEUE(words[0]), count = 0, commands = 0, first = npu->command;
  do {
    count += LENGTH(words[count]);
    ++commands;
  } while (count < left && is_queued(words + count, left - count) && QUEUE(words[count]) == queue &&
           (npu->hooks->waits || !WAITS(words[count])));
  if ((*error = npu->hooks->submit(npu, queue, words, count, commands)) != 0) return 0;
  npu->issued[queue] += commands;
  npu->command = first + commands;
  return count;
}

/* Executes a command of the runtime's own. */
static int execute(struct qmlir_npu *npu, const uint32_t *words) {
  uint32_t argument = words[1 + WAITS(words[0])];
  switch (OP(words[0])) {
    case SYNC: return argument ? wait_for_all(npu) : 0;
    case HOST: return call_host(npu, QUEUE(words[0]), argument);
    case MARK: return enter(npu, argument);
    default: { /* the end */
      int error = wait_for_all(npu);
      return error ? error : enter(npu, QMLIR_NPU_NONE);
    }
  }
}

/* Executes the program from its first command to its end. */
static int walk(struct qmlir_npu *npu) {
  const uint32_t *words = (const uint32_t *)(const void *)(npu->weights + npu->network->program);
  uint32_t left = npu->network->words, queue;
  int error = 0;
  for (queue = 0; queue < QMLIR_NPU_QUEUES; ++queue) npu->issued[queue] = npu->finished[queue] = 0;
  npu->command = 0;
  npu->layer = QMLIR_NPU_NONE;
  while (left) {
    uint32_t head = words[0], count = LENGTH(head);
    int queued = is_queued(words, left);
    if (!queued && (count > left || count != 2 + WAITS(head) + (OP(head) == HOST ? 4 : 0))) return QMLIR_NPU_DAMAGED;
    if (!(queued && npu->hooks->waits) && (error = wait_as_told(npu, words)) != 0) return error;
    if (queued) {
      if ((count = submit(npu, words, left, &error)) == 0) return error;
    } else {
      if ((error = execute(npu, words)) != 0 || OP(head) == END) return error;
      ++npu->command;
    }
    words += count;
    left -= count;
  }
  return QMLIR_NPU_DAMAGED; /* there is no end */
}

int qmlir_npu_init(struct qmlir_npu *npu, const struct qmlir_npu_network *network, const uint8_t *weights,
                   uint8_t *const *memories, const struct qmlir_npu_hooks *hooks, void *board) {
  uint32_t i;
  npu->network = network;
  npu->hooks = hooks;
  npu->board = board;
  npu->memories = memories;
  npu->weights = weights;
  npu->command = 0;
  for (i = 0; i < network->image_count; ++i) {
    const struct qmlir_npu_image *image = network->images + i;
    uint8_t *to = qmlir_npu_at(npu, image->memory, image->address);
    if (to == weights + image->offset) continue; /* the device reads them where they are */
    copy(npu, to, weights + image->offset, image->bytes);
    if (hooks->clean) hooks->clean(npu, to, image->bytes);
  }
  return 0;
}

int qmlir_npu_run(struct qmlir_npu *npu, uint8_t *arena, uint8_t *state, const void *const *inputs,
                  void *const *outputs) {
  const struct qmlir_npu_network *network = npu->network;
  uint32_t i;
  int error;
  if (!network) return QMLIR_NPU_UNLOADED;
  npu->arena = arena;
  for (i = 0; i < network->input_count; ++i) {
    const struct qmlir_npu_tensor *tensor = network->inputs + i;
    const uint8_t *from = tensor->state == QMLIR_NPU_NONE ? (const uint8_t *)*inputs++ : state + tensor->state;
    copy(npu, qmlir_npu_at(npu, tensor->memory, tensor->address), from, tensor->bytes);
    clean(npu, tensor);
  }
  if ((error = walk(npu)) != 0) return error;
  for (i = 0; i < network->output_count; ++i) {
    const struct qmlir_npu_tensor *tensor = network->outputs + i;
    uint8_t *to = tensor->state == QMLIR_NPU_NONE ? (uint8_t *)*outputs++ : state + tensor->state;
    invalidate(npu, tensor);
    copy(npu, to, qmlir_npu_at(npu, tensor->memory, tensor->address), tensor->bytes);
  }
  return 0;
}
