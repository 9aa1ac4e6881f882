/* Greedy generation in C: token ids as arguments; tokens on standard output, one by one as they are found.

     qmlir compile model.mlir --bundle --prefix net --api dynamic --weights-in file --memory fast -o folder
     cc -std=c11 -Ifolder generate.c folder/net.o -o generate
     cd folder && ../generate 20 17 4 99              20 tokens behind the prompt 17 4 99, as ids
     cd folder && ../generate -w my.words 20 17 4 99  as text; words.py writes the words of a model's file

   The network has the entries `prefill` and `decode`, with the inputs `token` and `pos`, both int64, and the output
   `logits`, as networks read from GGUF files have them. The object of `qmlir compile -o net.o`, linked with -lm, has
   the same functions; its header does not say the sizes, so that -DROWS=16 -DVOCABULARY=49152 gives them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

#ifndef ROWS
#define ROWS NET_PREFILL_INPUT0_ELEMENTS
#endif
#ifndef VOCABULARY
#define VOCABULARY NET_DECODE_OUTPUT0_ELEMENTS
#endif

static float logits[ROWS * VOCABULARY];

/* The words of tokens: each one's bytes behind their number in one byte. */
static unsigned char *words, *word_of[VOCABULARY];

static int read_words(const char *path) {
  FILE *file = fopen(path, "rb");
  long size = 0, at = 0, i = 0;
  if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) <= 0) return 0;
  rewind(file);
  words = malloc(size);
  if (!words || fread(words, 1, size, file) != (size_t)size) return 0;
  fclose(file);
  for (; i < VOCABULARY && at + words[at] < size; at += 1 + words[at], ++i) {
    word_of[i] = words + at;
    if (at + 1 + words[at] == size) return i + 1 == VOCABULARY;
  }
  return 0;
}

static void show(int64_t token) {
  if (words)
    fwrite(word_of[token] + 1, 1, word_of[token][0], stdout);
  else
    printf("%lld ", (long long)token);
  fflush(stdout);
}

/* The token with the largest logit, of the last of some rows. */
static int64_t most_likely(int rows) {
  const float *last = logits + (rows - 1) * VOCABULARY;
  int64_t best = 0;
  for (int64_t i = 1; i < VOCABULARY; ++i)
    if (last[i] > last[best]) best = i;
  return best;
}

static int failed(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(int count, char **arguments) {
  if (count > 2 && !strcmp(arguments[1], "-w")) {
    if (!read_words(arguments[2])) return failed("the file of words is not that of the network's tokens");
    count -= 2;
    arguments += 2;
  }
  if (count < 3) return failed("usage: generate [-w FILE] COUNT TOKEN...");
  uint8_t *weights = aligned_alloc(NET_ALIGNMENT, (NET_WEIGHTS_SIZE + 63) / 64 * 64);
  uint8_t *arena = aligned_alloc(NET_ALIGNMENT, (NET_ARENA_SIZE + 63) / 64 * 64);
  uint8_t *state = aligned_alloc(NET_ALIGNMENT, (NET_STATE_SIZE + 63) / 64 * 64);
  if (!weights || !arena || !state) return failed("there is too little memory");
  FILE *file = fopen("net.weights.bin", "rb");
  if (!file || fread(weights, 1, NET_WEIGHTS_SIZE, file) != NET_WEIGHTS_SIZE)
    return failed("net.weights.bin must be in this folder, and whole");
  fclose(file);

  net_reset(state);
  const int prompt = count - 2;
  int64_t token[ROWS], pos[ROWS], at = 0, next = 0;
  const void *inputs[] = {token, pos};
  void *outputs[] = {logits};
  while (at < prompt) {
    const int rows = prompt - at >= ROWS ? ROWS : 1;
    for (int i = 0; i < rows; ++i) {
      token[i] = atoll(arguments[2 + at + i]);
      if (token[i] < 0 || token[i] >= VOCABULARY) return failed("a token is not in the vocabulary");
      pos[i] = at + i;
    }
    (rows == 1 ? net_decode_step : net_prefill_step)(weights, arena, state, inputs, outputs);
    next = most_likely(rows);
    at += rows;
  }
  for (int i = atoi(arguments[1]); i > 0; --i) {
    show(next);
    token[0] = next;
    pos[0] = at++;
    if (i > 1) net_decode_step(weights, arena, state, inputs, outputs);
    if (i > 1) next = most_likely(1);
  }
  printf("\n");
  return 0;
}
