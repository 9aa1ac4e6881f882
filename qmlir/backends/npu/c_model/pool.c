/* ---------------------------------------------------------------------------------------------------------------
 * Pools of windows. */

static int pool(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t bits = FIELD(POOL, BITS), bytes = bits / 8, channels = FIELD(POOL, CHANNELS);
  const int is_maximum = FIELD(POOL, POOLING) == QMLIR_NPU_POOLING_MAX, padding = FIELD(POOL, COUNT_PADDING) != 0;
  const int64_t half = bits == 16 ? 1 << 15 : 1 << 7, outside = padding ? SIGNED(POOL, ZERO_POINT) : 0;
  uint32_t row, column, first, count, i, j, k;
  int64_t pooled[AT_ONCE], taken[AT_ONCE], divisor;
  window w;
  if (bits != 8 && bits != 16) return QMLIR_NPU_FAULT_WIDTH;
  WINDOW_OF(w, POOL, SOURCE);
  for (row = 0; row < w.out_rows; row++) {
    for (column = 0; column < w.out_columns; column++) {
      for (first = 0; first < channels; first += count) {
        count = at_most(channels - first, AT_ONCE);
        divisor = 0;
        for (k = 0; k < count; k++) pooled[k] = is_maximum ? -half : 0;
        for (i = 0; i < w.kernel_rows; i++) {
          for (j = 0; j < w.kernel_columns; j++) {
            const uint8_t *pixel = tap(&w, row, column, i, j);
            if (pixel) load_numbers(taken, pixel + (size_t)first * bytes, bits, count);
            if (pixel || padding) divisor++;
            if (is_maximum) {
              for (k = 0; pixel && k < count; k++) pooled[k] = greater(pooled[k], taken[k]);
            } else {
              for (k = 0; k < count; k++) pooled[k] += pixel ? taken[k] : outside;
            }
          }
        }
        if (!is_maximum) {
          divisor = greater(divisor, 1);
          for (k = 0; k < count; k++) { /* the quotient rounded half away from zero */
            const int64_t magnitude = pooled[k] < 0 ? -pooled[k] : pooled[k];
            const int64_t mean = (magnitude + divisor / 2) / divisor;
            pooled[k] = lesser(greater(pooled[k] < 0 ? -mean : mean, -half), half - 1);
          }
        }
        store_numbers(PLACE(POOL, TARGET) + (size_t)row * FIELD(POOL, TARGET_ROW) +
                      (size_t)column * FIELD(POOL, TARGET_PIXEL) + (size_t)first * bytes, pooled, bits, count);
      }
    }
  }
  return QMLIR_NPU_DONE;
}
