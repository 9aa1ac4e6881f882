/* Greedy generation in C: token ids as arguments, token ids on standard output, one by one as they are found.

     qmlir compile model.mlir -o net.o
     cc -std=c11 -DROWS=16 -DVOCABULARY=49152 generate.c net.o -o generate -lm
     ./generate 20 17 4 99        20 tokens behind the prompt 17 4 99

   ROWS is the number of tokens that a call of prefill takes. The network has the inputs `token` and `pos`, both
   int64, and the output `logits`, as networks read from GGUF files have. */
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static float logits[ROWS * VOCABULARY];

/* The token with the largest logit, of the last of some rows. */
static int64_t most_likely(int rows) {
  const float *last = logits + (rows - 1) * VOCABULARY;
  int64_t best = 0;
  for (int64_t i = 1; i < VOCABULARY; ++i)
    if (last[i] > last[best]) best = i;
  return best;
}

int main(int count, char **words) {
  uint8_t *weights = aligned_alloc(NET_ALIGNMENT, (NET_WEIGHTS_SIZE + 63) / 64 * 64);
  uint8_t *arena = aligned_alloc(NET_ALIGNMENT, (NET_ARENA_SIZE + 63) / 64 * 64);
  uint8_t *state = aligned_alloc(NET_ALIGNMENT, (NET_STATE_SIZE + 63) / 64 * 64);
  FILE *file = fopen("net.weights.bin", "rb");
  if (count < 3 || !weights || !arena || !state || !file) return 1;
  if (fread(weights, 1, NET_WEIGHTS_SIZE, file) != NET_WEIGHTS_SIZE) return 1;
  fclose(file);

  net_reset(state);
  const int prompt = count - 2;
  int64_t token[ROWS], pos[ROWS], at = 0, next = 0;
  const void *inputs[] = {token, pos};
  void *outputs[] = {logits};
  while (at < prompt) {
    const int rows = prompt - at >= ROWS ? ROWS : 1;
    for (int i = 0; i < rows; ++i) {
      token[i] = atoll(words[2 + at + i]);
      pos[i] = at + i;
    }
    (rows == 1 ? net_decode_step : net_prefill_step)(weights, arena, state, inputs, outputs);
    next = most_likely(rows);
    at += rows;
  }
  for (int i = atoi(words[1]); i > 0; --i) {
    printf("%lld ", (long long)next);
    fflush(stdout);
    token[0] = next;
    pos[0] = at++;
    net_decode_step(weights, arena, state, inputs, outputs);
    next = most_likely(1);
  }
  printf("\n");
  return 0;
}
