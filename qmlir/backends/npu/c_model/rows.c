/* ---------------------------------------------------------------------------------------------------------------
 * Operations on rows: their fields, and what they share. */

typedef struct of_rows {
  const uint8_t *source;
  uint8_t *target;
  uint32_t source_bits, target_bits, rows, channels, source_row, target_row;
  int64_t zero_point, lower, upper;
} of_rows;

#define ROWS_OF(r, command) \
  (r).source = PLACE(command, SOURCE); \
  (r).target = PLACE(command, TARGET); \
  (r).source_bits = FIELD(command, SOURCE_BITS); \
  (r).target_bits = FIELD(command, TARGET_BITS); \
  (r).rows = FIELD(command, ROWS); \
  (r).channels = FIELD(command, CHANNELS); \
  (r).source_row = FIELD(command, SOURCE_ROW); \
  (r).target_row = FIELD(command, TARGET_ROW); \
  (r).zero_point = SIGNED(command, ZERO_POINT); \
  (r).lower = SIGNED(command, LOWER); \
  (r).upper = SIGNED(command, UPPER)

/* Whether elements have 8 or 16 bits. */
static inline int have_widths(const of_rows *r) {
  return (r->source_bits == 8 || r->source_bits == 16) && (r->target_bits == 8 || r->target_bits == 16);
}

/* Reads the elements of a row from channel `first` on. */
static inline void load_row(int64_t *to, const of_rows *r, uint32_t row, uint32_t first, uint32_t count) {
  load_numbers(to, r->source + (size_t)row * r->source_row + (size_t)first * (r->source_bits / 8), r->source_bits,
               count);
}

/* Writes quotients around the zero point, within the bounds. */
static inline void store_row(const of_rows *r, uint32_t row, uint32_t first, int64_t *from, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; i++) from[i] = lesser(greater(add(from[i], r->zero_point), r->lower), r->upper);
  store_numbers(r->target + (size_t)row * r->target_row + (size_t)first * (r->target_bits / 8), from, r->target_bits,
                count);
}
