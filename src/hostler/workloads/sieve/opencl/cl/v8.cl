// V8's Math.random: xorshift128+ behind a cache of CACHE words that is read backwards. With OLD (to V8 7.0) the seed is
// not hashed and the halves are kept as doubles between caches, where every NaN is the same.
typedef struct { ulong s0, s1; uint left, ahead; } Engine;

static ulong finalised(ulong z) {
  z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDul;
  z = (z ^ (z >> 33)) * 0xC4CEB9FE1A85EC53ul;
  return z ^ (z >> 33);
}

static void forward(Engine *e, uint steps) {
  for (uint i = 0; i < steps; i++) {
    ulong x = e->s0 ^ (e->s0 << 23);
    x ^= x >> 17;
    x ^= e->s1 ^ (e->s1 >> 26);
    e->s0 = e->s1;
    e->s1 = x;
  }
}

static void backward(Engine *e) {
  ulong x = e->s1 ^ e->s0 ^ (e->s0 >> 26);
  x ^= (x >> 17) ^ (x >> 34) ^ (x >> 51);
  e->s1 = e->s0;
  e->s0 = x ^ (x << 23) ^ (x << 46);
}

static ulong held(ulong value) {
  return (value & 0x7FF0000000000000ul) == 0x7FF0000000000000ul && (value & 0x000FFFFFFFFFFFFFul) ? 0x7FF8000000000000ul
                                                                                               : value;
}

static void engine_seed(Engine *e, ulong low, ulong high) {
#if OLD
  e->s0 = e->s1 = low;
  e->ahead = 0;
#else
  e->s0 = finalised(low);
  e->s1 = finalised(~low);
  e->ahead = CACHE;
#endif
  e->left = 0;
}

static ulong engine_next(Engine *e) {
  if (e->left) {
    backward(e);
  } else {
    // From the bottom of a cache to the top of the next one; the seed stands before the bottom of the first.
    forward(e, e->ahead);
#if OLD
    e->s0 = held(e->s0);
    e->s1 = held(e->s1);
    forward(e, CACHE);
    e->ahead = CACHE - 1;
#else
    e->ahead = 2 * CACHE - 1;
#endif
    e->left = CACHE;
  }
  e->left--;
#if SUM
  return e->s0 + e->s1;
#else
  return e->s0;
#endif
}
