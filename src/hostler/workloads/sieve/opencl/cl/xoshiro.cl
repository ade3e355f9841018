// xoshiro256++ and xoshiro256** (Blackman, Vigna 2021), seeded by splitmix64; with LUA as Lua 5.4 seeds, 16 words on.
typedef struct { ulong s0, s1, s2, s3; } Engine;

static ulong engine_next(Engine *e) {
#if PLUS_PLUS
  ulong made = rotate(e->s0 + e->s3, 23ul) + e->s0;
#else
  ulong made = rotate(e->s1 * 5, 7ul) * 9;
#endif
  ulong t = e->s1 << 17;
  e->s2 ^= e->s0;
  e->s3 ^= e->s1;
  e->s1 ^= e->s2;
  e->s0 ^= e->s3;
  e->s2 ^= t;
  e->s3 = rotate(e->s3, 45ul);
  return made;
}

static void engine_seed(Engine *e, ulong low, ulong high) {
#if LUA
  e->s0 = low;
  e->s1 = 255;
  e->s2 = 0;
  e->s3 = 0;
  for (uint i = 0; i < 16; i++) engine_next(e);
#else
  e->s0 = splitmix(low + GAMMA);
  e->s1 = splitmix(low + 2 * GAMMA);
  e->s2 = splitmix(low + 3 * GAMMA);
  e->s3 = splitmix(low + 4 * GAMMA);
#endif
}
