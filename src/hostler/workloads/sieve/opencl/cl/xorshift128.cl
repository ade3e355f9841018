// Marsaglia's xorshift with 128 bits (2003, section 4): 11, 8, 19. The seed is the state, x its lowest word.
typedef struct { uint x, y, z, w; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) {
  e->x = (uint)low;
  e->y = (uint)(low >> 32);
  e->z = (uint)high;
  e->w = (uint)(high >> 32);
}

static uint engine_next(Engine *e) {
  uint t = e->x ^ (e->x << 11);
  uint w = e->w;
  t ^= t >> 8;
  e->x = e->y;
  e->y = e->z;
  e->z = w;
  return e->w = w ^ (w >> 19) ^ t;
}
