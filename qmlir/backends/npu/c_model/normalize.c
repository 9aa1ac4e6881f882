/* ---------------------------------------------------------------------------------------------------------------
 * Normalizations: the sums of a row, the root of its sum of squares, and each element divided by it. */

typedef struct quotients {
  int64_t multiplier, shift, fraction, epsilon, least;
} quotients;

/* The integer of which the root is taken, for a sum of squares. */
static inline int64_t radicand(const quotients *q, int64_t squares) {
  return (q->fraction >= 0 ? shift_left(squares, q->fraction) : squares >> -q->fraction) + q->epsilon;
}

/* The factor of elements in a row with a sum of squares, and its bits behind the point. */
static inline int64_t factor_of(const quotients *q, int64_t squares, int64_t *behind) {
  const int64_t least = greater(radicand(q, q->least), 1);
  int64_t root, bits, lost;
  inverse_root(greater(radicand(q, squares), least), &root, &bits);
  bits += 31 - q->shift;
  lost = lesser(greater(bits - MOST_BEHIND, 0), ROOT_BITS);
  *behind = lesser(bits, MOST_BEHIND);
  return (rounded_product(root, q->multiplier) + (((int64_t)1 << lost) >> 1)) >> lost;
}

static int normalize(const qmlir_npu_device *device, const uint32_t *fields) {
  const int is_layer = FIELD(NORMALIZE, NORM) == QMLIR_NPU_NORM_LAYER;
  const int64_t point = is_layer ? 0 : SIGNED(NORMALIZE, INPUT_ZERO_POINT);
  uint32_t row, first, count, i;
  int64_t values[AT_ONCE];
  quotients q;
  of_rows r;
  ROWS_OF(r, NORMALIZE);
  q.multiplier = FIELD(NORMALIZE, MULTIPLIER);
  q.shift = SIGNED(NORMALIZE, SHIFT);
  q.fraction = SIGNED(NORMALIZE, FRACTION);
  q.epsilon = (int64_t)((uint64_t)FIELD(NORMALIZE, EPSILON_HIGH) << 32 | FIELD(NORMALIZE, EPSILON_LOW));
  q.least = is_layer && r.channels > 1 ? (int64_t)r.channels - 1 : 1;
  if (!have_widths(&r)) return QMLIR_NPU_FAULT_WIDTH;
  for (row = 0; row < r.rows; row++) {
    int64_t squares = 0, total = 0, factor, behind, offset;
    for (first = 0; first < r.channels; first += count) {
      count = at_most(r.channels - first, AT_ONCE);
      load_row(values, &r, row, first, count);
      for (i = 0; i < count; i++) {
        const int64_t d = values[i] - point;
        squares += d * d;
        total += d;
      }
    }
    if (is_layer) squares = squares * r.channels - total * total;
    factor = factor_of(&q, squares, &behind);
    offset = (int64_t)1 << (behind - 1);
    if (is_layer) offset -= total * factor / (int64_t)r.channels; /* the quotient truncated */
    for (first = 0; first < r.channels; first += count) {
      count = at_most(r.channels - first, AT_ONCE);
      load_row(values, &r, row, first, count);
      for (i = 0; i < count; i++) values[i] = ((values[i] - point) * factor + offset) >> behind;
      store_row(&r, row, first, values, count);
    }
  }
  return QMLIR_NPU_DONE;
}
