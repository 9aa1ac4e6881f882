/* ---------------------------------------------------------------------------------------------------------------
 * Sums and products of two tensors: some channels of every pixel, then the next channels. */

static int arithmetic(const qmlir_npu_device *device, const uint32_t *command) {
  const uint32_t *fields = fields_of(command), bits = FIELD(ARITHMETIC, BITS);
  const uint32_t channels = FIELD(ARITHMETIC, CHANNELS), shift = FIELD(ARITHMETIC, SHIFT);
  const int adds = FIELD(ARITHMETIC, OPERATION) == QMLIR_NPU_OPERATION_ADD;
  const int64_t lhs_zero_point = SIGNED(ARITHMETIC, LHS_ZERO_POINT);
  const int64_t rhs_zero_point = SIGNED(ARITHMETIC, RHS_ZERO_POINT);
  const int64_t lhs_multiplier = SIGNED(ARITHMETIC, LHS_MULTIPLIER);
  const int64_t rhs_multiplier = SIGNED(ARITHMETIC, RHS_MULTIPLIER);
  uint32_t first, row, column, count, i;
  int64_t lhs[AT_ONCE], rhs[AT_ONCE];
  factors f;
  context c;
  int status = context_of(&c, device, command);
  if (!status && (bits != 8 && bits != 16)) status = QMLIR_NPU_FAULT_WIDTH;
  if (!status && adds && (shift < 1 || shift > 62)) status = QMLIR_NPU_FAULT_WIDTH;
  if (!status && !adds) status = factors_status(&c, channels);
  if (status) return status;
  for (first = 0; first < channels; first += count) {
    count = at_most(channels - first, AT_ONCE);
    if (!adds) load_factors(&f, &c, first, count);
    for (row = 0; row < FIELD(ARITHMETIC, ROWS); row++) {
      for (column = 0; column < FIELD(ARITHMETIC, COLUMNS); column++) {
        load_numbers(lhs, PLACE(ARITHMETIC, LHS) + (size_t)row * FIELD(ARITHMETIC, LHS_ROW) +
                     (size_t)column * FIELD(ARITHMETIC, LHS_PIXEL) + (size_t)first * (bits / 8), bits, count);
        load_numbers(rhs, PLACE(ARITHMETIC, RHS) + (size_t)row * FIELD(ARITHMETIC, RHS_ROW) +
                     (size_t)column * FIELD(ARITHMETIC, RHS_PIXEL) + (size_t)first * (bits / 8), bits, count);
        for (i = 0; i < count; i++) {
          lhs[i] = subtract(lhs[i], lhs_zero_point);
          rhs[i] = subtract(rhs[i], rhs_zero_point);
        }
        if (adds) {
          for (i = 0; i < count; i++) {
            lhs[i] = add(multiply(lhs[i], lhs_multiplier), multiply(rhs[i], rhs_multiplier));
            lhs[i] = shift_right(add(lhs[i], shift_left(1, shift - 1)), shift);
          }
          clamp(lhs, &c, count);
        } else {
          for (i = 0; i < count; i++) lhs[i] = multiply(lhs[i], rhs[i]);
          status = finish(lhs, &c, &f, 64, count);
          if (status) return status;
        }
        store_numbers(PLACE(ARITHMETIC, TARGET) + (size_t)row * FIELD(ARITHMETIC, TARGET_ROW) +
                      (size_t)column * FIELD(ARITHMETIC, TARGET_PIXEL) + (size_t)first * (c.bits / 8), lhs, c.bits,
                      count);
      }
    }
  }
  return QMLIR_NPU_DONE;
}
