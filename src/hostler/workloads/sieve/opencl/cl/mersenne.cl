// MT19937 (Matsumoto and Nishimura 2002). SEEDING: 0 one word (init_genrand), 1 by an array of one or two words of 32
// bits (CPython), 2 as Ruby. PHP_OLD is the variant of PHP 5.2.1 to 7.0. With EARLY only that many words can be drawn,
// at most 227: the first of them need no twisted word, so that of the 624 words of the state only the first EARLY + 1
// and those from 397 on are made, and what lies between goes by. Without EARLY all 624 words are kept.
#define STATE_SIZE 624u
#define MIDDLE 397u

static uint grown(uint x, uint i) { return 1812433253u * (x ^ (x >> 30)) + i; }

static uint twisted(uint x, uint following, uint far) {
  uint mixed = (x & 0x80000000u) | (following & 0x7FFFFFFFu);
#if PHP_OLD
  return far ^ (mixed >> 1) ^ ((0u - (x & 1u)) & 0x9908B0DFu);
#else
  return far ^ (mixed >> 1) ^ ((0u - (mixed & 1u)) & 0x9908B0DFu);
#endif
}

static uint tempered(uint y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

#if SEEDING
// START is what init_genrand(19650218) makes. Word i of init_by_array after its first loop, from the word before it;
// `even` and `odd` are what the key adds at its places 0 and 1.
static uint first_pass(uint before, uint i, uint even, uint odd) {
  return (START[i] ^ ((before ^ (before >> 30)) * 1664525u)) + (i & 1u ? even : odd);
}

// Word 1, which the first loop comes round to once more.
static uint come_round(uint word, uint last, uint odd) { return (word ^ ((last ^ (last >> 30)) * 1664525u)) + odd; }

static uint second_pass(uint word, uint before, uint i) {
  return (word ^ ((before ^ (before >> 30)) * 1566083941u)) - i;
}
#endif

#if EARLY
#define ENGINE_OUT(e) ((e).at > EARLY)

typedef struct {
  uint low[EARLY + 1];
#if SEEDING
  uint far[EARLY];
#else
  uint x;
#endif
  uint at;
} Engine;

#if SEEDING
static void put(Engine *e, uint i, uint word) {
  if (i <= EARLY) e->low[i] = word;
  if (i >= MIDDLE && i < MIDDLE + EARLY) e->far[i - MIDDLE] = word;
}

static void seed_by_number(Engine *e, uint x) {
  put(e, 0, x);
  for (uint i = 1; i < MIDDLE + EARLY; i++) put(e, i, x = grown(x, i));
}

// The first loop is run twice, the second time beside the other loop, so that it leaves nothing to be kept.
static void seed_by_array(Engine *e, uint even, uint odd) {
  uint word = START[0];
  for (uint i = 1; i < STATE_SIZE; i++) word = first_pass(word, i, even, odd);
  uint first = first_pass(START[0], 1, even, odd);
  uint second = come_round(first, word, odd), last = second;
  word = first;
  for (uint i = 2; i < STATE_SIZE; i++) {
    word = first_pass(word, i, even, odd);
    last = second_pass(word, last, i);
    put(e, i, last);
  }
  e->low[0] = 0x80000000u;
  e->low[1] = second_pass(second, last, 1);
}
#else
static void seed_by_number(Engine *e, uint x) {
  e->low[0] = x;
  for (uint i = 1; i <= EARLY; i++) e->low[i] = x = grown(x, i);
  for (uint i = EARLY + 1; i < MIDDLE; i++) x = grown(x, i);
  e->x = x;
}
#endif

static uint engine_next(Engine *e) {
  uint at = e->at++;
  if (at >= EARLY) {
    e->at = EARLY + 1;
    return 0;
  }
#if SEEDING
  uint far = e->far[at];
#else
  uint far = e->x = grown(e->x, MIDDLE + at);
#endif
  return tempered(twisted(e->low[at], e->low[at + 1], far));
}
#else
typedef struct { uint words[STATE_SIZE]; uint at; } Engine;

static void seed_by_number(Engine *e, uint x) {
  e->words[0] = x;
  for (uint i = 1; i < STATE_SIZE; i++) e->words[i] = x = grown(x, i);
}

#if SEEDING
static void seed_by_array(Engine *e, uint even, uint odd) {
  uint word = START[0];
  for (uint i = 1; i < STATE_SIZE; i++) e->words[i] = word = first_pass(word, i, even, odd);
  uint second = come_round(e->words[1], word, odd), last = second;
  for (uint i = 2; i < STATE_SIZE; i++) e->words[i] = last = second_pass(e->words[i], last, i);
  e->words[1] = second_pass(second, last, 1);
  e->words[0] = 0x80000000u;
}
#endif

static uint engine_next(Engine *e) {
  uint at = e->at, following = at + 1 < STATE_SIZE ? at + 1 : 0;
  uint far = at + MIDDLE < STATE_SIZE ? at + MIDDLE : at + MIDDLE - STATE_SIZE;
  e->at = following;
  return tempered(e->words[at] = twisted(e->words[at], e->words[following], e->words[far]));
}
#endif

// The key is the seed, its lower word first; one word where the upper one is 0. Ruby takes one word as a number, and
// drops an upper word of 1.
static void engine_seed(Engine *e, ulong low, ulong high) {
  uint lower = (uint)low;
  e->at = 0;
#if SEEDING
  uint upper = (uint)(low >> 32);
#if SEEDING == 2
  if (upper <= 1)
    seed_by_number(e, lower);
  else
#endif
    seed_by_array(e, lower, upper ? upper + 1 : lower);
#else
  seed_by_number(e, lower);
#endif
}
