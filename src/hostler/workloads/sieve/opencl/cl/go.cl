// Go's math/rand (version 1): an additive generator of 607 words. Each word of its first table is made of three numbers
// of minstd, which POWERS (48271^k) reach at once, and of a word of COOKED; both stand in the order in which the words
// are used. So the first 607 words need no table of their own: each is a sum of two to four of the first table.
#define LENGTH 607u
#define TAP 273u
#define MINSTD 2147483647u
#define ENGINE_OUT(e) ((e).at > LENGTH)

typedef struct { uint x, at; } Engine;

static uint times(uint a, uint b) {
  ulong product = (ulong)a * b;
  uint sum = (uint)(product & MINSTD) + (uint)(product >> 31);
  return sum >= MINSTD ? sum - MINSTD : sum;
}

static ulong first_table(uint x, uint i) {
  uint one = times(x, POWERS[i]), two = times(one, 48271u), three = times(two, 48271u);
  return (ulong)one << 40 ^ (ulong)two << 20 ^ (ulong)three ^ COOKED[i];
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  uint x = (uint)(low % MINSTD);
  e->x = x ? x : 89482311u;
  e->at = 0;
}

static ulong engine_next(Engine *e) {
  uint i = e->at++;
  if (i >= LENGTH) {
    e->at = LENGTH + 1;
    return 0;
  }
  ulong made = first_table(e->x, i);
  for (; i >= TAP; made += first_table(e->x, i)) i -= TAP;
  return made + first_table(e->x, i + LENGTH - TAP);
}
