// Philox 4x32, 10 rounds (Salmon et al. 2011): the seed is the key, the counter starts at 0, four words a block.
typedef struct { ulong key, number; uint left, w1, w2, w3; } Engine;

static void engine_seed(Engine *e, ulong low, ulong high) {
  e->key = low;
  e->number = 0;
  e->left = 0;
  e->w1 = e->w2 = e->w3 = 0;
}

static uint engine_next(Engine *e) {
  if (e->left) {
    uint made = e->w1;
    e->left--;
    e->w1 = e->w2;
    e->w2 = e->w3;
    return made;
  }
  uint c0 = (uint)e->number, c1 = (uint)(e->number >> 32), c2 = 0, c3 = 0;
  uint k0 = (uint)e->key, k1 = (uint)(e->key >> 32);
  for (uint round = 0; round < 10; round++) {
    uint upper = mul_hi(0xD2511F53u, c0), lower = 0xD2511F53u * c0;
    uint upper2 = mul_hi(0xCD9E8D57u, c2), lower2 = 0xCD9E8D57u * c2;
    c0 = upper2 ^ c1 ^ k0;
    c1 = lower2;
    c2 = upper ^ c3 ^ k1;
    c3 = lower;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  e->number++;
  e->left = 3;
  e->w1 = c1;
  e->w2 = c2;
  e->w3 = c3;
  return c0;
}
