/* ---------------------------------------------------------------------------------------------------------------
 * Depthwise convolutions: products of numbers of type NUMBER, added in type SUM. */

/* Computes a depthwise convolution: for every position, the sums of some channels after the other. */
static inline int NAMED(convolve_depthwise)(const convolution *c) {
  const window *w = &c->window;
  NUMBER data[AT_ONCE], weights[AT_ONCE];
  SUM sums[AT_ONCE];
  TOTAL total[AT_ONCE];
  uint32_t row, column, first, count, i, j, k;
  for (row = 0; row < w->out_rows; row++) {
    for (column = 0; column < w->out_columns; column++) {
      for (first = 0; first < c->channels; first += count) {
        int status;
        count = at_most(c->channels - first, AT_ONCE);
        for (k = 0; k < count; k++) sums[k] = 0;
        for (i = 0; i < w->kernel_rows; i++) {
          for (j = 0; j < w->kernel_columns; j++) {
            const uint8_t *pixel = tap(w, row, column, i, j);
            if (!pixel) continue;
            LOAD(NUMBER)(data, pixel, c->data_bits, c->zero_point, first, count);
            LOAD(NUMBER)(weights, c->weights, c->weight_bits, c->weight_zero_point,
                        (size_t)(i * w->kernel_columns + j) * c->channels + first, count);
            for (k = 0; k < count; k++) sums[k] += (SUM)data[k] * weights[k];
          }
        }
        for (k = 0; k < count; k++) total[k] = (TOTAL)sums[k];
        status = NAMED(store_sums)(c, total, (size_t)row * w->out_columns + column, first, count);
        if (status) return status;
      }
    }
  }
  return QMLIR_NPU_DONE;
}
