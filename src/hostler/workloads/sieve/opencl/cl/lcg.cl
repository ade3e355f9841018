// Linear congruential generators: x -> (MULTIPLIER * x + INCREMENT) mod MODULUS, whose words are bits of x from BASE on.
// STATE is the type of x. A modulus 2^k comes as KEEP = 2^k - 1; WIDE ones (above 2^32, no power of two) are below 2^63.
// ONE_BEFORE, ONE_AFTER: seed 0 counts as 1 before or after it is taken modulo the modulus.
typedef struct { STATE x; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) {
  ulong x = low ^ SEED_XOR;
#if ONE_BEFORE
  x = x ? x : 1;
#endif
#if POWER
  x &= KEEP;
#else
  x %= MODULUS;
#endif
#if ONE_AFTER
  x = x ? x : 1;
#endif
  e->x = (STATE)x;
}

#if WIDE
// a * x mod MODULUS, bit by bit of a.
static ulong times(ulong a, ulong x) {
  ulong made = 0;
  for (; a; a >>= 1) {
    if (a & 1) {
      made += x;
      made -= made >= MODULUS ? MODULUS : 0;
    }
    x <<= 1;
    x -= x >= MODULUS ? MODULUS : 0;
  }
  return made;
}
#endif

static WORD engine_next(Engine *e) {
#if POWER
  e->x = (e->x * (STATE)MULTIPLIER + (STATE)INCREMENT) & (STATE)KEEP;
#elif WIDE
  ulong x = times(MULTIPLIER, e->x) + INCREMENT;
  e->x = x - (x >= MODULUS ? MODULUS : 0);
#else
  e->x = (STATE)(((ulong)e->x * MULTIPLIER + INCREMENT) % MODULUS);
#endif
  return (WORD)((e->x >> BASE) & (STATE)WORD_MASK);
}
