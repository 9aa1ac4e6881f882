/* ---------------------------------------------------------------------------------------------------------------
 * Contexts: how a command finishes each element, by a requantization or by a table. */

typedef struct context {
  uint32_t step, bits, contract, per_channel;
  int64_t input_zero_point, zero_point, lower, upper;
  const uint8_t *table; /* pairs of a multiplier and a shift, or 256 entries */
} context;

/* The multipliers and shifts of some channels. */
typedef struct factors {
  int64_t multiplier[AT_ONCE], shift[AT_ONCE];
} factors;

/* Reads the context that a command uses. */
static inline int context_of(context *c, const qmlir_npu_device *device, const uint32_t *command) {
  const uint32_t *words = device->contexts[command[0] >> 20 & 15], *fields;
  if (!words) return QMLIR_NPU_FAULT_CONTEXT;
  fields = fields_of(words);
  c->step = FIELD(SET_CONTEXT, STEP);
  c->bits = FIELD(SET_CONTEXT, BITS);
  c->contract = FIELD(SET_CONTEXT, CONTRACT);
  c->per_channel = FIELD(SET_CONTEXT, PER_CHANNEL) != 0;
  c->input_zero_point = SIGNED(SET_CONTEXT, INPUT_ZERO_POINT);
  c->zero_point = SIGNED(SET_CONTEXT, ZERO_POINT);
  c->lower = SIGNED(SET_CONTEXT, LOWER);
  c->upper = SIGNED(SET_CONTEXT, UPPER);
  c->table = PLACE(SET_CONTEXT, TABLE);
  return is_width(c->bits) ? QMLIR_NPU_DONE : QMLIR_NPU_FAULT_WIDTH;
}

/* Whether the contract takes the multipliers and shifts of all channels. */
static inline int factors_status(const context *c, uint32_t channels) {
  const rule *r = rule_of(c->contract);
  uint32_t i;
  if (c->step == QMLIR_NPU_STEP_LOOKUP) return QMLIR_NPU_DONE;
  if (!r) return QMLIR_NPU_FAULT_CONTRACT;
  for (i = 0; i < (c->per_channel ? channels : 1); i++) {
    const int32_t multiplier = (int32_t)word_of_32(c->table + 8 * (size_t)i);
    const int32_t shift = (int32_t)word_of_32(c->table + 8 * (size_t)i + 4);
    if (multiplier && (multiplier < LEAST_MULTIPLIER || multiplier % r->step)) return QMLIR_NPU_FAULT_FACTOR;
    if (shift < LEAST_SHIFT || shift > r->most_shift) return QMLIR_NPU_FAULT_FACTOR;
  }
  return QMLIR_NPU_DONE;
}

/* Reads the multipliers and shifts of `count` channels from channel `first` on. */
static inline void load_factors(factors *f, const context *c, uint32_t first, uint32_t count) {
  uint32_t i;
  if (c->step == QMLIR_NPU_STEP_LOOKUP) return;
  for (i = 0; i < count; i++) {
    const uint8_t *pair = c->table + (c->per_channel ? 8 * (size_t)(first + i) : 0);
    f->multiplier[i] = (int32_t)word_of_32(pair);
    f->shift[i] = (int32_t)word_of_32(pair + 4);
  }
}

/* Adds the zero point and clips to the bounds. */
static inline void clamp(int64_t *values, const context *c, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; i++) values[i] = lesser(greater(add(values[i], c->zero_point), c->lower), c->upper);
}

/* Applies the context to elements of `count` channels, in place. They have at most `bits` bits. */
static inline int finish(int64_t *values, const context *c, const factors *f, uint32_t bits, uint32_t count) {
  const rule *r = rule_of(c->contract);
  uint32_t i;
  if (c->step == QMLIR_NPU_STEP_LOOKUP) {
    for (i = 0; i < count; i++) {
      if (values[i] < -128 || values[i] > 127) return QMLIR_NPU_FAULT_INDEX;
      load_numbers(values + i, c->table + (size_t)(values[i] + 128) * (c->bits / 8), c->bits, 1);
    }
    return QMLIR_NPU_DONE;
  }
  if (c->input_zero_point)
    for (i = 0; i < count; i++) values[i] = subtract(values[i], c->input_zero_point);
  if (bits > 32 || c->input_zero_point || r->limit < (int64_t)1 << 31) { /* else no number is beyond the limit */
    int64_t least = 0, greatest = 0;
    for (i = 0; i < count; i++) {
      least = lesser(least, values[i]);
      greatest = greater(greatest, values[i]);
    }
    if (least < -r->limit || greatest > r->limit) return QMLIR_NPU_FAULT_ACCUMULATOR;
  }
  requantize(values, c->contract, f->multiplier, f->shift, count);
  clamp(values, c, count);
  return QMLIR_NPU_DONE;
}
