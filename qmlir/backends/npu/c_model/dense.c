/* ---------------------------------------------------------------------------------------------------------------
 * Dense convolutions: products of numbers of type DATA by numbers of type WEIGHT, added in type SUM. Data are stored
 * plus OFFSET, so that bytes are unsigned: processors have instructions for their products with signed bytes. The zero
 * points are accounted for behind the sums,
 *     sum (d - zd) * (w - zw) = sum d * w - zd * sum w - zw * sum (d - zd). */

/* Reads terms first, first + 1, ... of the window at an output position, the zero point outside the image. */
static inline void NAMED(load_data)(DATA *to, const convolution *c, uint32_t row, uint32_t column,
                                    uint32_t first, uint32_t count) {
  const window *w = &c->window;
  uint32_t channel = first % c->channels, j = first / c->channels % w->kernel_columns;
  uint32_t i = first / c->channels / w->kernel_columns, run, k;
  for (; count; count -= run, to += run, channel = 0) {
    const uint8_t *pixel = tap(w, row, column, i, j);
    run = at_most(c->channels - channel, count);
    if (pixel)
      LOAD(DATA)(to, pixel, c->data_bits, -OFFSET, channel, run);
    else
      for (k = 0; k < run; k++) to[k] = (DATA)(c->zero_point + OFFSET);
    if (++j == w->kernel_columns) j = 0, i++;
  }
}

/* Reads terms first, first + 1, ... of an output's weights, which lie in tiles of TILE_N outputs by TILE_K terms. */
static inline void NAMED(load_weights)(WEIGHT *to, const convolution *c, uint32_t terms, uint32_t output,
                                       uint32_t first, uint32_t count) {
  const size_t tiles = (terms - 1) / TILE_K + 1;
  uint32_t run;
  for (; count; count -= run, to += run, first += run) {
    const size_t tile = output / TILE_N * tiles + first / TILE_K;
    run = at_most(TILE_K - first % TILE_K, count);
    LOAD(WEIGHT)(to, c->weights, c->weight_bits, 0, (tile * TILE_N + output % TILE_N) * TILE_K + first % TILE_K, run);
  }
}

/* Adds the sums of products of 4 rows of data by 4 rows of weights. */
static inline void NAMED(add_4_by_4)(int64_t sums[][OUTPUTS], const DATA *restrict a, const WEIGHT *restrict b,
                                     uint32_t terms) {
  const DATA *a0 = a, *a1 = a + TERMS, *a2 = a + 2 * TERMS, *a3 = a + 3 * TERMS;
  const WEIGHT *b0 = b, *b1 = b + TERMS, *b2 = b + 2 * TERMS, *b3 = b + 3 * TERMS;
  SUM s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  SUM s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  uint32_t t;
  for (t = 0; t < terms; t++) {
    s00 += (SUM)a0[t] * b0[t], s01 += (SUM)a0[t] * b1[t], s02 += (SUM)a0[t] * b2[t], s03 += (SUM)a0[t] * b3[t];
    s10 += (SUM)a1[t] * b0[t], s11 += (SUM)a1[t] * b1[t], s12 += (SUM)a1[t] * b2[t], s13 += (SUM)a1[t] * b3[t];
    s20 += (SUM)a2[t] * b0[t], s21 += (SUM)a2[t] * b1[t], s22 += (SUM)a2[t] * b2[t], s23 += (SUM)a2[t] * b3[t];
    s30 += (SUM)a3[t] * b0[t], s31 += (SUM)a3[t] * b1[t], s32 += (SUM)a3[t] * b2[t], s33 += (SUM)a3[t] * b3[t];
  }
  sums[0][0] += s00, sums[0][1] += s01, sums[0][2] += s02, sums[0][3] += s03;
  sums[1][0] += s10, sums[1][1] += s11, sums[1][2] += s12, sums[1][3] += s13;
  sums[2][0] += s20, sums[2][1] += s21, sums[2][2] += s22, sums[2][3] += s23;
  sums[3][0] += s30, sums[3][1] += s31, sums[3][2] += s32, sums[3][3] += s33;
}

