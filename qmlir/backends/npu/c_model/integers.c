/* ---------------------------------------------------------------------------------------------------------------
 * Integers of 64 bits that wrap around, and integers of other widths in memory. */

/* Elements that a command computes on at a time, in buffers on the stack. */
#ifndef QMLIR_NPU_AT_ONCE
#define QMLIR_NPU_AT_ONCE 64
#endif
enum { AT_ONCE = QMLIR_NPU_AT_ONCE };

typedef char shifts_right_arithmetically[(-1 >> 1) == -1 ? 1 : -1];

static inline int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t shift_left(int64_t a, int64_t bits) { return (int64_t)((uint64_t)a << bits); }
/* 2^bits for bits of 0 to 63. gcc makes no vectors of shifts of a constant, which it does not see here. */
static inline int64_t power_of_2(int64_t bits) { return (int64_t)((uint64_t)(bits >> 63 | 1) << bits); }
static inline int64_t shift_right(int64_t a, int64_t bits) { return a >> bits; }
static inline int64_t shift_right_zeros(int64_t a, int64_t bits) { return (int64_t)((uint64_t)a >> bits); }
static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static inline uint32_t at_most(uint32_t count, uint32_t most) { return count < most ? count : most; }

static inline uint16_t word_of_16(const uint8_t *from) { return (uint16_t)(from[0] | from[1] << 8); }

static inline uint32_t word_of_32(const uint8_t *from) {
  return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t word_of_64(const uint8_t *from) {
  return word_of_32(from) | (uint64_t)word_of_32(from + 4) << 32;
}

/* Whether integers in memory may have so many bits. */
static inline int is_width(uint32_t bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

/* Reads signed integers of 8, 16, 32 or 64 bits each, one after the other. */
static inline void load_numbers(int64_t *to, const uint8_t *from, uint32_t bits, uint32_t count) {
  uint32_t i;
  switch (bits) {
  case 8:
    for (i = 0; i < count; i++) to[i] = (int8_t)from[i];
    break;
  case 16:
    for (i = 0; i < count; i++) to[i] = (int16_t)word_of_16(from + 2 * (size_t)i);
    break;
  case 32:
    for (i = 0; i < count; i++) to[i] = (int32_t)word_of_32(from + 4 * (size_t)i);
    break;
  default:
    for (i = 0; i < count; i++) to[i] = (int64_t)word_of_64(from + 8 * (size_t)i);
  }
}

static inline void put_word_of_16(uint8_t *to, uint16_t word) {
  to[0] = (uint8_t)word;
  to[1] = (uint8_t)(word >> 8);
}

static inline void put_word_of_32(uint8_t *to, uint32_t word) {
  to[0] = (uint8_t)word;
  to[1] = (uint8_t)(word >> 8);
  to[2] = (uint8_t)(word >> 16);
  to[3] = (uint8_t)(word >> 24);
}

/* Writes the lowest 8, 16, 32 or 64 bits of each integer, one after the other. */
static inline void store_numbers(uint8_t *to, const int64_t *from, uint32_t bits, uint32_t count) {
  uint32_t i;
  switch (bits) {
  case 8:
    for (i = 0; i < count; i++) to[i] = (uint8_t)from[i];
    break;
  case 16:
    for (i = 0; i < count; i++) put_word_of_16(to + 2 * (size_t)i, (uint16_t)from[i]);
    break;
  case 32:
    for (i = 0; i < count; i++) put_word_of_32(to + 4 * (size_t)i, (uint32_t)from[i]);
    break;
  default:
    for (i = 0; i < count; i++) {
      put_word_of_32(to + 8 * (size_t)i, (uint32_t)from[i]);
      put_word_of_32(to + 8 * (size_t)i + 4, (uint32_t)((uint64_t)from[i] >> 32));
    }
  }
}

/* A signed integer of 2 to 7 bits: number `index` of those that are packed without gaps, lowest bits first. */
static inline int32_t unpacked(const uint8_t *from, uint32_t bits, size_t index) {
  const size_t first = index * bits;
  const uint32_t shift = first % 8, half = 1u << (bits - 1);
  uint32_t both = from[first / 8];
  if (shift + bits > 8) both |= (uint32_t)from[first / 8 + 1] << 8;
  return (int32_t)((both >> shift & (2 * half - 1)) ^ half) - (int32_t)half;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The fields of a command: a word each, signed or not, or a place in a memory. */

#define FIELD(command, name) fields[QMLIR_NPU_##command##_##name]
#define SIGNED(command, name) ((int32_t)FIELD(command, name))
#define PLACE(command, name) place(device, FIELD(command, name))

/* The fields behind a command's first word and its waits. */
static inline const uint32_t *fields_of(const uint32_t *command) { return command + 1 + (command[0] >> 24 & 3); }

/* The byte at a place, which is memory:4 | address:28. */
static inline uint8_t *place(const qmlir_npu_device *device, uint32_t word) {
  return device->memories[word >> 28] + (word & 0x0FFFFFFFu);
}
