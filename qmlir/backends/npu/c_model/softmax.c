/* ---------------------------------------------------------------------------------------------------------------
 * Softmax: the maximum of a row, the sum of its exponentials, and each exponential divided by it. */

typedef struct exponentials {
  const uint8_t *table, *inverse;
  uint32_t division, entries;
  int64_t unit, greatest; /* of the exponentials, beyond which a quotient may not fit */
} exponentials;

/* Replaces elements by their exponentials; a negative one stays for the caller to find. */
static inline void look_up(int64_t *values, const exponentials *e, int64_t most, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; i++) {
    const int64_t place = lesser(most - values[i], e->entries - 1);
    values[i] = (int32_t)word_of_32(e->table + 4 * (size_t)place);
  }
}

/* Replaces exponentials by their quotients by a sum. */
static inline void divide_by_sum(int64_t *values, const exponentials *e, int64_t total, uint32_t count) {
  uint32_t i;
  if (e->division == QMLIR_NPU_DIVISION_EXACT) {
    const int64_t scaled = total << UNIT_BITS;
    for (i = 0; i < count; i++) values[i] = (2 * e->unit * values[i] + scaled) / (2 * scaled);
  } else if (e->division == QMLIR_NPU_DIVISION_NEWTON) {
    int64_t inverse, bits, unit = 0;
    reciprocal_of_sum(total, &inverse, &bits);
    while (e->unit >> UNIT_BITS >> (unit + 1)) unit++;
    for (i = 0; i < count; i++) values[i] = half_away(rounded_product(inverse, values[i]), bits + (31 - unit));
  } else {
    const int64_t zeros = leading_zeros(total);
    const int64_t above = shift_right((total << (zeros - 1)) + (1 << 13), 14) - (1 << 16);
    const int64_t place = lesser(above, (1 << 16) - 1), dropped = 31 - zeros;
    const int64_t inverse = between_breakpoints(place, e->inverse);
    for (i = 0; i < count; i++) values[i] = (values[i] * inverse + ((int64_t)1 << (dropped - 1))) >> dropped;
  }
}

static int softmax(const qmlir_npu_device *device, const uint32_t *fields) {
  static const int64_t least[3] = {LEAST_SUMS}, most_sums[3] = {MOST_SUMS};
  uint32_t row, first, count, i;
  int64_t values[AT_ONCE];
  exponentials e;
  of_rows r;
  ROWS_OF(r, SOFTMAX);
  e.table = PLACE(SOFTMAX, TABLE);
  e.inverse = PLACE(SOFTMAX, INVERSE);
  e.division = FIELD(SOFTMAX, DIVISION);
  e.entries = FIELD(SOFTMAX, ENTRIES);
  e.unit = FIELD(SOFTMAX, UNIT);
  if (!have_widths(&r)) return QMLIR_NPU_FAULT_WIDTH;
  e.greatest = e.division == QMLIR_NPU_DIVISION_EXACT ? ((int64_t)1 << 61) / e.unit : INT32_MAX;
  for (row = 0; row < r.rows; row++) {
    int64_t most = INT32_MIN, total = 0;
    for (first = 0; first < r.channels; first += count) {
      count = at_most(r.channels - first, AT_ONCE);
      load_row(values, &r, row, first, count);
      for (i = 0; i < count; i++) most = greater(most, values[i]);
    }
    for (first = 0; first < r.channels; first += count) {
      count = at_most(r.channels - first, AT_ONCE);
      load_row(values, &r, row, first, count);
      look_up(values, &e, most, count);
      for (i = 0; i < count; i++) {
        if (values[i] < 0 || values[i] > e.greatest) return QMLIR_NPU_FAULT_EXPONENTIALS;
        total += e.division == QMLIR_NPU_DIVISION_NEWTON ? (values[i] + (1 << (DROPPED - 1))) >> DROPPED : values[i];
      }
    }
    if (total < least[e.division] || total > most_sums[e.division]) return QMLIR_NPU_FAULT_EXPONENTIALS;
    for (first = 0; first < r.channels; first += count) {
      count = at_most(r.channels - first, AT_ONCE);
      load_row(values, &r, row, first, count);
      look_up(values, &e, most, count);
      divide_by_sum(values, &e, total, count);
      store_row(&r, row, first, values, count);
    }
  }
  return QMLIR_NPU_DONE;
}
