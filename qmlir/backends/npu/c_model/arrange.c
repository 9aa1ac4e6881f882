/* ---------------------------------------------------------------------------------------------------------------
 * Computed matrices as weights. */

static int arrange(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t bits = FIELD(ARRANGE, BITS), bytes = bits / 8, transposed = FIELD(ARRANGE, TRANSPOSED);
  const uint32_t rows = FIELD(ARRANGE, ROWS), columns = FIELD(ARRANGE, COLUMNS);
  const uint32_t outputs = transposed ? columns : rows, terms = transposed ? rows : columns;
  const size_t pitch = FIELD(ARRANGE, PITCH), along = transposed ? pitch : bytes, across = transposed ? bytes : pitch;
  const uint8_t *source = PLACE(ARRANGE, SOURCE);
  uint8_t *target = PLACE(ARRANGE, TARGET);
  uint32_t n, k, output, term, byte;
  if (bits != 8 && bits != 16) return QMLIR_NPU_FAULT_WIDTH;
  for (n = 0; n < outputs; n += TILE_N) {
    for (k = 0; k < terms; k += TILE_K) {
      for (output = n; output < n + TILE_N; output++) {
        for (term = k; term < k + TILE_K; term++) {
          const uint8_t *from = source + output * across + term * along;
          const int inside = output < outputs && term < terms;
          for (byte = 0; byte < bytes; byte++) *target++ = inside ? from[byte] : 0;
        }
      }
    }
  }
  return QMLIR_NPU_DONE;
}