/* Adds the sums of products of rows of data by rows of weights. */
static inline void NAMED(add_products)(int64_t sums[][OUTPUTS], const DATA *data, uint32_t positions,
                                       const WEIGHT *weights, uint32_t outputs, uint32_t terms) {
  uint32_t p, o, t;
  for (p = 0; p < positions; p++) {
    for (o = 0; o < outputs; o++) {
      const DATA *a = data + p * TERMS;
      const WEIGHT *b = weights + o * TERMS;
      SUM sum = 0;
      for (t = 0; t < terms; t++) sum += (SUM)a[t] * b[t];
      sums[p][o] += sum;
    }
  }
}

/* The sums of the rows of weights. */
static inline void NAMED(sum_weights)(int64_t sums[OUTPUTS], const WEIGHT *weights, uint32_t outputs, uint32_t terms) {
  uint32_t o, t;
  for (o = 0; o < outputs; o++) {
    SUM sum = 0;
    for (t = 0; t < terms; t++) sum += weights[o * TERMS + t];
    sums[o] = sum;
  }
}

/* Takes the zero points off the sums of products of rows of data by rows of weights. */
static inline void NAMED(take_zero_points)(int64_t sums[][OUTPUTS], const convolution *c, const DATA *data,
                                           uint32_t positions, const int64_t weight_sums[OUTPUTS], uint32_t outputs,
                                           uint32_t terms) {
  const int64_t zero = (int64_t)c->zero_point + OFFSET, weight_zero = c->weight_zero_point;
  uint32_t p, o, t;
  for (p = 0; p < positions; p++) {
    int64_t sum = 0;
    for (t = 0; weight_zero && t < terms; t++) sum += data[p * TERMS + t] - zero;
    for (o = 0; o < outputs; o++) sums[p][o] -= zero * weight_sums[o] + weight_zero * sum;
  }
}

/* Computes a convolution: for some outputs, for some positions, the sums over some terms after the other. */
static inline int NAMED(convolve)(const convolution *c) {
  const window *w = &c->window;
  const uint32_t terms = w->kernel_rows * w->kernel_columns * c->channels, all = w->out_rows * w->out_columns;
  DATA data[POSITIONS * TERMS];
  WEIGHT weights[OUTPUTS * TERMS];
  int64_t sums[POSITIONS][OUTPUTS], weight_sums[OUTPUTS];
  uint32_t output, position, term, outputs, positions, count, p, o;
  for (output = 0; output < c->outputs; output += outputs) {
    outputs = at_most(c->outputs - output, OUTPUTS);
    for (position = 0; position < all; position += positions) {
      positions = at_most(all - position, POSITIONS);
      for (p = 0; p < positions; p++)
        for (o = 0; o < outputs; o++) sums[p][o] = 0;
      for (term = 0; term < terms; term += count) {
        count = at_most(terms - term, TERMS);
        if (position == 0 || terms > TERMS) { /* else the weights are there already */
          for (o = 0; o < outputs; o++)
            NAMED(load_weights)(weights + o * TERMS, c, terms, output + o, term, count);
          NAMED(sum_weights)(weight_sums, weights, outputs, count);
        }
        for (p = 0; p < positions; p++)
          NAMED(load_data)(data + p * TERMS, c, (position + p) / w->out_columns, (position + p) % w->out_columns, term,
                           count);
        for (p = 0; p + 4 <= positions; p += 4) {
          for (o = 0; o + 4 <= outputs; o += 4)
            NAMED(add_4_by_4)((int64_t(*)[OUTPUTS])&sums[p][o], data + p * TERMS, weights + o * TERMS, count);
          NAMED(add_products)((int64_t(*)[OUTPUTS])&sums[p][o], data + p * TERMS, 4, weights + o * TERMS, outputs - o,
                              count);
        }
        NAMED(add_products)(sums + p, data + p * TERMS, positions - p, weights, outputs, count);
        NAMED(take_zero_points)(sums, c, data, positions, weight_sums, outputs, count);
      }
      for (p = 0; p < positions; p++) {
        const int status = store_sums(c, sums[p], (size_t)position + p, output, outputs);
        if (status) return status;
      }
    }
  }
  return QMLIR_NPU_DONE;
}
