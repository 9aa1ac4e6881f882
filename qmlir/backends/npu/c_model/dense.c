/* ---------------------------------------------------------------------------------------------------------------
 * Dense convolutions: products of numbers of type DATA by numbers of type WEIGHT, added in type SUM. Data are stored
 * plus OFFSET, so that bytes are unsigned: processors have instructions for their products with signed bytes. The zero
 * points are accounted for behind the sums,
 *     sum (d - zd) * (w - zw) = sum d * w - zd * sum w - zw * sum (d - zd). */

/* Reads terms first, first + 1, ... of the window at an output position, the zero point outside the image. Neighbouring
 * taps are one run where nothing lies between their pixels. */
static inline void NAMED(load_data)(DATA *to, const convolution *c, uint32_t row, uint32_t column,
                                    uint32_t first, uint32_t count) {
  const window *w = &c->window;
  const int dense = w->dilation_columns == 1 && w->pixel_pitch == c->channels * (c->data_bits / 8);
  uint32_t channel = 0, j = 0, i = 0, run, k;
  if (first) {
    channel = first % c->channels;
    j = first / c->channels % w->kernel_columns;
    i = first / c->channels / w->kernel_columns;
  }
  for (; count; count -= run, to += run, channel = 0) {
    const uint8_t *pixel = tap(w, row, column, i, j);
    uint32_t taps = 1;
    if (pixel && dense)
      taps = (uint32_t)lesser(w->kernel_columns - j, w->columns + w->left - column * w->stride_columns - j);
    run = at_most(taps * c->channels - channel, count);
    if (pixel)
      LOAD(DATA)(to, pixel, c->data_bits, -OFFSET, channel, run);
    else
      for (k = 0; k < run; k++) to[k] = (DATA)(c->zero_point + OFFSET);
    j += taps;
    if (j == w->kernel_columns) j = 0, i++;
  }
}

/* Reads terms first, first + 1, ... of an output's weights, which lie in tiles of TILE_N outputs by TILE_K terms. */
static inline void NAMED(load_weights)(WEIGHT *to, const convolution *c, uint32_t terms, uint32_t output,
                                       uint32_t first, uint32_t count) {
  const size_t tiles = (terms - 1) / TILE_K + 1;
  uint32_t run;
  for (; count; count -= run, to += run, first += run) {
    const size_t tile = output / TILE_N * tiles + first / TILE_K;
    const size_t begin = (tile * TILE_N + output % TILE_N) * TILE_K + first % TILE_K;
    run = at_most(TILE_K - first % TILE_K, count);
    if (run == TILE_K) /* which a compiler can unroll */
      LOAD(WEIGHT)(to, c->weights, c->weight_bits, 0, begin, TILE_K);
    else
      LOAD(WEIGHT)(to, c->weights, c->weight_bits, 0, begin, run);
  }
}

/* The sums of products of 4 rows of data by 4 rows of weights. */
static inline void NAMED(multiply_4_by_4)(SUM (*restrict sums)[OUTPUTS], const DATA *restrict a, const WEIGHT *restrict b,
                                     uint32_t row) {
  const DATA *a0 = a, *a1 = a0 + row, *a2 = a1 + row, *a3 = a2 + row;
  const WEIGHT *b0 = b, *b1 = b0 + row, *b2 = b1 + row, *b3 = b2 + row;
  const uint32_t terms = row & ~(uint32_t)(STEP - 1); /* which a compiler knows to be whole steps */
  SUM s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  SUM s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  uint32_t t;
  for (t = 0; t < terms; t++) {
    s00 += PRODUCT(a0[t], b0[t]), s01 += PRODUCT(a0[t], b1[t]), s02 += PRODUCT(a0[t], b2[t]), s03 += PRODUCT(a0[t], b3[t]);
    s10 += PRODUCT(a1[t], b0[t]), s11 += PRODUCT(a1[t], b1[t]), s12 += PRODUCT(a1[t], b2[t]), s13 += PRODUCT(a1[t], b3[t]);
    s20 += PRODUCT(a2[t], b0[t]), s21 += PRODUCT(a2[t], b1[t]), s22 += PRODUCT(a2[t], b2[t]), s23 += PRODUCT(a2[t], b3[t]);
    s30 += PRODUCT(a3[t], b0[t]), s31 += PRODUCT(a3[t], b1[t]), s32 += PRODUCT(a3[t], b2[t]), s33 += PRODUCT(a3[t], b3[t]);
  }
  sums[0][0] = s00, sums[0][1] = s01, sums[0][2] = s02, sums[0][3] = s03;
  sums[1][0] = s10, sums[1][1] = s11, sums[1][2] = s12, sums[1][3] = s13;
  sums[2][0] = s20, sums[2][1] = s21, sums[2][2] = s22, sums[2][3] = s23;
  sums[3][0] = s30, sums[3][1] = s31, sums[3][2] = s32, sums[3][3] = s33;
}

