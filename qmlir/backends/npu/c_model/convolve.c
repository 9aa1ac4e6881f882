/* ---------------------------------------------------------------------------------------------------------------
 * Convolutions: exact sums of products, stored as the array's accumulators hold them. */

typedef struct convolution {
  window window;
  const uint8_t *weights, *bias;
  uint8_t *sums;
  uint32_t init, data_bits, weight_bits, sum_bits, bias_bits, bias_shift, channels, outputs;
  int32_t zero_point, weight_zero_point;
  uint32_t accumulator_bits;
} convolution;

/* Reads the fields of a convolution; a depthwise convolution has the same ones, but for its output channels. */
static inline int convolution_of(convolution *c, const qmlir_npu_device *device, const uint32_t *fields) {
  WINDOW_OF(c->window, CONVOLVE, DATA);
  c->weights = PLACE(CONVOLVE, WEIGHTS);
  c->bias = PLACE(CONVOLVE, BIAS);
  c->sums = PLACE(CONVOLVE, SUMS);
  c->init = FIELD(CONVOLVE, INIT);
  c->data_bits = FIELD(CONVOLVE, DATA_BITS);
  c->weight_bits = FIELD(CONVOLVE, WEIGHT_BITS);
  c->sum_bits = FIELD(CONVOLVE, SUM_BITS);
  c->bias_bits = FIELD(CONVOLVE, BIAS_BITS);
  c->bias_shift = FIELD(CONVOLVE, BIAS_SHIFT);
  c->zero_point = SIGNED(CONVOLVE, ZERO_POINT);
  c->weight_zero_point = SIGNED(CONVOLVE, WEIGHT_ZERO_POINT);
  c->channels = FIELD(CONVOLVE, CHANNELS);
  c->accumulator_bits = at_most(accumulator_bits(c->data_bits, c->weight_bits), c->sum_bits);
  if (c->data_bits != 8 && c->data_bits != 16) return QMLIR_NPU_FAULT_WIDTH;
  if (c->weight_bits < 2 || (c->weight_bits > 8 && c->weight_bits != 16)) return QMLIR_NPU_FAULT_WIDTH;
  if ((c->sum_bits != 32 && c->sum_bits != 64) || !is_width(c->bias_bits)) return QMLIR_NPU_FAULT_WIDTH;
  if (c->weight_zero_point && !WEIGHT_ZERO_POINTS) return QMLIR_NPU_FAULT_WEIGHT_ZERO_POINT;
  return c->accumulator_bits ? QMLIR_NPU_DONE : QMLIR_NPU_FAULT_MODE;
}

/* Adds what the sums begin with to the sums of products of `count` outputs at a position, and stores them.
 *
 * `position` counts rows * columns, and `first` is the first of the outputs, of which there are at most AT_ONCE. */
static inline int store_sums(const convolution *c, const int64_t *products, size_t position, uint32_t first,
                             uint32_t count) {
  uint8_t *sums = c->sums + (position * c->outputs + first) * (c->sum_bits / 8);
  int64_t total[AT_ONCE];
  uint32_t i;
  if (c->init == QMLIR_NPU_INIT_BIAS) {
    load_numbers(total, c->bias + (size_t)first * (c->bias_bits / 8), c->bias_bits, count);
    for (i = 0; i < count; i++) total[i] = add(products[i], shift_left(total[i], c->bias_shift & 63));
  } else if (c->init == QMLIR_NPU_INIT_ACCUMULATE) {
    load_numbers(total, sums, c->sum_bits, count);
    for (i = 0; i < count; i++) total[i] = add(products[i], total[i]);
  } else {
    for (i = 0; i < count; i++) total[i] = products[i];
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

/* Outputs, positions and terms whose products are computed at a time: weights and data of a block lie on the stack. */
#ifndef QMLIR_NPU_OUTPUTS
#define QMLIR_NPU_OUTPUTS 4
#endif
#ifndef QMLIR_NPU_POSITIONS
#define QMLIR_NPU_POSITIONS 4
#endif
#ifndef QMLIR_NPU_TERMS
#define QMLIR_NPU_TERMS 64
#endif
enum { OUTPUTS = QMLIR_NPU_OUTPUTS, POSITIONS = QMLIR_NPU_POSITIONS, TERMS = QMLIR_NPU_TERMS };

typedef char outputs_fit_a_buffer[(int)OUTPUTS <= (int)AT_ONCE ? 1 : -1];
typedef char sums_of_a_block_fit_32_bits[TERMS <= 1 << 14 ? 1 : -1];
