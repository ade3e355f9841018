// Marsaglia's xorshift with 32 bits (2003, section 3): 13, 17, 5. The seed is the state.
typedef struct { uint x; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) { e->x = (uint)low; }

static uint engine_next(Engine *e) {
  uint x = e->x;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return e->x = x;
}