/* The sums of products of a row of data by 4 rows of weights. */
static inline void NAMED(multiply_1_by_4)(SUM *restrict sums, const DATA *restrict a, const WEIGHT *restrict b,
                                          uint32_t row) {
  const WEIGHT *b0 = b, *b1 = b0 + row, *b2 = b1 + row, *b3 = b2 + row;
  const uint32_t terms = row & ~(uint32_t)(STEP - 1);
  SUM s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  uint32_t t;
  for (t = 0; t < terms; t++)
    s0 += PRODUCT(a[t], b0[t]), s1 += PRODUCT(a[t], b1[t]), s2 += PRODUCT(a[t], b2[t]), s3 += PRODUCT(a[t], b3[t]);
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* The sums of products of rows of data by rows of weights, of which there are a multiple of 4. */
static inline void NAMED(multiply)(SUM sums[][OUTPUTS], const DATA *data, uint32_t positions, const WEIGHT *weights,
                                   uint32_t outputs, uint32_t row) {
  uint32_t p, o;
  for (o = 0; o < outputs; o += 4) {
    for (p = 0; p + 4 <= positions; p += 4)
      NAMED(multiply_4_by_4)((SUM(*)[OUTPUTS])&sums[p][o], data + p * row, weights + o * row, row);
    for (; p < positions; p++) NAMED(multiply_1_by_4)(&sums[p][o], data + p * row, weights + o * row, row);
  }
}

/* What the zero points take off the sums of products at a position, beside what they take off at every position. */
static inline TOTAL NAMED(taken_at)(const convolution *c, const DATA *data, uint32_t terms) {
  SUM sum = 0;
  uint32_t t;
  for (t = 0; t < terms; t++) sum += data[t];
  return (TOTAL)multiply(c->weight_zero_point, sum - terms * ((int64_t)c->zero_point + OFFSET));
}

/* Packs the weights of some outputs, zeros behind them and in the rows up to a multiple of 4. */
static inline void NAMED(pack_weights)(WEIGHT *to, const convolution *c, uint32_t terms, uint32_t output,
                                       uint32_t outputs, uint32_t first, uint32_t count, uint32_t row) {
  uint32_t o, t;
  for (o = 0; o < (outputs + 3) / 4 * 4; o++, to += row) {
    if (o < outputs) NAMED(load_weights)(to, c, terms, output + o, first, count);
    for (t = o < outputs ? count : 0; t < row; t++) to[t] = 0;
  }
}

/* Packs the data of some positions. */
static inline void NAMED(pack_data)(DATA *to, const convolution *c, uint32_t position, uint32_t positions,
                                    uint32_t first, uint32_t count, uint32_t row) {
  uint32_t i = position / c->window.out_columns, j = position % c->window.out_columns, p, t;
  for (p = 0; p < positions; p++, to += row) {
    NAMED(load_data)(to, c, i, j, first, count);
    for (t = count; t < row; t++) to[t] = 0;
    if (++j == c->window.out_columns) j = 0, i++;
  }
}

/* Computes a convolution: for some outputs, for some positions, the sums over some terms after the other. */
static inline int NAMED(convolve)(const convolution *c) {
  const window *w = &c->window;
  const uint32_t terms = w->kernel_rows * w->kernel_columns * c->channels, all = w->out_rows * w->out_columns;
  const uint32_t row = (at_most(terms, TERMS) + STEP - 1) / STEP * STEP;
  const uint32_t most_outputs = at_most(QMLIR_NPU_WEIGHTS / (uint32_t)sizeof(WEIGHT) / row, OUTPUTS) & ~3u;
  const uint32_t most_positions = at_most(QMLIR_NPU_DATA / (uint32_t)sizeof(DATA) / row, POSITIONS);
  DATA data[QMLIR_NPU_DATA / sizeof(DATA)];
  WEIGHT weights[QMLIR_NPU_WEIGHTS / sizeof(WEIGHT)];
  SUM sums[POSITIONS][OUTPUTS];
  TOTAL totals[POSITIONS][OUTPUTS], taken[OUTPUTS];
  uint32_t output, position, term, outputs, positions, count, p, o;
  for (output = 0; output < c->outputs; output += outputs) {
    outputs = at_most(c->outputs - output, most_outputs);
    for (position = 0; position < all; position += positions) {
      positions = at_most(all - position, most_positions);
      for (term = 0; term < terms; term += count) {
        count = at_most(terms - term, TERMS);
        if (position == 0 || terms > TERMS) { /* else the weights are there already */
          NAMED(pack_weights)(weights, c, terms, output, outputs, term, count, row);
          for (o = 0; o < row; o++) data[o] = 1; /* the sums of the weights are products by ones */
          NAMED(multiply)(sums, data, 1, weights, (outputs + 3) / 4 * 4, row);
          for (o = 0; o < outputs; o++) taken[o] = (TOTAL)(((int64_t)c->zero_point + OFFSET) * sums[0][o]);
        }
        NAMED(pack_data)(data, c, position, positions, term, count, row);
        NAMED(multiply)(sums, data, positions, weights, (outputs + 3) / 4 * 4, row);
        for (p = 0; p < positions; p++) {
          const TOTAL also = c->weight_zero_point ? NAMED(taken_at)(c, data + p * row, count) : 0;
          for (o = 0; o < outputs; o++) totals[p][o] = (term ? totals[p][o] : 0) + (TOTAL)sums[p][o] - taken[o] - also;
        }
      }
      for (p = 0; p < positions; p++) {
        for (o = 0; o < outputs; o += count) {
          int status;
          count = at_most(outputs - o, AT_ONCE);
          status = NAMED(store_sums)(c, totals[p] + o, (size_t)position + p, output + o, count);
          if (status) return status;
        }
      }
    }
  }
  return QMLIR_NPU_DONE;
}
