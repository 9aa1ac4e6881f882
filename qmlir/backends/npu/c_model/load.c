/* Reads integers of 2 to 16 bits minus `zero`, as numbers of type NUMBER; number `index` in memory is the first. */
static inline void LOAD(NUMBER)(NUMBER *to, const uint8_t *from, uint32_t bits, int32_t zero, size_t index,
                                uint32_t count) {
  uint32_t i;
  if (bits == 8) {
    const uint8_t *bytes = from + index;
    for (i = 0; i < count; i++) to[i] = (NUMBER)((int8_t)bytes[i] - zero);
  } else if (bits == 16) {
    for (i = 0; i < count; i++) to[i] = (NUMBER)((int16_t)word_of_16(from + 2 * (index + i)) - zero);
  } else {
    for (i = 0; i < count; i++) to[i] = (NUMBER)(unpacked(from, bits, index + i) - zero);
  }
}
