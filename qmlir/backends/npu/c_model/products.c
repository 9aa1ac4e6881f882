/* ---------------------------------------------------------------------------------------------------------------
 * Sums of products of numbers of type NUMBER, in type SUM; NAMED gives each width its own functions. */

/* Reads integers of 8 or 16 bits minus their zero point; number `index` is the first. */
static inline void NAMED(load)(NUMBER *to, const uint8_t *from, uint32_t bits, int32_t zero_point, size_t index,
                               uint32_t count) {
  uint32_t i;
  if (bits == 8) {
    const uint8_t *bytes = from + index;
    for (i = 0; i < count; i++) to[i] = (NUMBER)((int8_t)bytes[i] - zero_point);
  } else if (bits == 16) {
    for (i = 0; i < count; i++) to[i] = (NUMBER)((int16_t)word_of_16(from + 2 * (index + i)) - zero_point);
  } else {
    for (i = 0; i < count; i++) to[i] = (NUMBER)(unpacked(from, bits, index + i) - zero_point);
  }
}
