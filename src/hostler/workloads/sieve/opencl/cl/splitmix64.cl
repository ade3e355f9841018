// splitmix64: a counter with Weyl's increment, mixed by D. Stafford's variant 13 (Steele, Lea, Flood 2014; S. Vigna).
#define GAMMA 0x9E3779B97F4A7C15ul

static ulong splitmix(ulong z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ul;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBul;
  return z ^ (z >> 31);
}

#if !XOSHIRO
typedef struct { ulong counter; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) { e->counter = low; }

static ulong engine_next(Engine *e) { return splitmix(e->counter += GAMMA); }
#endif
