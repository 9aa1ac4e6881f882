/* ---------------------------------------------------------------------------------------------------------------
 * Windows that slide over an image: at tap (i, j), the output at (row, column) reads the image at
 * row * stride_rows + i * dilation_rows - top, and at the column likewise. */

typedef struct window {
  const uint8_t *image;
  uint32_t rows, columns, row_pitch, pixel_pitch;
  uint32_t out_rows, out_columns, kernel_rows, kernel_columns;
  int64_t stride_rows, stride_columns, dilation_rows, dilation_columns, top, left;
} window;

/* Reads the fields that convolutions and pools have under the same names. */
#define WINDOW_OF(w, command, source)                                                                                  \
  do {                                                                                                                 \
    (w).image = PLACE(command, source);                                                                                \
    (w).rows = FIELD(command, ROWS), (w).columns = FIELD(command, COLUMNS);                                            \
    (w).row_pitch = FIELD(command, ROW_PITCH), (w).pixel_pitch = FIELD(command, PIXEL_PITCH);                          \
    (w).out_rows = FIELD(command, OUT_ROWS), (w).out_columns = FIELD(command, OUT_COLUMNS);                            \
    (w).kernel_rows = FIELD(command, KERNEL_ROWS), (w).kernel_columns = FIELD(command, KERNEL_COLUMNS);                \
    (w).stride_rows = FIELD(command, STRIDE_ROWS), (w).stride_columns = FIELD(command, STRIDE_COLUMNS);                \
    (w).dilation_rows = FIELD(command, DILATION_ROWS), (w).dilation_columns = FIELD(command, DILATION_COLUMNS);        \
    (w).top = SIGNED(command, TOP), (w).left = SIGNED(command, LEFT);                                                  \
  } while (0)

/* The pixel that the output at (row, column) reads at tap (i, j); null outside the image. */
static inline const uint8_t *tap(const window *w, uint32_t row, uint32_t column, uint32_t i, uint32_t j) {
  const int64_t y = row * w->stride_rows + i * w->dilation_rows - w->top;
  const int64_t x = column * w->stride_columns + j * w->dilation_columns - w->left;
  if (y < 0 || y >= w->rows || x < 0 || x >= w->columns) return 0;
  return w->image + (size_t)y * w->row_pitch + (size_t)x * w->pixel_pitch;
}
