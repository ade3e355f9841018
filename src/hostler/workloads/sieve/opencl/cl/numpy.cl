// NumPy's SeedSequence of one number of up to 64 bits; behind it PCG XSL RR 128/64 (PCG64) or SFC64.

// The hash whose salt changes with every use.
static uint scrambled(uint *salt, uint factor, uint value) {
  value ^= *salt;
  *salt *= factor;
  value *= *salt;
  return value ^ (value >> 16);
}

static void seed_words(ulong entropy, ulong *made, uint count) {
  uint pool[4] = {(uint)entropy, (uint)(entropy >> 32), 0, 0};
  uint salt = 0x43B0D7E5u;
  for (uint i = 0; i < 4; i++) pool[i] = scrambled(&salt, 0x931E8875u, pool[i]);
  for (uint source = 0; source < 4; source++)
    for (uint target = 0; target < 4; target++) {
      if (source == target) continue;
      uint hashed = scrambled(&salt, 0x931E8875u, pool[source]);
      uint mixed = 0xCA01F9DDu * pool[target] - 0x4973F715u * hashed;
      pool[target] = mixed ^ (mixed >> 16);
    }
  salt = 0x8B51F9DDu;
  for (uint i = 0; i < count; i++) {
    ulong lower = scrambled(&salt, 0x58F38DEDu, pool[2 * i & 3]);
    ulong upper = scrambled(&salt, 0x58F38DEDu, pool[2 * i + 1 & 3]);
    made[i] = lower | upper << 32;
  }
}

#if SFC
typedef struct { ulong a, b, c, counter; } Engine;

static ulong engine_next(Engine *e) {
  ulong made = e->a + e->b + e->counter++;
  e->a = e->b ^ (e->b >> 11);
  e->b = e->c + (e->c << 3);
  e->c = rotate(e->c, 24ul) + made;
  return made;
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  ulong words[3];
  seed_words(low, words, 3);
  e->a = words[0];
  e->b = words[1];
  e->c = words[2];
  e->counter = 1;
  for (uint i = 0; i < 12; i++) engine_next(e);
}
#else
#define UPPER_FACTOR 0x2360ED051FC65DA4ul
#define LOWER_FACTOR 0x4385DF649FCCF645ul

typedef struct { ulong high, low, step_high, step_low; } Engine;

static void advance(Engine *e) {
  ulong low = e->low * LOWER_FACTOR;
  ulong high = mul_hi(e->low, LOWER_FACTOR) + e->high * LOWER_FACTOR + e->low * UPPER_FACTOR;
  e->low = low + e->step_low;
  e->high = high + e->step_high + (e->low < low ? 1 : 0);
}

static ulong engine_next(Engine *e) {
  advance(e);
  ulong mixed = e->high ^ e->low;
  return rotate(mixed, (64ul - (e->high >> 58)) & 63ul);
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  ulong words[4];
  seed_words(low, words, 4);
  e->step_high = words[2] << 1 | words[3] >> 63;
  e->step_low = words[3] << 1 | 1;
  // The state after a step from 0, plus the first two words; then a step.
  e->low = e->step_low + words[1];
  e->high = e->step_high + words[0] + (e->low < words[1] ? 1 : 0);
  advance(e);
}
#endif
