/* ---------------------------------------------------------------------------------------------------------------
 * Packed weights. */

static int unpack(const qmlir_npu_device *device, const uint32_t *fields) {
  const uint32_t bits = FIELD(UNPACK, BITS);
  const uint8_t *source = PLACE(UNPACK, SOURCE);
  uint8_t *target = PLACE(UNPACK, TARGET);
  uint32_t i;
  if (bits < 2 || bits > 7) return QMLIR_NPU_FAULT_WIDTH;
  for (i = 0; i < FIELD(UNPACK, COUNT); i++) target[i] = (uint8_t)unpacked(source, bits, i);
  return QMLIR_NPU_DONE;
}
