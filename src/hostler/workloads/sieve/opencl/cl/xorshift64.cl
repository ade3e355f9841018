// Marsaglia's xorshift with 64 bits (2003, section 3): 13, 7, 17; with STAR Vigna's xorshift64* (2016): 12, 25, 27.
typedef struct { ulong x; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) { e->x = low; }

static ulong engine_next(Engine *e) {
  ulong x = e->x;
#if STAR
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  e->x = x;
  return x * 0x2545F4914F6CDD1Dul;
#else
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return e->x = x;
#endif
}
