// PCG XSH RR 64/32 (O'Neill 2014) on the stream of INCREMENT.
typedef struct { ulong state; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) {
#if STATES
  e->state = low;
#else
  e->state = (low + INCREMENT) * 6364136223846793005ul + INCREMENT;
#endif
}

static uint engine_next(Engine *e) {
  ulong state = e->state;
  uint mixed = (uint)((state ^ (state >> 18)) >> 27);
  e->state = state * 6364136223846793005ul + INCREMENT;
  return rotate(mixed, (32u - (uint)(state >> 59)) & 31u);
}
