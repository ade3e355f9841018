// glibc's random with a table (TYPE_1 to TYPE_4): DEGREE words, each the sum of the one DEGREE before and the one
// SEPARATION before; the first 10 * DEGREE of them are thrown away. Each word is therefore a sum of multiples of the
// words that the table was filled with: with LINEAR the factors of so many words stand in FACTORS, and nothing has to
// be thrown away. Without, the table is kept and turned.

// The next word that the table is filled with: minstd by C's signed division.
static int filled(int word) {
  int upper = word / 127773;
  word = 16807 * (word - upper * 127773) - 2836 * upper;
  return word + (word < 0 ? 2147483647 : 0);
}

#if LINEAR
#define ENGINE_OUT(e) ((e).at > LINEAR)

typedef struct { uint words[DEGREE]; uint at; } Engine;

static uint engine_next(Engine *e) {
  uint sum = 0, at = e->at++;
  if (at >= LINEAR) {
    e->at = LINEAR + 1;
    return 0;
  }
  for (uint i = 0; i < DEGREE; i++) sum += FACTORS[at * DEGREE + i] * e->words[i];
  return sum;
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  int word = (int)(uint)low;
  word = word ? word : 1;
  for (uint i = 0; i < DEGREE; i++, word = filled(word)) e->words[i] = (uint)word;
  e->at = 0;
}
#else
typedef struct { uint words[DEGREE]; uint at; } Engine;

static uint engine_next(Engine *e) {
  uint at = e->at, far = at + DEGREE - SEPARATION;
  far = far >= DEGREE ? far - DEGREE : far;
  e->at = at + 1 < DEGREE ? at + 1 : 0;
  return e->words[at] += e->words[far];
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  int word = (int)(uint)low;
  word = word ? word : 1;
  for (uint i = 0; i < DEGREE; i++, word = filled(word)) {
    // The table's word i; the oldest of the generator is the one at SEPARATION.
    uint place = i + DEGREE - SEPARATION;
    e->words[place >= DEGREE ? place - DEGREE : place] = (uint)word;
  }
  e->at = 0;
  for (uint i = 0; i < 10 * DEGREE; i++) engine_next(e);
}
#endif
