/* ---------------------------------------------------------------------------------------------------------------
 * Sums of products as numbers of type TOTAL, which has the bits of the accumulators, or at least all of the sums. */

/* Adds what the sums begin with to the sums of products of `count` outputs at a position, and stores them.
 *
 * `position` counts rows * columns, and `first` is the first of the outputs, of which there are at most AT_ONCE. */
static inline int NAMED(store_sums)(const convolution *c, const TOTAL *products, size_t position, uint32_t first,
                                    uint32_t count) {
  uint8_t *sums = c->sums + (position * c->outputs + first) * (c->sum_bits / 8);
  const uint8_t *begin = c->init == QMLIR_NPU_INIT_BIAS ? c->bias + (size_t)first * (c->bias_bits / 8) : sums;
  int64_t total[AT_ONCE];
  uint32_t i;
  if (sizeof(TOTAL) == 4 && c->accumulator_bits == 32 && c->sum_bits == 32 &&
      (c->init != QMLIR_NPU_INIT_BIAS || (c->bias_bits == 32 && c->bias_shift < 32))) { /* all that there is has the bits of TOTAL */
    const uint32_t shift = c->init == QMLIR_NPU_INIT_BIAS ? c->bias_shift : 0;
    if (c->init == QMLIR_NPU_INIT_ZERO)
      for (i = 0; i < count; i++) put_word_of_32(sums + 4 * (size_t)i, (uint32_t)products[i]);
    else
      for (i = 0; i < count; i++)
        put_word_of_32(sums + 4 * (size_t)i, (uint32_t)products[i] + (word_of_32(begin + 4 * (size_t)i) << shift));
    return QMLIR_NPU_DONE;
  }
  if (c->init == QMLIR_NPU_INIT_BIAS) {
    load_numbers(total, begin, c->bias_bits, count);
    for (i = 0; i < count; i++) total[i] = add((int64_t)products[i], shift_left(total[i], c->bias_shift & 63));
  } else if (c->init == QMLIR_NPU_INIT_ACCUMULATE) {
    load_numbers(total, begin, c->sum_bits, count);
    for (i = 0; i < count; i++) total[i] = add((int64_t)products[i], total[i]);
  } else {
    for (i = 0; i < count; i++) total[i] = (int64_t)products[i];
  }
  if (c->accumulator_bits < 64) {
    const int64_t half = (int64_t)1 << (c->accumulator_bits - 1);
    for (i = 0; i < count; i++) {
#if OVERFLOW == OVERFLOW_WRAP
      total[i] = subtract(add(total[i], half) & (2 * half - 1), half);
#elif OVERFLOW == OVERFLOW_SATURATE
      total[i] = lesser(greater(total[i], -half), half - 1);
#else
      if (total[i] < -half || total[i] >= half) return QMLIR_NPU_FAULT_SUM;
#endif
    }
  }
  store_numbers(sums, total, c->sum_bits, count);
  return QMLIR_NPU_DONE;
}
