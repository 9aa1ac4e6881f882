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

/* Outputs, positions and terms whose products are computed at a time, and the bytes of the buffers on the stack in which
 * their weights and data are packed: rows of as many terms, a multiple of STEP, so that loops over them have no rest. */
#ifndef QMLIR_NPU_OUTPUTS
#define QMLIR_NPU_OUTPUTS 8
#endif
#ifndef QMLIR_NPU_POSITIONS
#define QMLIR_NPU_POSITIONS 8
#endif
#ifndef QMLIR_NPU_TERMS
#define QMLIR_NPU_TERMS 64
#endif
#ifndef QMLIR_NPU_WEIGHTS
#define QMLIR_NPU_WEIGHTS 1024
#endif
#ifndef QMLIR_NPU_DATA
#define QMLIR_NPU_DATA 1024
#endif
#ifndef QMLIR_NPU_STEP
#define QMLIR_NPU_STEP 1
#endif
enum { OUTPUTS = QMLIR_NPU_OUTPUTS, POSITIONS = QMLIR_NPU_POSITIONS, TERMS = QMLIR_NPU_TERMS, STEP = QMLIR_NPU_STEP };

typedef char buffers_hold_4_rows[16 * TERMS <= QMLIR_NPU_WEIGHTS && 16 * TERMS <= QMLIR_NPU_DATA ? 1 : -1];
typedef char outputs_are_fours[OUTPUTS % 4 == 0 ? 1 : -1];
typedef char rows_are_whole_steps[TERMS % STEP == 0 && (STEP & (STEP - 1)) == 0 ? 1 : -1];
typedef char sums_of_a_row_fit_32_bits[TERMS <= 1 << 14 ? 1 : -1];
