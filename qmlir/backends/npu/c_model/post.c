/* ---------------------------------------------------------------------------------------------------------------
 * Changes of scale and tables: some channels of every pixel, then the next channels. */

static int post(const qmlir_npu_device *device, const uint32_t *command) {
  const uint32_t *fields = fields_of(command), bits = FIELD(POST, SOURCE_BITS);
  uint32_t rows = FIELD(POST, ROWS), columns = FIELD(POST, COLUMNS), channels = FIELD(POST, CHANNELS);
  uint32_t first, row, column, count;
  int64_t values[AT_ONCE];
  factors f;
  context c;
  int status = context_of(&c, device, command);
  if (!status && !is_width(bits)) status = QMLIR_NPU_FAULT_WIDTH;
  if (!status) status = factors_status(&c, channels);
  if (status) return status;
  if (!c.per_channel && FIELD(POST, SOURCE_PIXEL) == (uint64_t)channels * (bits / 8) &&
      FIELD(POST, TARGET_PIXEL) == (uint64_t)channels * (c.bits / 8)) {
    channels *= columns; /* pixels without gaps are one pixel of many channels */
    columns = 1;
  }
  for (first = 0; first < channels; first += count) {
    count = at_most(channels - first, AT_ONCE);
    load_factors(&f, &c, first, count);
    for (row = 0; row < rows; row++) {
      for (column = 0; column < columns; column++) {
        const uint8_t *source = PLACE(POST, SOURCE) + (size_t)row * FIELD(POST, SOURCE_ROW) +
                                (size_t)column * FIELD(POST, SOURCE_PIXEL) + (size_t)first * (bits / 8);
        uint8_t *target = PLACE(POST, TARGET) + (size_t)row * FIELD(POST, TARGET_ROW) +
                          (size_t)column * FIELD(POST, TARGET_PIXEL) + (size_t)first * (c.bits / 8);
        load_numbers(values, source, bits, count);
        status = finish(values, &c, &f, bits, count);
        if (status) return status;
        store_numbers(target, values, c.bits, count);
      }
    }
  }
  return QMLIR_NPU_DONE;
}
