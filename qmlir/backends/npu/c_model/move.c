/* ---------------------------------------------------------------------------------------------------------------
 * Moves. */

static int move(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t size = FIELD(MOVE, SIZE);
  uint32_t plane, row, byte;
  for (plane = 0; plane < FIELD(MOVE, PLANES); plane++) {
    for (row = 0; row < FIELD(MOVE, ROWS); row++) {
      const uint8_t *restrict source = PLACE(MOVE, SOURCE) + (size_t)plane * FIELD(MOVE, SOURCE_PLANE) +
                                       (size_t)row * FIELD(MOVE, SOURCE_ROW);
      uint8_t *restrict target = PLACE(MOVE, TARGET) + (size_t)plane * FIELD(MOVE, TARGET_PLANE) +
                                 (size_t)row * FIELD(MOVE, TARGET_ROW);
      for (byte = 0; byte < size; byte++) target[byte] = source[byte];
    }
  }
  return QMLIR_NPU_DONE;
}
