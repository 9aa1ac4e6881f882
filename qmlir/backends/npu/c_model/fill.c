/* ---------------------------------------------------------------------------------------------------------------
 * Fills. */

static int fill(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t size = FIELD(FILL, SIZE);
  const uint8_t value = (uint8_t)FIELD(FILL, VALUE);
  uint32_t plane, row, byte;
  for (plane = 0; plane < FIELD(FILL, PLANES); plane++) {
    for (row = 0; row < FIELD(FILL, ROWS); row++) {
      uint8_t *target = PLACE(FILL, TARGET) + (size_t)plane * FIELD(FILL, TARGET_PLANE) +
                        (size_t)row * FIELD(FILL, TARGET_ROW);
      for (byte = 0; byte < size; byte++) target[byte] = value;
    }
  }
  return QMLIR_NPU_DONE;
}
