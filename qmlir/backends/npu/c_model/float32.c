/* ---------------------------------------------------------------------------------------------------------------
 * Numbers of IEEE 754's binary32 as their bits, in integers alone: the device rounds as its contract says, whether the
 * processor computes floats or not. No number here is infinite, subnormal or not a number. */

static inline int32_t exponent_of(uint32_t x) { return (int32_t)(x >> 23 & 0xFF) - 127; }
static inline uint64_t significand_of(uint32_t x) { return (x & 0x7FFFFF) | 0x800000; }

/* The nearest float to +- significand * 2^exponent, ties to even. */
static inline uint32_t float32_rounded(uint32_t sign, uint64_t significand, int32_t exponent) {
  int32_t dropped = 0;
  uint64_t kept;
  if (!significand) return sign;
  while (significand >> dropped > 0xFFFFFF) dropped++;
  kept = significand >> dropped;
  if (dropped) {
    const uint64_t rest = significand & (((uint64_t)1 << dropped) - 1), half = (uint64_t)1 << (dropped - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  for (exponent += dropped; kept < 0x800000; exponent--) kept <<= 1;
  /* A significand that was rounded up to 2^24 carries into the exponent, as it should. */
  return sign | (((uint32_t)(exponent + 23 + 127) << 23) + ((uint32_t)kept - 0x800000u));
}

static inline uint32_t float32_of(int64_t a) {
  return float32_rounded(a < 0 ? 0x80000000u : 0, a < 0 ? 0 - (uint64_t)a : (uint64_t)a, 0);
}

/* multiplier * 2^(shift - 31), for a multiplier of at most 24 significant bits. */
static inline uint32_t float32_of_factor(int64_t multiplier, int64_t shift) {
  return float32_rounded(0, (uint64_t)multiplier, (int32_t)shift - 31);
}

static inline uint32_t float32_product(uint32_t a, uint32_t b) {
  const uint32_t sign = (a ^ b) & 0x80000000u;
  if (!(a << 1) || !(b << 1)) return sign;
  return float32_rounded(sign, significand_of(a) * significand_of(b), exponent_of(a) + exponent_of(b) - 46);
}

/* The nearest whole number, ties to even. */
static inline uint32_t float32_round_even(uint32_t x) {
  const int32_t exponent = exponent_of(x), dropped = 23 - exponent;
  if (dropped <= 0) return x;
  if (exponent < -1 || (x << 1) == 0x7E000000u) return x & 0x80000000u; /* up to and with a half */
  if (exponent == -1) return (x & 0x80000000u) | 0x3F800000u;
  return (x + (1u << (dropped - 1)) - 1 + (x >> dropped & 1)) & ~((1u << dropped) - 1);
}

/* A whole number below 2^63 as an integer. */
static inline int64_t integer_of(uint32_t x) {
  const int32_t exponent = exponent_of(x) - 23;
  const int64_t significand = (int64_t)significand_of(x);
  int64_t magnitude;
  if (!(x << 1)) return 0;
  magnitude = exponent < 0 ? significand >> -exponent : significand << exponent;
  return x >> 31 ? -magnitude : magnitude;
}
