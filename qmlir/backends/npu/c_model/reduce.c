/* ---------------------------------------------------------------------------------------------------------------
 * Sums over an image. */

static int reduce(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t bits = FIELD(REDUCE, BITS), channels = FIELD(REDUCE, CHANNELS);
  uint8_t *sums = PLACE(REDUCE, SUMS);
  uint32_t row, column, first, count, k;
  int64_t total[AT_ONCE], taken[AT_ONCE];
  if (bits != 8 && bits != 16) return QMLIR_NPU_FAULT_WIDTH;
  for (first = 0; first < channels; first += count) {
    count = at_most(channels - first, AT_ONCE);
    for (k = 0; k < count; k++) total[k] = 0;
    if (FIELD(REDUCE, INIT) == QMLIR_NPU_INIT_ACCUMULATE) load_numbers(total, sums + 4 * (size_t)first, 32, count);
    for (row = 0; row < FIELD(REDUCE, ROWS); row++) {
      for (column = 0; column < FIELD(REDUCE, COLUMNS); column++) {
        load_numbers(taken, PLACE(REDUCE, SOURCE) + (size_t)row * FIELD(REDUCE, ROW_PITCH) +
                     (size_t)column * FIELD(REDUCE, PIXEL_PITCH) + (size_t)first * (bits / 8), bits, count);
        for (k = 0; k < count; k++) total[k] += taken[k] - SIGNED(REDUCE, ZERO_POINT);
      }
    }
    for (k = 0; k < count; k++)
      if (total[k] != (int32_t)total[k]) return QMLIR_NPU_FAULT_REDUCED;
    store_numbers(sums + 4 * (size_t)first, total, 32, count);
  }
  return QMLIR_NPU_DONE;
}
