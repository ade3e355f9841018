// glibc's random with a table (TYPE_1 to TYPE_4): DEGREE words, each the sum of the one DEGREE before and the one
// SEPARATION before; the first 10 * DEGREE of them are thrown away.
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
  for (uint i = 0; i < DEGREE; i++) {
    // The table's word i; the oldest of the generator is the one at SEPARATION.
    uint place = i + DEGREE - SEPARATION;
    e->words[place >= DEGREE ? place - DEGREE : place] = (uint)word;
    int upper = word / 127773;
    word = 16807 * (word - upper * 127773) - 2836 * upper;
    word += word < 0 ? 2147483647 : 0;
  }
  e->at = 0;
  for (uint i = 0; i < 10 * DEGREE; i++) engine_next(e);
}
