// .NET's Random with a seed: Knuth's subtractive generator, with the taps 21 apart.
#define BIG 2147483647

typedef struct { int words[55]; uint at; } Engine;

static int wrapped(int number) { return number < 0 ? number + BIG : number; }

// A difference as C# computes it: modulo 2^32.
static int less(int a, int b) { return as_int(as_uint(a) - as_uint(b)); }

static uint engine_next(Engine *e) {
  uint at = e->at, tap = at + 21 < 55 ? at + 21 : at - 34;
  int made = e->words[at] - e->words[tap];
  made -= made == BIG ? 1 : 0;
  made = wrapped(made);
  e->words[at] = made;
  e->at = at + 1 < 55 ? at + 1 : 0;
  return (uint)made;
}

static void engine_seed(Engine *e, ulong low, ulong high) {
  int last = 161803398 - (int)(low < BIG ? low : BIG), following = 1;
  // Place i of Knuth's table, counted from 1, is words[i - 1].
  e->words[54] = last;
  for (uint i = 1; i < 55; i++) {
    uint place = 21 * i % 55;
    e->words[place - 1] = following;
    int next = wrapped(less(last, following));
    last = following;
    following = next;
  }
  for (uint round = 0; round < 4; round++)
    for (uint i = 1; i < 56; i++) e->words[i - 1] = wrapped(less(e->words[i - 1], e->words[(i + 30) % 55]));
  e->at = 0;
}
